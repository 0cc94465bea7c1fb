import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import * as queries from '../api/queries';
import { Failed } from '../ui/parts';
import type { Heat } from './heat';
import type { Marks } from './Viewer';

const Viewer = lazy(() => import('./Viewer'));

/** A process version's diagram; the place is kept while it loads. */
export function Diagram({ process, version, marks, heat, selected, onSelect }: { process: string; version: number; marks?: Marks; heat?: Map<string, Heat>; selected?: string; onSelect?: (node: string | undefined) => void }) {
  const xml = useQuery(queries.bpmn(process, version));
  // Its digest names the drawing that is kept; it is drawn without one too.
  const view = useQuery({ ...queries.process(process, version), staleTime: Infinity });
  const waiting = <div className="diagram" role="status" aria-label="Loading the diagram" />;
  if (xml.isPending || view.isPending) return waiting;
  if (xml.isError) return <Failed error={xml.error} retry={() => void xml.refetch()} />;
  return (
    <Suspense fallback={waiting}>
      <Viewer xml={xml.data} digest={view.data?.digest} marks={marks} heat={heat} selected={selected} onSelect={onSelect} label={`Diagram of ${process}`} />
    </Suspense>
  );
}
