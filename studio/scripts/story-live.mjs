// A part of the browser story: what happens elsewhere is shown, without a jump, without the feed too, and on a phone.
import { until } from './browser.mjs';

const large = { customerId: 'C-1002', orderId: '7702', amount: 1600, message: 'The espresso machine leaks and nobody can repair it. Please refund me.' };
const start = (engine, businessKey, variables = large, process = 'complaint') => engine.call('dev', 'POST', '/v1/instances', { process, businessKey, variables });
const asks = (engine, id) => until(`${id} to ask`, async () => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${id}`)).tasks[0]);

/** Counts what moves without anybody touching the page. */
export async function watchShifts(page) {
  await page.evaluate(() => {
    window.shifted = 0;
    window.shifts = [];
    window.shiftWatch?.disconnect();
    window.shiftWatch = new PerformanceObserver((list) =>
      list.getEntries().forEach((one) => {
        if (one.hadRecentInput) return;
        window.shifted += one.value;
        const by = ({ currentRect: to, previousRect: from }) => `${Math.round(to.x - from.x)},${Math.round(to.y - from.y)} px`;
        window.shifts.push(...one.sources.map((source) => `${source.node?.parentElement?.className ?? ''} > ${source.node?.className || source.node?.nodeName} by ${by(source)}`));
      }),
    );
    window.shiftWatch.observe({ type: 'layout-shift' });
  });
}

export async function unmoved(page, what, complaints) {
  const { shifted, shifts } = await page.evaluate(() => ({ shifted: window.shifted, shifts: window.shifts }));
  if (shifted > 0.01) complaints.push(`live updates moved ${what} by ${shifted.toFixed(3)}: ${[...new Set(shifts)].slice(0, 5).join(', ')}`);
}

/** An instance that goes on while it is looked at, and an inbox that grows. */
export async function followed({ page, engine, go, as, complaints, done }) {
  await as('dev');
  const one = await start(engine, 'CASE-60');
  await go(`/instances/${one.id}?tab=journal`);
  await page.getByRole('heading', { name: 'CASE-60' }).waitFor();
  const task = await asks(engine, one.id);
  await page.locator('.why').getByText('waits for an approval of').waitFor();
  await page.locator('.djs-shape.active').waitFor();
  await page.waitForTimeout(400);
  await watchShifts(page);
  await engine.call('approver', 'POST', `/v1/tasks/${task.id}/decision`, { outcome: 'approved', comment: 'go on', digest: task.approval.digest });
  await page.locator('.why').getByText('Completed').waitFor();
  await page.locator('.djs-shape.passed[data-element-id="notify_customer"]').waitFor();
  await page.waitForTimeout(400);
  await unmoved(page, 'an instance', complaints);
  done('an approval given elsewhere is followed live: the sentence at the top, the path in the diagram, the journal; nothing jumps');

  await as('approver');
  await go('/inbox');
  await page.locator('.task-item').first().waitFor();
  const first = await asks(engine, (await start(engine, 'CASE-61')).id);
  await page.locator('.task-item').getByText('CASE-61').first().waitFor();
  await go(`/inbox?task=${first.id}`);
  await page.locator('.decide').waitFor();
  await page.waitForTimeout(400);
  await watchShifts(page);
  await asks(engine, (await start(engine, 'CASE-62')).id);
  const more = page.getByRole('button', { name: '1 new' });
  await more.waitFor();
  await page.waitForTimeout(400);
  await unmoved(page, 'the inbox', complaints);
  await more.press('Enter');
  await page.locator('.task-item').getByText('CASE-62').first().waitFor();
  done('a new task comes to the inbox by itself; while one is read it waits behind a button, and nothing jumps');
}

/** With the feed cut off the pages ask by themselves, and say so. */
export async function withoutFeed({ browser, engine, done }) {
  const page = await (await browser.newContext()).newPage();
  await page.route('**/v1/events', (route) => route.abort());
  await page.goto(`${engine.url}/#login=${engine.code}`);
  await page.getByText('reconnecting', { exact: true }).waitFor();
  await page.locator('.row-link').first().waitFor();
  await start(engine, 'CASE-63');
  await page.getByRole('link', { name: 'CASE-63' }).waitFor({ timeout: 10_000 });
  await page.unroute('**/v1/events');
  await page.getByText('live', { exact: true }).waitFor({ timeout: 20_000 });
  await page.context().close();
  done('without the feed the page asks every few seconds, says so, and is live again with it');
}

/** An approval by thumb. */
export async function onAPhone({ browser, engine, complaints, done }) {
  const context = await browser.newContext({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  const task = await asks(engine, (await start(engine, 'CASE-64')).id);
  await page.goto(`${engine.url}/#login=${engine.code}`);
  await page.selectOption('.who select', 'approver');
  await page.getByRole('link', { name: /^Inbox/ }).tap();
  await page.locator('a.task-item', { hasText: 'CASE-64' }).tap();
  await page.getByRole('region', { name: 'Exact inputs' }).getByText('"amount":').first().waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) complaints.push(`a task is ${wide} px wider than a phone`);
  for (const button of await page.locator('.decide button').all()) {
    const box = await button.boundingBox();
    if (box && box.height < 32) complaints.push(`a button of a decision is ${box.height} px high on a phone`);
  }
  await page.getByRole('button', { name: /^Approve/ }).first().tap();
  await page.getByRole('button', { name: /Approve exactly this/ }).tap();
  await until('the approval', async () => (await engine.call('approver', 'GET', `/v1/tasks/${task.id}`)).outcome === 'approved');
  await context.close();
  done('an approval is read and given on a phone');
}

/** A version is laid out once: the drawing is kept by its digest, and used after a reload. */
export async function keptDrawing({ page, engine, go, as, done }) {
  await as('dev');
  const { digest } = await engine.call('dev', 'GET', '/v1/processes/complaint');
  const places = () => page.locator('.djs-shape').evaluateAll((shapes) => shapes.map((one) => `${one.dataset.elementId} ${one.getAttribute('transform')}`).join());
  const scripts = () => page.evaluate(() => performance.getEntriesByType('resource').map((one) => one.name).filter((name) => name.endsWith('.js')));
  await go('/settings');
  await page.locator('.djs-shape').first().waitFor({ state: 'detached' });
  await go('/processes/complaint');
  await page.locator('.djs-shape').first().waitFor();
  const first = await places();
  const kept = JSON.parse(await page.evaluate(() => sessionStorage.getItem('legation.drawings')));
  if (!kept.drawings.some(([one]) => one === digest)) throw new Error(`${digest} is not among what is kept`);
  await page.evaluate(([was, now]) => sessionStorage.setItem('legation.drawings', sessionStorage.getItem('legation.drawings').replaceAll(was, now)), [digest, 'moved']);
  await page.reload();
  await page.locator('.djs-shape').first().waitFor();
  const laidOut = await scripts();
  await page.reload();
  await page.locator('.djs-shape').first().waitFor();
  const recalled = await scripts();
  const second = await places();
  if (second !== first) throw new Error(`the kept drawing is another: ${second} and not ${first}`);
  if (laidOut.every((one) => recalled.includes(one))) throw new Error('what lays out was loaded for a kept drawing');
  done('a version is laid out once: its drawing is kept by its digest, also over a reload');
}

/** Many events are read page by page, by an address that can be shared. */
export async function manyEvents({ page, engine, go, as, instance, done }) {
  await as('dev');
  await page.route('**/v1/instances/*/history*', async (route) => {
    const { entries } = await (await route.fetch()).json();
    const after = Number(new URL(route.request().url()).searchParams.get('after') ?? 0);
    const many = Array.from({ length: 1_203 }, (_, index) => ({ ...entries[index % Math.max(1, entries.length)], revision: index + 1, index: 0 }));
    await route.fulfill({ json: { entries: after > 0 ? [] : many } });
  });
  const other = await start(engine, 'M-60', { entries: 40 }, 'month_end');
  await go(`/instances/${other.id}?tab=history`);
  const pages = page.getByRole('navigation', { name: 'Pages of events' });
  await pages.getByText('1,001 to 1,203 of 1,203').waitFor();
  await pages.getByRole('button', { name: 'Older', exact: true }).press('Enter');
  await pages.getByText('501 to 1,000 of 1,203').waitFor();
  if (!page.url().includes('page=2')) throw new Error(`the page is not in ${page.url()}`);
  await pages.getByRole('button', { name: 'Oldest' }).press('Enter');
  await pages.getByText('1 to 500 of 1,203').waitFor();
  await page.locator('table.events tbody tr').nth(499).waitFor();
  if ((await page.locator('table.events tbody tr').count()) !== 500) throw new Error('not 500 rows');
  await page.unroute('**/v1/instances/*/history*');
  await go(`/instances/${instance.id}?tab=history`);
  await page.locator('table.events').waitFor();
  done('more than 500 events are read page by page, and a page stands in the address');
}

/** An incident is found, retried by keyboard alone, and what came of it is there later too. */
export async function incidents({ page, engine, go, as, done }) {
  await as('dev');
  await go('/incidents');
  await page.locator('.list.incidents .row-link').first().waitFor();
  const before = await page.locator('.list.incidents .row-link').count();
  const stuck = await start(engine, 'M-61', { entries: 0 }, 'month_end');
  await page.waitForFunction((count) => document.querySelectorAll('.list.incidents .row-link').length > count, before);
  done('an incident that opens elsewhere comes to the list by itself');

  await page.getByLabel('Instance', { exact: true }).fill(stuck.id);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('.list.incidents .row-link').length === 1);
  await page.locator('.list.incidents .row-link').press('Enter');
  const card = page.getByRole('region', { name: 'Chosen incident' });
  await card.getByRole('button', { name: 'Retry' }).press('Enter');
  await card.getByText('Tried again, and it led to EXPRESSION_FAILED').waitFor();
  await card.getByText('It led to EXPRESSION_FAILED again.').waitFor();
  const address = page.url();
  if (!/instanceId=.*incident=|incident=.*instanceId=/.test(address)) throw new Error(`the filter is not in ${address}`);
  await page.reload();
  await card.getByText('It led to EXPRESSION_FAILED again.').waitFor();
  await card.getByText('closed by dev').waitFor();
  await page.keyboard.press('Escape');
  await card.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'resolved', exact: true }).press('Enter');
  await page.locator('.list.incidents .row-link').click();
  await card.getByText('It led to EXPRESSION_FAILED again.').waitFor();
  await page.getByLabel(/^Kind/).selectOption('NOTICE');
  await page.getByText('No resolved incident fits this filter').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.locator('.list.incidents .row-link').first().waitFor();
  done('an incident is filtered by its address and retried by keyboard; what came of it is there after a reload and under the resolved ones');
}
