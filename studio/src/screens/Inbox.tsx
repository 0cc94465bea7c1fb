// What waits for the caller: one list, one thing to look at, and the keyboard.
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState } from 'react';
import { MOST_LIVE_PAGES } from '../api/feed';
import * as queries from '../api/queries';
import type { HumanTask } from '../api/types';
import { modelWords } from '../instance/journal';
import { inboxRoute } from '../router';
import { useMe } from '../session/me';
import { Badge, Empty, Failed, Heading, Loading, target } from '../ui/parts';
import { Time } from '../ui/time';
import { isDecidable, notNewer } from './bulk';
import { Bulk } from './InboxBulk';
import { TaskDetail } from './InboxTask';

const STATES = [
  ['OPEN', 'Open'],
  ['COMPLETED', 'Done'],
  ['EXPIRED', 'Expired'],
  ['CANCELLED', 'Cancelled'],
] as const;

export function InboxScreen() {
  const { task: selected, state = 'OPEN' } = inboxRoute.useSearch();
  const navigate = useNavigate({ from: '/inbox' });
  const list = useInfiniteQuery(queries.inbox(state));
  const all = useMemo(() => list.data?.pages.flatMap((page) => page.tasks) ?? [], [list.data]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  // Who reads or chooses is not moved: until then newer tasks wait behind a button.
  const isBusy = selected !== undefined || chosen.size > 0;
  const newest = all[0]?.createdAt;
  const [shownTo, setShownTo] = useState<string>();
  useEffect(() => {
    if (newest !== undefined && (!isBusy || shownTo === undefined)) setShownTo(newest);
  }, [newest, isBusy, shownTo]);
  const tasks = useMemo(() => (state === 'OPEN' && isBusy && shownTo !== undefined ? notNewer(all, shownTo, selected) : all), [all, state, isBusy, shownTo, selected]);
  const held = all.length - tasks.length;
  const index = tasks.findIndex((one) => one.id === selected);
  const open = (id: string | undefined) => void navigate({ search: (before) => ({ ...before, task: id }), replace: true, resetScroll: false });

  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const decidable = tasks.filter(isDecidable);
  const several = tasks.filter((one) => chosen.has(one.id));
  const [isDeciding, setDeciding] = useState(false);
  const isSeveral = isDeciding || several.length > 0;

  const keys = useRef<(key: string) => boolean>(() => false);
  keys.current = (key) => {
    if (key === 'j' || key === 'ArrowDown') open(tasks[Math.min(tasks.length - 1, index + 1)]?.id);
    else if (key === 'k' || key === 'ArrowUp') open(tasks[Math.max(0, index - 1)]?.id);
    else if (key === 'x' && tasks[index] && isDecidable(tasks[index])) toggle(tasks[index].id);
    else if (key === 'Escape' && isSeveral) leave();
    else if (key === 'Escape' && selected) open(undefined);
    else return false;
    return true;
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open]')) return;
      if (keys.current(event.key)) event.preventDefault();
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, []);

  const leave = () => {
    setDeciding(false);
    setChosen(new Set());
  };

  /** After a decision the next one is up. */
  const decided = (id: string) => {
    const at = tasks.findIndex((one) => one.id === id);
    if (window.matchMedia('(max-width: 760px)').matches) return;
    const next = tasks[at + 1] ?? tasks[at - 1];
    if (next) open(next.id);
  };

  return (
    <div className={`inbox${selected || isDeciding ? ' has-task' : ''}`}>
      <section className="inbox-list" aria-label="Tasks">
        <Heading title="Inbox">
          <div className="segments" role="group" aria-label="State">
            {STATES.map(([name, label]) => (
              <button key={name} type="button" aria-pressed={state === name} onClick={() => void navigate({ search: { state: name === 'OPEN' ? undefined : name } })}>
                {label}
              </button>
            ))}
          </div>
        </Heading>
        {list.isPending ? (
          <Loading />
        ) : list.isError ? (
          <Failed error={list.error} retry={() => void list.refetch()} />
        ) : tasks.length === 0 ? (
          <Nothing isOpen={state === 'OPEN'} />
        ) : (
          <>
            {(decidable.length > 0 || held > 0) && (
              <div className="row choose">
                {decidable.length > 0 && (
                  <label className="choice">
                    <input type="checkbox" checked={several.length === decidable.length} ref={(box) => { if (box) box.indeterminate = several.length > 0 && several.length < decidable.length; }} onChange={(event) => setChosen(new Set(event.target.checked ? decidable.map((one) => one.id) : []))} /> {several.length === 0 ? `choose ${list.hasNextPage ? `the ${decidable.length} approvals read so far` : 'all approvals'}` : `${several.length} of ${decidable.length} approvals`}
                  </label>
                )}
                <span className="spring" />
                {held > 0 && (
                  <button type="button" className="link" onClick={() => setShownTo(newest)}>
                    {held} new
                  </button>
                )}
                {several.length > 0 && (
                  <button type="button" className="narrow-only" onClick={() => setDeciding(true)}>
                    Decide…
                  </button>
                )}
              </div>
            )}
            <Tasks key={state} tasks={tasks} selected={selected} chosen={chosen} toggle={toggle} more={list.hasNextPage} busy={list.isFetchingNextPage} fetchMore={() => void list.fetchNextPage()} />
          </>
        )}
        {(list.data?.pages.length ?? 0) > MOST_LIVE_PAGES && <p className="muted center">This far down the list stands still; load the page again for the newest.</p>}
        {tasks.length > 0 && (
          <p className="keys muted small">
            <kbd>j</kbd> <kbd>k</kbd> move · <kbd>a</kbd> approve · <kbd>r</kbd> reject · <kbd>Enter</kbd> confirm{decidable.length > 0 && <> · <kbd>x</kbd> choose</>}
          </p>
        )}
      </section>
      <section className="inbox-task" aria-label="Task">
        {(selected || isDeciding) && <h1 className="narrow-only visually-hidden">Inbox</h1>}
        {isSeveral ? (
          <>
            <button type="button" className="back" onClick={() => setDeciding(false)}>
              ‹ All tasks
            </button>
            <Bulk tasks={several} begin={() => setDeciding(true)} leave={leave} />
          </>
        ) : selected ? (
          <>
            <button type="button" className="back" onClick={() => open(undefined)}>
              ‹ All tasks
            </button>
            <TaskDetail key={selected} id={selected} decided={() => decided(selected)} />
          </>
        ) : (
          tasks.length > 0 && <Empty title="Choose a task">or press j</Empty>
        )}
      </section>
    </div>
  );
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

function Nothing({ isOpen }: { isOpen: boolean }) {
  const me = useMe();
  if (!isOpen) return <Empty title="None" />;
  return (
    <Empty title="Nothing waits for you">
      {me && me.groups.length === 0 ? `${me.principal} is in no group, so only tasks that name ${me.principal} come here.` : me && `You see what is for ${me.groups.includes('*') ? 'any group' : me.groups.join(', ')}.`}
    </Empty>
  );
}

/** An approval has a line more, for its inputs. */
const heightOf = (task: HumanTask | undefined) => (task?.approval ? 86 : 64);

/** Any number of tasks: only those in sight are in the page. */
function Tasks({ tasks, selected, chosen, toggle, more, busy, fetchMore }: { tasks: HumanTask[]; selected?: string; chosen: ReadonlySet<string>; toggle: (id: string) => void; more: boolean; busy: boolean; fetchMore: () => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: tasks.length, getScrollElement: () => scroller.current, estimateSize: (index) => heightOf(tasks[index]), overscan: 8, getItemKey: (index) => tasks[index]?.id ?? index });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && !busy && last >= tasks.length - 20) fetchMore();
  }, [last, more, busy, tasks.length, fetchMore]);
  // What is looked at comes into sight when it changes, not whenever the list around it does.
  const index = tasks.findIndex((one) => one.id === selected);
  const isThere = index >= 0;
  const at = useRef(index);
  at.current = index;
  useEffect(() => {
    if (isThere) virtual.scrollToIndex(at.current, { align: 'auto' });
  }, [selected, isThere, virtual]);
  return (
    <>
      <div className="tasks" ref={scroller}>
        <ul style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index: place, key, start, size }) => {
            const one = tasks[place];
            if (!one) return null;
            return <Item key={key} task={one} place={place + 1} of={more ? -1 : tasks.length} start={start} height={size} isSelected={one.id === selected} isChosen={chosen.has(one.id)} choose={isDecidable(one) ? () => toggle(one.id) : undefined} />;
          })}
        </ul>
      </div>
      {busy && <p className="muted center">Reading on…</p>}
    </>
  );
}

function Item({ task, place, of, start, height, isSelected, isChosen, choose }: { task: HumanTask; place: number; of: number; start: number; height: number; isSelected: boolean; isChosen: boolean; choose?: () => void }) {
  const approval = task.approval;
  return (
    <li className={choose ? 'with-choice' : undefined} aria-posinset={place} aria-setsize={of} style={{ height, transform: `translateY(${start}px)` }}>
      {choose && <input type="checkbox" className="item-choice" checked={isChosen} onChange={choose} aria-label={`Choose ${title(task)} of ${task.instanceKey}`} />}
      <Link to="/inbox" search={{ task: task.id, state: task.state === 'OPEN' ? undefined : task.state }} replace resetScroll={false} className={`task-item${isSelected ? ' chosen' : ''}`} aria-current={isSelected ? 'true' : undefined}>
        <span className="row">
          <strong className="cut">{title(task)}</strong>
          <span className="spring" />
          <Time at={task.endedAt ?? task.createdAt} />
        </span>
        <span className="row muted small">
          <span className="cut">
            {approval ? `${modelWords(approval.model, approval.usedModel, 'an agent')} asks` : task.process} · {task.instanceKey}
          </span>
          <span className="spring" />
          {task.state === 'OPEN' ? task.dueAt && <span>due <Time at={task.dueAt} /></span> : <Badge word={task.outcome ?? task.state} />}
        </span>
        {approval && <span className="cut muted small mono">{brief(approval.arguments)}</span>}
      </Link>
    </li>
  );
}

export function title(task: HumanTask): string {
  if (!task.approval) return task.title;
  return task.approval.kind === 'DELEGATION' ? `Start ${target(task.approval.toolRef)}?` : `Call ${task.approval.toolRef}?`;
}

/** The inputs on one line. */
export function brief(inputs: unknown): string {
  if (inputs === null || typeof inputs !== 'object') return String(inputs);
  return Object.entries(inputs)
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : String(value)}`)
    .join(' · ');
}
