// Several approvals decided together: what each asks stays in sight, and what became of each.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { Refusal } from '../api/client';
import type { HumanTask } from '../api/types';
import { Badge, InstanceLink } from '../ui/parts';
import { decideAll, isDecidable, type Outcome, type Result } from './bulk';
import { brief, title } from './Inbox';

export function Bulk({ tasks, begin, leave }: { tasks: HumanTask[]; begin: () => void; leave: () => void }) {
  const client = useQueryClient();
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [comment, setComment] = useState('');
  const [results, setResults] = useState<Map<string, Result>>(new Map());
  // The list behind changes as decisions come in; what was chosen stays as it was shown.
  const [kept, setKept] = useState<HumanTask[] | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const shown = kept ?? tasks.filter(isDecidable);
  const decide = useMutation({
    mutationFn: (which: HumanTask[]) => decideAll(which, outcome ?? 'rejected', comment, (id, result) => setResults((before) => new Map(before).set(id, result))),
    onSettled: () => {
      void client.invalidateQueries({ queryKey: ['tasks'] });
      void client.invalidateQueries({ queryKey: ['instance'] });
    },
  });
  useEffect(() => box.current?.focus(), [outcome]);
  const refused = shown.filter((one) => results.get(one.id)?.state === 'refused');
  const needsComment = outcome === 'rejected';
  const lacks = needsComment && comment.trim() === '';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!outcome || lacks) return;
    const which = decide.data ? refused : shown;
    setKept(shown);
    begin();
    decide.mutate(which);
  };
  const word = (count: number) => (count === 1 ? '1 approval' : `${count} approvals`);
  return (
    <article className="task" aria-label="Several approvals">
      <h2>{word(shown.length)}</h2>
      <ul className="bulk" aria-label="Chosen approvals">
        {shown.map((one) => (
          <li key={one.id}>
            <div className="row">
              <strong className="cut">{title(one)}</strong>
              <InstanceLink id={one.instanceId}>{one.instanceKey}</InstanceLink>
              <span className="spring" />
              <Came result={results.get(one.id)} outcome={outcome} />
            </div>
            <p className="mono small">{brief(one.approval?.arguments)}</p>
            <Why result={results.get(one.id)} />
          </li>
        ))}
      </ul>
      {decide.data && (
        <p className={decide.data.refused > 0 ? 'refused' : 'good'} role="status">
          {decide.data.done > 0 && `${word(decide.data.done)} ${outcome}. `}
          {decide.data.refused > 0 && `${decide.data.refused === 1 ? '1 was' : `${decide.data.refused} were`} refused; the reason stands with each.`}
        </p>
      )}
      {decide.data && refused.length === 0 ? (
        <div className="row">
          <button type="button" className="primary" onClick={() => leave()}>
            Back to the list
          </button>
        </div>
      ) : (
        <form className="decide stack" onSubmit={submit}>
          {!decide.data && (
            <div className="row wrap">
              <button type="button" className={outcome === 'approved' ? 'good-button' : ''} aria-pressed={outcome === 'approved'} disabled={decide.isPending} onClick={() => setOutcome('approved')}>
                Approve all…
              </button>
              <button type="button" className={outcome === 'rejected' ? 'danger' : ''} aria-pressed={outcome === 'rejected'} disabled={decide.isPending} onClick={() => setOutcome('rejected')}>
                Reject all…
              </button>
              <span className="spring" />
              <button type="button" className="quiet" disabled={decide.isPending} onClick={() => leave()}>
                Choose none
              </button>
            </div>
          )}
          {outcome && (
            <>
              <label>
                {needsComment ? 'Why not? Every model that asked reads this.' : 'One comment for all (optional). Every model that asked reads this.'}
                <textarea ref={box} rows={2} value={comment} required={needsComment} onChange={(event) => setComment(event.target.value)} />
              </label>
              <p className="muted small">Each is decided by itself, for exactly the inputs above. What changed meanwhile is refused.</p>
              <div className="row">
                <button type="submit" className={outcome === 'approved' ? 'good-button' : 'danger'} disabled={decide.isPending || lacks || shown.length === 0}>
                  {decide.isPending ? `${results.size} of ${shown.length}…` : decide.data ? `Try ${word(refused.length)} again` : `${outcome === 'approved' ? 'Approve' : 'Reject'} these ${shown.length}`}
                </button>
                {decide.data && (
                  <button type="button" className="quiet" onClick={() => leave()}>
                    Back to the list
                  </button>
                )}
              </div>
            </>
          )}
        </form>
      )}
    </article>
  );
}

function Came({ result, outcome }: { result?: Result; outcome: Outcome | null }) {
  if (!result) return null;
  if (result.state === 'sent') return <span className="muted small">sending…</span>;
  if (result.state === 'done') return <Badge word={outcome ?? 'COMPLETED'} />;
  return <Badge word="refused" tone="red" />;
}

function Why({ result }: { result?: Result }) {
  if (result?.state !== 'refused') return null;
  const { error } = result;
  return (
    <p className="help bad">
      {error instanceof Error ? error.message : String(error)} {error instanceof Refusal && <span className="code">{error.code}</span>}
    </p>
  );
}
