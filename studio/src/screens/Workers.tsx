// Who works on what, and what nobody works on.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { topicTasks, workers } from '../api/queries';
import type { ExternalTask, Workers } from '../api/types';
import { Badge, Empty, Failed, Heading, InstanceLink, Loading, Scroll } from '../ui/parts';
import { Time, Took } from '../ui/time';
import { amount } from './counts';

export function WorkersScreen() {
  const query = useQuery(workers);
  if (query.isPending) return <Loading rows={6} />;
  if (query.isError && !query.data)
    return (
      <>
        <Heading title="Workers" />
        <Failed error={query.error} retry={() => void query.refetch()} />
      </>
    );
  const { workers: list, topics, unservedTopics } = query.data;
  return (
    <>
      <Heading title="Workers" />
      {unservedTopics.length > 0 && (
        <p className="banner bad" role="status">
          Work waits and nobody takes it: <strong>{unservedTopics.join(', ')}</strong>. Start a worker for {unservedTopics.length === 1 ? 'this topic' : 'these topics'}.
        </p>
      )}
      <h2>Topics</h2>
      {topics.length === 0 ? (
        <Empty title="No topics yet">A topic appears with its first task or worker.</Empty>
      ) : (
        <Scroll label="Topics">
          <table>
            <thead>
              <tr>
                <th scope="col">Topic</th>
                <th scope="col" className="right">Live workers</th>
                <th scope="col" className="right">Waiting</th>
                <th scope="col" className="right">Leased</th>
                <th scope="col" className="right">Parked</th>
                <th scope="col">Oldest waits</th>
                <th scope="col" className="right">Done in 5 min</th>
                <th scope="col" className="right">Done in 1 h</th>
              </tr>
            </thead>
            <tbody>
              {topics.map((one) => (
                <Topic key={one.topic} topic={one} isUnserved={unservedTopics.includes(one.topic)} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {query.data.completedSince && (
        <p className="muted small">
          Completed work is counted by the engine that answers, since <Time at={query.data.completedSince} />.
        </p>
      )}
      <h2>Workers</h2>
      {list.length === 0 ? (
        <Empty title="No worker has come yet" />
      ) : (
        <Scroll label="Workers">
          <table>
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">Key of</th>
                <th scope="col">Topics</th>
                <th scope="col" className="right">Leases held</th>
                <th scope="col" className="right">Done in 1 h</th>
                <th scope="col">Last seen</th>
              </tr>
            </thead>
            <tbody>
              {list.map((one) => (
                <tr key={`${one.principal}/${one.workerId}`}>
                  <th scope="row">
                    {one.workerId} <Badge word={one.live ? 'live' : 'silent'} tone={one.live ? 'green' : 'grey'} />
                  </th>
                  <td>{one.principal}</td>
                  <td>
                    <code>{one.topics.join(', ')}</code>
                  </td>
                  <td className="right num">{amount(one.leases)}</td>
                  <td className="right num">{amount(one.completedLastHour ?? 0)}</td>
                  <td>
                    <Time at={one.lastSeenAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}

function Topic({ topic, isUnserved }: { topic: Workers['topics'][number]; isUnserved: boolean }) {
  const [open, setOpen] = useState(false);
  const work = topic.open + topic.locked + topic.parked;
  return (
    <>
      <tr>
        <th scope="row">
          {work > 0 ? (
            <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
              <code>{topic.topic}</code>
            </button>
          ) : (
            <code>{topic.topic}</code>
          )}{' '}
          {isUnserved && <Badge word="unserved" tone="red" />}
        </th>
        <td className={`right num${isUnserved ? ' bad' : ''}`}>{amount(topic.workers)}</td>
        <td className="right num">{amount(topic.open)}</td>
        <td className="right num">{amount(topic.locked)}</td>
        <td className="right num">{amount(topic.parked)}</td>
        <td>
          {topic.oldestOpenAt ? (
            <span title={new Date(topic.oldestOpenAt).toString()}>
              for <Took from={topic.oldestOpenAt} />
            </span>
          ) : (
            <span className="muted">none waits</span>
          )}
        </td>
        <td className="right num">{amount(topic.completedLast5Min ?? 0)}</td>
        <td className="right num">{amount(topic.completedLastHour ?? 0)}</td>
      </tr>
      {open && (
        <tr className="before">
          <td colSpan={8}>
            <Work topic={topic.topic} />
          </td>
        </tr>
      )}
    </>
  );
}

/** Who holds what of a topic, and what waits. */
function Work({ topic }: { topic: string }) {
  const query = useQuery({ ...topicTasks(topic), refetchInterval: 5_000 });
  if (query.isPending) return <Loading rows={2} />;
  if (query.isError) return <Failed error={query.error} retry={() => void query.refetch()} />;
  if (query.data.tasks.length === 0) return <p className="muted">No open task any more.</p>;
  return (
    <>
      <ul className="work" aria-label={`Open tasks of ${topic}`}>
        {query.data.tasks.map((task) => (
          <li key={task.id} className="row wrap">
            <InstanceLink id={task.instanceId}>{task.nodeId}</InstanceLink>
            <Badge word={task.state} tone={task.state === 'LOCKED' ? 'blue' : task.state === 'INCIDENT' ? 'red' : undefined} />
            <span className="muted">{holder(task)}</span>
            <span className="spring" />
            <Time at={task.createdAt} />
          </li>
        ))}
      </ul>
      {query.data.next && <p className="muted small">The newest {query.data.tasks.length} are shown.</p>}
    </>
  );
}

function holder(task: ExternalTask) {
  if (task.workerId && task.lockedUntil) {
    return (
      <>
        held by {task.workerId}, for <Took from={new Date().toISOString()} to={task.lockedUntil} /> more
      </>
    );
  }
  return task.attempt > 1 ? `attempt ${task.attempt}` : '';
}
