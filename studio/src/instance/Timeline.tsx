import { useMemo } from 'react';
import type { HistoryEntry, HumanTask, Instance, TaskJournal } from '../api/types';
import { clock, duration, useNow } from '../ui/time';
import { Empty } from '../ui/parts';
import { flat, lanes, place, totals, type Wait, words } from './timeline';

/** A lane for each node; colour and words say what was waited for. */
export function Timeline({ instance, history, journal, people, selected, select }: { instance: Instance; history: HistoryEntry[]; journal: TaskJournal[]; people: HumanTask[]; selected?: string; select: (node: string | undefined) => void }) {
  const present = useNow();
  const begin = new Date(instance.startedAt).getTime();
  const end = instance.endedAt ? new Date(instance.endedAt).getTime() : Math.max(present, begin + 1);
  const all = useMemo(() => lanes(history, journal, people, end).map((lane) => ({ ...lane, pieces: flat(lane.stretches) })), [history, journal, people, end]);
  const span = Math.max(1, end - begin);
  const at = (time: number) => Math.min(100, Math.max(0, ((time - begin) / span) * 100));
  if (all.length === 0) return <Empty title="Nothing has happened yet" />;
  const sums = [...totals(all)].sort(([, a], [, b]) => b - a);
  return (
    <div>
      <div className="lanes">
        <div className="lane scale" aria-hidden="true">
          <span />
          <div className="lane-track">
            <span>{clock(instance.startedAt)}</span>
            <span>{duration(span / 2)}</span>
            <span>{duration(span)}</span>
          </div>
        </div>
        {all.map((lane) => {
          const busy = lane.stretches.filter((stretch) => stretch.kind !== 'engine');
          const from = Math.min(...lane.stretches.map((stretch) => stretch.from));
          const to = Math.max(...lane.stretches.map((stretch) => stretch.to));
          return (
            <div key={lane.node} className={`lane${selected === lane.node ? ' chosen' : ''}`}>
              <button type="button" className="lane-name" aria-pressed={selected === lane.node} onClick={() => select(selected === lane.node ? undefined : lane.node)}>
                {lane.node}
              </button>
              <div className="lane-track" role="img" aria-label={`${lane.node}: ${duration(to - from)}, waited for ${[...new Set(busy.map((one) => words(one.kind)))].join(', ') || 'nothing'}`}>
                {lane.pieces.map((stretch, index) => (
                  <span
                    key={index}
                    className={`stretch ${stretch.kind}`}
                    title={`${stretch.label} · ${duration(stretch.to - stretch.from)}`}
                    style={place(at(stretch.from), at(stretch.to))}
                  />
                ))}
              </div>
              <span className="lane-took num">{duration(to - from)}</span>
            </div>
          );
        })}
      </div>
      <p className="legend">
        {sums.map(([kind, ms]: [Wait, number]) => (
          <span key={kind}>
            <i className={`stretch ${kind}`} /> {words(kind)} <span className="num">{duration(ms)}</span>
          </span>
        ))}
      </p>
    </div>
  );
}
