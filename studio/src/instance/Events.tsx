// Every event of the instance, as the engine wrote it.
import type { HistoryEntry } from '../api/types';
import { print } from '../api/json';
import { absolute, clock } from '../ui/time';
import { Empty } from '../ui/parts';

/** Rows shown at once; the newest ones. */
const MOST = 500;

export function Events({ history, node }: { history: HistoryEntry[]; node?: string }) {
  const rows = history.filter((entry) => !node || entry.nodeId === node);
  if (rows.length === 0) return <Empty title={node ? `Nothing has happened at ${node}` : 'Nothing has happened yet'} />;
  return (
    <div className="scroll">
      {rows.length > MOST && <p className="muted">The newest {MOST} of {rows.length.toLocaleString('en')} events.</p>}
      <table className="events">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Event</th>
            <th scope="col">Node</th>
            <th scope="col">By</th>
            <th scope="col">Data</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(-MOST).map((entry) => (
            <tr key={`${entry.revision}.${entry.index}`}>
              <td className="num" title={absolute(entry.at)}>
                {clock(entry.at)}
              </td>
              <td className="code">{entry.type}</td>
              <td>{entry.nodeId}</td>
              <td>{entry.actor ?? <span className="muted">engine</span>}</td>
              <td className="cut data" title={print(entry.data)}>
                {print(entry.data).replace(/\s*\n\s*/g, ' ')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
