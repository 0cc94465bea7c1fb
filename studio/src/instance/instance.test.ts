import { describe, expect, it } from 'vitest';
import type { HistoryEntry, HumanTask, Incident, TaskJournal } from '../api/types';
import { duration, relative } from '../ui/time';
import { cameOf } from './came';
import { EVENTS_PAGE, eventsPage } from './Events';
import { answered, asked, failure, modelWords, result, tokens } from './journal';
import { flat, lanes, place, queued, totals } from './timeline';
import { sentence } from './Why';

const T = Date.parse('2026-11-30T06:00:00.000Z');
const at = (ms: number) => new Date(T + ms).toISOString();
const event = (ms: number, type: string, nodeId: string | undefined, data: object = {}) => ({ revision: 1, index: 0, at: at(ms), type, nodeId, data }) as HistoryEntry;

describe('the timeline', () => {
  const history = [
    event(0, 'NODE_ENTERED', 'triage', { token: 1 }),
    event(0, 'TASK_CREATED', 'triage'),
    event(900, 'NODE_ENTERED', 'ask', { token: 1, from: 'triage' }),
    event(900, 'NODE_WAITS', 'ask', { for: 'HUMAN' }),
  ];
  it('has a lane for each node, and what goes on ends now', () => {
    const [triage, ask] = lanes(history, [], [], T + 2_000);
    expect(triage).toMatchObject({ node: 'triage', stretches: [{ kind: 'worker', from: T, to: T + 900 }] });
    expect(ask).toMatchObject({ node: 'ask', stretches: [{ kind: 'person', from: T + 900, to: T + 2_000 }] });
  });
  it('lays the steps of the journal and approvals over the wait for a worker', () => {
    const journal = [{ task: { nodeId: 'triage', topic: 'agent', createdAt: at(0), lockedAt: at(50), endedAt: at(900) }, steps: [{ kind: 'MODEL', sequence: 1, toolRef: 'model:m', startedAt: at(100), endedAt: at(300) }] }] as unknown as TaskJournal[];
    const people = [{ kind: 'approval', nodeId: 'triage', title: 'Approve', createdAt: at(300), endedAt: at(800) }] as unknown as HumanTask[];
    const kinds = lanes(history, journal, people, T + 2_000)[0]?.stretches.map((one) => one.kind);
    expect(kinds).toEqual(['worker', 'queue', 'model', 'person']);
  });
  it('shows an incident and what follows its retry', () => {
    const stuck = [event(0, 'NODE_ENTERED', 'rule', { token: 1 }), event(0, 'NODE_STUCK', 'rule'), event(500, 'NODE_RETRIED', 'rule'), event(600, 'TOKEN_ENDED', 'rule')];
    expect(lanes(stuck, [], [], T + 1_000)[0]?.stretches.map((one) => [one.kind, one.to - one.from])).toEqual([['incident', 500], ['engine', 100]]);
  });
});

describe('a stretch in its lane', () => {
  it('can be seen although it is short and at the very end', () => {
    expect(place(100, 100)).toEqual({ left: 'min(100%, 100% - 3px)', width: 'max(3px, 0%)' });
    expect(place(10, 60)).toEqual({ left: 'min(10%, 100% - 3px)', width: 'max(3px, 50%)' });
  });
});

describe('a closed incident', () => {
  const incident = (part: object) => ({ id: 'n1', kind: 'INCIDENT', state: 'RESOLVED', code: 'WORK_FAILED', nodeId: 'pay', createdAt: at(0), resolvedAt: at(100), ...part }) as unknown as Incident;
  it('tells what came of it', () => {
    const first = incident({});
    const again = incident({ id: 'n2', state: 'OPEN', code: 'LEASE_EXPIRY', createdAt: at(200), resolvedAt: undefined });
    expect(cameOf(first, [first, again], [])).toBe('It led to LEASE_EXPIRY.');
    expect(cameOf(first, [first, incident({ id: 'n0', createdAt: at(-50) })], [])).toBe('It is being worked on.');
    expect(cameOf(first, [first], [event(50, 'NODE_ENTERED', 'early', { from: 'pay' }), event(150, 'NODE_ENTERED', 'mail', { from: 'pay' })])).toBe('The flow went on to mail.');
    expect(cameOf(first, [first], [event(150, 'INSTANCE_CANCELLED', undefined)])).toBe('The instance was cancelled.');
    expect(cameOf(again, [first, again], [])).toBeUndefined();
  });
});

describe('the pages of events', () => {
  const rows = Array.from({ length: 2 * EVENTS_PAGE + 3 }, (_, index) => event(index, 'X', undefined));
  it('hold every event once, and the newest come first to sight', () => {
    const pages = [1, 2, 3].map((page) => eventsPage(rows, page));
    expect(pages.flatMap((page) => page.rows)).toEqual(rows);
    expect(eventsPage(rows, undefined)).toMatchObject({ number: 3, last: 3, first: 2 * EVENTS_PAGE });
    expect(eventsPage(rows, 9).number).toBe(3);
    expect(eventsPage([], undefined)).toMatchObject({ number: 1, last: 1, rows: [] });
  });
  it('stay as they are while more happens', () => {
    expect(eventsPage([...rows, event(9_999_999, 'Y', undefined)], 2).rows).toEqual(eventsPage(rows, 2).rows);
  });
});

describe('the queue', () => {
  const task = (part: object) => ({ nodeId: 'pay', topic: 'pay', createdAt: at(0), ...part }) as unknown as TaskJournal['task'];
  const step = (kind: string, from: number, to?: number) => ({ kind, startedAt: at(from), endedAt: to === undefined ? undefined : at(to) }) as unknown as TaskJournal['steps'][number];
  it('ends with the lease, and what follows is work', () => {
    expect(queued(task({ lockedAt: at(300), endedAt: at(900) }), [], [], T + 2_000)).toEqual([[T, T + 300]]);
    expect(queued(task({}), [], [], T + 2_000)).toEqual([[T, T + 2_000]]);
  });
  it('begins again after a failed try, and after what the task was parked for', () => {
    expect(queued(task({ lockedAt: at(700), endedAt: at(900) }), [], [T + 400], T + 2_000)).toEqual([[T, T + 400], [T + 400, T + 700]]);
    const steps = [step('MODEL', 100, 150), step('DELEGATION', 150, 600), step('MODEL', 650, 660)];
    expect(queued(task({ lockedAt: at(640), endedAt: at(700) }), steps, [], T + 2_000)).toEqual([[T, T + 100], [T + 600, T + 640]]);
  });
  it('is told apart in the sums, where the more exact counts', () => {
    const journal = [{ task: task({ lockedAt: at(300), endedAt: at(900) }), steps: [] }] as unknown as TaskJournal[];
    const history = [event(0, 'NODE_ENTERED', 'pay', { token: 1 }), event(0, 'TASK_CREATED', 'pay'), event(900, 'TOKEN_ENDED', 'pay')];
    expect(Object.fromEntries(totals(lanes(history, journal, [], T + 2_000).map((lane) => ({ pieces: flat(lane.stretches) }))))).toEqual({ queue: 300, worker: 600 });
  });
});

describe('the journal', () => {
  const turn = { kind: 'MODEL', request: { added: [{ role: 'user', text: ' Hello\n' }, { role: 'answer', step: 2 }] }, result: { text: '', calls: [{ tool: 'a__b', arguments: {} }], model: 'm', usage: { inputTokens: 5, outputTokens: 2 } } };
  it('tells what was asked and what the model wanted', () => {
    expect(asked(turn as never)).toEqual(['Hello']);
    expect(answered(turn as never)).toMatchObject({ text: undefined, calls: [{ tool: 'a__b' }], input: 5, output: 2 });
    expect(tokens([{ steps: [turn, { kind: 'TOOL' }] }] as never)).toEqual({ input: 5, output: 2 });
  });
  it('names the model that answered, and the one that was asked for', () => {
    expect(modelWords('large', 'scripted', 'x')).toBe('scripted for large');
    expect([modelWords('large', 'large', 'x'), modelWords('large', null, 'x'), modelWords(undefined, undefined, 'an agent')]).toEqual(['large', 'large', 'an agent']);
  });
  it('shows why a turn failed as text of several lines, and what is no text as it is', () => {
    expect(failure({ result: { error: 'no rule fits\n  user: hello', retryAfterMs: 5 } } as never)).toBe('no rule fits\n  user: hello');
    expect([{ error: '' }, { code: 'X' }, 'text', null].map((value) => failure({ result: value } as never))).toEqual([undefined, undefined, undefined, undefined]);
  });
  it('unwraps the JSON in a text answer, and leaves text that only looks like it', () => {
    expect(result({ result: { text: '{"id":"C-1"}' } } as never)).toEqual({ id: 'C-1' });
    expect(result({ result: { text: '[not json' } } as never)).toBe('[not json');
  });
});

describe('words', () => {
  it('leave out what is shown live or meant for the command line', () => {
    const wait = { nodeId: 'n', kind: 'APPROVAL', text: 'step 4 (delegate:large_payout) waits 7s for an approval of finance; legation approve x.h5' };
    expect(sentence(wait as never)).toBe('step 4 (delegate:large_payout) waits for an approval of finance');
    expect(sentence({ nodeId: 'n', kind: 'INCIDENT', text: 'held for 9s by incident x.n3 (CODE: words); remove the cause' } as never)).toBe('is held by an incident: words');
  });
  it('say times as people do', () => {
    expect(relative(at(0), T + 5_000)).toBe('just now');
    expect(relative(at(0), T + 3 * 60_000)).toBe('3 min. ago');
    expect(relative(at(2 * 86_400_000), T)).toBe('in 2 days');
    expect([340, 4_200, 185_000, 7_800_000, 273_600_000].map(duration)).toEqual(['340 ms', '4.2 s', '3 min 5 s', '2 h 10 min', '3 d 4 h']);
  });
});
