// Drawings that are kept: by the digest of their version, which never changes. They outlive a reload of the tab, and
// no other build of this app, which may draw otherwise.
import type { Graph } from './graph';
import type { Layout } from './layout';

const PLACE = 'legation.drawings';
const MOST = 40;
/** Characters; a tab may keep some millions, and the session lives there too. */
const MOST_TEXT = 1_000_000;

interface Kept {
  build: string;
  /** Digests and drawings as JSON, the longest unused first. */
  drawings: [digest: string, drawing: string][];
}

/** The drawing of a version, if there is one and it has all that is to be drawn. */
export function recall(digest: string, graph: Graph, build: string, storage: Storage | undefined): Layout | undefined {
  const kept = read(build, storage);
  const text = kept.get(digest);
  const drawing = text === undefined ? undefined : parse(text);
  if (text === undefined || !drawing) return undefined;
  if (graph.shapes.some((shape) => !drawing.boxes.has(shape.id)) || graph.flows.some((flow) => !drawing.ways.has(flow.id))) return undefined;
  kept.delete(digest);
  kept.set(digest, text);
  write(build, kept, storage);
  return drawing;
}

export function keep(digest: string, { boxes, ways, labels }: Layout, build: string, storage: Storage | undefined): void {
  const text = JSON.stringify({ boxes: [...boxes], ways: [...ways], labels: [...labels] });
  if (text.length > MOST_TEXT) return;
  const kept = read(build, storage);
  kept.delete(digest);
  kept.set(digest, text);
  let size = 0;
  for (const one of kept.values()) size += one.length;
  for (const [oldest, one] of kept) {
    if (kept.size <= MOST && size <= MOST_TEXT) break;
    kept.delete(oldest);
    size -= one.length;
  }
  write(build, kept, storage);
}

function read(build: string, storage: Storage | undefined): Map<string, string> {
  try {
    const kept = JSON.parse(storage?.getItem(PLACE) ?? 'null') as Kept | null;
    return new Map(kept?.build === build ? kept.drawings : []);
  } catch {
    // Somebody else wrote there, or nobody may read.
    return new Map();
  }
}

function write(build: string, kept: Map<string, string>, storage: Storage | undefined): void {
  try {
    storage?.setItem(PLACE, JSON.stringify({ build, drawings: [...kept] } satisfies Kept));
  } catch {
    // The tab's storage is full: it is drawn again next time.
  }
}

function parse(text: string): Layout | undefined {
  try {
    const { boxes, ways, labels } = JSON.parse(text) as Record<string, never>;
    return { boxes: new Map(boxes), ways: new Map(ways), labels: new Map(labels) };
  } catch {
    return undefined;
  }
}
