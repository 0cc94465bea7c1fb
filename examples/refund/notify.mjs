// Tells customers what came of their complaint: here by writing a line, in your shop by mail.
import { existsSync, readFileSync } from 'node:fs';

const url = process.env.LEGATION_URL || written('url');
const key = process.env.LEGATION_KEY || written('worker.key');
const workerId = `notify-${process.pid}`;

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
  if (!response.ok) throw Object.assign(new Error(`${answer.code}: ${answer.detail ?? answer.title}`), { refused: true });
  return answer;
}

console.log(`${workerId} waits for customers.notify at ${url}`);
while (true) {
  try {
    const work = { topics: ['customers.notify'], lockDuration: 30_000, maxTasks: 1, longPollMs: 20_000 };
    for (const task of (await post('fetch-and-lock', work)).tasks) {
      console.log(`to ${task.variables.customerId}: ${task.variables.answer}`);
      await post(`${task.id}/complete`, { variables: {} });
    }
  } catch (error) {
    console.error(error.refused ? error.message : `engine not reached (${error.message}), trying again`);
    await new Promise((wake) => setTimeout(wake, 1_000));
  }
}
