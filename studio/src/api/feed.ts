// Keeps the screens live: follows the engine's feed and refreshes what an event concerns. When the feed breaks, the
// screens ask every few seconds instead, until it is back.
import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { useSession } from '../session/session';
import { authorization } from './client';
import { Reader } from './sse';
import type { FeedEvent } from './types';

/** `off`: this key may not follow the feed, so the screens poll. */
export type Liveness = 'connecting' | 'live' | 'polling' | 'off';

/** Events closer together than this refresh once. */
const TOGETHER_MS = 250;
const POLL_MS = 4_000;
const HIDDEN_MS = 10_000;
const COUNT_MS = 20_000;
const LIVE = new Set(['instances', 'instance', 'tasks', 'incidents']);
/** Past this many pages a list is not refreshed under its reader. */
export const MOST_LIVE_PAGES = 5;

let liveness: Liveness = 'connecting';
const listeners = new Set<() => void>();

function say(next: Liveness) {
  if (next === liveness) return;
  liveness = next;
  for (const listener of listeners) listener();
}

export function useLiveness(): Liveness {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => liveness,
  );
}

export interface Changed {
  roots: Set<string>;
  tasks: boolean;
  incidents: boolean;
  instances: boolean;
}

export function nothingChanged(): Changed {
  return { roots: new Set(), tasks: false, incidents: false, instances: false };
}

/** What an event makes stale. */
export function note(changed: Changed, event: FeedEvent) {
  changed.roots.add(event.rootId);
  const type = event.type;
  if (type.startsWith('INSTANCE_') || type.startsWith('INCIDENT_') || type.startsWith('NOTICE_')) changed.instances = true;
  if (type.startsWith('INCIDENT_') || type.startsWith('NOTICE_') || type === 'NODE_RETRIED') changed.incidents = true;
  if (type.startsWith('HUMAN_') || type.startsWith('APPROVAL_') || type.startsWith('INSTANCE_') || type === 'STEP_PROPOSED') changed.tasks = true;
}

/** Whether a kept answer is stale after these changes. */
export function concerns(key: readonly unknown[], changed: Changed): boolean {
  const [what, id] = key;
  if (what === 'instances') return changed.instances;
  if (what === 'tasks') return changed.tasks;
  if (what === 'incidents') return changed.incidents;
  if (what === 'workers') return true;
  return what === 'instance' && typeof id === 'string' && changed.roots.has(id.split('.')[0] ?? id);
}

function refresh(client: QueryClient, changed: Changed) {
  const isDeep = (query: Query) => {
    const pages = (query.state.data as { pages?: unknown[] } | undefined)?.pages;
    return (pages?.length ?? 0) > MOST_LIVE_PAGES;
  };
  void client.invalidateQueries({ predicate: (query) => concerns(query.queryKey, changed) && !isDeep(query) });
}

/** Follows the feed while a screen is up; one for the whole app. */
export function useFeed(enabled: boolean) {
  const client = useQueryClient();
  const session = useSession();
  const who = session?.current;
  useEffect(() => {
    if (!enabled) {
      say('off');
      const timer = setInterval(() => void client.invalidateQueries({ queryKey: ['tasks'] }), POLL_MS);
      return () => clearInterval(timer);
    }
    let stop: AbortController | undefined;
    let leaving: ReturnType<typeof setTimeout> | undefined;
    const begin = () => {
      stop = new AbortController();
      void follow(client, stop.signal);
    };
    const end = () => {
      stop?.abort();
      stop = undefined;
    };
    // A browser opens few connections to one host, and a feed holds one: tabs that nobody looks at give theirs back.
    const seen = () => {
      clearTimeout(leaving);
      if (document.hidden) leaving = setTimeout(end, HIDDEN_MS);
      else if (!stop) begin();
    };
    const poll = setInterval(() => {
      if (liveness === 'polling' && !document.hidden) void client.invalidateQueries({ predicate: (query) => LIVE.has(String(query.queryKey[0])) });
    }, POLL_MS);
    // The count in the tab's title is read from other tabs too.
    const count = setInterval(() => {
      if (!stop) void client.invalidateQueries({ queryKey: ['tasks', 'me'] });
    }, COUNT_MS);
    document.addEventListener('visibilitychange', seen);
    begin();
    return () => {
      end();
      clearTimeout(leaving);
      clearInterval(poll);
      clearInterval(count);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [client, enabled, who]);
}

async function follow(client: QueryClient, signal: AbortSignal) {
  let cursor: string | undefined;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { ...authorization(), accept: 'text/event-stream' };
      if (cursor) headers['last-event-id'] = cursor;
      const response = await fetch('/v1/events', { headers, signal, cache: 'no-store' });
      if (response.status === 401 || response.status === 403) return say('off');
      if (!response.ok || !response.body) throw new Error(`the feed answered ${response.status}`);
      // What happened while nobody listened is not in a feed that begins now.
      if (failures > 0 || cursor === undefined) void client.invalidateQueries();
      failures = 0;
      say('live');
      cursor = (await read(client, response.body, signal, cursor)) ?? cursor;
    } catch {
      if (signal.aborted) return;
    }
    failures += 1;
    say('polling');
    await pause(Math.min(500 * 2 ** failures, 15_000), signal);
  }
}

async function read(client: QueryClient, body: ReadableStream<Uint8Array>, signal: AbortSignal, from?: string) {
  let cursor = from;
  let changed = nothingChanged();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    timer = undefined;
    refresh(client, changed);
    changed = nothingChanged();
  };
  const messages = new Reader();
  const stream = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  try {
    for (;;) {
      const { done, value } = await stream.read();
      if (done || signal.aborted) return cursor;
      for (const message of messages.push(value)) {
        cursor = message.id ?? cursor;
        note(changed, JSON.parse(message.data) as FeedEvent);
        timer ??= setTimeout(flush, TOGETHER_MS);
      }
    }
  } finally {
    stream.cancel().catch(() => undefined);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
