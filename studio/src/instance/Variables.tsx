// What the instance holds, which step wrote each value, and what stood there before.
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Variable, VariableWrite } from '../api/types';
import { Badge, Empty, Scroll, Value } from '../ui/parts';
import { Time } from '../ui/time';

export function VariableTable({ instance, variables, isCut, node }: { instance: string; variables: Record<string, Variable>; isCut: boolean; node?: string }) {
  const all = Object.entries(variables).sort(([a], [b]) => a.localeCompare(b));
  const shown = node ? all.filter(([, one]) => (one.history ?? []).some((write) => write.source.nodeId === node)) : all;
  if (all.length === 0) return <Empty title="No variables" />;
  if (shown.length === 0) return <Empty title={`${node} has written nothing`} />;
  return (
    <>
      {isCut && <p className="banner">This instance has a very long history: the newest writes are not listed here.</p>}
      <Scroll label="Variables">
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Value</th>
              <th scope="col">Written by</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(([name, variable]) => (
              <Row key={name} instance={instance} name={name} variable={variable} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

function Row({ instance, name, variable }: { instance: string; name: string; variable: Variable }) {
  const [open, setOpen] = useState(false);
  const writes = variable.history ?? [];
  // Of a history that was cut, the newest write is missing.
  const last = writes.findLast((write) => write.revision === variable.revision);
  const earlier = writes.filter((write) => write !== last).reverse();
  return (
    <>
      <tr>
        <th scope="row">
          <code>{name}</code> {variable.locked && <Badge word="locked" tone="grey" />} {variable.sensitive && <Badge word="sensitive" tone="amber" />}
        </th>
        <td>
          <Value value={variable.value} label={name} />
        </td>
        <td>
          <Origin instance={instance} write={last ?? { source: variable.source ?? {} }} />
          {earlier.length > 0 && (
            <button type="button" className="link" aria-expanded={open} aria-label={`Earlier values of ${name}`} onClick={() => setOpen(!open)}>
              {open ? 'hide' : `${earlier.length} earlier`}
            </button>
          )}
        </td>
      </tr>
      {open &&
        earlier.map((write, index) => (
          <tr key={`${write.revision}/${index}`} className="before">
            <td className="muted">before</td>
            <td>
              <Value value={write.value} />
            </td>
            <td>
              <Origin instance={instance} write={write} />
            </td>
          </tr>
        ))}
    </>
  );
}

/** The node with its task and attempt, or who started or changed the instance. */
function Origin({ instance, write }: { instance: string; write: Pick<VariableWrite, 'source'> & Partial<VariableWrite> }) {
  const { nodeId, taskId, attempt, actor } = write.source;
  const number = taskId?.split('.').at(-1);
  return (
    <span className="row wrap origin">
      {nodeId ? (
        <Link to="/instances/$id" params={{ id: instance }} search={{ tab: taskId ? 'journal' : 'timeline', node: nodeId }} title={taskId ?? undefined}>
          {nodeId}
        </Link>
      ) : (
        <span>{actor ?? 'the engine'}</span>
      )}
      {number && (
        <span className="muted small">
          task {number}
          {attempt ? `, attempt ${attempt}` : ''}
        </span>
      )}
      {!nodeId && <span className="muted small">{actor && write.revision === 1 ? 'at the start' : ''}</span>}
      {write.at && <Time at={write.at} />}
    </span>
  );
}
