// Everything that stopped and waits for somebody, of all instances.
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import * as queries from '../api/queries';
import { IncidentCard } from '../instance/IncidentCard';
import { incidentsRoute } from '../router';
import { Empty, Failed, Heading, Loading } from '../ui/parts';

export function IncidentsScreen() {
  const { state = 'OPEN' } = incidentsRoute.useSearch();
  const navigate = useNavigate({ from: '/incidents' });
  const query = useInfiniteQuery(queries.incidents(state));
  const rows = query.data?.pages.flatMap((page) => page.incidents) ?? [];
  return (
    <>
      <Heading title="Incidents">
        <div className="segments" role="group" aria-label="State">
          {(['OPEN', 'RESOLVED'] as const).map((one) => (
            <button key={one} type="button" aria-pressed={state === one} onClick={() => void navigate({ search: { state: one === 'OPEN' ? undefined : one } })}>
              {one === 'OPEN' ? 'Open' : 'Resolved'}
            </button>
          ))}
        </div>
      </Heading>
      {query.isPending ? (
        <Loading />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty title={state === 'OPEN' ? 'Nothing needs mending' : 'Nothing has been resolved yet'} />
      ) : (
        <div className="stack">
          {rows.map((one) => (
            <IncidentCard key={one.id} incident={one} withInstance />
          ))}
          {query.hasNextPage && (
            <button type="button" onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
              Show more
            </button>
          )}
        </div>
      )}
    </>
  );
}
