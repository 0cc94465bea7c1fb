// A part of the browser story: what an operator mends, and the keys and the project in the settings.
import { until } from './browser.mjs';

/** A worker of its own for one topic: every task fails for good until it is mended. */
function failing(engine, topic) {
  const worker = { isMended: false, isOver: false };
  const work = async () => {
    while (!worker.isOver) {
      const { tasks } = await engine.call('worker', 'POST', '/v1/external-tasks/fetch-and-lock', { workerId: 'parcels-1', topics: [topic], lockDuration: 30_000, maxTasks: 1, longPollMs: 500 });
      for (const { id } of tasks) {
        if (worker.isMended) await engine.call('worker', 'POST', `/v1/external-tasks/${id}/complete`, { workerId: 'parcels-1', variables: {} });
        else await engine.call('worker', 'POST', `/v1/external-tasks/${id}/failure`, { workerId: 'parcels-1', message: 'the carrier does not answer', retryable: false });
      }
    }
  };
  const over = work();
  worker.end = async () => {
    worker.isOver = true;
    await over;
  };
  return worker;
}

/** A retry that fails again, and one that succeeds once the worker does. */
export async function mended({ page, engine, go, as, done }) {
  await as('dev');
  const worker = failing(engine, 'parcels.ship');
  try {
    const one = await engine.call('dev', 'POST', '/v1/instances', { process: 'shipment', businessKey: 'S-1', variables: {} });
    await go(`/instances/${one.id}?tab=incidents`);
    await page.locator('.incident:not(.past)').getByText('the carrier does not answer').waitFor();
    await page.locator('.djs-shape.broken[data-element-id="ship"]').waitFor();
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.locator('.incident.past').getByText('It led to WORK_FAILED again.').waitFor();
    worker.isMended = true;
    await page.locator('.incident:not(.past)').getByRole('button', { name: 'Retry' }).click();
    await page.locator('.why').getByText('Completed').waitFor();
    await page.locator('.incident.past').getByText('The flow went on to shipped.').waitFor();
    await page.locator('.djs-shape.passed[data-element-id="shipped"]').waitFor();
    await page.locator('.djs-shape.broken').first().waitFor({ state: 'detached' });
    const closed = (await engine.call('dev', 'GET', `/v1/incidents?state=RESOLVED&instanceId=${one.id}`)).incidents;
    await go(`/incidents?state=RESOLVED&incident=${closed[0].id}`);
    await page.getByRole('region', { name: 'Chosen incident' }).getByText('The flow went on to shipped.').waitFor();
    await go('/incidents?state=RESOLVED');
    await page.locator('.row-link', { hasText: 'EXPRESSION_FAILED' }).first().waitFor();
    await page.getByLabel('Process').selectOption('shipment');
    await page.waitForFunction(() => [...document.querySelectorAll('.list.incidents .row-link')].map((one) => one.textContent).join() === 'WORK_FAILED,WORK_FAILED');
    await page.reload();
    await page.locator('.row-link', { hasText: 'WORK_FAILED' }).first().waitFor();
    if (!page.url().includes('process=shipment')) throw new Error(`the process is not in ${page.url()}`);
    await page.getByLabel('Process').selectOption('month_end');
    await page.waitForFunction(() => { const rows = [...document.querySelectorAll('.list.incidents .row-link')]; return rows.length > 0 && rows.every((one) => one.textContent === 'EXPRESSION_FAILED'); });
    done('a retry that succeeds ends the instance, and both places say what came of each retry; incidents are found by their process');
  } finally {
    await worker.end();
  }
}

/** What the project is, and a key from its making to its end. */
export async function settings({ browser, page, engine, go, as, done }) {
  await as('dev');
  await go('/settings');
  const [project] = (await engine.call('dev', 'GET', '/v1/projects')).projects;
  const shown = page.getByRole('heading', { name: 'Project', exact: true }).locator('xpath=following-sibling::*[1]');
  for (const words of [project.id, project.name, String(project.processes), String(project.servers)]) await shown.getByText(words, { exact: true }).first().waitFor();

  await page.getByRole('button', { name: 'Make a key…' }).press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Make a key' });
  await dialog.getByRole('button', { name: 'service' }).press('Enter');
  await dialog.getByLabel('Name').fill('reporting');
  await dialog.getByLabel('Ends after days').fill('30');
  await page.keyboard.press('Enter');
  const secret = (await dialog.locator('pre.secret').textContent()).trim();
  await page.keyboard.press('Escape');
  const row = page.locator('table tr', { hasText: 'reporting' });
  await row.getByText('read', { exact: true }).waitFor();
  await page.getByText(secret).first().waitFor({ state: 'detached' });

  const other = await (await browser.newContext()).newPage();
  await other.goto(`${engine.url}/instances`);
  await other.getByLabel('API key').fill(secret);
  await other.keyboard.press('Enter');
  await other.locator('.row-link').first().waitFor();
  await other.goto(`${engine.url}/settings`);
  await other.getByText('reporting').first().waitFor();
  if ((await other.getByRole('heading', { name: 'API keys' }).count()) > 0) throw new Error('a key that may read sees the keys');

  await page.getByRole('button', { name: 'Revoke the key of reporting' }).press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).press('Enter');
  await row.waitFor({ state: 'detached' });
  await until('the key to be refused', async () => (await fetch(`${engine.url}/v1/me`, { headers: { authorization: `Bearer ${secret}` } })).status === 401);
  await other.goto(`${engine.url}/instances`);
  await other.getByLabel('API key').waitFor();
  await other.context().close();
  done('the settings show the project; a key is made, logs in, sees what it may, is revoked, and is out');
}
