// `make demo`: the refund story on real processes. Starts the engine, the agent worker, a payments worker and a
// notifier, tells two stories, and stays up until Ctrl-C. With DEMO_ONCE=1 it decides by itself and ends.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from './build.mjs';
import { Client, stories } from './client.mjs';
import { approval, follow, heading, journal, lineage, note, timeline, watch } from './narrate.mjs';
import { freePort, Processes, waitUntil } from './processes.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const target = resolve(process.env.CARGO_TARGET_DIR ?? join(root, 'target'));
// DEMO_BIN names a folder with both binaries, for those who have built them already.
const bin = (name) => join(resolve(process.env.DEMO_BIN ?? join(target, 'debug')), name);
const once = process.env.DEMO_ONCE === '1';
const processes = new Processes();
let folder;
let told = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => void end(told ? 0 : 130, 'stopping')); // 130: interrupted before the stories were told
}

try {
  await main();
} catch (error) {
  console.error(`\ndemo: failed: ${error.message}`);
  processes.showLogs();
  await end(1);
}

async function main() {
  if (!process.env.DEMO_BIN) {
    heading('Building the engine and the agent worker');
    await build(root);
  }

  mkdirSync(join(target, 'demo'), { recursive: true });
  folder = mkdtempSync(join(target, 'demo', 'run-'));
  cpSync(join(root, 'examples', 'refund'), folder, { recursive: true, filter: (path) => !path.includes('.legation') });

  heading('Starting five processes');
  const port = await freePort(8700);
  processes.start('engine', bin('legation'), ['dev', '.', '--port', String(port), '--no-agent'], { cwd: folder });
  const url = await address();
  const settings = { LEGATION_URL: url, ...model() };
  const dev = await connect(url, 'dev');
  const approver = await connect(url, 'approver');
  const worker = { ...settings, LEGATION_KEY: key('worker') };
  processes.start('agent', bin('legation-agent'), [], { cwd: folder, env: worker });
  processes.start('payments', process.execPath, ['payments.mjs'], { cwd: folder, env: worker, show: true });
  processes.start('notify', process.execPath, ['notify.mjs'], { cwd: folder, env: worker, show: true });
  note(`engine on ${url}, its data in ${join(folder, '.legation')}`);
  note('the agent worker starts the CRM (crm.mjs) as a tool server of its own');

  await deploy(dev);
  watch(dev).catch((error) => note(`no live events: ${error.message}`));
  const small = await tell(dev, stories.small);
  const large = await tellWithApproval(dev, approver, stories.large);

  const paid = [small, large].map((story) => story.payoutId);
  checkLedger(paid);
  told = true;
  if (once) {
    console.log(`demo: ok payout_id=${paid[0]} large_payout_id=${paid[1]} approved_by=${large.approvedBy}`);
    await end(0);
    return;
  }
  heading('Both refunds are paid. The engine stays up');
  note(`look around:    ${elsewhere('instances')}`);
  const browser = studio();
  if (browser) note(`in a browser:   ${browser}`);
  note('press Ctrl-C to stop everything');
}

/** DEMO_ONCE never asks a real model; without a key there is none to ask. LEGATION_MODEL overrides every node's model. */
function model() {
  const providers = { OPENAI_API_KEY: 'openai', ANTHROPIC_API_KEY: 'anthropic', GEMINI_API_KEY: 'gemini', OLLAMA_HOST: 'ollama' };
  const found = Object.keys(providers).find((name) => process.env[name]);
  const name = once ? 'scripted' : (process.env.LEGATION_MODEL ?? providers[found] ?? 'scripted');
  const hint = found || once ? '' : ` (no model is asked; set one of ${Object.keys(providers).join(', ')} for a real one)`;
  note(`model: ${name}${hint}`);
  return { LEGATION_MODEL: name };
}

/** The engine writes where it listens: should the port be taken in this very moment, it is another one. */
async function address() {
  const file = join(folder, '.legation', 'url');
  await waitUntil('the engine to say where it listens', () => processes.alive('engine') && existsSync(file));
  return readFileSync(file, 'utf8').trim();
}

/** Where a browser is logged in, if the web app is built. */
function studio() {
  const built = existsSync(join(root, 'studio', 'dist', 'index.html'));
  return built ? processes.said('engine', /^\s+Studio\s+(\S+)/) : undefined;
}

/** A command as another terminal takes it, in whatever folder that one is. */
function elsewhere(...command) {
  const quoted = (path) => (/[^\w/.-]/.test(path) ? `'${path}'` : path);
  return `cd ${quoted(folder)} && ${quoted(bin('legation'))} ${command.join(' ')}`;
}

function key(name) {
  return readFileSync(join(folder, '.legation', `${name}.key`), 'utf8').trim();
}

async function connect(url, name) {
  const file = join(folder, '.legation', `${name}.key`);
  await waitUntil(`the engine to write ${name}.key`, () => processes.alive('engine') && existsSync(file));
  const client = new Client(url, key(name));
  await waitUntil('the engine to be up', async () => (await client.health())?.status === 'UP');
  return client;
}

/** `dev` deploys the folder by itself; this waits for it and shows what is there. */
async function deploy(dev) {
  heading('Deployed');
  let deployed = [];
  await waitUntil('the three processes to be deployed', async () => {
    deployed = (await dev.get('/v1/processes')).processes;
    return ['complaint', 'large_payout', 'refund_payout'].every((name) => deployed.some((one) => one.key === name));
  });
  for (const { key: name, version } of deployed) note(`${name}, version ${version}`);
}

async function tell(dev, story) {
  heading(story.title);
  const { id } = await dev.post('/v1/instances', { process: 'complaint', variables: story.variables });
  note(`started complaint ${id}`);
  await follow(id, () => ended(dev, id));
  return finish(dev, id, story);
}

async function tellWithApproval(dev, approver, story) {
  heading(story.title);
  const { id } = await dev.post('/v1/instances', { process: 'complaint', variables: story.variables });
  note(`started complaint ${id}`);
  let ask;
  await follow(id, async () => {
    ask ??= (await approver.get(`/v1/tasks?kind=approval&instanceId=${id}`)).tasks[0];
    return ask !== undefined || ended(dev, id);
  });
  if (!ask) throw new Error(`complaint ${id} ended without asking for an approval`);
  approval(ask);
  const command = ['approve', ask.id, '--as', 'approver'];
  note('no child process exists yet. To approve, in another terminal:');
  note(`  ${elsewhere(...command)}`);
  const browser = once ? undefined : studio();
  if (browser) note(`or in a browser, as approver, in the inbox: ${browser}`);
  if (once) {
    note('DEMO_ONCE: approving it now, with that command');
    await processes.run(bin('legation'), [...command, '--yes'], { cwd: folder });
  }
  await follow(id, () => ended(dev, id));
  const { decidedBy } = await approver.get(`/v1/tasks/${ask.id}`);
  return { ...(await finish(dev, id, story)), approvedBy: decidedBy };
}

async function ended(dev, id) {
  const { status } = await dev.get(`/v1/instances/${id}`);
  return ['COMPLETED', 'FAILED', 'CANCELLED'].includes(status);
}

async function finish(dev, id, story) {
  await timeline(dev, id);
  await journal(dev, id);
  const tree = await lineage(dev, id);
  const instance = await dev.get(`/v1/instances/${id}`);
  if (instance.status !== 'COMPLETED') throw new Error(`complaint ${id} ended ${instance.status}`);
  const child = tree.instance.children?.find((one) => one.process === story.delegate);
  if (!child) throw new Error(`complaint ${id} delegated no ${story.delegate}`);
  const { outputs } = await dev.get(`/v1/instances/${child.id}`);
  note(`the customer was told: ${instance.outputs.answer}`);
  return { payoutId: outputs.payout_id };
}

function checkLedger(paid) {
  const lines = readFileSync(join(folder, '.legation', 'payments.jsonl'), 'utf8').trim().split('\n');
  const ids = lines.map((line) => JSON.parse(line).payout_id);
  for (const id of paid) {
    const times = ids.filter((one) => one === id).length;
    if (times !== 1) throw new Error(`the ledger has ${times} payments ${id}, not one`);
  }
}

async function end(code, why) {
  if (end.begun) return;
  end.begun = true;
  if (why) console.log(`\n${why}`);
  await processes.stop();
  if (folder && code !== 1) rmSync(folder, { recursive: true, force: true });
  process.exit(code);
}
