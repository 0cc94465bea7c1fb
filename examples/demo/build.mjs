// Building what the demo runs, never silent for long: a cold build takes minutes, and one crate may take one of them.
import { spawn } from 'node:child_process';
import { eachLine } from './lines.mjs';

/**
 * Both binaries. The example is a worker that the tests need too; naming it makes cargo choose the features that the
 * tests get, so that neither the demo nor `make test` builds the other's dependencies again.
 */
export const WHAT = ['build', '--workspace', '--bins', '--example', 'payout'];

/** Runs cargo, with a line at least every `quietMs`, whatever cargo says. */
export async function build(root, { quietMs = 7_500 } = {}) {
  const cargo = spawn(process.env.CARGO ?? 'cargo', WHAT, { cwd: root, stdio: ['ignore', 'inherit', 'pipe'] });
  process.once('exit', () => cargo.kill()); // not left behind by a Ctrl-C
  const began = Date.now();
  let last = began;
  let crates = 0;
  let crate = '';
  const tick = setInterval(() => {
    if (Date.now() - last < quietMs) return;
    last = Date.now();
    const now = crate && `: ${crates} crates so far, now ${crate}`;
    status(`  still building, ${Math.round((last - began) / 1000)} s${now}`);
  }, quietMs / 15);
  eachLine(cargo.stderr, (line) => {
    const compiling = /^\s+Compiling (\S+)/.exec(line);
    if (compiling) {
      crates += 1;
      crate = compiling[1];
    }
    // Hundreds of dependencies are a number; our own crates, warnings and waits are news.
    const isNews = !/^\s+(Compiling|Downloaded|Downloading)/.test(line) || / legation-/.test(line);
    if (!isNews) return;
    last = Date.now();
    status('');
    console.log(line);
  });
  const code = await new Promise((resolve, reject) => {
    cargo.on('error', () => reject(new Error('cargo was not found: install Rust 1.95 or later')));
    cargo.on('close', resolve);
  }).finally(() => clearInterval(tick));
  status('');
  if (code !== 0) throw new Error(`cargo build ended with ${code}`);
}

/** A line that the next one replaces, where a person looks; a line like any other elsewhere. */
function status(text) {
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${text}`);
  else if (text) console.log(text);
}
