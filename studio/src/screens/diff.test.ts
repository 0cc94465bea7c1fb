import { describe, expect, it } from 'vitest';
import { diff, hunks } from './diff';

describe('the difference of two versions', () => {
  it('is lines that went and lines that came, in order', () => {
    const lines = diff('a\nb\nc\n', 'a\nx\nc\nd\n');
    expect(lines.map(({ kind, text }) => `${kind} ${text}`)).toEqual(['same a', 'gone b', 'new x', 'same c', 'new d']);
    expect(lines.at(-1)).toEqual({ kind: 'new', text: 'd', after: 4 });
  });
  it('is nothing for equal texts', () => {
    expect(hunks(diff('a\nb', 'a\nb')).filter((line) => line !== null)).toEqual([]);
  });
  it('leaves out what is far from a change', () => {
    const text = Array.from({ length: 20 }, (_, index) => `line ${index}`);
    const shown = hunks(diff(text.join('\n'), [...text.slice(0, 19), 'other'].join('\n')));
    expect(shown[0]).toBeNull();
    expect(shown).toHaveLength(1 + 3 + 2);
  });
});
