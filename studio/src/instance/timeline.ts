// When which node was busy, and what it waited for: read out of history, journal and the tasks of people.
import type { HistoryEntry, HumanTask, TaskJournal } from '../api/types';

export type Wait = 'engine' | 'worker' | 'model' | 'tool' | 'person' | 'child' | 'timer' | 'join' | 'incident';

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

export function words(kind: Wait): string {
  return {
    engine: 'the engine', worker: 'a worker', model: 'the model', tool: 'a tool', person: 'a person', child: 'a child process', timer: 'a timer', join: 'other branches', incident: 'an incident',
  }[kind];
}
