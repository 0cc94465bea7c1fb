// A part of the browser story: an inbox of any length, and tasks that are chosen by key.
import { until } from './browser.mjs';

const MANY = 5_000;

/** A long inbox is read as it is walked through, and only what is in sight is in the page. */
export async function manyTasks({ page, engine, go, as, complaints, done }) {
  await as('approver');
  await go('/instances');
  const [model] = (await engine.call('approver', 'GET', '/v1/tasks')).tasks.filter((one) => one.approval);
  const made = (number) => ({ ...model, id: `${model.id}00${number}`, instanceKey: `MANY-${number}`, createdAt: new Date(Date.now() - number * 1_000).toISOString() });
  await page.route('**/v1/tasks?*for=me*', async (route) => {
    const first = Number(new URL(route.request().url()).searchParams.get('after') || 0);
    await route.fulfill({ json: { tasks: Array.from({ length: 100 }, (_, index) => made(first + index)), next: first + 100 < MANY ? String(first + 100) : undefined } });
  });
  await page.route(`**/v1/tasks/${model.id}00*`, (route) => route.fulfill({ json: made(Number(route.request().url().split(`${model.id}00`)[1])) }));
  await page.reload();
  await go('/inbox');
  await page.locator('.task-item').getByText('MANY-0', { exact: false }).first().waitFor();
  await page.getByLabel(/choose the \d+ approvals read so far/).waitFor();
  const list = page.locator('.tasks');
  for (let turn = 0; turn < 6; turn++) {
    const height = await list.evaluate((box) => { box.scrollTo(0, box.scrollHeight); return box.scrollHeight; });
    await page.waitForFunction((before) => document.querySelector('.tasks').scrollHeight > before, height);
  }
  const { rows, height } = await list.evaluate((box) => ({ rows: box.querySelectorAll('li').length, height: box.scrollHeight }));
  if (rows > 60) complaints.push(`${rows} tasks are in the page: the inbox is not virtual`);
  if (height < 600 * 50) complaints.push(`the inbox stopped at ${height} px`);
  // The one that is opened by key is in sight, also from far down the list.
  for (const [key, wanted] of [['j', 0], ['j', 1], ['j', 2], ['k', 1]]) {
    await page.keyboard.press(key);
    await page.locator('.task-item.chosen', { hasText: `MANY-${wanted}` }).waitFor();
  }
  for (let turn = 0; turn < 40; turn++) await page.keyboard.press('j');
  await page.waitForURL((url) => url.href.endsWith('0041'));
  await page.waitForFunction(() => {
    const chosen = document.querySelector('.task-item.chosen');
    if (!chosen?.textContent.includes('MANY-41')) return false;
    const [item, box] = [chosen.getBoundingClientRect(), chosen.closest('.tasks').getBoundingClientRect()];
    return item.top >= box.top - 1 && item.bottom <= box.bottom + 1;
  });
  await fitting(page, complaints);
  await page.unroute('**/v1/tasks?*for=me*');
  await page.unroute(`**/v1/tasks/${model.id}00*`);
  await go('/inbox');
  await page.reload();
  await page.locator('.task-item').getByText('CT-').first().waitFor();
  await fitting(page, complaints);
  done(`an inbox of ${MANY} tasks is read as it is walked through; ${rows} of them are in the page, and what a key opens is in sight`);
}

/** No task is cut by the height of its row, nor leaves much of it empty. */
async function fitting(page, complaints) {
  const wrong = await page.locator('.tasks li').evaluateAll((rows) => rows.map((row) => [row.clientHeight, ...[...row.querySelector('.task-item').children].map((line) => line.getBoundingClientRect().height)]).filter(([height, ...lines]) => Math.abs(height - 20 - 2 * (lines.length - 1) - lines.reduce((sum, one) => sum + one, 0)) > 4));
  for (const [height, ...lines] of wrong.slice(0, 2)) complaints.push(`a row of the inbox is ${height} px high for lines of ${lines}`);
}

/** Approvals are chosen by x while j and k walk, and decided without the mouse. */
export async function chosenByKey({ page, engine, go, as, done }) {
  await as('dev');
  const started = [];
  for (const number of [71, 72]) started.push(await engine.call('dev', 'POST', '/v1/instances', { process: 'complaint', businessKey: `CASE-${number}`, variables: { customerId: 'C-1002', orderId: '7702', amount: 1700, message: 'The espresso machine leaks and nobody can repair it. Please refund me.' } }));
  const tasks = [];
  for (const one of started) tasks.push(await until(`${one.businessKey} to ask`, async () => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${one.id}`)).tasks[0]));
  await as('approver');
  await go('/inbox');
  await page.locator('.task-item').getByText('CASE-72').waitFor();
  await page.keyboard.press('j');
  await page.locator('.task-item.chosen', { hasText: 'CASE-72' }).waitFor();
  await page.keyboard.press('x');
  await page.getByLabel('Choose Start large_payout? of CASE-72').and(page.locator(':checked')).waitFor();
  await page.keyboard.press('j');
  await page.locator('.task-item.chosen', { hasText: 'CASE-71' }).waitFor();
  await page.keyboard.press('x');
  await page.getByRole('heading', { name: '2 approvals' }).waitFor();
  await page.keyboard.press('x');
  await page.getByRole('heading', { name: '1 approval', exact: true }).waitFor();
  await page.keyboard.press('x');
  await page.getByRole('button', { name: 'Reject all…' }).press('Enter');
  await page.getByLabel(/Why not/).fill('both were repaired');
  await page.getByRole('button', { name: 'Reject these 2' }).press('Enter');
  await page.getByText('2 approvals rejected.').waitFor();
  await page.keyboard.press('Escape');
  for (const one of tasks) {
    const { outcome, comment } = await engine.call('approver', 'GET', `/v1/tasks/${one.id}`);
    if (outcome !== 'rejected' || comment !== 'both were repaired') throw new Error(`${one.instanceKey} is ${outcome}: ${comment}`);
  }
  done('approvals are chosen by x and rejected together, all by keyboard');
}
