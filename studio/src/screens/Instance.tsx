// One instance: where it stands and why, and everything that it did.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useMemo, useState } from 'react';
import { post } from '../api/client';
import * as queries from '../api/queries';
import type { HumanTask, Instance } from '../api/types';
import { Diagram } from '../diagram/Diagram';
import { passed, readGraph } from '../diagram/graph';
import { cameOf } from '../instance/came';
import { Events } from '../instance/Events';
import { IncidentCard } from '../instance/IncidentCard';
import { Journal } from '../instance/Journal';
import { tokens } from '../instance/journal';
import { LineageTree } from '../instance/LineageTree';
import { Timeline } from '../instance/Timeline';
import { VariableTable } from '../instance/Variables';
import { Why } from '../instance/Why';
import { type InstanceTab, instanceRoute } from '../router';
import { useMay } from '../session/me';
import { Dialog, Empty, Failed, Heading, InstanceLink, Loading, Panel, Refused, Short, Status, Tabs, useTitle, Value } from '../ui/parts';
import { Time, Took } from '../ui/time';

export function InstanceScreen() {
  const { id } = instanceRoute.useParams();
  const instance = useQuery(queries.instance(id));
  if (instance.isPending) return <Loading rows={8} />;
  if (instance.isError && !instance.data)
    return (
      <>
        <Heading title="Instance" />
        <Failed error={instance.error} retry={() => void instance.refetch()} />
      </>
    );
  return <Loaded key={id} instance={instance.data as Instance} />;
}

/** The same list each time: what is computed of it is kept. */
const NOBODY: HumanTask[] = [];

function Loaded({ instance }: { instance: Instance }) {
  const { id } = instance;
  const { tab: chosen, node, page } = instanceRoute.useSearch();
  const navigate = useNavigate({ from: '/instances/$id' });
  const history = useQuery(queries.history(id));
  const journal = useQuery(queries.journal(id));
  const lineage = useQuery(queries.lineage(id));
  const people = useQuery(queries.instanceTasks(id)).data ?? NOBODY;
  const incidents = useQuery(queries.instanceIncidents(id));
  const explanation = useQuery({ ...queries.explain(id), enabled: !instance.endedAt });
  const variables = useQuery(queries.variables(id, chosen === 'variables'));
  const xml = useQuery(queries.bpmn(instance.process, instance.version)).data;
  useTitle(`${instance.key} ${instance.process}`);

  const marks = useMemo(() => {
    const broken = (incidents.data ?? []).filter((one) => one.state === 'OPEN' && one.kind === 'INCIDENT').map((one) => one.nodeId);
    return {
      passed: xml ? passed(readGraph(xml), history.data ?? []) : new Set<string>(),
      active: instance.activeNodes ?? [],
      incidents: broken.filter((one): one is string => typeof one === 'string'),
    };
  }, [xml, history.data, instance.activeNodes, incidents.data]);

  const tasks = journal.data?.tasks ?? [];
  const used = tokens(tasks);
  const openIncidents = (incidents.data ?? []).filter((one) => one.state === 'OPEN').length;
  const tab: InstanceTab = chosen ?? (openIncidents > 0 ? 'incidents' : tasks.some((one) => one.steps.length > 0) ? 'journal' : 'timeline');
  const go = (part: { tab?: InstanceTab; node?: string; page?: number }) => void navigate({ search: (before) => ({ ...before, page: undefined, ...part }), replace: true, resetScroll: false });

  return (
    <>
      <header className="instance-head">
        {lineage.data && lineage.data.ancestors.length > 0 && (
          <nav aria-label="Started from" className="crumbs">
            {lineage.data.ancestors.map((one) => (
              <span key={one.id}>
                <InstanceLink id={one.id}>
                  {one.process} {one.key}
                </InstanceLink>{' '}
                ›{' '}
              </span>
            ))}
          </nav>
        )}
        <div className="row">
          <h1>{instance.key}</h1>
          <Status status={instance.status} incidents={instance.incidentCount} suspended={instance.suspended} />
          <span className="spring" />
          <Cancel instance={instance} />
        </div>
        <p className="muted row wrap">
          <span>
            {instance.process} v{instance.version}
          </span>
          <Short text={id} />
          <span>
            started <Time at={instance.startedAt} /> by {instance.startedByAgent ? `agent ${instance.startedByAgent.nodeId}` : instance.initiator}
          </span>
          {Object.entries(instance.labels ?? {}).map(([name, value]) => (
            <span key={name} className="badge grey">
              {name}={value}
            </span>
          ))}
          <span className="growing">
            {instance.endedAt ? 'took' : 'for'} <Took from={instance.startedAt} to={instance.endedAt} />
          </span>
          {used.input + used.output > 0 && <span className="num">{(used.input + used.output).toLocaleString('en')} tokens</span>}
        </p>
        <Why instance={instance} explanation={explanation.data} />
      </header>
      <Diagram process={instance.process} version={instance.version} marks={marks} selected={node} onSelect={(next) => go({ node: next && !next.startsWith('_') ? next : undefined })} />
      {node && (
        <p className="banner">
          Only what concerns <strong>{node}</strong>.{' '}
          <button type="button" className="link" onClick={() => go({ node: undefined })}>
            Show everything
          </button>
        </p>
      )}
      <Tabs
        label="About this instance"
        current={tab}
        choose={(next) => go({ tab: next })}
        tabs={[
          { name: 'timeline', label: 'Timeline' },
          { name: 'journal', label: 'Journal', count: tasks.reduce((sum, one) => sum + one.steps.length, 0) },
          { name: 'variables', label: 'Variables', count: Object.keys(variables.data?.variables ?? {}).length },
          { name: 'lineage', label: 'Lineage' },
          { name: 'incidents', label: 'Incidents', count: openIncidents },
          { name: 'history', label: 'Events' },
        ]}
      />
      <Panel name={tab}>
        {tab === 'timeline' && (history.data ? <Timeline instance={instance} history={history.data} journal={tasks} people={people} selected={node} select={(next) => go({ node: next })} /> : <Answer query={history} />)}
        {tab === 'journal' && (journal.data ? <Journal tasks={tasks} people={people} node={node} /> : <Answer query={journal} />)}
        {tab === 'variables' &&
          (variables.data ? (
            <>
              {instance.outputs && Object.keys(instance.outputs).length > 0 && (
                <div className="card outputs">
                  <h2>Outputs</h2>
                  <Value value={instance.outputs} />
                </div>
              )}
              <VariableTable instance={id} variables={variables.data.variables} isCut={variables.data.historyCut ?? false} node={node} />
            </>
          ) : (
            <Answer query={variables} />
          ))}
        {tab === 'lineage' && (lineage.data ? <LineageTree lineage={lineage.data} /> : <Answer query={lineage} />)}
        {tab === 'incidents' &&
          (incidents.data ? (
            incidents.data.length === 0 ? (
              <Empty title="No incidents">Nothing has stopped this instance.</Empty>
            ) : (
              <div className="stack">
                {incidents.data
                  .filter((one) => !node || one.nodeId === node)
                  .map((one) => (
                    <IncidentCard key={one.id} incident={one} came={cameOf(one, incidents.data, history.data ?? [])} />
                  ))}
              </div>
            )
          ) : (
            <Answer query={incidents} />
          ))}
        {tab === 'history' && (history.data ? <Events history={history.data} node={node} page={page} turn={(next) => go({ page: next })} /> : <Answer query={history} />)}
      </Panel>
    </>
  );
}

function Answer({ query }: { query: { isError: boolean; error: unknown; refetch: () => unknown } }) {
  return query.isError ? <Failed error={query.error} retry={() => void query.refetch()} /> : <Loading />;
}

function Cancel({ instance }: { instance: Instance }) {
  const mayOperate = useMay('operate');
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  const [reason, setReason] = useState('');
  const cancel = useMutation({
    mutationFn: () => post(`/v1/instances/${encodeURIComponent(instance.id)}/cancel`, { reason }),
    onSuccess: () => {
      setOpen(false);
      void client.invalidateQueries();
    },
  });
  if (!mayOperate || instance.endedAt) return null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    cancel.mutate();
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Cancel instance…
      </button>
      <Dialog open={open} onClose={() => setOpen(false)} title={`Cancel ${instance.key}?`}>
        <form onSubmit={submit} className="stack">
          <p>It ends here, with every instance that it started. This cannot be undone.</p>
          <label>
            Reason
            <textarea rows={3} required autoFocus value={reason} onChange={(event) => setReason(event.target.value)} />
          </label>
          <Refused error={cancel.error} />
          <div className="row end">
            <button type="button" onClick={() => setOpen(false)}>
              Keep it running
            </button>
            <button type="submit" className="danger" disabled={cancel.isPending || reason.trim() === ''}>
              Cancel the instance
            </button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
