// One process: how it looks, what it says, its versions, and a form that starts it.
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useMemo, useState } from 'react';
import { post } from '../api/client';
import * as queries from '../api/queries';
import type { InstanceStarted, Process } from '../api/types';
import { SchemaForm } from '../forms/SchemaForm';
import { begin, type Draft, fields, read, type Schema } from '../forms/schema';
import { type ProcessTab, processRoute } from '../router';
import { useMay } from '../session/me';
import { Failed, Heading, Loading, NoPermission, Panel, Refused, Short, Tabs, useTitle } from '../ui/parts';
import { Time } from '../ui/time';
import { HeatMap } from './HeatMap';
import { Versions } from './Versions';

const Source = lazy(() => import('./Source'));

export function ProcessScreen() {
  const { key } = processRoute.useParams();
  const { version } = processRoute.useSearch();
  const query = useQuery(queries.process(key, version));
  if (query.isPending) return <Loading rows={8} />;
  if (query.isError)
    return (
      <>
        <Heading title={key} />
        <Failed error={query.error} retry={() => void query.refetch()} />
      </>
    );
  return <Loaded key={`${key}/${query.data.version}`} process={query.data} />;
}

function Loaded({ process }: { process: Process }) {
  const { tab = 'diagram', version } = processRoute.useSearch();
  const navigate = useNavigate({ from: '/processes/$key' });
  const versions = useQuery(queries.versions(process.key)).data ?? [];
  const newest = versions[0]?.version ?? process.version;
  useTitle(process.name ?? process.key);
  return (
    <>
      <nav aria-label="Above" className="crumbs">
        <Link to="/processes">Processes</Link> ›
      </nav>
      <div className="row wrap">
        <h1>{process.name ?? process.key}</h1>
        <label className="inline">
          <span className="visually-hidden">Version</span>
          <select value={process.version} onChange={(event) => void navigate({ search: (before) => ({ ...before, version: Number(event.target.value) === newest ? undefined : Number(event.target.value) }) })}>
            {(versions.length > 0 ? versions : [process]).map((one) => (
              <option key={one.version} value={one.version}>
                version {one.version}
                {one.version === newest ? ' (newest)' : ''}
              </option>
            ))}
          </select>
        </label>
        <span className="spring" />
        <Link to="/instances" search={{ process: process.key }}>
          Instances
        </Link>
      </div>
      <p className="muted row wrap">
        <code>{process.key}</code>
        <span>
          deployed <Time at={process.deployedAt} />
        </span>
        <span>
          digest <Short text={process.digest} />
        </span>
      </p>
      {process.description && <p>{process.description}</p>}
      <Tabs<ProcessTab>
        label="About this process"
        current={tab}
        choose={(next) => void navigate({ search: (before) => ({ ...before, tab: next === 'diagram' ? undefined : next }), replace: true })}
        tabs={[
          { name: 'diagram', label: 'Diagram' },
          { name: 'source', label: 'Source' },
          { name: 'start', label: 'Start' },
          { name: 'versions', label: 'Versions', count: versions.length },
        ]}
      />
      <Panel name={tab}>
        {tab === 'diagram' && <HeatMap process={process} />}
        {tab === 'source' && (
          <Suspense fallback={<Loading rows={8} />}>
            <Source process={process} isNewest={version === undefined || version === newest} />
          </Suspense>
        )}
        {tab === 'start' && <Start process={process} />}
        {tab === 'versions' && <Versions versions={versions} current={process.version} />}
      </Panel>
    </>
  );
}

function Start({ process }: { process: Process }) {
  const mayStart = useMay('start');
  const navigate = useNavigate();
  const list = useMemo(() => fields(process.inputs as Schema | undefined), [process.inputs]);
  const [draft, setDraft] = useState<Draft>(() => begin(list));
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [businessKey, setBusinessKey] = useState('');
  // One key for one filled-in form: pressing twice, or a broken connection, starts one instance.
  const [once, setOnce] = useState(() => crypto.randomUUID());
  const start = useMutation({
    mutationFn: (variables: Record<string, unknown>) =>
      post<InstanceStarted>('/v1/instances', { process: process.key, version: process.version, businessKey: businessKey.trim() || undefined, variables }, { 'idempotency-key': once }),
    onSuccess: ({ id }) => void navigate({ to: '/instances/$id', params: { id } }),
  });
  const touched = () => setOnce(crypto.randomUUID());
  if (!mayStart) return <NoPermission detail="Starting takes a key with the role start." />;
  return (
    <form
      className="stack narrow"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const taken = read(list, draft);
        setWrong(taken.wrong);
        if (Object.keys(taken.wrong).length === 0) start.mutate(taken.values);
      }}
    >
      {list.length === 0 && <p className="muted">This process takes no inputs.</p>}
      <SchemaForm
        list={list}
        draft={draft}
        wrong={wrong}
        change={(name, value) => {
          setDraft((before) => ({ ...before, [name]: value }));
          touched();
        }}
      />
      <div className="field">
        <label htmlFor="business-key">
          Business key <span className="muted">(optional)</span>
        </label>
        <input
          id="business-key"
          value={businessKey}
          onChange={(event) => {
            setBusinessKey(event.target.value);
            touched();
          }}
        />
        <span className="help">Your own name for it, such as an order number</span>
      </div>
      <Refused error={start.error} />
      <div className="row">
        <button type="submit" className="primary" disabled={start.isPending}>
          {start.isPending ? 'Starting…' : `Start version ${process.version}`}
        </button>
      </div>
    </form>
  );
}
