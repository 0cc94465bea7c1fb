// Our own drawing, for what bpmn-auto-layout does not draw clearly: layers from left to right, the usual path in one
// straight row, branches below it, ways back above everything. It draws every graph, loops and boundary events too.
import type { Flow, Graph, Shape } from './graph';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export type Point = [x: number, y: number];

/** Where shapes and flows are. */
export interface Drawn {
  boxes: Map<string, Box>;
  ways: Map<string, Point[]>;
}

export interface Layout extends Drawn {
  /** Names that stand beside what they name. */
  labels: Map<string, Box>;
}

const TASK = { width: 110, height: 80 };
const ROW = 130;
const GAP = 60;
const TRACK = 10;
/** From the first track to the last one in a gap. */
const TRACKS = 30;
const BOUNDARY = 36;

/** A place in the grid: a shape, or a bend of a flow that passes a layer. */
interface Cell {
  id: string;
  layer: number;
  row: number;
  isBend: boolean;
}

export function layout(graph: Graph): Layout {
  const main = graph.shapes.filter((shape) => !shape.host);
  const hostOf = new Map(graph.shapes.map((shape) => [shape.id, shape.host ?? shape.id]));
  const from = (flow: Flow) => hostOf.get(flow.from) ?? flow.from;
  const known = new Set(main.map((shape) => shape.id));
  const flows = graph.flows.filter((flow) => known.has(from(flow)) && known.has(flow.to));
  const back = waysBack(main, flows, from);
  const forward = flows.filter((flow) => !back.has(flow.id));
  const layers = layerOf(main, forward, from);
  const { cells, chains } = place(main, forward, layers, from);
  const depth = Math.max(0, ...layers.values()) + 1;

  const boxes = new Map<string, Box>();
  const columns = columnsOf(main, flows, layers, depth, from);
  for (const shape of main) {
    const cell = cells.get(shape.id);
    const column = columns[layers.get(shape.id) ?? 0];
    if (!cell || !column) continue;
    const { width, height } = size(shape);
    boxes.set(shape.id, { x: Math.round(column.x + (column.width - width) / 2), y: Math.round(rowY(cell.row) - height / 2), width, height });
  }
  sitOnHosts(graph.shapes, boxes);

  const drawing = { boxes, cells, columns, layers, hostOf };
  const draw = (trackOf: TrackOf) => {
    const ways = new Map<string, Point[]>();
    for (const flow of forward) ways.set(flow.id, way(flow, chains.get(flow.id) ?? [], { ...drawing, trackOf }));
    for (const [index, flow] of flows.filter((one) => back.has(one.id)).entries()) ways.set(flow.id, wayBack(flow, index + 1, { ...drawing, trackOf }));
    return ways;
  };
  // Where a way turns depends on all the others that turn there, so they are drawn twice.
  const turns: Turn[] = [];
  draw((layer, to, from, into) => {
    turns.push({ layer, to, from, into });
    return 0;
  });
  const tracks = tracksOf(turns, columns);
  const ways = draw((layer, to) => tracks.get(`${layer} ${to}`) ?? 0);
  return { boxes, ways, labels: labelsOf(graph, boxes, ways) };
}

function rowY(row: number): number {
  return row * ROW;
}

export function size(shape: Shape): { width: number; height: number } {
  if (shape.type.endsWith('Event')) return { width: 36, height: 36 };
  if (shape.type.endsWith('Gateway')) return { width: 50, height: 50 };
  return TASK;
}

/** Flows that lead to a shape which is still being followed: they close a loop. */
function waysBack(shapes: Shape[], flows: Flow[], from: (flow: Flow) => string): Set<string> {
  const out = group(flows, from);
  const back = new Set<string>();
  const state = new Map<string, 'open' | 'done'>();
  const visit = (start: string) => {
    const stack: { id: string; next: number }[] = [{ id: start, next: 0 }];
    state.set(start, 'open');
    while (stack.length > 0) {
      const top = stack[stack.length - 1] as { id: string; next: number };
      const flow = out.get(top.id)?.[top.next];
      top.next += 1;
      if (!flow) {
        state.set(top.id, 'done');
        stack.pop();
      } else if (state.get(flow.to) === 'open') back.add(flow.id);
      else if (!state.has(flow.to)) {
        state.set(flow.to, 'open');
        stack.push({ id: flow.to, next: 0 });
      }
    }
  };
  const begins = shapes.filter((shape) => shape.type === 'startEvent');
  for (const shape of [...begins, ...shapes]) if (!state.has(shape.id)) visit(shape.id);
  return back;
}

/** The longest way to a shape is its layer. */
function layerOf(shapes: Shape[], flows: Flow[], from: (flow: Flow) => string): Map<string, number> {
  const layers = new Map(shapes.map((shape) => [shape.id, 0]));
  for (let pass = 0; pass < shapes.length; pass++) {
    let moved = false;
    for (const flow of flows) {
      const wanted = (layers.get(from(flow)) ?? 0) + 1;
      if ((layers.get(flow.to) ?? 0) < wanted) {
        layers.set(flow.to, wanted);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return layers;
}

/** Rows: a shape stands in the row that it is reached from, or in the next free one below. */
function place(shapes: Shape[], flows: Flow[], layers: Map<string, number>, from: (flow: Flow) => string) {
  const cells = new Map<string, Cell>();
  const chains = new Map<string, string[]>();
  const before = new Map<string, { id: string; rank: number }[]>();
  const byLayer: Cell[][] = [];
  const add = (cell: Cell) => {
    cells.set(cell.id, cell);
    (byLayer[cell.layer] ??= []).push(cell);
  };
  for (const shape of shapes) add({ id: shape.id, layer: layers.get(shape.id) ?? 0, row: 0, isBend: false });
  const seen = new Map<string, number>();
  for (const flow of flows) {
    const source = from(flow);
    const nth = seen.get(source) ?? 0;
    seen.set(source, nth + 1);
    // A way out of a boundary event leaves downwards, so it wants a lower row than the usual way on.
    const rank = nth * 0.3 + (source === flow.from ? 0 : 0.6);
    const chain: string[] = [];
    let last = source;
    for (let layer = (layers.get(source) ?? 0) + 1; layer < (layers.get(flow.to) ?? 0); layer++) {
      // Flows to the same shape run together: one line to follow, and no rows of bends.
      const id = `${flow.to}@${layer}`;
      if (!cells.has(id)) add({ id, layer, row: 0, isBend: true });
      push(before, id, { id: last, rank: last === source ? rank : 0 });
      chain.push(id);
      last = id;
    }
    push(before, flow.to, { id: last, rank: last === source ? rank : 0 });
    chains.set(flow.id, chain);
  }
  for (const layer of byLayer) {
    const wish = (cell: Cell) => {
      const rows = (before.get(cell.id) ?? []).map(({ id, rank }) => (cells.get(id)?.row ?? 0) + rank);
      return rows.length === 0 ? 0 : Math.min(...rows);
    };
    const wishes = new Map((layer ?? []).map((cell) => [cell.id, wish(cell)]));
    const order = [...(layer ?? [])].sort((a, b) => (wishes.get(a.id) ?? 0) - (wishes.get(b.id) ?? 0) || Number(a.isBend) - Number(b.isBend));
    let free = 0;
    for (const cell of order) {
      cell.row = Math.max(free, Math.floor((wishes.get(cell.id) ?? 0) + 0.001));
      free = cell.row + 1;
    }
  }
  return { cells, chains };
}

interface Column {
  x: number;
  width: number;
}

function columnsOf(shapes: Shape[], flows: Flow[], layers: Map<string, number>, depth: number, from: (flow: Flow) => string): Column[] {
  const columns: Column[] = [];
  let x = 0;
  for (let layer = 0; layer < depth; layer++) {
    const here = shapes.filter((shape) => layers.get(shape.id) === layer);
    const width = Math.max(36, ...here.map((shape) => size(shape).width));
    const ids = new Set(here.map((shape) => shape.id));
    const named = flows.filter((flow) => ids.has(from(flow)) && flow.name !== '');
    const words = Math.min(150, Math.max(0, ...named.map((flow) => flow.name.length * 6.2)));
    columns.push({ x, width });
    x += width + Math.max(GAP, words > 0 ? words + 44 : 0);
  }
  return columns;
}

function sitOnHosts(shapes: Shape[], boxes: Map<string, Box>) {
  const count = new Map<string, number>();
  for (const shape of shapes) {
    const host = shape.host ? boxes.get(shape.host) : undefined;
    if (!shape.host || !host) continue;
    const nth = count.get(shape.host) ?? 0;
    count.set(shape.host, nth + 1);
    boxes.set(shape.id, { x: host.x + host.width - BOUNDARY - 6 - nth * (BOUNDARY + 4), y: host.y + host.height - BOUNDARY / 2, width: BOUNDARY, height: BOUNDARY });
  }
}

/** The upright piece of a way in the gap after a layer: to which shape, from which height to which. */
interface Turn {
  layer: number;
  to: string;
  from: number;
  into: number;
}

/** Where a turn is, from left to right. */
type TrackOf = (layer: number, to: string, from: number, into: number) => number;

/** Ways to the same shape share a track. What comes in at a height turns before something else goes on at it. */
function tracksOf(turns: Turn[], columns: Column[]): Map<string, number> {
  const tracks = new Map<string, number>();
  for (const [layer, column] of columns.entries()) {
    const here = turns.filter((turn) => turn.layer === layer);
    const rest = new Set(here.map((turn) => turn.to));
    const isFree = (to: string) => !here.some((a) => a.to === to && here.some((b) => b.to !== to && rest.has(b.to) && Math.abs(b.from - a.into) < 2));
    const step = Math.min(TRACK, TRACKS / Math.max(1, rest.size - 1));
    let x = column.x + column.width + 18;
    while (rest.size > 0) {
      const next = [...rest].find(isFree) ?? ([...rest][0] as string);
      rest.delete(next);
      tracks.set(`${layer} ${next}`, Math.round(x));
      x += step;
    }
  }
  return tracks;
}

interface Drawing {
  boxes: Map<string, Box>;
  columns: Column[];
  trackOf: TrackOf;
  layers: Map<string, number>;
  hostOf: Map<string, string>;
}

function way(flow: Flow, chain: string[], drawing: Drawing & { cells: Map<string, Cell> }): Point[] {
  const { boxes, cells, trackOf, layers, hostOf } = drawing;
  const source = boxes.get(flow.from);
  const target = boxes.get(flow.to);
  if (!source || !target) return [];
  const isBoundary = hostOf.get(flow.from) !== flow.from;
  let layer = layers.get(hostOf.get(flow.from) ?? flow.from) ?? 0;
  const points: Point[] = [];
  let y = source.y + source.height / 2;
  if (isBoundary) {
    const x = source.x + source.width / 2;
    points.push([x, source.y + source.height]);
    y = source.y + source.height + 14;
    points.push([x, y]);
  } else points.push([source.x + source.width, y]);
  const stops = [...chain.map((id) => rowY(cells.get(id)?.row ?? 0)), target.y + target.height / 2];
  for (const stop of stops) {
    if (Math.abs(stop - y) > 1) {
      const x = trackOf(layer, flow.to, y, stop);
      points.push([x, y], [x, stop]);
      y = stop;
    }
    layer += 1;
  }
  points.push([target.x, y]);
  return straight(points);
}

function wayBack(flow: Flow, lane: number, { boxes, columns, trackOf, layers, hostOf }: Drawing): Point[] {
  const source = boxes.get(flow.from);
  const target = boxes.get(flow.to);
  if (!source || !target) return [];
  const isBoundary = hostOf.get(flow.from) !== flow.from;
  const top = -70 - lane * 16;
  const level = isBoundary ? source.y + source.height + 14 : source.y + source.height / 2;
  const out = trackOf(layers.get(hostOf.get(flow.from) ?? flow.from) ?? 0, flow.to, level, top);
  const into = (columns[layers.get(flow.to) ?? 0]?.x ?? 0) - 22 - lane * 4;
  const middle = target.y + target.height / 2;
  const start: Point[] = isBoundary
    ? [
        [source.x + source.width / 2, source.y + source.height],
        [source.x + source.width / 2, level],
        [out, level],
      ]
    : [
        [source.x + source.width, level],
        [out, level],
      ];
  return straight([...start, [out, top], [into, top], [into, middle], [target.x, middle]]);
}

/** Without points that change nothing. */
function straight(points: Point[]): Point[] {
  return points.filter((point, index) => {
    const before = points[index - 1];
    const after = points[index + 1];
    if (!before || !after) return true;
    const isOnLine = (before[0] === point[0] && point[0] === after[0]) || (before[1] === point[1] && point[1] === after[1]);
    return !isOnLine;
  });
}

/** Names of flows over the last level piece before the target, where no other flow runs. */
export function labelsOf(graph: Graph, boxes: Map<string, Box>, ways: Map<string, Point[]>): Map<string, Box> {
  const labels = new Map<string, Box>();
  for (const flow of graph.flows) {
    const points = ways.get(flow.id);
    if (flow.name === '' || !points || points.length < 2) continue;
    const bend = points.findIndex((point, index) => index > 0 && Math.abs(point[1] - (points[index - 1] as Point)[1]) > 1);
    const start = points[bend < 0 ? 0 : bend] as Point;
    const width = Math.min(150, Math.max(30, flow.name.length * 6.2));
    labels.set(flow.id, { x: Math.round(start[0] + 6), y: Math.round(start[1] - 19), width: Math.round(width), height: 14 });
  }
  for (const shape of graph.shapes) {
    const box = boxes.get(shape.id);
    if (!box || shape.name === '' || size(shape).width > 60) continue;
    const width = Math.min(130, Math.max(40, shape.name.length * 7.5));
    const isBoundary = shape.host !== undefined;
    const x = isBoundary ? box.x - width - 2 : box.x + box.width / 2 - width / 2;
    const y = isBoundary ? box.y + box.height - 12 : shape.type.endsWith('Gateway') ? box.y - 20 : box.y + box.height + 5;
    labels.set(shape.id, { x: Math.round(x), y: Math.round(y), width: Math.round(width), height: 14 });
  }
  return labels;
}

function group(flows: Flow[], key: (flow: Flow) => string): Map<string, Flow[]> {
  const groups = new Map<string, Flow[]>();
  for (const flow of flows) push(groups, key(flow), flow);
  return groups;
}

function push<T>(map: Map<string, T[]>, key: string, value: T) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
