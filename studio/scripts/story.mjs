// `npm run e2e`: the demo story in a browser, against the real engine with the real workers. Each sentence printed was
// seen on the page; the first that is not ends the run.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cases, launch, until, world } from './browser.mjs';

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

  await page.getByText('live', { exact: true }).waitFor();
  const seventh = await engine.call('dev', 'POST', '/v1/instances', { process: 'complaint', businessKey: 'CASE-7', variables: large });
  await page.getByRole('link', { name: 'CASE-7' }).waitFor();
  done('an instance that starts elsewhere appears by itself');

  await page.getByLabel('Status').selectOption('CANCELLED');
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

  await as('approver');
  await go(`/inbox?task=${(await engine.call('approver', 'GET', `/v1/tasks?instanceId=${asks.id}`)).tasks[0].id}`);
  await see('Start large_payout?');
  await see('"amount": 1200');
  const count = await page.title();
  if (!/^\(\d+\) Inbox/.test(count)) throw new Error(`the title is ${count}`);
  await page.locator('.decide').waitFor();
  await page.keyboard.press('a');
  await page.getByRole('button', { name: /Approve exactly this/ }).waitFor();
  await page.keyboard.press('Enter');
  await ended(asks.id);
  await go(`/instances/${asks.id}?tab=lineage`);
  await page.locator('.tree').getByText('large_payout').waitFor();
  done('an approval by keyboard starts the child, and the lineage shows it');

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
  done('a retried incident says what came of it');

  await page.getByRole('button', { name: 'Cancel instance…' }).click();
  await page.getByLabel('Reason').fill('no entries this month');
  await page.getByRole('button', { name: 'Cancel the instance' }).click();
  await page.getByText('cancelled', { exact: true }).first().waitFor();
  done('an instance is cancelled with a reason');

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

  for (const scheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: scheme });
    const task = (await engine.call('approver', 'GET', '/v1/tasks')).tasks[0];
    const tabs = ['timeline', 'journal', 'variables', 'lineage', 'incidents', 'history'].map((tab) => `/instances/${small.id}?tab=${tab}`);
    const processes = ['diagram', 'source', 'start', 'versions'].map((tab) => `/processes/contract_review?tab=${tab}`);
    for (const [path, who = 'dev'] of [['/instances'], ...tabs.map((tab) => [tab]), ...processes.map((tab) => [tab]), ['/processes'], ['/workers'], ['/incidents'], ['/settings'], ['/inbox', 'approver'], [`/inbox?task=${task.id}`, 'approver']]) {
      await as(who);
      await go(path);
      await page.waitForTimeout(150);
      await page.waitForFunction(() => !document.querySelector('.loading, [aria-label="Loading the diagram"]'));
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
      for (const one of violations) complaints.push(`axe ${scheme} ${path}: ${one.id}, ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 140)).join(' | ')}`);
    }
  }
  done('axe has looked at every screen, light and dark');
} finally {
  await browser.close();
  await engine.end();
}
for (const complaint of complaints) console.log(`   !  ${complaint}`);
console.log(complaints.length === 0 ? 'studio: ok' : `studio: ${complaints.length} complaints`);
process.exit(complaints.length === 0 ? 0 : 1);
