// `npm run e2e`: the demo story in a browser, against the real engine with the real workers. Each sentence printed was
// seen on the page; the first that is not ends the run.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { cases, launch, until, world } from './browser.mjs';
import { chosenByKey, manyTasks } from './story-inbox.mjs';
import { followed, incidents, keptDrawing, manyEvents, onAPhone, unmoved, watchShifts, withoutFeed } from './story-live.mjs';
import { mended, settings } from './story-mend.mjs';
import { everyScreen, everyState } from './story-screens.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const engine = await world();
const browser = await launch();
const complaints = [];
const large = { customerId: 'C-1002', orderId: '7702', amount: 1200, message: 'The espresso machine leaks and nobody can repair it. Please refund me.' };

try {
  const { asks, broken, small } = await cases(engine);
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.stack));
  page.on('request', (request) => !request.url().startsWith(engine.url) && !request.url().startsWith('data:') && complaints.push(`asked another host: ${request.url()}`));
  page.setDefaultTimeout(10_000);
  const see = (text) => page.getByText(text).first().waitFor();
  const done = (sentence) => console.log(`  ok  ${sentence}`);
  const as = async (name) => {
    if ((await page.inputValue('.who select')) !== name) await page.selectOption('.who select', name);
  };
  const go = (path) => page.evaluate((to) => { history.pushState(null, '', to); window.dispatchEvent(new PopStateEvent('popstate')); }, path);
  const ended = (id) => until(`${id} to end`, async () => (await engine.call('dev', 'GET', `/v1/instances/${id}`)).endedAt);

  const began = Date.now();
  await page.goto(`${engine.url}/#login=${engine.code}`);
  await page.locator('.row-link').first().waitFor();
  if (page.url().includes('login=')) throw new Error('the code stays in the address');
  done(`the address that dev prints logs in; instances are there after ${Date.now() - began} ms`);

  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  if (paint > 1_000) complaints.push(`the first paint took ${paint.toFixed(0)} ms`);
  const policy = (await fetch(`${engine.url}/instances`, { headers: { accept: 'text/html' } })).headers.get('content-security-policy') ?? '';
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) if (!policy.includes(part)) complaints.push(`${part} is not in the policy: ${policy}`);
  if (/script-src[^;]*unsafe/.test(policy)) complaints.push(`the policy allows inline scripts: ${policy}`);
  if ((await context.cookies()).length > 0) complaints.push('there are cookies: the key is a bearer only');
  done(`the first paint takes ${paint.toFixed(0)} ms, under a strict policy and without cookies`);

  const another = await (await browser.newContext()).newPage();
  await another.goto(`${engine.url}/incidents`);
  await another.getByLabel('API key').fill('not a key');
  await another.getByRole('button', { name: 'Log in' }).click();
  await another.getByText('does not know this key').waitFor();
  await another.getByLabel('API key').fill(engine.key('dev'));
  await another.keyboard.press('Enter');
  await another.getByRole('heading', { name: 'Incidents' }).waitFor();
  await another.close();
  done('an API key logs in, and a wrong one is told so');

  await page.getByText('live', { exact: true }).waitFor();
  await watchShifts(page);
  const seventh = await engine.call('dev', 'POST', '/v1/instances', { process: 'complaint', businessKey: 'CASE-7', variables: large });
  await page.getByRole('link', { name: 'CASE-7' }).waitFor();
  done('an instance that starts elsewhere appears by itself');

  const counted = (await engine.call('dev', 'GET', '/v1/instances/counts')).counts;
  const running = counted.find((one) => one.status === 'RUNNING').count;
  await page.getByRole('button', { name: `running ${running}`, exact: true }).waitFor();
  const more = await engine.call('dev', 'POST', '/v1/instances', { process: 'contract_review', businessKey: 'CT-70', variables: { supplier: 'Litware', value: 40000, kind: 'framework' } });
  await page.getByRole('button', { name: `running ${running + 1}`, exact: true }).waitFor();
  await engine.call('dev', 'POST', `/v1/instances/${more.id}/cancel`, { reason: 'only to be counted' });
  await page.getByRole('button', { name: `running ${running}`, exact: true }).waitFor();
  await unmoved(page, 'the list', complaints);
  done('the counts by status follow what happens, and nothing jumps');

  await page.getByLabel('Started').selectOption('1');
  await page.getByRole('link', { name: 'CASE-7' }).waitFor();
  if (!page.url().includes('startedAfter=')) throw new Error(`the time is not in ${page.url()}`);
  await page.getByLabel('Before').fill('2020-01-01T00:00');
  await see('No instance fits this filter');
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByRole('link', { name: 'CASE-7' }).waitFor();
  done('a time narrows the list, and stands in the address');

  await page.getByRole('button', { name: /^cancelled/ }).click();
  await page.getByRole('link', { name: 'M-09' }).waitFor();
  await page.getByRole('link', { name: 'CASE-7' }).waitFor({ state: 'detached' });
  const other = await context.newPage();
  await other.goto(`${engine.url}/#login=${engine.code}`);
  await other.locator('.row-link').first().waitFor();
  await other.goto(page.url());
  await other.getByRole('link', { name: 'M-09' }).waitFor();
  if ((await other.getByRole('link', { name: 'CASE-7' }).count()) > 0) throw new Error('the shared address shows more than the filter');
  await other.close();
  done('a filtered list is shared by its address');

  const all = { page, browser, engine, go, as, complaints, done };
  await followed(all);
  await withoutFeed(all);
  await onAPhone(all);
  await incidents(all);
  await manyEvents({ ...all, instance: small });
  await keptDrawing(all);

  await as('approver');
  await go('/inbox');
  await page.locator('.task-item').first().waitFor();
  await page.keyboard.press('j');
  await page.waitForURL(/task=/);
  const topmost = page.url();
  await page.keyboard.press('j');
  await page.waitForURL((url) => url.href !== topmost);
  await page.keyboard.press('k');
  await page.waitForURL(topmost);
  done('j and k walk through the inbox');
  await manyTasks(all);
  await chosenByKey(all);

  await go(`/inbox?task=${(await engine.call('approver', 'GET', `/v1/tasks?instanceId=${asks.id}`)).tasks[0].id}`);
  await see('Start large_payout?');
  await see('"amount": 1200');
  for (const words of ['Exact inputs', 'CASE-2', /tokens/, /polic/i]) await see(words);
  const count = await page.title();
  if (!/^\(\d+\) Inbox/.test(count)) throw new Error(`the title is ${count}`);
  await page.locator('.decide').waitFor();
  await page.keyboard.press('a');
  await page.getByRole('button', { name: /Approve exactly this/ }).waitFor();
  await page.keyboard.press('Enter');
  await ended(asks.id);
  await go(`/instances/${asks.id}?tab=lineage`);
  await page.locator('.tree').getByText('large_payout').waitFor();
  await page.locator('.tree').getByRole('link', { name: /~/ }).click();
  await page.waitForURL(/\.i\d+/);
  await page.reload();
  await page.locator('.djs-shape').first().waitFor();
  done('an approval by keyboard starts the child, the lineage shows it, and the address of the child can be shared');

  const seven = await until('CASE-7 to ask', async () => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${seventh.id}`)).tasks[0]);
  await go(`/inbox?task=${seven.id}`);
  await page.locator('.decide').waitFor();
  await page.keyboard.press('r');
  await page.getByLabel(/Why not/).fill('the machine was repaired yesterday');
  await page.keyboard.press('Control+Enter');
  await ended(seventh.id);
  await go(`/instances/${seventh.id}?tab=journal`);
  await page.locator('.decision.rejected').getByText('the machine was repaired yesterday').waitFor();
  done('a rejection with its comment is in the journal');

  const several = [];
  for (const [number, amount] of [[31, 1310], [32, 1320], [33, 1330]]) several.push(await engine.call('dev', 'POST', '/v1/instances', { process: 'complaint', businessKey: `CASE-${number}`, variables: { ...large, amount } }));
  const asked = [];
  for (const one of several) asked.push(await until(`${one.businessKey} to ask`, async () => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${one.id}`)).tasks[0]));
  await go('/inbox');
  for (const one of asked) await page.getByLabel(`Choose Start large_payout? of ${one.instanceKey}`).check();
  await page.getByRole('heading', { name: '3 approvals' }).waitFor();
  // Somebody else is faster with one of them, behind this page's back.
  await page.getByRole('button', { name: 'Approve all…' }).click();
  await page.getByLabel(/One comment for all/).fill('all three were seen');
  await page.route('**/v1/tasks/*/decision', async (route) => {
    if (route.request().url().includes(encodeURIComponent(asked[1].id))) await engine.call('approver', 'POST', `/v1/tasks/${asked[1].id}/decision`, { outcome: 'rejected', comment: 'not this one', digest: asked[1].approval.digest }).catch(() => null);
    const body = route.request().postDataJSON();
    if (!asked.some((one) => one.approval.digest === body.digest)) complaints.push(`a decision without its own digest: ${JSON.stringify(body)}`);
    await route.continue();
  });
  await page.getByRole('button', { name: 'Approve these 3' }).click();
  await see('2 approvals approved.');
  await see('1 was refused');
  await page.locator('.bulk .badge.green').nth(1).waitFor();
  if ((await page.locator('.bulk .badge.green').count()) !== 2) throw new Error('not two are shown as approved');
  await page.locator('.bulk .help.bad').waitFor();
  await page.unroute('**/v1/tasks/*/decision');
  // The browser tells of the refusal too.
  const told = complaints.findIndex((one) => one.includes('409 (Conflict)'));
  if (told >= 0) complaints.splice(told, 1);
  await page.getByRole('button', { name: 'Back to the list' }).click();
  for (const one of several) await ended(one.id);
  const kept = await engine.call('approver', 'GET', `/v1/tasks/${asked[2].id}`);
  if (kept.outcome !== 'approved' || kept.comment !== 'all three were seen') throw new Error(`decided as ${kept.outcome}: ${kept.comment}`);
  done('several approvals are decided at once, each by its digest; one that is refused says so and stops no other');

  const form = (await engine.call('approver', 'GET', '/v1/tasks?kind=human')).tasks.find((one) => one.instanceKey === 'CT-11');
  await go(`/inbox?task=${form.id}`);
  await page.getByRole('button', { name: 'Sign it' }).click();
  await see('is needed');
  await page.getByLabel('Term in months').fill('24');
  await page.getByLabel('Risk').selectOption('"low"');
  await page.getByRole('button', { name: 'Sign it' }).click();
  await until('the form to be completed', async () => (await engine.call('approver', 'GET', `/v1/tasks/${form.id}`)).state === 'COMPLETED');
  done('a form says what is missing, and is completed');

  await as('dev');
  await go(`/instances/${broken.id}`);
  await page.getByRole('button', { name: 'Retry' }).click();
  await see('it led to EXPRESSION_FAILED');
  await page.locator('.incident.past').getByText('It led to EXPRESSION_FAILED again.').waitFor();
  done('a retried incident says what came of it, also later');

  await page.getByRole('button', { name: 'Cancel instance…' }).click();
  await page.getByLabel('Reason').fill('no entries this month');
  await page.getByRole('button', { name: 'Cancel the instance' }).click();
  await page.getByText('cancelled', { exact: true }).first().waitFor();
  done('an instance is cancelled with a reason');
  await mended(all);
  await settings(all);

  await go(`/instances/${small.id}?tab=variables`);
  await page.locator('.origin').first().waitFor();
  await page.locator('.origin').getByText('at the start').first().waitFor();
  done('each variable names the step that wrote it');

  await go(`/instances/${small.id}?tab=timeline`);
  await page.locator('.legend').getByText('a free worker (queue)').waitFor();
  await page.locator('.legend').getByText('the model', { exact: false }).first().waitFor();
  done('the timeline tells the queue from the work');

  const { BpmnModdle } = await import('bpmn-moddle');
  const deployed = (await engine.call('dev', 'GET', '/v1/processes')).processes;
  for (const one of deployed) {
    const xml = await engine.text('dev', `/v1/processes/${one.key}/versions/${one.version}/bpmn`);
    const { warnings } = await new BpmnModdle().fromXML(xml);
    for (const warning of warnings) complaints.push(`bpmn-moddle on ${one.key}: ${warning.message}`);
    const exported = execFileSync(join(engine.bin, 'legation'), ['export', 'bpmn', one.key], { cwd: engine.folder, encoding: 'utf8' });
    if (exported.trim() !== xml.trim()) complaints.push(`legation export bpmn ${one.key} writes something else`);
    const fixture = new URL(`../src/diagram/fixtures/${one.key}.bpmn`, import.meta.url);
    if (existsSync(fixture) && readFileSync(fixture, 'utf8') !== xml) complaints.push(`${fixture.pathname} is not what the engine writes`);
  }
  done(`bpmn-moddle reads all ${deployed.length} processes without a warning, and the command writes the same`);

  await go('/processes/complaint');
  await page.locator('.mark.figure').first().waitFor();
  await page.getByRole('button', { name: 'Failed', exact: true }).click();
  await page.getByRole('table', { name: 'Nodes' }).getByRole('button').first().click();
  await page.locator('.djs-shape.chosen').waitFor();
  done('a process shows how warm its nodes are');

  // A turned phone: the diagram is fitted again, and by what the place is now.
  for (const [width, height] of [[390, 780], [780, 390], [390, 780], [1280, 860]]) {
    await page.setViewportSize({ width, height });
    await page.waitForFunction(() => {
      const box = document.querySelector('.diagram')?.getBoundingClientRect();
      const shapes = [...document.querySelectorAll('.djs-shape:not(.djs-label)')].map((one) => one.getBoundingClientRect());
      return box && shapes.length > 0 && shapes.every((one) => one.width > 4 && one.left >= box.left && one.right <= box.right);
    });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) complaints.push(`the process is ${wide} px wider than a screen of ${width}`);
  }
  done('a diagram fits again when the screen turns');

  await go('/workers');
  await page.getByRole('row', { name: /payments\.payout/ }).first().waitFor();
  for (const name of ['Live workers', 'Oldest waits', 'Done in 5 min', 'Leases held', 'Last seen']) await page.getByRole('columnheader', { name }).waitFor();
  await page.locator('.badge.red').getByText('unserved').first().waitFor();
  await page.locator('tr', { hasText: 'unserved' }).getByRole('button').first().click();
  await page.locator('.work li').first().waitFor();
  done('a topic that nobody serves is shown with what waits on it');

  await go('/settings');
  await page.getByRole('region', { name: 'Tool server crm' }).waitFor();
  done('the settings show the tool servers as they are deployed');

  await go('/processes/month_end?tab=source');
  const editor = page.getByLabel('Source of month_end');
  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\n    - id: more\n    type: endd\n', { delay: 1 });
  await page.locator('.problems').waitFor();
  const line = await page.locator('.problems .num').first().textContent();
  await page.locator('.problems button').first().click();
  if (!/line \d+/.test(line ?? '')) throw new Error(`no line: ${line}`);
  if (await page.getByRole('button', { name: 'Deploy as a new version' }).isEnabled()) throw new Error('a broken document may be deployed');
  done(`an error is shown while typing, at its ${line}`);
  await page.getByRole('button', { name: 'Undo all changes' }).click();
  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('      description: The books are closed.', { delay: 1 });
  await see('No errors');
  await page.getByRole('button', { name: 'Deploy as a new version' }).click();
  await page.waitForFunction(() => document.querySelector('label.inline select')?.value === '2');
  await see('As deployed');
  await page.getByRole('tab', { name: /Versions/ }).click();
  await page.getByRole('button', { name: 'What version 2 changed' }).click();
  await page.locator('.diff .new').getByText('The books are closed.').waitFor();
  done('a good document is deployed, and what it changed is shown');

  await go('/processes/contract_review?tab=start');
  await page.getByLabel('supplier').fill('Tailspin');
  await page.getByLabel('value', { exact: true }).fill('12345678901234567.125');
  await page.getByLabel(/Business key/).fill('CT-99');
  await page.getByRole('button', { name: /Start version/ }).click();
  await page.getByRole('heading', { name: 'CT-99' }).waitFor();
  await page.getByRole('tab', { name: /Variables/ }).click();
  await see('12345678901234567.125');
  done('an instance is started by its form, and no digit is lost');

  for (const amount of [1410, 1420]) {
    const one = await engine.call('dev', 'POST', '/v1/instances', { process: 'complaint', businessKey: `CASE-${amount}`, variables: { ...large, amount } });
    await until('it to ask', async () => (await engine.call('approver', 'GET', `/v1/tasks?instanceId=${one.id}`)).tasks[0]);
  }
  const task = (await engine.call('approver', 'GET', '/v1/tasks')).tasks[0];
  const tabs = ['timeline', 'journal', 'variables', 'lineage', 'incidents', 'history'].map((tab) => [`/instances/${small.id}?tab=${tab}`]);
  const processes = ['diagram', 'source', 'start', 'versions'].map((tab) => [`/processes/contract_review?tab=${tab}`]);
  const resolved = (await engine.call('dev', 'GET', '/v1/incidents?state=RESOLVED')).incidents[0];
  const open = (await engine.call('dev', 'GET', '/v1/incidents')).incidents[0];
  const incident = [['/incidents'], [`/incidents?incident=${open.id}`], [`/incidents?state=RESOLVED&incident=${resolved.id}`]];
  const inbox = [['/inbox', 'approver'], [`/inbox?task=${task.id}`, 'approver'], ['/inbox', 'approver', 'several']];
  await everyScreen({ ...all, axe, screens: [['/instances'], ['/instances?businessKey=nothing'], ...tabs, [`/instances/${open.instanceId}`], ...processes, ['/processes'], ['/workers'], ...incident, ['/settings'], ['/inbox', 'dev'], ...inbox] });
  done('axe has looked at every screen, light, dark and narrow; keys reach everything, and every date has its full form');
  await everyState({ browser, engine, complaints, axe });
  done('and at the login, without permission, at what is not there, and without an engine');
} finally {
  await browser.close();
  await engine.end();
}
for (const complaint of complaints) console.log(`   !  ${complaint}`);
console.log(complaints.length === 0 ? 'studio: ok' : `studio: ${complaints.length} complaints`);
process.exit(complaints.length === 0 ? 0 : 1);
