// A list of any length: only the rows in sight are in the page.
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useRef } from 'react';

const ROW = 45;

export interface ListColumn {
  name: string;
  /** Left out on a phone. */
  isWide?: boolean;
}

export function List<T extends { id: string }>({ label, kind, columns, rows, more, busy, fetchMore, cells }: { label: string; kind: string; columns: ListColumn[]; rows: T[]; more: boolean; busy: boolean; fetchMore: () => void; cells: (row: T) => ReactNode }) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 12, getItemKey: (index) => rows[index]?.id ?? index });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && !busy && last >= rows.length - 20) fetchMore();
  }, [last, more, busy, rows.length, fetchMore]);
  return (
    <div className={`list ${kind}`} ref={scroller} role="table" aria-label={label} aria-rowcount={more ? -1 : rows.length + 1} tabIndex={0}>
      <div role="rowgroup">
        <div className="list-head list-row" role="row">
          {columns.map((column) => (
            <span key={column.name} role="columnheader" className={column.isWide ? 'wide' : undefined}>
              {column.name}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: 'relative' }}>
        {items.map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          return (
            <div key={item.key} className="list-row" role="row" aria-rowindex={item.index + 2} style={{ position: 'absolute', top: 0, left: 0, right: 0, height: ROW, transform: `translateY(${item.start}px)` }}>
              {cells(row)}
            </div>
          );
        })}
      </div>
      {busy && <p className="muted center">Reading on…</p>}
    </div>
  );
}
