// What is wrong with a drawing, whoever drew it: something is missing, or cannot be told apart or read.
import type { Graph } from './graph';
import type { Box, Layout, Point } from './layout';

type Piece = [Point, Point];

/** Nothing when the drawing is complete and clear. */
export function faults(graph: Graph, { boxes, ways, labels }: Layout): string[] {
  const found: string[] = [];
  for (const shape of graph.shapes) if (!isReal(boxes.get(shape.id))) found.push(`${shape.id} is not drawn`);
  for (const flow of graph.flows) if ((ways.get(flow.id)?.length ?? 0) < 2 || !ways.get(flow.id)?.flat().every(Number.isFinite)) found.push(`${flow.id} is not drawn`);
  // The rest asks where things are.
  if (found.length > 0) return found;

  const place = (id: string) => boxes.get(id) as Box;
  const pieces = new Map(graph.flows.map((flow) => [flow.id, piecesOf(ways.get(flow.id) as Point[])]));
  for (const [index, a] of graph.shapes.entries()) {
    for (const b of graph.shapes.slice(index + 1)) {
      if (a.host !== b.id && b.host !== a.id && meet(place(a.id), place(b.id))) found.push(`${a.id} lies on ${b.id}`);
    }
    if (a.host && !meet(place(a.id), place(a.host))) found.push(`${a.id} is not at ${a.host}`);
  }
  for (const [index, flow] of graph.flows.entries()) {
    const way = ways.get(flow.id) as Point[];
    const own = pieces.get(flow.id) as Piece[];
    if (!touches(place(flow.from), way[0] as Point)) found.push(`${flow.id} does not leave ${flow.from}`);
    if (!touches(place(flow.to), way.at(-1) as Point)) found.push(`${flow.id} does not reach ${flow.to}`);
    if (own.some(([from, to]) => Math.abs(from[0] - to[0]) > 1 && Math.abs(from[1] - to[1]) > 1)) found.push(`${flow.id} runs aslant`);
    for (const shape of graph.shapes) if (own.some((piece) => crosses(piece, place(shape.id)))) found.push(`${flow.id} runs through ${shape.id}`);
    for (const other of graph.flows.slice(index + 1)) {
      // Ways that part or join run together; others would be taken for one.
      if (other.from === flow.from || other.to === flow.to) continue;
      if (own.some((a) => (pieces.get(other.id) as Piece[]).some((b) => together(a, b) > 1))) found.push(`${flow.id} runs on ${other.id}`);
    }
  }
  const names = [...labels].map(([id, box]) => ({ id, box }));
  for (const [index, { id, box }] of names.entries()) {
    for (const shape of graph.shapes) if (shape.id !== id && meet(box, place(shape.id))) found.push(`the name of ${id} lies on ${shape.id}`);
    for (const other of names.slice(index + 1)) if (meet(box, other.box)) found.push(`the name of ${id} lies on that of ${other.id}`);
  }
  return found;
}

function isReal(box: Box | undefined): box is Box {
  return box !== undefined && [box.x, box.y].every(Number.isFinite) && box.width > 0 && box.height > 0;
}

function piecesOf(points: Point[]): Piece[] {
  return points.slice(1).map((point, index) => [points[index] as Point, point]);
}

/** Whether more than a border is common to both. */
function meet(a: Box, b: Box): boolean {
  return a.x + a.width > b.x + 1 && b.x + b.width > a.x + 1 && a.y + a.height > b.y + 1 && b.y + b.height > a.y + 1;
}

function touches(box: Box, [x, y]: Point): boolean {
  return x >= box.x - 2 && x <= box.x + box.width + 2 && y >= box.y - 2 && y <= box.y + box.height + 2;
}

/** Whether a piece runs inside a box. */
function crosses([[ax, ay], [bx, by]]: Piece, box: Box): boolean {
  return Math.max(ax, bx) > box.x + 2 && Math.min(ax, bx) < box.x + box.width - 2 && Math.max(ay, by) > box.y + 2 && Math.min(ay, by) < box.y + box.height - 2;
}

/** How long two pieces run on each other. */
function together([a, b]: Piece, [c, d]: Piece): number {
  const common = (axis: 0 | 1) => Math.min(Math.max(a[axis], b[axis]), Math.max(c[axis], d[axis])) - Math.max(Math.min(a[axis], b[axis]), Math.min(c[axis], d[axis]));
  const level = (axis: 0 | 1) => [b, c, d].every((point) => Math.abs(point[axis] - a[axis]) < 2);
  if (level(1)) return common(0);
  if (level(0)) return common(1);
  return 0;
}
