// `npm run many`: the lists with 100 000 instances (COUNT=n for another number). Fills a database of its own with copies,
// asks the API and looks at the page; fails when an answer takes longer than its limit. Wants the example `multiply`
// of the store built: cargo build -p legation-store --example multiply
import { execFileSync } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cases, launch, world } from './browser.mjs';

const count = Number(process.env.COUNT ?? 100_000);
const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const multiply = resolve(process.env.MULTIPLY ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'debug', 'examples', 'multiply'));
const API_MS = Number(process.env.API_MS ?? 150);
const PAGE_MS = Number(process.env.PAGE_MS ?? 1_500);
let slow = 0;

function say(what, ms, limit) {
  const isSlow = ms > limit;
  slow += isSlow ? 1 : 0;
  console.log(`  ${isSlow ? ' ! ' : 'ok '} ${what}: ${ms.toFixed(0)} ms${isSlow ? `, more than ${limit}` : ''}`);
}

const engine = await world();
const browser = await launch();
try {
  const { small } = await cases(engine);
  console.log(execFileSync(multiply, [`sqlite:${join(engine.folder, '.legation', 'legation.db')}`, String(count)], { encoding: 'utf8' }).trim());
  const timed = async (what, path) => {
    const times = [];
    let answer;
    for (let turn = 0; turn < 5; turn++) {
      const began = performance.now();
      answer = await engine.call('dev', 'GET', path);
      times.push(performance.now() - began);
    }
    // The median: the first asks for pages that nobody has read yet, and says so by itself.
    say(`${what} (first ${times[0].toFixed(0)} ms)`, times.toSorted((a, b) => a - b)[2], API_MS);
    return answer;
  };
  const first = await timed('the newest 100', '/v1/instances?limit=100');
  if (first.instances.length !== 100) throw new Error('the list has no 100 rows');
  let after = first.next;
  for (let page = 0; page < 100; page++) after = (await engine.call('dev', 'GET', `/v1/instances?limit=200&after=${after}`)).next;
  await timed('200 rows, 20 000 rows down', `/v1/instances?limit=200&after=${after}`);
  for (const status of ['RUNNING', 'COMPLETED', 'CANCELLED', 'FAILED']) await timed(`only ${status}`, `/v1/instances?limit=100&status=${status}`);
  await timed('of one process', '/v1/instances?limit=100&process=complaint');
  await timed('of one business key', `/v1/instances?limit=100&businessKey=COPY-${Math.floor(count / 2)}`);
  await timed('in a day long ago', `/v1/instances?limit=100&startedBefore=${new Date(Date.now() - count * 10_000).toISOString()}`);
  await timed('counted', '/v1/instances/counts');
  await timed('counted, of one process', '/v1/instances/counts?process=complaint');
  await timed('statistics of a version', '/v1/processes/complaint/versions/1/statistics');
  await timed('one instance', `/v1/instances/${small.id}`);

  const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();
  const began = performance.now();
  await page.goto(`${engine.url}/#login=${engine.code}`);
  await page.locator('.row-link').first().waitFor();
  say('the page shows its first rows', performance.now() - began, PAGE_MS);
  const list = page.locator('.list');
  const scrolled = performance.now();
  for (let turn = 0; turn < 40; turn++) {
    await list.evaluate((box) => box.scrollTo(0, box.scrollHeight));
    await page.waitForTimeout(60);
  }
  const { rows, height } = await list.evaluate((box) => ({ rows: box.querySelectorAll('.row-link').length, height: box.scrollHeight }));
  console.log(`  ok  scrolled to ${Math.round(height / 45)} rows in ${(performance.now() - scrolled).toFixed(0)} ms; ${rows} of them are in the page`);
  if (rows > 80) throw new Error(`${rows} rows are in the page: the list is not virtual`);
  const filtered = performance.now();
  await page.getByRole('button', { name: /^cancelled/ }).click();
  await page.waitForFunction(() => [...document.querySelectorAll('.list-row .badge')].every((one) => one.textContent === 'cancelled'));
  say('a filter by status is shown', performance.now() - filtered, PAGE_MS);
} finally {
  await browser.close();
  await engine.end();
}
console.log(slow === 0 ? `${count} instances: ok` : `${count} instances: ${slow} too slow`);
process.exit(slow === 0 ? 0 : 1);
