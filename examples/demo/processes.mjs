// Starting and stopping: every process is its own group, so that nothing it started is left behind.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { eachLine } from './lines.mjs';

const LOG_LINES = 40;

/** The first port from `wanted` on that nobody listens on. */
export async function freePort(wanted) {
  for (let port = wanted; port < wanted + 100; port += 1) {
    if (await isFree(port)) {
      if (port !== wanted) console.log(`  port ${wanted} is taken, using ${port}`);
      return port;
    }
  }
  throw new Error(`no free port from ${wanted} to ${wanted + 99}`);
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

export async function waitUntil(what, isSo, timeoutMs = 30_000) {
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await sleep(100)) {
    if (await isSo()) return;
  }
  throw new Error(`waited ${timeoutMs / 1000} s for ${what}`);
}

export class Processes {
  #running = new Map();

  start(name, command, args, { cwd, env = {}, show = false }) {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = [];
    const keep = (line) => {
      log.push(line);
      if (log.length > LOG_LINES) log.shift();
      if (show) console.log(`  [${name}] ${line}`);
    };
    eachLine(child.stdout, keep);
    eachLine(child.stderr, keep);
    child.on('error', (error) => keep(error.message));
    this.#running.set(name, { child, log, closed: new Promise((resolve) => child.on('close', resolve)) });
    console.log(`  ${name.padEnd(9)} pid ${child.pid}`);
  }

  /** True, or an error that says how it ended. */
  alive(name) {
    const { child } = this.#running.get(name);
    if (child.exitCode === null && child.signalCode === null) return true;
    throw new Error(`the ${name} process ended with ${child.exitCode ?? child.signalCode}`);
  }

  /** What a process said lately that fits, if anything. */
  said(name, pattern) {
    return this.#running.get(name).log.map((line) => pattern.exec(line)?.[1]).find(Boolean);
  }

  /** Runs a command to its end, showing what it says. */
  async run(command, args, { cwd, env = {} }) {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    eachLine(child.stdout, (line) => console.log(`  | ${line}`));
    eachLine(child.stderr, (line) => console.log(`  | ${line}`));
    const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  }

  showLogs() {
    for (const [name, { log }] of this.#running) {
      console.error(`\n-- last lines of ${name}`);
      for (const line of log) console.error(`   ${line}`);
    }
  }

  /** Workers first, the engine last; what does not stop in five seconds is killed with all it started. */
  async stop() {
    for (const [, { child, closed }] of [...this.#running].reverse()) {
      signal(child, 'SIGTERM');
      await Promise.race([closed, sleep(5_000)]);
      signal(child, 'SIGKILL');
    }
    this.#running.clear();
  }
}

/** To the whole group: a tool server that outlived its worker goes with it. */
function signal(child, name) {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
