// Small parts that every screen uses.
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { print } from '../api/json';
import { Refusal } from '../api/client';
import type { InstanceStatus } from '../api/types';

const TONES: Record<string, string> = {
  RUNNING: 'blue', STARTED: 'blue', OPEN: 'amber', PROPOSED: 'amber', CANCELLING: 'amber', COMPENSATING: 'amber',
  COMPLETED: 'green', APPROVED: 'green', approved: 'green', RESOLVED: 'green', FAILED: 'red', REJECTED: 'red', rejected: 'red', REFUSED: 'red',
  OUTCOME_UNKNOWN: 'red', INCIDENT: 'red', ERROR: 'red', WARNING: 'amber', NOTICE: 'amber', CANCELLED: 'grey', WITHDRAWN: 'grey', EXPIRED: 'grey',
};

export function Badge({ word, tone }: { word: string; tone?: string }) {
  return <span className={`badge ${tone ?? TONES[word] ?? 'grey'}`}>{word.replaceAll('_', ' ').toLowerCase()}</span>;
}

export function Status({ status, incidents = 0, suspended = false }: { status: InstanceStatus; incidents?: number; suspended?: boolean }) {
  return (
    <span className="row tight">
      <Badge word={status} />
      {suspended && <Badge word="suspended" tone="grey" />}
      {incidents > 0 && <Badge word={incidents === 1 ? '1 incident' : `${incidents} incidents`} tone="red" />}
    </span>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <p className="state-title">{title}</p>
      {children && <div className="muted">{children}</div>}
    </div>
  );
}

/** Rows of nothing yet; they keep the place, so nothing jumps when the answer comes. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div className="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="bar" />
      ))}
    </div>
  );
}

export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  if (error instanceof Refusal && error.status === 403) return <NoPermission detail={error.message} hint={error.problem.hint} />;
  const refusal = error instanceof Refusal ? error : null;
  return (
    <div className="state" role="alert">
      <p className="state-title">{refusal?.status === 404 ? 'Not found' : refusal?.status === 0 ? 'The engine cannot be reached' : 'That did not work'}</p>
      {refusal?.status !== 0 && <p className="muted">{error instanceof Error ? error.message : String(error)}</p>}
      {refusal?.problem.hint && <p className="muted">{refusal.problem.hint}</p>}
      {refusal && refusal.status !== 0 && <p className="code">{refusal.code}</p>}
      {retry && refusal?.status !== 404 && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function NoPermission({ detail, hint }: { detail?: string; hint?: string | null }) {
  return (
    <div className="state" role="alert">
      <p className="state-title">Not with this key</p>
      {detail && <p className="muted">{detail}</p>}
      {hint && <p className="muted">{hint}</p>}
    </div>
  );
}

/** A refusal under the form that caused it. */
export function Refused({ error }: { error: unknown }) {
  if (!error) return null;
  const problem = error instanceof Refusal ? error.problem : null;
  return (
    <div className="refused" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {problem?.errors?.map((one) => (
        <p key={one.pointer + one.message}>
          <code>{one.pointer || '/'}</code> {one.message}
        </p>
      ))}
      {problem?.hint && <p className="muted">{problem.hint}</p>}
      {problem && <p className="code">{problem.code}</p>}
    </div>
  );
}

/** A value as people read it: text as text, the rest as JSON with every digit. */
export function Value({ value, label }: { value: unknown; label?: string }) {
  const [open, setOpen] = useState(false);
  if (value === undefined) return <span className="muted">not shown</span>;
  const isPlain = typeof value === 'string';
  const text = isPlain ? (value as string) : print(value);
  const isLong = text.length > 600 || text.split('\n').length > 14;
  const shown = isLong && !open ? text.split('\n').slice(0, 12).join('\n').slice(0, 560) : text;
  return (
    <div className="value">
      <pre className={isPlain ? 'text' : 'json'} aria-label={label}>
        {shown === '' ? <span className="muted">empty text</span> : shown}
        {isLong && !open && ' …'}
      </pre>
      {isLong && (
        <button type="button" className="link" onClick={() => setOpen(!open)}>
          {open ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
        </button>
      )}
    </div>
  );
}

export function Fields({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="fields">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A hash or id: its start, all of it on hover and to copy. */
export function Short({ text, length = 12 }: { text: string; length?: number }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    });
  };
  return (
    <button type="button" className="short" title={`${text} (copy)`} onClick={copy}>
      {copied ? 'copied' : text.length > length ? `${text.slice(0, length)}…` : text}
    </button>
  );
}

export function InstanceLink({ id, children }: { id: string; children: ReactNode }) {
  return (
    <Link to="/instances/$id" params={{ id }}>
      {children}
    </Link>
  );
}

/** A modal question; Escape and the backdrop close it. */
export function Dialog({ open, onClose, title, children }: { open: boolean; onClose: () => void; title: string; children: ReactNode }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog ref={box} aria-labelledby={id} onClose={onClose} onClick={(event) => event.target === box.current && onClose()}>
      {open && (
        <div className="dialog">
          <h2 id={id}>{title}</h2>
          {children}
        </div>
      )}
    </dialog>
  );
}

export interface Tab<Name extends string> {
  name: Name;
  label: string;
  count?: number;
}

/** Tabs whose choice the caller keeps (in the URL). Arrow keys move. */
export function Tabs<Name extends string>({ tabs, current, choose, label }: { tabs: Tab<Name>[]; current: Name; choose: (name: Name) => void; label: string }) {
  const move = (by: number) => {
    const index = tabs.findIndex((tab) => tab.name === current);
    const next = tabs[(index + by + tabs.length) % tabs.length];
    if (next) {
      choose(next.name);
      document.getElementById(`tab-${next.name}`)?.focus();
    }
  };
  // On a phone not all fit: the chosen one is in sight.
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => scrollTo(list.current, '[aria-selected="true"]'), [current]);
  return (
    <div className="tabs" role="tablist" aria-label={label} ref={list}>
      {tabs.map((tab) => (
        <button
          key={tab.name}
          id={`tab-${tab.name}`}
          type="button"
          role="tab"
          aria-selected={tab.name === current}
          aria-controls={`panel-${tab.name}`}
          tabIndex={tab.name === current ? 0 : -1}
          onClick={() => choose(tab.name)}
          onKeyDown={(event) => {
            if (event.key === 'ArrowRight') move(1);
            if (event.key === 'ArrowLeft') move(-1);
          }}
        >
          {tab.label}
          {tab.count !== undefined && tab.count > 0 && <span className="count">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}

/** Brings a part of a row that scrolls sideways into its middle, and moves nothing else. */
export function scrollTo(row: HTMLElement | null, selector: string) {
  const part = row?.querySelector<HTMLElement>(selector);
  if (row && part) row.scrollLeft += part.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - part.offsetWidth) / 2;
}

/** What may be wider than the screen: it scrolls by itself, by keyboard too. */
export function Scroll({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="scroll" role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}

export function Panel({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div role="tabpanel" id={`panel-${name}`} aria-labelledby={`tab-${name}`} className="panel">
      {children}
    </div>
  );
}

/** `delegate:refund_payout` as people say it. */
export function target(toolRef: string): string {
  return toolRef.replace(/^(delegate|model|step):/, '');
}

export function Heading({ title, children }: { title: string; children?: ReactNode }) {
  useTitle(title);
  return (
    <div className="heading">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

export function useTitle(title: string) {
  useEffect(() => {
    document.documentElement.dataset.screen = title;
    window.dispatchEvent(new Event('screen'));
  }, [title]);
}

/** One of the deployed processes, or any; one that an address names is kept, deployed or not. */
export function ProcessFilter({ value, processes, change }: { value: string | undefined; processes: string[]; change: (process: string | undefined) => void }) {
  const known = value && !processes.includes(value) ? [value, ...processes] : processes;
  return (
    <label>
      Process
      <select value={value ?? ''} onChange={(event) => change(event.target.value || undefined)}>
        <option value="">any</option>
        {known.map((key) => (
          <option key={key}>{key}</option>
        ))}
      </select>
    </label>
  );
}
