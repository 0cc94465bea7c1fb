// `npm run embedded`: a release build holds the whole web app. Copies the binary (BIN, else target/release/legation) to an
// empty folder, where no studio/dist is, and holds what it serves against the files it was built from.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, extname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, launch, until } from './browser.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const bin = resolve(process.env.BIN ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'release', 'legation'));
if (!existsSync(bin)) throw new Error(`${bin} is missing: npm run build, then cargo build --release -p legation-server`);
const dist = join(root, 'studio', 'dist');
const TYPES = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.html': 'text/html; charset=utf-8' };

const folder = mkdtempSync(join(tmpdir(), 'legation-embedded-'));
copyFileSync(bin, join(folder, 'legation'));
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const engine = spawn(join(folder, 'legation'), ['dev', '.', '--port', String(port), '--no-agent'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
let text = '';
for (const stream of [engine.stdout, engine.stderr]) stream.on('data', (piece) => (text += piece));
const done = (sentence) => console.log(`  ok  ${sentence}`);
const same = (what, is, wanted) => {
  if (is !== wanted) throw new Error(`${what} is ${is}, not ${wanted}`);
};
const browser = await launch();
try {
  const code = await until('the engine to print its login address', () => /#login=(\w+)/.exec(text)?.[1]);
  const ask = (path, headers = {}) => fetch(url + path, { headers });

  for (const path of ['/', '/instances/01a2.i5', '/inbox?task=x.h5', '/processes/refund']) {
    const page = await ask(path, { accept: 'text/html' });
    same(path, page.status, 200);
    same(`type of ${path}`, page.headers.get('content-type'), TYPES['.html']);
    same(`caching of ${path}`, page.headers.get('cache-control'), 'no-cache');
    same(`sniffing of ${path}`, page.headers.get('x-content-type-options'), 'nosniff');
    const policy = page.headers.get('content-security-policy') ?? '';
    for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) if (!policy.includes(part)) throw new Error(`${path}: ${part} is not in ${policy}`);
    if (/script-src[^;]*(unsafe|https?:|\*)/.test(policy)) throw new Error(`${path}: scripts may come from anywhere: ${policy}`);
    if ((await page.text()) !== readFileSync(join(dist, 'index.html'), 'utf8')) throw new Error(`${bin} holds another build than ${dist}: build the engine again`);
  }
  done('every path of the app is the page, asked for every time, under a strict policy');

  const files = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((one) => one.isFile() && !one.name.startsWith('.')).map((one) => relative(dist, join(one.parentPath, one.name)));
  for (const name of files) {
    const file = await ask(`/${name}`);
    same(name, file.status, 200);
    same(`type of ${name}`, file.headers.get('content-type'), TYPES[extname(name)]);
    if (name.startsWith('assets/')) same(`caching of ${name}`, file.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    if (!Buffer.from(await file.arrayBuffer()).equals(readFileSync(join(dist, name)))) throw new Error(`${name} is not the built one: build the engine again`);
  }
  done(`all ${files.length} files are in the binary, with their type, and hashed ones are kept for ever`);

  for (const path of ['/assets/none.js', '/assets/../Cargo.toml', '/%2e%2e/Cargo.toml', '/v1/nothing', '/v1']) same(path, (await ask(path, { accept: 'text/html' })).status, 404);
  same('/instances for a program', (await ask('/instances', { accept: '*/*' })).status, 404);
  same('POST /', (await fetch(url, { method: 'POST' })).status, 404);
  done('what is not there is 404, and the API is never the page');

  const page = await (await browser.newContext()).newPage();
  const wrong = [];
  page.on('request', (request) => !request.url().startsWith(url) && !request.url().startsWith('data:') && wrong.push(request.url()));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(String(error)));
  await page.goto(`${url}/#login=${code}`);
  await page.getByRole('heading', { name: 'Instances' }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity);
  if (paint > 1_000) throw new Error(`the first paint took ${paint.toFixed(0)} ms`);
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Processes' }).click();
  await page.getByRole('heading', { name: 'Processes' }).waitFor();
  if (wrong.length > 0) throw new Error(wrong.join('\n'));
  done(`the first paint takes ${paint.toFixed(0)} ms, and nothing comes from another host`);
} finally {
  await browser.close();
  engine.kill('SIGTERM');
  await new Promise((gone) => (engine.exitCode === null && engine.signalCode === null ? engine.once('exit', gone) : gone()));
  rmSync(folder, { recursive: true, force: true });
}
console.log('embedded: ok');
