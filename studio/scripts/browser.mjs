// Debian's chromium, and an engine of its own with the refund example, its workers and some cases to look at.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const bin = resolve(process.env.DEMO_BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'debug'));

export function launch() {
  const path = process.env.CHROMIUM ?? '/usr/bin/chromium';
  if (!existsSync(path)) throw new Error(`${path} is missing: apt-get install chromium, or name another in CHROMIUM`);
  const args = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: path, args });
}

/** Starts everything; `end()` stops it and removes its folder. */
export async function world() {
  const folder = mkdtempSync(join(tmpdir(), 'legation-studio-'));
  cpSync(join(root, 'examples', 'refund'), folder, { recursive: true, filter: (path) => !path.includes('.legation') });
  cpSync(join(root, 'studio', 'scripts', 'processes'), join(folder, 'processes'), { recursive: true });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const running = [];
  const start = (command, args, env) => {
    const child = spawn(command, args, { cwd: folder, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    const state = { child, text: '' };
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (state.text += piece));
    running.push(state);
    return state;
  };
  const end = async () => {
    for (const { child } of running.toReversed()) child.kill('SIGTERM');
    await Promise.all(running.map(({ child }) => (child.exitCode === null && child.signalCode === null ? new Promise((done) => child.once('exit', done)) : null)));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const engine = start(join(bin, 'legation'), ['dev', '.', '--port', String(port), '--no-agent'], { LEGATION_MODEL: 'scripted' });
    const code = await until('the engine to print its login address', () => /#login=(\w+)/.exec(engine.text)?.[1]);
    const key = (name) => readFileSync(join(folder, '.legation', `${name}.key`), 'utf8').trim();
    const call = (as, method, path, body) => request(url, key(as), method, path, body);
    await until('the processes to be deployed', async () => (await call('dev', 'GET', '/v1/processes')).processes.length >= 8);
    const env = { LEGATION_URL: url, LEGATION_KEY: key('worker'), LEGATION_MODEL: 'scripted' };
    start(join(bin, 'legation-agent'), [], env);
    start(process.execPath, ['payments.mjs'], env);
    start(process.execPath, ['notify.mjs'], env);
    const text = async (as, path) => (await fetch(url + path, { headers: { authorization: `Bearer ${key(as)}` } })).text();
    return { url, bin, code, key, call, text, end, folder, write: (path, text) => writeFileSync(join(folder, path), text) };
  } catch (error) {
    for (const { text } of running) console.error(text);
    await end();
    throw error;
  }
}

async function request(url, key, method, path, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** Some of everything. Waits until each case is where it is to be seen. */
export async function cases({ call }) {
  const start = (process, businessKey, variables) => call('dev', 'POST', '/v1/instances', { process, businessKey, variables });
  const large = { customerId: 'C-1002', orderId: '7702', amount: 1200, message: 'The espresso machine leaks and nobody can repair it. Please refund me.' };
  const small = await start('complaint', 'CASE-1', { customerId: 'C-1001', orderId: '5531', amount: 89, message: 'The grinder arrived broken. I would like my money back.' });
  const asks = await start('complaint', 'CASE-2', large);
  const turnedDown = await start('complaint', 'CASE-3', large);
  const asksToo = await start('complaint', 'CASE-4', { ...large, amount: 1450, orderId: '7810' });
  const form = await start('contract_review', 'CT-11', { supplier: 'Northwind', value: 4000 });
  const both = await start('contract_review', 'CT-12', { supplier: 'Contoso', value: 40000, kind: 'framework' });
  const unserved = await start('contract_review', 'CT-13', { supplier: 'Fabrikam', value: 900, kind: 'nda' });
  const broken = await start('month_end', 'M-10', { entries: 0 });
  await start('month_end', 'M-11', { entries: 40 });
  const wrong = await start('month_end', 'M-09', { entries: 0 });
  await call('dev', 'POST', `/v1/instances/${wrong.id}/cancel`, { reason: 'entered twice by mistake' });
  const taskOf = (id) => until(`a task of ${id}`, async () => (await call('approver', 'GET', `/v1/tasks?instanceId=${id}`)).tasks[0]);
  await call('approver', 'POST', `/v1/tasks/${(await taskOf(unserved.id)).id}/complete`, { outcome: 'sign', variables: { term_months: 12, risk: 'low' } });
  const { id, approval } = await taskOf(turnedDown.id);
  await call('approver', 'POST', `/v1/tasks/${id}/decision`, { outcome: 'rejected', comment: 'the order was returned last week', digest: approval.digest });
  for (const one of [small, turnedDown]) await until(`${one.id} to end`, async () => (await call('dev', 'GET', `/v1/instances/${one.id}`)).endedAt);
  for (const one of [asks, asksToo]) await taskOf(one.id);
  return { small, asks, turnedDown, form, both, unserved, broken };
}

export async function until(what, ask, ms = 30_000) {
  const deadline = Date.now() + ms;
  while (Date.now() < deadline) {
    const answer = await Promise.resolve(ask()).catch(() => null);
    if (answer) return answer;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`waited ${ms} ms for ${what}`);
}

export function freePort() {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
