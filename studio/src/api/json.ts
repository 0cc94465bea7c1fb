// JSON with every digit: what a person approves must be what runs, so a number is never rounded for showing.
import { Exact } from './types';

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

export function parse(text: string): unknown {
  const keep: Reviver = (_key, value, context) => {
    if (typeof value !== 'number' || context?.source === undefined) return value;
    return sameNumber(String(value), context.source) ? value : new Exact(context.source);
  };
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}

/** Whether two texts of a number say the same, `1.50` and `1.5` not being the same text but the same number. */
function sameNumber(shown: string, source: string): boolean {
  return shown === source || trimmed(shown) === trimmed(source);
}

function trimmed(text: string): string {
  if (/[eE]/.test(text)) return text;
  return text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text;
}

/** Indented text of a value, with exact numbers as they were sent. */
export function print(value: unknown, depth = 0): string {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    const inner = value.map((one) => pad(depth + 1) + print(one, depth + 1)).join(',\n');
    return `[\n${inner}\n${pad(depth)}]`;
  }
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value);
    if (entries.length === 0) return '{}';
    const inner = entries.map(([name, one]) => `${pad(depth + 1)}${JSON.stringify(name)}: ${print(one, depth + 1)}`);
    return `{\n${inner.join(',\n')}\n${pad(depth)}}`;
  }
  return JSON.stringify(value) ?? '';
}

function pad(depth: number): string {
  return '  '.repeat(depth);
}
