// One task of a person: what is asked by whom, with exactly what, and the answer.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react';
import { post } from '../api/client';
import * as queries from '../api/queries';
import type { HumanTask } from '../api/types';
import { Journal } from '../instance/Journal';
import { modelWords, tokens } from '../instance/journal';
import { useMay, useMe } from '../session/me';
import { Badge, Failed, Fields, InstanceLink, Loading, Refused, Short, target, Value } from '../ui/parts';
import { Time } from '../ui/time';
import { isTyping, title } from './Inbox';

// Approvals need no form, so forms load with the first task that has one.
const Complete = lazy(() => import('./InboxForm'));

export function TaskDetail({ id, decided }: { id: string; decided: () => void }) {
  const task = useQuery(queries.task(id));
  if (task.isPending) return <Loading rows={6} />;
  if (task.isError) return <Failed error={task.error} retry={() => void task.refetch()} />;
  return <Detail task={task.data} decided={decided} />;
}

function Detail({ task, decided }: { task: HumanTask; decided: () => void }) {
  const approval = task.approval;
  const groups = [...(task.candidates?.groups ?? []), ...(task.candidates?.users ?? [])];
  return (
    <article className="task" aria-label={title(task)}>
      <h2>{title(task)}</h2>
      {task.description && <p>{task.description}</p>}
      {approval && (
        <p>
          <strong>{modelWords(approval.model, approval.usedModel, 'A worker')}</strong> wants to {approval.kind === 'DELEGATION' ? 'start the process' : 'call'} <strong>{target(approval.toolRef)}</strong>
          {approval.version ? ` v${approval.version}` : ''} at <em>{approval.nodeId}</em>. Nothing runs before somebody decides.
        </p>
      )}
      <Fields
        of={[
          ['Instance', <InstanceLink key="i" id={task.instanceId}>{task.process} {task.instanceKey}</InstanceLink>],
          ['For', groups.join(', ') || task.assignee],
          ['Asked', <Time key="t" at={task.createdAt} />],
          ['Due', task.dueAt && <Time at={task.dueAt} />],
          ['Expires', task.expiresAt && <Time at={task.expiresAt} />],
          ['Policy', approval && (approval.policy ? <Badge word={approval.policy} tone="amber" /> : 'the process asks for approval of this delegation')],
          ['Prompt', approval?.promptVersion && <Short text={approval.promptVersion} />],
        ]}
      />
      {approval ? (
        <section className="inputs" aria-label="Exact inputs">
          <h3>Exact inputs</h3>
          <Value value={approval.arguments} label="Exact inputs" />
          <p className="muted small">
            Digest <Short text={approval.digest} length={16} /> covers the target, its version and these inputs. Your decision counts for this digest and no other.
          </p>
        </section>
      ) : (
        Object.keys(task.variables ?? {}).length > 0 && (
          <section className="inputs" aria-label="What it is about">
            <h3>What it is about</h3>
            <dl className="facts">
              {Object.entries(task.variables ?? {}).map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>
                    <Value value={value} label={name} />
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        )
      )}
      {task.state === 'OPEN' ? approval ? <Decide task={task} digest={approval.digest} decided={decided} /> : <Suspense fallback={<Loading rows={3} />}><Complete task={task} decided={decided} /></Suspense> : <Past task={task} />}
      {approval && <SoFar task={task} />}
    </article>
  );
}

function Past({ task }: { task: HumanTask }) {
  return (
    <p className="card">
      <Badge word={task.outcome ?? task.state} /> {task.decidedBy && <>by <strong>{task.decidedBy}</strong></>} <Time at={task.endedAt} />
      {task.comment && <q>{task.comment}</q>}
    </p>
  );
}

/** What led to the question: the journal of the task that asks. */
function SoFar({ task }: { task: HumanTask }) {
  const mayRead = useMay('read');
  const [open, setOpen] = useState(false);
  const journal = useQuery({ ...queries.journal(task.instanceId), enabled: mayRead });
  const people = useQuery({ ...queries.instanceTasks(task.instanceId), enabled: mayRead && open }).data ?? [];
  const mine = useMemo(() => (journal.data?.tasks ?? []).filter((one) => one.task.id === task.approval?.taskId), [journal.data, task.approval?.taskId]);
  if (!mayRead || mine.length === 0) return null;
  const used = tokens(mine);
  const steps = mine.reduce((sum, one) => sum + one.steps.length, 0);
  return (
    <details className="so-far" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        What led to this: {steps} steps, {(used.input + used.output).toLocaleString('en')} tokens so far
      </summary>
      {open && <Journal tasks={mine} people={people} />}
    </details>
  );
}

export function useDecided(task: HumanTask, decided: () => void) {
  const client = useQueryClient();
  return () => {
    decided();
    void client.invalidateQueries({ queryKey: ['tasks'] });
    void client.invalidateQueries({ queryKey: ['instance', task.instanceId] });
  };
}

/** Only a person of the right group decides; others may look. */
export function useIsFor(task: HumanTask): boolean {
  const me = useMe();
  if (!me || me.kind === 'WORKER') return false;
  const groups = task.candidates?.groups ?? [];
  const users = task.candidates?.users ?? [];
  const isOpenToAll = groups.length === 0 && users.length === 0 && !task.assignee;
  return isOpenToAll || users.includes(me.principal) || task.assignee === me.principal || groups.some((group) => me.groups.includes(group) || me.groups.includes('*'));
}

export function NotYours({ task }: { task: HumanTask }) {
  const me = useMe();
  return (
    <p className="banner">
      {me?.principal} may look, but not decide: it is for {[...(task.candidates?.groups ?? []), ...(task.candidates?.users ?? [])].join(', ')}.
    </p>
  );
}

function Decide({ task, digest, decided }: { task: HumanTask; digest: string; decided: () => void }) {
  const [choice, setChoice] = useState<'approved' | 'rejected' | null>(null);
  const [comment, setComment] = useState('');
  const box = useRef<HTMLTextAreaElement>(null);
  const confirm = useRef<HTMLButtonElement>(null);
  const isMine = useIsFor(task);
  const after = useDecided(task, decided);
  const decide = useMutation({
    mutationFn: (outcome: string) => post(`/v1/tasks/${encodeURIComponent(task.id)}/decision`, { outcome, digest, comment: comment.trim() || undefined }),
    onSuccess: after,
  });
  const choose = (next: 'approved' | 'rejected') => {
    setChoice(next);
    decide.reset();
  };
  useEffect(() => {
    if (choice === 'rejected') box.current?.focus();
    if (choice === 'approved') confirm.current?.focus();
  }, [choice]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !isMine || document.querySelector('dialog[open]')) return;
      if (event.key === 'a') choose('approved');
      else if (event.key === 'r') choose('rejected');
      else return;
      event.preventDefault();
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  });
  if (!isMine) return <NotYours task={task} />;
  const needsComment = choice === 'rejected';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (choice && !(needsComment && comment.trim() === '')) decide.mutate(choice);
  };
  return (
    <form onSubmit={submit} className="decide stack">
      <div className="row">
        <button type="button" className={choice === 'approved' ? 'good-button' : ''} aria-pressed={choice === 'approved'} onClick={() => choose('approved')}>
          Approve <kbd>a</kbd>
        </button>
        <button type="button" className={choice === 'rejected' ? 'danger' : ''} aria-pressed={choice === 'rejected'} onClick={() => choose('rejected')}>
          Reject <kbd>r</kbd>
        </button>
      </div>
      {choice && (
        <>
          <label>
            {needsComment ? 'Why not? The model reads this.' : 'Comment (optional). The model reads this.'}
            <textarea
              ref={box}
              rows={2}
              value={comment}
              required={needsComment}
              onChange={(event) => setComment(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Escape') setChoice(null);
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
              }}
            />
          </label>
          <div className="row">
            <button ref={confirm} type="submit" className={choice === 'approved' ? 'good-button' : 'danger'} disabled={decide.isPending || (needsComment && comment.trim() === '')}>
              {choice === 'approved' ? 'Approve exactly this' : 'Reject'} <kbd>{needsComment ? 'Ctrl Enter' : 'Enter'}</kbd>
            </button>
            <button type="button" className="quiet" onClick={() => setChoice(null)}>
              Not now
            </button>
          </div>
        </>
      )}
      <Refused error={decide.error} />
    </form>
  );
}
