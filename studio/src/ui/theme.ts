// Light, dark or as the system has it. Kept in this browser.
import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';
const STORE = 'legation.theme';
const listeners = new Set<() => void>();
let theme: Theme = read();

function read(): Theme {
  try {
    const kept = localStorage.getItem(STORE);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme() {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(next: Theme) {
  theme = next;
  try {
    localStorage.setItem(STORE, next);
  } catch {
    // It holds until the page is left.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
