// Every event of the instance, as the engine wrote it. Pages are counted from the oldest, so that what one has seen or
// shared stays where it was while more happens.
import type { HistoryEntry } from '../api/types';
import { print } from '../api/json';
import { absolute, clock } from '../ui/time';
import { Empty, Scroll } from '../ui/parts';

/** Rows shown at once. */
export const EVENTS_PAGE = 500;

/** The rows of a page, the newest page where none is named or there is no such page. */
export function eventsPage(rows: HistoryEntry[], page: number | undefined) {
  const last = Math.max(1, Math.ceil(rows.length / EVENTS_PAGE));
  const number = page !== undefined && page <= last ? page : last;
  return { number, last, first: (number - 1) * EVENTS_PAGE, rows: rows.slice((number - 1) * EVENTS_PAGE, number * EVENTS_PAGE) };
}

export function Events({ history, node, page, turn }: { history: HistoryEntry[]; node?: string; page?: number; turn: (page: number | undefined) => void }) {
  const all = history.filter((entry) => !node || entry.nodeId === node);
  if (all.length === 0) return <Empty title={node ? `Nothing has happened at ${node}` : 'Nothing has happened yet'} />;
  const { number, last, first, rows } = eventsPage(all, page);
  const exact = (count: number) => count.toLocaleString('en');
  return (
    <Scroll label="Events">
      {last > 1 && (
        <nav aria-label="Pages of events" className="row pages">
          <button type="button" disabled={number === 1} onClick={() => turn(1)}>
            Oldest
          </button>
          <button type="button" disabled={number === 1} onClick={() => turn(number - 1)}>
            Older
          </button>
          <span className="num">
            {exact(first + 1)} to {exact(first + rows.length)} of {exact(all.length)}
          </span>
          <button type="button" disabled={number === last} onClick={() => turn(number + 1 === last ? undefined : number + 1)}>
            Newer
          </button>
          <button type="button" disabled={number === last} onClick={() => turn(undefined)}>
            Newest
          </button>
        </nav>
      )}
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
          {rows.map((entry) => (
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
    </Scroll>
  );
}
