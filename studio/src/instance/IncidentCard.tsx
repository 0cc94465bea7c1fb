// One incident: what happened, what to do, and what came of doing it.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { post } from '../api/client';
import type { Incident, IncidentAnswer } from '../api/types';
import { useMay } from '../session/me';
import { Badge, Dialog, InstanceLink, Refused } from '../ui/parts';
import { Time } from '../ui/time';

export function IncidentCard({ incident, withInstance = false, came }: { incident: Incident; withInstance?: boolean; came?: string }) {
  const mayOperate = useMay('operate');
  const client = useQueryClient();
  const [resolving, setResolving] = useState(false);
  const settle = () => client.invalidateQueries();
  const retry = useMutation({ mutationFn: () => post<IncidentAnswer>(`/v1/incidents/${encodeURIComponent(incident.id)}/retry`), onSettled: settle });
  const isOpen = incident.state === 'OPEN';
  const isUnknown = incident.code === 'OUTCOME_UNKNOWN';
  return (
    <article className={`card incident ${isOpen ? '' : 'past'}`}>
      <div className="row">
        <Badge word={isOpen ? incident.kind : 'RESOLVED'} />
        <span className="code">{incident.code}</span>
        {incident.nodeId && <span>at {incident.nodeId}</span>}
        {withInstance && (
          <span>
            in <InstanceLink id={incident.instanceId}>{incident.process}</InstanceLink>
          </span>
        )}
        <span className="spring" />
        <Time at={incident.createdAt} />
      </div>
      <p>{incident.message}</p>
      {isOpen && incident.hint && <p className="muted">{incident.hint}</p>}
      {!isOpen && (
        <p className="muted">
          closed {incident.resolvedBy ? `by ${incident.resolvedBy}` : 'by the engine'} <Time at={incident.resolvedAt} />
          {came && <>. {came}</>}
        </p>
      )}
      {isOpen && mayOperate && (
        <div className="row">
          {isUnknown ? (
            <button type="button" className="primary" onClick={() => setResolving(true)}>
              Say what happened
            </button>
          ) : (
            <button type="button" className="primary" onClick={() => retry.mutate()} disabled={retry.isPending}>
              {retry.isPending ? 'Trying…' : incident.kind === 'NOTICE' ? 'Close' : 'Retry'}
            </button>
          )}
        </div>
      )}
      <Refused error={retry.error} />
      {retry.data && <Came answer={retry.data} />}
      <Dialog open={resolving} onClose={() => setResolving(false)} title="What became of the write?">
        <Resolve incident={incident} done={() => { setResolving(false); void settle(); }} />
      </Dialog>
    </article>
  );
}

function Came({ answer }: { answer: IncidentAnswer }) {
  const again = answer.newIncidents ?? [];
  return (
    <p role="status" className={again.length > 0 ? 'refused' : 'good'}>
      {again.length > 0
        ? `Tried again, and it led to ${again.map((one) => one.code).join(', ')}: ${again[0]?.message ?? ''}`
        : `Done: the instance is ${answer.status.toLowerCase()}${answer.taskState ? `, the task ${answer.taskState.replaceAll('_', ' ').toLowerCase()}` : ''}.`}
    </p>
  );
}

function Resolve({ incident, done }: { incident: Incident; done: () => void }) {
  const [outcome, setOutcome] = useState<'performed' | 'not_performed'>('performed');
  const [result, setResult] = useState('');
  const [comment, setComment] = useState('');
  const resolve = useMutation({
    mutationFn: () => {
      const given = outcome === 'performed' && result.trim() !== '' ? { result: JSON.parse(result) as unknown } : {};
      return post<IncidentAnswer>(`/v1/incidents/${encodeURIComponent(incident.id)}/resolve`, { outcome, comment, ...given });
    },
    onSuccess: done,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    resolve.mutate();
  };
  return (
    <form onSubmit={submit} className="stack">
      <fieldset>
        <legend>Look where it would have been written</legend>
        <label className="choice">
          <input type="radio" checked={outcome === 'performed'} onChange={() => setOutcome('performed')} /> It happened
        </label>
        <label className="choice">
          <input type="radio" checked={outcome === 'not_performed'} onChange={() => setOutcome('not_performed')} /> It did not happen, and may be done now
        </label>
      </fieldset>
      {outcome === 'performed' && (
        <label>
          Its result, as JSON
          <textarea rows={3} value={result} onChange={(event) => setResult(event.target.value)} placeholder='{"payout_id": "P-1"}' />
        </label>
      )}
      <label>
        How you know
        <textarea rows={2} required value={comment} onChange={(event) => setComment(event.target.value)} />
      </label>
      <Refused error={resolve.error} />
      <div className="row end">
        <button type="submit" className="primary" disabled={resolve.isPending || comment.trim() === ''}>
          Resolve
        </button>
      </div>
    </form>
  );
}
