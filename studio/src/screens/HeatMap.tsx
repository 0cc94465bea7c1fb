// A version's diagram with what stands at each node now and how the newest instances went; and the same as a table.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import * as queries from '../api/queries';
import type { Process } from '../api/types';
import { Diagram } from '../diagram/Diagram';
import { readGraph } from '../diagram/graph';
import { heat, type Measure, MEASURES } from '../diagram/heat';
import { Empty, Failed, Loading, Scroll } from '../ui/parts';
import { duration, Time } from '../ui/time';
import { amount } from './counts';

const LABELS: Record<Measure, string> = { p50: 'Usual time', p95: 'Slow time', failed: 'Failed', active: 'Here now' };
const HINTS: Record<Measure, string> = {
  p50: 'half of the visits took no longer',
  p95: '95 of 100 visits took no longer',
  failed: 'visits that met an error or an incident',
  active: 'tokens that stand there',
};

export function HeatMap({ process }: { process: Process }) {
  const [by, setBy] = useState<Measure>('p50');
  const [chosen, setChosen] = useState<string>();
  const query = useQuery(queries.statistics(process.key, process.version));
  const xml = useQuery(queries.bpmn(process.key, process.version)).data;
  // As the document has them, not by name.
  const nodes = useMemo(() => {
    const order = new Map((xml ? readGraph(xml).shapes : []).map((shape, index) => [shape.id, index]));
    return (query.data?.nodes ?? []).toSorted((a, b) => (order.get(a.nodeId) ?? Infinity) - (order.get(b.nodeId) ?? Infinity));
  }, [query.data, xml]);
  const marks = useMemo(
    () => ({ passed: new Set<string>(), active: nodes.flatMap((node) => Array<string>(node.active).fill(node.nodeId)), incidents: nodes.filter((node) => node.incidents > 0).map((node) => node.nodeId) }),
    [nodes],
  );
  const warm = useMemo(() => heat(nodes, by), [nodes, by]);
  return (
    <div className="stack">
      <div className="row wrap">
        <div className="segments" role="group" aria-label="Colour by">
          {MEASURES.map((one) => (
            <button key={one} type="button" aria-pressed={by === one} title={HINTS[one]} onClick={() => setBy(one)}>
              {LABELS[one]}
            </button>
          ))}
        </div>
        <span className="muted small">{HINTS[by]}</span>
        <span className="spring" />
        <span className="muted small" role="status">
          {query.data && (query.data.instances === 0 ? 'no instance of this version yet' : <>the newest {query.data.instances === 1 ? 'instance' : `${query.data.instances} instances`}, since <Time at={query.data.since} /></>)}
        </span>
      </div>
      <Diagram process={process.key} version={process.version} marks={marks} heat={warm} selected={chosen} onSelect={(next) => setChosen(next && !next.startsWith('_') ? next : undefined)} />
      {query.isError ? (
        <Failed error={query.error} retry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Loading />
      ) : nodes.length === 0 ? (
        <Empty title="Nothing is known of its nodes yet">Figures come with the first instance of this version.</Empty>
      ) : (
        <Scroll label="Figures of nodes">
          <table aria-label="Nodes">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col" className="right">Here now</th>
                <th scope="col" className="right">Incidents</th>
                <th scope="col" className="right">Visits</th>
                <th scope="col" className="right">Failed</th>
                <th scope="col" className="right">p50</th>
                <th scope="col" className="right">p95</th>
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <tr key={node.nodeId} className={chosen === node.nodeId ? 'chosen' : undefined}>
                  <th scope="row">
                    <button type="button" className="link" aria-pressed={chosen === node.nodeId} onClick={() => setChosen(chosen === node.nodeId ? undefined : node.nodeId)}>
                      {node.nodeId}
                    </button>
                  </th>
                  <td className="right num">{amount(node.active, query.data.moreActive)}</td>
                  <td className={`right num${node.incidents > 0 ? ' bad' : ''}`}>{node.incidents > 0 ? <Link to="/incidents">{amount(node.incidents)}</Link> : '0'}</td>
                  <td className="right num">{amount(node.visits)}</td>
                  <td className={`right num${node.failed > 0 ? ' bad' : ''}`}>{amount(node.failed)}</td>
                  <td className="right num">{took(node.p50Ms)}</td>
                  <td className="right num">{took(node.p95Ms)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </div>
  );
}

function took(ms: number | null | undefined) {
  return ms === undefined || ms === null ? <span className="muted">none finished</span> : duration(ms);
}
