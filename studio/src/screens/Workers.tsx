// Who works on what, and what nobody works on.
import { useQuery } from '@tanstack/react-query';
import { workers } from '../api/queries';
import { Badge, Empty, Failed, Heading, Loading } from '../ui/parts';
import { Time } from '../ui/time';

export function WorkersScreen() {
  const query = useQuery(workers);
  if (query.isPending) return <Loading rows={6} />;
  if (query.isError && !query.data) return <Failed error={query.error} retry={() => void query.refetch()} />;
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
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Topic</th>
                <th scope="col" className="right">Live workers</th>
                <th scope="col" className="right">Open</th>
                <th scope="col" className="right">Leased</th>
                <th scope="col" className="right">Parked</th>
                <th scope="col">Oldest open</th>
              </tr>
            </thead>
            <tbody>
              {topics.map((one) => (
                <tr key={one.topic}>
                  <th scope="row">
                    <code>{one.topic}</code> {unservedTopics.includes(one.topic) && <Badge word="unserved" tone="red" />}
                  </th>
                  <td className="right num">{one.workers}</td>
                  <td className="right num">{one.open}</td>
                  <td className="right num">{one.locked}</td>
                  <td className="right num">{one.parked}</td>
                  <td>{one.oldestOpenAt ? <Time at={one.oldestOpenAt} /> : <span className="muted">none</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <h2>Workers</h2>
      {list.length === 0 ? (
        <Empty title="No worker has come yet" />
      ) : (
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">Key of</th>
                <th scope="col">Topics</th>
                <th scope="col" className="right">Leases</th>
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
                  <td className="right num">{one.leases}</td>
                  <td>
                    <Time at={one.lastSeenAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
