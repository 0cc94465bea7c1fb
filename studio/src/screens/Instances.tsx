// Everything that runs or ran, newest first; the filter stands in the URL.
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useMemo } from 'react';
import { Refusal } from '../api/client';
import { MOST_LIVE_PAGES } from '../api/feed';
import * as queries from '../api/queries';
import type { Instance, InstanceStatus, StatusCount } from '../api/types';
import { instancesRoute, STATUSES } from '../router';
import { useMay } from '../session/me';
import { List } from '../ui/List';
import { Empty, Failed, Heading, Loading, ProcessFilter, Status } from '../ui/parts';
import { fromLocal, Time, toLocal, Took } from '../ui/time';
import { amount } from './counts';

const COLUMNS = [{ name: 'Key' }, { name: 'Process', isWide: true }, { name: 'Status' }, { name: 'Started by', isWide: true }, { name: 'Started' }, { name: 'Took', isWide: true }];

/** Shown also when there are none, so that the row does not change under the pointer. */
const ALWAYS = new Set<InstanceStatus>(['RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED']);

export function InstancesScreen() {
  const filter = instancesRoute.useSearch();
  const navigate = useNavigate({ from: '/instances' });
  const client = useQueryClient();
  const query = useInfiniteQuery(queries.instances(filter));
  const mayRead = useMay('read');
  const processes = useQuery({ ...queries.processes, enabled: mayRead }).data ?? [];
  const counts = useQuery({ ...queries.counts(filter), enabled: mayRead }).data;
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.instances) ?? [], [query.data]);
  const change = (part: queries.InstanceFilter) => void navigate({ search: (before) => ({ ...before, ...part }), replace: true });
  // What is counted does not know business keys and labels.
  const isCounted = !filter.businessKey && !filter.label;

  const isDenied = query.error instanceof Refusal && query.error.status === 403;
  if (isDenied) {
    return (
      <>
        <Heading title="Instances" />
        <Failed error={query.error} />
      </>
    );
  }
  return (
    <>
      <Heading title="Instances">
        <Filters key={`${filter.businessKey}|${filter.label}`} filter={filter} change={change} processes={processes.map((one) => one.key)} />
      </Heading>
      <Counts counts={isCounted ? counts : undefined} current={filter.status} choose={(status) => change({ status })} />
      {(query.data?.pages.length ?? 0) > MOST_LIVE_PAGES && (
        <p className="banner">
          This far down the list stands still.{' '}
          <button type="button" className="link" onClick={() => void client.resetQueries({ queryKey: ['instances', filter] })}>
            Back to the newest, live
          </button>
        </p>
      )}
      {query.isPending ? (
        <Loading rows={8} />
      ) : query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        isFiltered ? (
          <Empty title="No instance fits this filter">
            <button type="button" onClick={() => void navigate({ search: {} })}>
              Show all
            </button>
          </Empty>
        ) : (
          <Empty title="Nothing has been started yet">
            Start one under <Link to="/processes">Processes</Link>, or with <code>legation run PROCESS</code>.
          </Empty>
        )
      ) : (
        <List label="Instances" kind="instances" columns={COLUMNS} rows={rows} more={query.hasNextPage} busy={query.isFetchingNextPage} fetchMore={() => void query.fetchNextPage()} cells={(row) => <Cells row={row} />} />
      )}
    </>
  );
}

/** How many instances are where, and the choice of one status. */
function Counts({ counts, current, choose }: { counts?: StatusCount[]; current?: InstanceStatus; choose: (status: InstanceStatus | undefined) => void }) {
  const shown = STATUSES.filter((status) => status === current || ALWAYS.has(status) || counts?.some((one) => one.status === status));
  return (
    <div className="segments counts" role="group" aria-label="Status">
      <button type="button" aria-pressed={current === undefined} onClick={() => choose(undefined)}>
        all
      </button>
      {shown.map((status) => {
        const count = counts && (counts.find((one) => one.status === status) ?? { count: 0, atLeast: false });
        return (
          <button key={status} type="button" aria-pressed={current === status} className={status.toLowerCase()} onClick={() => choose(current === status ? undefined : status)}>
            {status.toLowerCase()}{' '}
            <span className="num" title={count?.atLeast ? 'There may be more: the engine stops counting there' : undefined}>
              {count ? amount(count.count, count.atLeast) : ''}
            </span>
          </button>
        );
      })}
    </div>
  );
}

function Filters({ filter, change, processes }: { filter: queries.InstanceFilter; change: (part: queries.InstanceFilter) => void; processes: string[] }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    change({ businessKey: String(form.get('businessKey') ?? '').trim() || undefined, label: String(form.get('label') ?? '').trim() || undefined });
  };
  const isTimed = filter.startedAfter !== undefined || filter.startedBefore !== undefined;
  const since = (hours: string) => {
    if (hours === '') change({ startedAfter: undefined, startedBefore: undefined });
    else if (hours !== 'between') change({ startedAfter: new Date(Date.now() - Number(hours) * 3_600_000).toISOString(), startedBefore: undefined });
  };
  return (
    <form className="filters" role="search" onSubmit={submit}>
      <ProcessFilter value={filter.process} processes={processes} change={(process) => change({ process })} />
      <label>
        Started
        <select value={isTimed ? 'between' : ''} onChange={(event) => since(event.target.value)}>
          <option value="">any time</option>
          <option value="1">in the last hour</option>
          <option value="24">in the last 24 hours</option>
          <option value="168">in the last 7 days</option>
          {isTimed && <option value="between">between…</option>}
        </select>
      </label>
      {isTimed && (
        <>
          <label>
            From
            <input type="datetime-local" step="60" value={toLocal(filter.startedAfter)} onChange={(event) => change({ startedAfter: fromLocal(event.target.value) })} />
          </label>
          <label>
            Before
            <input type="datetime-local" step="60" value={toLocal(filter.startedBefore)} onChange={(event) => change({ startedBefore: fromLocal(event.target.value) })} />
          </label>
        </>
      )}
      <label>
        Business key
        <input name="businessKey" type="search" defaultValue={filter.businessKey ?? ''} onBlur={(event) => event.target.form?.requestSubmit()} />
      </label>
      <label>
        Label
        <input name="label" type="search" placeholder="name=value" defaultValue={filter.label ?? ''} onBlur={(event) => event.target.form?.requestSubmit()} />
      </label>
      <button type="submit" className="visually-hidden">
        Filter
      </button>
    </form>
  );
}

function Cells({ row }: { row: Instance }) {
  return (
    <>
      <span role="cell" className="cut">
        <Link to="/instances/$id" params={{ id: row.id }} className="row-link" title={row.id}>
          {row.depth > 0 && <span className="muted">↳ </span>}
          {row.key}
        </Link>
        <span className="narrow-only muted small">{row.process}</span>
      </span>
      <span role="cell" className="cut wide">
        {row.process} <span className="muted">v{row.version}</span>
      </span>
      <span role="cell">
        <Status status={row.status} incidents={row.incidentCount} suspended={row.suspended} />
      </span>
      <span role="cell" className="cut wide muted">
        {row.startedByAgent ? `agent ${row.startedByAgent.nodeId}` : row.initiator}
      </span>
      <span role="cell">
        <Time at={row.startedAt} />
      </span>
      <span role="cell" className="wide">
        <Took from={row.startedAt} to={row.endedAt} />
      </span>
    </>
  );
}
