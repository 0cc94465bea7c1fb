// What the terminal shows: events as they are committed, then the timeline, the journal and the lineage tree.

import { setTimeout as sleep } from 'node:timers/promises';
import { sentence } from './words.mjs';

const colours = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code, text) => (colours ? `\x1b[${code}m${text}\x1b[0m` : text);
const dim = (text) => paint(2, text);

const GOOD = new Set(['COMPLETED', 'APPROVED']);
const BAD = new Set(['FAILED', 'REFUSED', 'REJECTED', 'CANCELLED', 'OUTCOME_UNKNOWN', 'WITHDRAWN', 'INCIDENT']);

export function heading(text) {
  console.log(`\n${paint(1, `== ${text}`)}`);
}

export function note(text) {
  console.log(`  ${text}`);
}

/** Prints every event as it is committed, for as long as the demo runs. */
export async function watch(client) {
  for await (const event of client.events()) {
    const words = sentence(event);
    if (words) console.log(`  ${dim(clock(event.at))} ${(event.process ?? '').padEnd(14)} ${words}`);
  }
}

/** Waits until `done` says so. A story that hangs must not hang whoever runs it unattended. */
export async function follow(rootId, done) {
  const deadline = process.env.DEMO_ONCE === '1' ? Date.now() + 60_000 : Infinity;
  while (!(await done())) {
    if (Date.now() > deadline) throw new Error(`instance ${rootId} did not get on within a minute`);
    await sleep(150);
  }
  await sleep(300); // the last events are on their way
}

/** What happened to every instance of the tree, in one list by time. */
export async function timeline(client, rootId) {
  heading('Timeline');
  const { instance } = await client.get(`/v1/instances/${rootId}/lineage`);
  const rows = [];
  for (const one of flat(instance)) {
    const { entries } = await client.get(`/v1/instances/${one.id}/history`);
    for (const entry of entries) rows.push({ ...entry, process: one.process });
  }
  rows.sort((a, b) => a.at.localeCompare(b.at));
  for (const row of rows) {
    const words = sentence(row);
    if (words) console.log(`  ${dim(clock(row.at))} ${row.process.padEnd(14)} ${words}${row.actor ? dim(` (${row.actor})`) : ''}`);
  }
}

/** Every step that a worker took, with what was asked and what came back. */
export async function journal(client, rootId) {
  heading('Journal');
  const { tasks } = await client.get(`/v1/instances/${rootId}/journal`);
  for (const { task, steps } of tasks) {
    note(`${task.nodeId} ${dim(`(${task.topic}, ${task.state})`)}`);
    for (const step of steps) {
      const number = `${step.attempt ?? task.attempt}.${step.sequence}`.padStart(5);
      console.log(`  ${number} ${step.kind.padEnd(10)} ${step.toolRef.padEnd(26)} ${state(step.state)}`);
      if (step.arguments !== undefined) console.log(dim(`        asked    ${short(step.arguments)}`));
      if (step.kind === 'MODEL') said(step.result);
      else if (step.result !== undefined) console.log(dim(`        answered ${short(step.result)}`));
      if (step.decidedBy) console.log(dim(`        decided by ${step.decidedBy}`));
      if (step.childInstanceId) console.log(dim(`        child ${step.childInstanceId}`));
    }
  }
}

/** Which model answered, which may be another than the one asked for, and what it wanted or said. */
function said(result) {
  if (!result) return;
  const { calls = [], text, model, usage } = result;
  console.log(dim(`        answered by ${model}, ${usage?.inputTokens} tokens in, ${usage?.outputTokens} out`));
  for (const call of calls) console.log(dim(`        wants    ${call.tool} ${short(call.arguments)}`));
  if (text) console.log(dim(`        says     ${text}`));
}

export async function lineage(client, rootId) {
  heading('Lineage');
  const tree = await client.get(`/v1/instances/${rootId}/lineage`);
  branch(tree.instance, '  ', '');
  return tree;
}

function branch(node, indent, connector) {
  const by = node.startedByAgent;
  const origin = by
    ? dim(` started by agent ${by.nodeId}, step ${by.attempt}.${by.sequence}, model ${by.model ?? '?'}, prompt ${by.promptVersion ?? '?'}`)
    : '';
  console.log(`${indent}${connector}${node.process} ${node.id} ${state(node.status)}${origin}`);
  const below = connector ? `${indent}${connector === '└─ ' ? '   ' : '│  '}` : indent;
  (node.children ?? []).forEach((child, place) => branch(child, below, place === node.children.length - 1 ? '└─ ' : '├─ '));
}

export function approval(task) {
  const { toolRef, arguments: inputs, digest, model, usedModel } = task.approval;
  const by = usedModel && usedModel !== model ? `${usedModel} (asked: ${model})` : model;
  heading('A person is asked');
  note(task.title);
  note(`${toolRef} with exactly ${JSON.stringify(inputs)}`);
  note(`asked by ${by ?? 'the agent'}; for ${task.candidates.groups.join(', ')}; digest ${digest.slice(0, 16)}…`);
}

function flat(node) {
  return [node, ...(node.children ?? []).flatMap(flat)];
}

function clock(at) {
  return at.slice(11, 23);
}

function state(name) {
  if (GOOD.has(name)) return paint(32, name);
  return BAD.has(name) ? paint(31, name) : paint(33, name);
}

function short(value) {
  const text = JSON.stringify(value);
  return text.length > 160 ? `${text.slice(0, 157)}…` : text;
}
