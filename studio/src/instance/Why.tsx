// The sentence at the top: why it waits, and the link to what would move it.
import { Link } from '@tanstack/react-router';
import type { Explanation, Instance } from '../api/types';
import { Time, Took } from '../ui/time';

type Waiting = Explanation['waits'][number];

const WORDS: Record<string, string> = { APPROVAL: 'waits for an approval', HUMAN: 'waits for a person', WORKER: 'waits for a worker', CHILD: 'waits for a child process', TIMER: 'waits for a timer', JOIN: 'waits for other branches', INCIDENT: 'is held by an incident' };

export function Why({ instance, explanation }: { instance: Instance; explanation?: Explanation }) {
  if (instance.endedAt) return <p className="why">{ended(instance)}</p>;
  const waits = explanation?.waits ?? [];
  if (waits.length === 0) return <p className="why">{explanation ? 'It moves by itself.' : '\u00a0'}</p>;
  return (
    <ul className="why">
      {waits.map((wait) => (
        <li key={`${wait.nodeId}${wait.id ?? wait.kind}`}>
          <strong>{wait.nodeId}</strong> {sentence(wait)}
          {wait.since && (
            <>
              {' '}
              (for <Took from={wait.since} />)
            </>
          )}
          {wait.until && (
            <>
              {' '}
              and ends by itself <Time at={wait.until} />
            </>
          )}
          . <Next wait={wait} instance={instance.id} />
        </li>
      ))}
    </ul>
  );
}

/** The engine's words without the command line's hints and the time, which is shown live. */
export function sentence(wait: Waiting): string {
  const held = wait.kind === 'INCIDENT' && /\([A-Z_]+: (.*)\)/s.exec(wait.text)?.[1];
  if (held) return `is held by an incident: ${held}`;
  const text = (wait.text.split('; ')[0] ?? '').replace(/ (for )?\d+(ms|s|m|h|d)( \d+(ms|s|m|h))*(?= |$)/, '').trim();
  return text === '' ? (WORDS[wait.kind] ?? 'waits') : text;
}

function Next({ wait, instance }: { wait: Waiting; instance: string }) {
  if ((wait.kind === 'APPROVAL' || wait.kind === 'HUMAN') && wait.id) return <Link to="/inbox" search={{ task: wait.id }}>Look at it</Link>;
  if (wait.kind === 'CHILD' && wait.id) return <Link to="/instances/$id" params={{ id: wait.id }}>Go to the child</Link>;
  if (wait.kind === 'INCIDENT') return <Link to="/instances/$id" params={{ id: instance }} search={{ tab: 'incidents' }}>See the incident</Link>;
  if (wait.kind === 'WORKER') return <Link to="/workers">Who works?</Link>;
  return null;
}

function ended(instance: Instance) {
  const error = instance.error;
  const took = (
    <>
      {' '}
      <Time at={instance.endedAt} />, after <Took from={instance.startedAt} to={instance.endedAt} />
    </>
  );
  if (instance.status === 'COMPLETED') return <>Completed{took}. Nothing moves it any more.</>;
  const what = error ? `: ${error.message && error.message !== error.code ? error.message : error.code}${error.nodeId ? ` at ${error.nodeId}` : ''}` : '';
  return (
    <>
      {instance.status === 'FAILED' ? 'Failed' : 'Cancelled'}
      {what}{took}.
    </>
  );
}
