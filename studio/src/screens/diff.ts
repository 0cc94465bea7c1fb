// What changed between two texts, line by line.

export interface Line {
  kind: 'same' | 'gone' | 'new';
  text: string;
  /** Line number in the older and the newer text. */
  before?: number;
  after?: number;
}

/** Longest common subsequence; documents have hundreds of lines, so the square table is small. */
export function diff(older: string, newer: string): Line[] {
  const a = older.replace(/\n$/, '').split('\n');
  const b = newer.replace(/\n$/, '').split('\n');
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => table[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push({ kind: 'same', text: a[i] ?? '', before: ++i, after: ++j });
    else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) lines.push({ kind: 'gone', text: a[i] ?? '', before: ++i });
    else lines.push({ kind: 'new', text: b[j] ?? '', after: ++j });
  }
  return lines;
}

/** Only the changes with a few lines around them; `null` stands for what is left out. */
export function hunks(lines: Line[], around = 3): (Line | null)[] {
  const near = (index: number) => lines.slice(Math.max(0, index - around), index + around + 1).some((line) => line.kind !== 'same');
  const out: (Line | null)[] = [];
  for (const [index, line] of lines.entries()) {
    if (near(index)) out.push(line);
    else if (out.at(-1) !== null) out.push(null);
  }
  return out;
}
