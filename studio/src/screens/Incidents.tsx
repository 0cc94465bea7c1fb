// Everything that stopped and waits for somebody, of all instances, and what came of what was closed. The filter and
// the incident that is looked at stand in the URL.
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect, useMemo } from 'react';
import { MOST_LIVE_PAGES } from '../api/feed';
import * as queries from '../api/queries';
import type { Incident } from '../api/types';
import { cameOf } from '../instance/came';
import { IncidentCard } from '../instance/IncidentCard';
import { incidentsRoute } from '../router';
import { useMay } from '../session/me';
import { List } from '../ui/List';
import { Badge, Empty, Failed, Heading, Loading, ProcessFilter } from '../ui/parts';
import { Time } from '../ui/time';

const COLUMNS = [{ name: 'What' }, { name: 'Where', isWide: true }, { name: 'Kind' }, { name: 'Message', isWide: true }, { name: 'Since' }];

export function IncidentsScreen() {
  const { incident: selected, ...filter } = incidentsRoute.useSearch();
  const navigate = useNavigate({ from: '/incidents' });
  const client = useQueryClient();
  const query = useInfiniteQuery(queries.incidents(filter));
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.incidents) ?? [], [query.data]);
  const change = (part: queries.IncidentFilter) => void navigate({ search: (before) => ({ ...before, ...part, incident: undefined }), replace: true });
  const mayRead = useMay('read');
  const processes = useQuery({ ...queries.processes, enabled: mayRead }).data ?? [];
  const state = filter.state ?? 'OPEN';
  const isFiltered = filter.kind !== undefined || filter.instanceId !== undefined || filter.process !== undefined;
  useEffect(() => {
    if (!selected) return;
    const leave = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !document.querySelector('dialog[open]')) void navigate({ search: (before) => ({ ...before, incident: undefined }), replace: true });
    };
    window.addEventListener('keydown', leave);
    return () => window.removeEventListener('keydown', leave);
  }, [selected, navigate]);
  return (
    <>
      <Heading title="Incidents">
        <Filters key={filter.instanceId} filter={filter} change={change} processes={processes.map((one) => one.key)} />
      </Heading>
      <div className="segments counts" role="group" aria-label="State">
        {(['OPEN', 'RESOLVED'] as const).map((one) => (
          <button key={one} type="button" aria-pressed={state === one} onClick={() => change({ state: one === 'OPEN' ? undefined : one })}>
            {one === 'OPEN' ? 'open' : 'resolved'}
          </button>
        ))}
      </div>
      {selected && <Selected key={selected} id={selected} />}
      {(query.data?.pages.length ?? 0) > MOST_LIVE_PAGES && (
        <p className="banner">
          This far down the list stands still.{' '}
          <button type="button" className="link" onClick={() => void client.resetQueries({ queryKey: ['incidents', 'list', filter] })}>
            Back to the newest, live
          </button>
        </p>
      )}
      {query.isPending ? (
        <Loading />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        isFiltered ? (
          <Empty title={`No ${state.toLowerCase()} incident fits this filter`}>
            <button type="button" onClick={() => void navigate({ search: { state: filter.state } })}>
              Show all
            </button>
          </Empty>
        ) : (
          <Empty title={state === 'OPEN' ? 'Nothing needs mending' : 'Nothing has been resolved yet'} />
        )
      ) : (
        <List label="Incidents" kind="incidents" columns={COLUMNS} rows={rows} more={query.hasNextPage} busy={query.isFetchingNextPage} fetchMore={() => void query.fetchNextPage()} cells={(row) => <Cells row={row} isSelected={row.id === selected} />} />
      )}
    </>
  );
}

function Cells({ row, isSelected }: { row: Incident; isSelected: boolean }) {
  return (
    <>
      <span role="cell" className="cut">
        <Link from="/incidents" to="/incidents" search={(before) => ({ ...before, incident: row.id })} className="row-link mono" title={row.id} replace aria-current={isSelected ? 'true' : undefined}>
          {row.code}
        </Link>
        <span className="narrow-only muted small">
          {row.process} {row.nodeId}
        </span>
      </span>
      <span role="cell" className="cut wide">
        {row.process} <span className="muted">{row.nodeId}</span>
      </span>
      <span role="cell">
        <Badge word={row.state === 'OPEN' ? row.kind : 'RESOLVED'} />
      </span>
      <span role="cell" className="cut wide muted" title={row.message}>
        {row.message}
      </span>
      <span role="cell">
        <Time at={row.createdAt} />
      </span>
    </>
  );
}

/** The incident in the address: also when it has left the list, with what came of it. */
function Selected({ id }: { id: string }) {
  const query = useQuery(queries.incident(id));
  const incident = query.data;
  const isClosed = incident?.state === 'RESOLVED';
  const others = useQuery({ ...queries.instanceIncidents(incident?.instanceId ?? ''), enabled: isClosed });
  const history = useQuery({ ...queries.history(incident?.instanceId ?? ''), enabled: isClosed });
  if (query.isPending) return <Loading rows={2} />;
  if (!incident) return <Failed error={query.error} retry={() => void query.refetch()} />;
  const came = others.data && history.data ? cameOf(incident, others.data, history.data) : undefined;
  return (
    <section aria-label="Chosen incident" className="chosen-incident">
      <IncidentCard incident={incident} withInstance came={came} />
      <Link from="/incidents" to="/incidents" search={(before) => ({ ...before, incident: undefined })} replace className="small">
        Close <kbd>Esc</kbd>
      </Link>
    </section>
  );
}

function Filters({ filter, change, processes }: { filter: queries.IncidentFilter; change: (part: queries.IncidentFilter) => void; processes: string[] }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = String(new FormData(event.currentTarget).get('instanceId') ?? '').trim() || undefined;
    if (given !== filter.instanceId) change({ instanceId: given });
  };
  return (
    <form className="filters" role="search" onSubmit={submit}>
      <label>
        Kind
        <select value={filter.kind ?? ''} onChange={(event) => change({ kind: queries.INCIDENT_KINDS.find((one) => one === event.target.value) })}>
          <option value="">any</option>
          <option value="INCIDENT">holds its instance</option>
          <option value="NOTICE">only a notice</option>
        </select>
      </label>
      <ProcessFilter value={filter.process} processes={processes} change={(process) => change({ process })} />
      <label>
        Instance
        <input name="instanceId" type="search" placeholder="its id" defaultValue={filter.instanceId ?? ''} onBlur={(event) => event.target.form?.requestSubmit()} />
      </label>
      <button type="submit" className="visually-hidden">
        Filter
      </button>
    </form>
  );
}
