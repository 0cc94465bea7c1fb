// One way to talk to the engine: JSON, the caller's key, and refusals as what the engine says.
import { secret } from '../session/session';
import { parse } from './json';
import type { Problem } from './types';

/** What the engine refused, or that it could not be reached (`status` 0). */
export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title ?? problem.code);
  }
  get status() {
    return this.problem.status ?? 0;
  }
  get code() {
    return this.problem.code;
  }
}

type Query = Record<string, string | number | boolean | undefined>;

export function path(template: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== '') params.set(name, String(value));
  const text = params.toString();
  return text ? `${template}?${text}` : template;
}

export async function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  return parse(await send('GET', url, undefined, signal)) as T;
}

export function getText(url: string, signal?: AbortSignal): Promise<string> {
  return send('GET', url, undefined, signal);
}

export async function post<T>(url: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
  return parse(await send('POST', url, body === undefined ? undefined : JSON.stringify(body), undefined, headers)) as T;
}

export async function putYaml<T>(url: string, yaml: string): Promise<T> {
  return parse(await send('PUT', url, yaml, undefined, { 'content-type': 'application/yaml' })) as T;
}

export async function remove(url: string): Promise<void> {
  await send('DELETE', url);
}

async function send(method: string, url: string, body?: string, signal?: AbortSignal, more: Record<string, string> = {}): Promise<string> {
  const headers: Record<string, string> = { ...authorization() };
  if (body !== undefined) headers['content-type'] = 'application/json';
  Object.assign(headers, more);
  let response: Response;
  try {
    response = await fetch(url, { method, headers, body, signal, cache: 'no-store' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal({ code: 'UNREACHABLE', status: 0, title: 'the engine cannot be reached', detail: 'The engine cannot be reached.', hint: 'Is it running? This page tries again by itself.' });
  }
  const text = await response.text();
  if (response.ok) return text;
  throw new Refusal(problem(response.status, text));
}

export function authorization(): Record<string, string> {
  const key = secret();
  return key ? { authorization: `Bearer ${key}` } : {};
}

export function problem(status: number, text: string): Problem {
  try {
    const parsed = JSON.parse(text) as Problem;
    if (typeof parsed.code === 'string') return { ...parsed, status };
  } catch {
    // Not from the engine itself, such as a proxy's page.
  }
  return { code: `HTTP_${status}`, status, title: `HTTP ${status}`, detail: `The answer was ${status}, without a reason.` };
}
