// What the instance holds, where each value came from, and what stood there before.
import { useState } from 'react';
import type { HistoryEntry, Variable } from '../api/types';
import { Badge, Empty, Value } from '../ui/parts';
import { Time } from '../ui/time';

export function VariableTable({ variables, history }: { variables: Record<string, Variable>; history: HistoryEntry[] }) {
  const names = Object.keys(variables).sort();
  if (names.length === 0) return <Empty title="No variables" />;
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Value</th>
            <th scope="col">Written by</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => {
            const variable = variables[name];
            return variable ? <Row key={name} name={name} variable={variable} writes={history.filter((entry) => entry.type === 'VARIABLE_SET' && (entry.data as { name?: string }).name === name)} /> : null;
          })}
        </tbody>
      </table>
    </div>
  );
}

function Row({ name, variable, writes }: { name: string; variable: Variable; writes: HistoryEntry[] }) {
  const [open, setOpen] = useState(false);
  const source = variable.source;
  const last = writes.at(-1);
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
          {source?.nodeId ? <code>{source.nodeId}</code> : (source?.actor ?? 'the engine')} {last && <Time at={last.at} />}
          {writes.length > 1 && (
            <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
              {open ? 'hide' : `${writes.length - 1} earlier`}
            </button>
          )}
        </td>
      </tr>
      {open &&
        writes
          .slice(0, -1)
          .reverse()
          .map((entry) => (
            <tr key={`${entry.revision}.${entry.index}`} className="before">
              <td className="muted">before</td>
              <td>
                <Value value={(entry.data as { value?: unknown }).value} />
              </td>
              <td>
                {entry.nodeId ? <code>{entry.nodeId}</code> : (entry.actor ?? 'the engine')} <Time at={entry.at} />
              </td>
            </tr>
          ))}
    </>
  );
}
