// How warm a node is: its figure against the largest of the diagram.
import type { NodeStatistics } from '../api/types';
import { amount, share } from '../screens/counts';
import { duration } from '../ui/time';

export const MEASURES = ['p50', 'p95', 'failed', 'active'] as const;
export type Measure = (typeof MEASURES)[number];

export interface Heat {
  /** 1 to 4; the warmest is 4. */
  level: number;
  text: string;
  title: string;
}

export function measured(node: NodeStatistics, by: Measure): number | undefined {
  if (by === 'p50') return node.p50Ms ?? undefined;
  if (by === 'p95') return node.p95Ms ?? undefined;
  if (by === 'failed') return node.visits > 0 ? node.failed / node.visits : undefined;
  return node.active > 0 ? node.active : undefined;
}

/** A level for each node with a figure; nothing is warm where every figure is nothing. */
export function heat(nodes: NodeStatistics[], by: Measure): Map<string, Heat> {
  const found = nodes.flatMap((node) => {
    const value = measured(node, by);
    return value === undefined ? [] : [{ node, value }];
  });
  const most = by === 'failed' ? 1 : Math.max(0, ...found.map((one) => one.value));
  return new Map(
    found.map(({ node, value }) => {
      const part = most > 0 ? value / most : 0;
      return [node.nodeId, { level: part === 0 ? 0 : Math.min(4, Math.floor(part * 4) + 1), text: shown(node, by), title: words(node) }];
    }),
  );
}

function shown(node: NodeStatistics, by: Measure): string {
  if (by === 'p50') return duration(node.p50Ms ?? 0);
  if (by === 'p95') return duration(node.p95Ms ?? 0);
  if (by === 'failed') return share(node.failed, node.visits);
  return amount(node.active);
}

/** Everything that is known of a node, in one line. */
export function words(node: NodeStatistics): string {
  const took = node.p50Ms === undefined || node.p50Ms === null ? '' : `, p50 ${duration(node.p50Ms)}, p95 ${duration(node.p95Ms ?? 0)}`;
  return `${amount(node.active)} here now, ${amount(node.visits)} visits, ${amount(node.failed)} failed${took}`;
}
