// When which node was busy, and what it waited for: read out of history, journal and the tasks of people.
import type { HistoryEntry, HumanTask, TaskJournal } from '../api/types';

export type Wait = 'engine' | 'queue' | 'worker' | 'model' | 'tool' | 'person' | 'child' | 'timer' | 'join' | 'incident';

export interface Stretch {
  kind: Wait;
  from: number;
  to: number;
  label: string;
}

export interface Lane {
  node: string;
  stretches: Stretch[];
}

const WAITS: Record<string, Wait> = { WORKER: 'worker', HUMAN: 'person', TIMER: 'timer', CHILD: 'child', JOIN: 'join' };

interface Visit {
  node: string;
  token: unknown;
  from: number;
  kind: Wait;
}

/** One lane for each node, in the order they were first entered. `now` ends what goes on. */
export function lanes(history: HistoryEntry[], journal: TaskJournal[], people: HumanTask[], now: number): Lane[] {
  const byNode = new Map<string, Stretch[]>();
  const add = (node: string, stretch: Stretch) => {
    const list = byNode.get(node);
    if (list) list.push(stretch);
    else byNode.set(node, [stretch]);
  };
  const open: Visit[] = [];
  const close = (visit: Visit, to: number) => {
    open.splice(open.indexOf(visit), 1);
    add(visit.node, { kind: visit.kind, from: visit.from, to, label: words(visit.kind) });
  };
  const restart = (node: string | null | undefined, kind: Wait, at: number) => {
    const visit = open.findLast((one) => one.node === node);
    if (!visit) return;
    if (at > visit.from) {
      close(visit, at);
      open.push({ ...visit, from: at, kind });
    } else visit.kind = kind;
  };
  for (const entry of history) {
    const at = new Date(entry.at).getTime();
    const data = entry.data as { token?: unknown; from?: string; for?: string; code?: string };
    switch (entry.type) {
      case 'NODE_ENTERED': {
        const leaving = open.find((visit) => visit.token === data.token && visit.node === data.from);
        if (leaving) close(leaving, at);
        if (entry.nodeId) {
          if (!byNode.has(entry.nodeId)) byNode.set(entry.nodeId, []);
          open.push({ node: entry.nodeId, token: data.token, from: at, kind: 'engine' });
        }
        break;
      }
      case 'TASK_CREATED':
        restart(entry.nodeId, 'worker', at);
        break;
      case 'NODE_WAITS':
        restart(entry.nodeId, WAITS[data.for ?? ''] ?? 'engine', at);
        break;
      case 'NODE_STUCK':
        restart(entry.nodeId, 'incident', at);
        break;
      case 'NODE_RETRIED':
        restart(entry.nodeId, 'engine', at);
        break;
      case 'TOKEN_ENDED': {
        const ending = open.findLast((visit) => visit.node === entry.nodeId);
        if (ending) close(ending, at);
        break;
      }
      case 'INSTANCE_COMPLETED':
      case 'INSTANCE_FAILED':
      case 'INSTANCE_CANCELLED':
        for (const visit of [...open]) close(visit, at);
        break;
    }
  }
  for (const visit of [...open]) close(visit, now);
  for (const { task, steps } of journal) {
    for (const [from, to] of queued(task, steps, failures(history, task.nodeId), now)) add(task.nodeId, { kind: 'queue', from, to, label: `${task.topic}: no worker has it` });
    for (const step of steps) {
      const from = new Date(step.startedAt).getTime();
      const to = step.endedAt ? new Date(step.endedAt).getTime() : task.endedAt ? new Date(task.endedAt).getTime() : now;
      const kind: Wait = step.kind === 'MODEL' ? 'model' : step.kind === 'DELEGATION' ? 'child' : step.kind === 'WAIT' ? 'timer' : 'tool';
      add(task.nodeId, { kind, from, to, label: `step ${step.sequence}: ${step.toolRef}` });
    }
  }
  for (const task of people) {
    if (task.kind !== 'approval') continue;
    const to = task.endedAt ? new Date(task.endedAt).getTime() : now;
    add(task.nodeId, { kind: 'person', from: new Date(task.createdAt).getTime(), to, label: task.title });
  }
  return [...byNode].map(([node, stretches]) => ({ node, stretches }));
}

/** When tries of a node's task failed. */
function failures(history: HistoryEntry[], node: string): number[] {
  return history.filter((entry) => entry.type === 'ATTEMPT_ENDED' && entry.nodeId === node).map((entry) => new Date(entry.at).getTime());
}

/**
 * When a task waited for a worker to take it: from its making, from a failed try, or from the end of what it was parked
 * for, until its next lease. Only the last lease's begin is kept; the ones before are known by the steps they made.
 */
export function queued(task: TaskJournal['task'], steps: TaskJournal['steps'], failed: number[], now: number): [number, number][] {
  const ms = (at: string | null | undefined) => (at ? new Date(at).getTime() : undefined);
  const created = new Date(task.createdAt).getTime();
  const end = ms(task.endedAt) ?? now;
  const locked = ms(task.lockedAt);
  const begins = [...steps.map((step) => new Date(step.startedAt).getTime()), ...(locked === undefined ? [] : [locked])].sort((a, b) => a - b);
  const parked = steps.filter((step) => step.kind === 'DELEGATION' || step.kind === 'WAIT').map((step) => ms(step.endedAt));
  const opened = [created, ...failed, ...parked.filter((at): at is number => at !== undefined)].filter((at) => at >= created && at <= end).sort((a, b) => a - b);
  const found: [number, number][] = [];
  for (const [index, from] of opened.entries()) {
    const before = opened[index + 1] ?? Infinity;
    const taken = begins.find((at) => at >= from) ?? (locked !== undefined && task.endedAt ? from : end);
    // Still parked for something else when the first of several settled: it is no queue.
    const to = Math.min(taken, before, end);
    if (to > from) found.push([from, to]);
  }
  return found;
}

/** A lane without overlaps: of what lies over each other the later, which is the more exact, counts. */
export function flat(stretches: Stretch[]): Stretch[] {
  const cuts = [...new Set(stretches.flatMap((one) => [one.from, one.to]))].sort((a, b) => a - b);
  const pieces: Stretch[] = [];
  for (let index = 0; index + 1 < cuts.length; index++) {
    const from = cuts[index] ?? 0;
    const to = cuts[index + 1] ?? 0;
    const top = stretches.findLast((one) => one.from <= from && one.to >= to);
    if (!top) continue;
    const last = pieces.at(-1);
    if (last && last.to === from && last.label === top.label && last.kind === top.kind) last.to = to;
    else pieces.push({ ...top, from, to });
  }
  return pieces;
}

/** How long each kind of wait took, over all lanes. */
export function totals(all: { pieces: Stretch[] }[]): Map<Wait, number> {
  const sums = new Map<Wait, number>();
  for (const lane of all) for (const piece of lane.pieces) sums.set(piece.kind, (sums.get(piece.kind) ?? 0) + piece.to - piece.from);
  return sums;
}

export function words(kind: Wait): string {
  return {
    engine: 'the engine', queue: 'a free worker (queue)', worker: 'the worker’s work', model: 'the model', tool: 'a tool', person: 'a person', child: 'a child process', timer: 'a timer', join: 'other branches', incident: 'an incident',
  }[kind];
}

/** Where a stretch lies in its lane, from and to in percent: never thinner than can be seen, also at the very end. */
export function place(from: number, to: number) {
  return { left: `min(${from}%, 100% - 3px)`, width: `max(3px, ${to - from}%)` };
}
