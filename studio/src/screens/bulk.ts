// One decision over several approvals: each is sent by itself, with the digest of what was shown for it.
import { post } from '../api/client';
import type { HumanTask } from '../api/types';

/** Without what came after a time, except the one that is looked at; all, when nothing else is left. */
export function notNewer(tasks: HumanTask[], than: string, selected: string | undefined): HumanTask[] {
  const until = new Date(than).getTime();
  const kept = tasks.filter((one) => one.id === selected || new Date(one.createdAt).getTime() <= until);
  return kept.length > 0 ? kept : tasks;
}

export type Outcome = 'approved' | 'rejected';
export type Result = { state: 'sent' } | { state: 'done' } | { state: 'refused'; error: unknown };

/** Decisions that are under way at once. */
const AT_ONCE = 4;

export type Send = (task: HumanTask, outcome: Outcome, comment: string | undefined) => Promise<unknown>;

export const send: Send = (task, outcome, comment) =>
  post(`/v1/tasks/${encodeURIComponent(task.id)}/decision`, { outcome, digest: task.approval?.digest, comment });

/** What can be decided together: open approvals. A form wants to be filled in by itself. */
export function isDecidable(task: HumanTask): boolean {
  return task.state === 'OPEN' && task.approval !== undefined && task.approval !== null;
}

/** Decides all; a refusal of one stops none of the others. Tells each result as it comes. */
export async function decideAll(tasks: HumanTask[], outcome: Outcome, comment: string, tell: (id: string, result: Result) => void, by: Send = send): Promise<{ done: number; refused: number }> {
  const rest = tasks.filter(isDecidable);
  const sum = { done: 0, refused: 0 };
  const work = async () => {
    for (let task = rest.shift(); task; task = rest.shift()) {
      tell(task.id, { state: 'sent' });
      try {
        await by(task, outcome, comment.trim() || undefined);
        sum.done += 1;
        tell(task.id, { state: 'done' });
      } catch (error) {
        sum.refused += 1;
        tell(task.id, { state: 'refused', error });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return sum;
}
