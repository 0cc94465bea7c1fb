// Times: relative for reading, absolute on hover; and how long things took.
import { useEffect, useState, useSyncExternalStore } from 'react';

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];
const relativeFormat = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' });
const dateFormat = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', year: 'numeric' });
const absoluteFormat = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });
const clockFormat = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' });

export function relative(at: string, now: number): string {
  const distance = new Date(at).getTime() - now;
  if (Math.abs(distance) < 45_000) return distance > 1_000 ? 'in a moment' : 'just now';
  if (Math.abs(distance) > 14 * 86_400_000) return dateFormat.format(new Date(at));
  for (const [unit, ms] of UNITS) {
    if (Math.abs(distance) >= ms) return relativeFormat.format(Math.trunc(distance / ms), unit);
  }
  return relativeFormat.format(Math.trunc(distance / 1000), 'second');
}

export function absolute(at: string): string {
  return absoluteFormat.format(new Date(at));
}

export function clock(at: string): string {
  return clockFormat.format(new Date(at));
}

/** `340 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const steps: [string, number, string, number][] = [
    ['d', 86_400_000, 'h', 3_600_000],
    ['h', 3_600_000, 'min', 60_000],
    ['min', 60_000, 's', 1_000],
  ];
  for (const [big, bigMs, small, smallMs] of steps) {
    if (ms >= bigMs) {
      const rest = Math.floor((ms % bigMs) / smallMs);
      return rest > 0 ? `${Math.floor(ms / bigMs)} ${big} ${rest} ${small}` : `${Math.floor(ms / bigMs)} ${big}`;
    }
  }
  return `${ms} ms`;
}

let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** The present, every few seconds; one clock for every date on the page. */
export function useNow(): number {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      timer ??= setInterval(() => {
        now = Date.now();
        for (const one of listeners) one();
      }, 5_000);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0 && timer) {
          clearInterval(timer);
          timer = undefined;
        }
      };
    },
    () => now,
  );
}

export function Time({ at }: { at: string | null | undefined }) {
  const present = useNow();
  if (!at) return null;
  return (
    <time dateTime={at} title={absolute(at)} className="time">
      {relative(at, Math.max(present, Date.now()))}
    </time>
  );
}

/** From `from` to `to`, or until now. */
export function Took({ from, to }: { from: string; to?: string | null }) {
  useNow();
  return <span className="num">{duration((to ? new Date(to).getTime() : Date.now()) - new Date(from).getTime())}</span>;
}

/** A time as `datetime-local` takes it: in the reader's own zone. */
export function toLocal(at: string | undefined): string {
  if (!at) return '';
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromLocal(text: string): string | undefined {
  const date = new Date(text);
  return text === '' || Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** The value, once it has not changed for a while. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const wait = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(wait);
  }, [value, ms]);
  return settled;
}
