// Who is logged in: keys in sessionStorage, so they end with the tab and no other tab or site has them.
import { useSyncExternalStore } from 'react';

export interface Session {
  /** Secrets by the name they are used under. */
  keys: Record<string, string>;
  current: string;
}

const STORE = 'legation.session';
const listeners = new Set<() => void>();
let session: Session | null = read();

function read(): Session | null {
  try {
    const text = sessionStorage.getItem(STORE);
    return text ? (JSON.parse(text) as Session) : null;
  } catch {
    return null;
  }
}

function write(next: Session | null) {
  session = next;
  try {
    if (next) sessionStorage.setItem(STORE, JSON.stringify(next));
    else sessionStorage.removeItem(STORE);
  } catch {
    // Without storage the session lives in memory, until the page is left.
  }
  for (const listener of listeners) listener();
}

export function current(): Session | null {
  return session;
}

export function secret(): string | null {
  return session?.keys[session.current] ?? null;
}

export function logIn(keys: Record<string, string>, as: string) {
  write({ keys, current: as });
}

export function switchTo(name: string) {
  if (session && session.keys[name]) write({ ...session, current: name });
}

export function logOut() {
  write(null);
}

export function useSession(): Session | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );
}
