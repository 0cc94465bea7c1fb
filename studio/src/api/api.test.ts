import { describe, expect, it } from 'vitest';
import { concerns, note, nothingChanged } from './feed';
import { parse, print } from './json';
import { Reader } from './sse';
import { Exact, type FeedEvent } from './types';

describe('json', () => {
  it('prints an exact number as it was written', () => {
    expect(print({ amount: new Exact('12345678901234567890.123456789') })).toBe('{\n  "amount": 12345678901234567890.123456789\n}');
  });
  it('keeps ordinary numbers ordinary', () => {
    expect(parse('[1, 1.50, -0.25, 1200]')).toEqual([1, 1.5, -0.25, 1200]);
  });
  it('indents nested values and leaves empty ones on a line', () => {
    expect(print({ a: [], b: { c: 'x' } })).toBe('{\n  "a": [],\n  "b": {\n    "c": "x"\n  }\n}');
  });
});

describe('the reader of events', () => {
  it('waits for the rest of a message that was cut', () => {
    const reader = new Reader();
    expect(reader.push('id: a1\nevent: X\nda')).toEqual([]);
    expect(reader.push('ta: {"a":1}\n\nid: a2\nda')).toEqual([{ id: 'a1', event: 'X', data: '{"a":1}' }]);
  });
  it('skips comments that only keep the connection alive', () => {
    expect(new Reader().push(':\n\n: ping\n\ndata: 1\n\n')).toEqual([{ id: undefined, event: undefined, data: '1' }]);
  });
});

describe('what an event makes stale', () => {
  const event = (type: string, instanceId = 'r.i5') => ({ type, at: '', instanceId, rootId: 'r' }) as FeedEvent;
  const after = (type: string) => {
    const changed = nothingChanged();
    note(changed, event(type));
    return changed;
  };
  it('is every instance of the tree, and no other', () => {
    const changed = after('NODE_ENTERED');
    expect(concerns(['instance', 'r', 'lineage'], changed)).toBe(true);
    expect(concerns(['instance', 'r.i9', 'view'], changed)).toBe(true);
    expect(concerns(['instance', 'rr', 'view'], changed)).toBe(false);
  });
  it('is the inbox for approvals, the lists for ends', () => {
    expect(concerns(['tasks', 'me', 'OPEN'], after('APPROVAL_OPENED'))).toBe(true);
    expect(concerns(['tasks', 'me', 'OPEN'], after('VARIABLE_SET'))).toBe(false);
    expect(concerns(['instances', {}], after('INSTANCE_COMPLETED'))).toBe(true);
    expect(concerns(['incidents', 'list', {}], after('INCIDENT_OPENED'))).toBe(true);
    expect(concerns(['processes'], after('INSTANCE_COMPLETED'))).toBe(false);
  });
});
