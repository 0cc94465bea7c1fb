// What can be started.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import * as queries from '../api/queries';
import { useMay } from '../session/me';
import { Empty, Failed, Heading, Loading } from '../ui/parts';
import { Time } from '../ui/time';

export function ProcessesScreen() {
  const query = useQuery(queries.processes);
  const mayStart = useMay('start');
  return (
    <>
      <Heading title="Processes" />
      {query.isPending ? (
        <Loading />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : query.data.length === 0 ? (
        <Empty title="Nothing is deployed yet">
          <code>legation deploy .</code> deploys a project; <code>legation dev</code> does on every save.
        </Empty>
      ) : (
        <ul className="cards">
          {query.data.map((one) => (
            <li key={one.key} className="card">
              <div className="row">
                <h2>
                  <Link to="/processes/$key" params={{ key: one.key }}>
                    {one.name ?? one.key}
                  </Link>
                </h2>
                <span className="spring" />
                <span className="muted">v{one.version}</span>
              </div>
              <p className="muted small">
                <code>{one.key}</code> · deployed <Time at={one.deployedAt} />
              </p>
              {one.description && <p>{one.description}</p>}
              <div className="row">
                <Link to="/instances" search={{ process: one.key }}>
                  Instances
                </Link>
                {mayStart && (
                  <Link to="/processes/$key" params={{ key: one.key }} search={{ tab: 'start' }}>
                    Start…
                  </Link>
                )}
              </div>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
