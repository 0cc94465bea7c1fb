// A payments worker in plain fetch: take work, pay once per idempotency key, complete it.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
const url = process.env.LEGATION_URL || written('url');
const key = process.env.LEGATION_KEY || written('worker.key');
const topic = process.env.TOPIC ?? 'payments.payout';
const ledger = process.env.LEDGER ?? '.legation/payments.jsonl';
const workerId = `payments-${process.pid}`;

/** `legation dev` writes its address and a worker's key into the project's folder. */
function written(name) {
  if (existsSync(`.legation/${name}`)) return readFileSync(`.legation/${name}`, 'utf8').trim();
  console.error(`no .legation/${name} here: run \`legation dev\` in this folder, or set LEGATION_URL and LEGATION_KEY`);
  process.exit(1);
}

async function post(path, body) {
  const response = await fetch(`${url}/v1/external-tasks/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ workerId, ...body }),
  });
  const answer = await response.json();
  if (response.ok) return answer;
  throw Object.assign(new Error(`${answer.code}: ${answer.detail ?? answer.title}`), { refused: true });
}

/** The ledger stands for a payment provider: it knows a key that it has paid, and does not pay it again. */
function pay(idempotencyKey, { orderId, amount, currency }) {
  const lines = (existsSync(ledger) ? readFileSync(ledger, 'utf8') : '').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const paid = lines.find((line) => line.idempotencyKey === idempotencyKey);
  if (paid) return paid.payout_id;
  const payout_id = `P-${idempotencyKey.slice(0, 8)}`;
  mkdirSync(dirname(ledger), { recursive: true });
  appendFileSync(ledger, `${JSON.stringify({ idempotencyKey, payout_id, orderId, amount, currency })}\n`);
  console.log(`paid ${amount} ${currency} for order ${orderId}: ${payout_id}`);
  return payout_id;
}
console.log(`${workerId} waits for ${topic} at ${url}`);
while (true) {
  try {
    const { tasks } = await post('fetch-and-lock', { topics: [topic], lockDuration: 30_000, maxTasks: 1, longPollMs: 20_000 });
    for (const task of tasks) {
      await post(`${task.id}/complete`, { variables: { payout_id: pay(task.idempotencyKey, task.variables) } });
    }
  } catch (error) {
    console.error(error.refused ? error.message : `engine not reached (${error.message}), trying again`);
    await new Promise((wake) => setTimeout(wake, 1_000)); // work that was not completed is leased again
  }
}
