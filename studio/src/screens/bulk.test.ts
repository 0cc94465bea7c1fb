import { describe, expect, it } from 'vitest';
import type { HumanTask } from '../api/types';
import { decideAll, isDecidable, notNewer, type Result } from './bulk';
import { amount, share } from './counts';

const approval = (id: string) => ({ id, state: 'OPEN', approval: { digest: `digest of ${id}` } }) as unknown as HumanTask;

describe('tasks that come while one is read', () => {
  const task = (id: string, second: number) => ({ id, createdAt: `2026-11-30T06:00:0${second}.000Z` }) as unknown as HumanTask;
  const tasks = [task('c', 3), task('b', 2), task('a', 1)];
  const shown = (than: number, selected?: string) => notNewer(tasks, `2026-11-30T06:00:0${than}.000Z`, selected).map((one) => one.id);
  it('wait, except the one that is opened by its address', () => {
    expect(shown(2)).toEqual(['b', 'a']);
    expect(shown(1, 'c')).toEqual(['c', 'a']);
  });
  it('are shown when nothing else is left', () => {
    expect(shown(0)).toEqual(['c', 'b', 'a']);
  });
});

describe('several decisions at once', () => {
  it('send each its own digest, and one that is refused stops no other', async () => {
    const sent: unknown[] = [];
    const told = new Map<string, Result[]>();
    const tasks = ['a', 'b', 'c', 'd', 'e', 'f'].map(approval);
    const sum = await decideAll(tasks, 'rejected', '  too much ', (id, result) => told.set(id, [...(told.get(id) ?? []), result]), async (task, outcome, comment) => {
      sent.push([task.id, task.approval?.digest, outcome, comment]);
      await Promise.resolve();
      if (task.id === 'b') throw new Error('somebody was faster');
    });
    expect(sum).toEqual({ done: 5, refused: 1 });
    expect(sent).toHaveLength(6);
    expect(sent[0]).toEqual(['a', 'digest of a', 'rejected', 'too much']);
    expect(told.get('b')?.map((one) => one.state)).toEqual(['sent', 'refused']);
    expect(told.get('f')?.map((one) => one.state)).toEqual(['sent', 'done']);
  });
  it('are for open approvals only, and few are under way at a time', async () => {
    expect(isDecidable({ id: 'h', state: 'OPEN' } as HumanTask)).toBe(false);
    expect(isDecidable({ ...approval('x'), state: 'COMPLETED' } as HumanTask)).toBe(false);
    let now = 0;
    let most = 0;
    const sum = await decideAll([...Array(20).keys()].map((number) => approval(String(number))), 'approved', '', () => undefined, async (_task, _outcome, comment) => {
      expect(comment).toBeUndefined();
      now += 1;
      most = Math.max(most, now);
      await Promise.resolve();
      now -= 1;
    });
    expect(sum.done).toBe(20);
    expect(most).toBe(4);
  });
});

describe('figures', () => {
  it('say where the engine stopped counting, and never round a failure to none', () => {
    expect([amount(12_345), amount(10_000, true)]).toEqual(['12,345', '10,000+']);
    expect([share(0, 10), share(1, 1000), share(1, 8), share(3, 0)]).toEqual(['0', '<1%', '13%', '0']);
  });
});
