// What the journal's free-form parts say.
import type { Step, TaskJournal } from '../api/types';

export interface ModelCall {
  tool: string;
  arguments: unknown;
}

/** What was said to the model in this turn, other than answers of its own calls. */
export function asked(step: Step): string[] {
  const added = (step.request as { added?: unknown } | null | undefined)?.added;
  if (!Array.isArray(added)) return [];
  return added.flatMap((message: unknown) => {
    const { role, text } = (message ?? {}) as { role?: string; text?: unknown };
    return role !== 'answer' && typeof text === 'string' ? [text.trim()] : [];
  });
}

export function answered(step: Step): { text?: string; calls: ModelCall[]; model?: string; input: number; output: number } {
  const result = (step.result ?? {}) as { text?: string; calls?: ModelCall[]; model?: string; usage?: { inputTokens?: number; outputTokens?: number } };
  return {
    text: typeof result.text === 'string' && result.text !== '' ? result.text : undefined,
    calls: Array.isArray(result.calls) ? result.calls : [],
    model: result.model,
    input: result.usage?.inputTokens ?? 0,
    output: result.usage?.outputTokens ?? 0,
  };
}

/** Which model it was: the one that answered, and the one that was asked for where that was another. */
export function modelWords(asked: string | null | undefined, used: string | null | undefined, otherwise: string): string {
  if (!used || used === asked) return used ?? asked ?? otherwise;
  return asked ? `${used} for ${asked}` : used;
}

/** Tokens of every model turn, also of turns that failed. */
export function tokens(tasks: TaskJournal[]): { input: number; output: number } {
  const total = { input: 0, output: 0 };
  for (const { steps } of tasks) {
    for (const step of steps) {
      if (step.kind !== 'MODEL') continue;
      const { input, output } = answered(step);
      total.input += input;
      total.output += output;
    }
  }
  return total;
}

/** What a tool said: MCP wraps text, which often is JSON. */
export function result(step: Step): unknown {
  const value = step.result;
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    const keys = Object.keys(value);
    const text = (value as { text?: unknown }).text;
    if (keys.length === 1 && typeof text === 'string') return unwrapped(text);
  }
  return value;
}

function unwrapped(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Why a step failed, where that is told in words: a text of several lines is read as such. */
export function failure(step: Step): string | undefined {
  const error = typeof step.result === 'object' && step.result !== null ? (step.result as { error?: unknown }).error : undefined;
  return typeof error === 'string' && error !== '' ? error : undefined;
}
