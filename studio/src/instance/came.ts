// What came of a closed incident, read out of what happened after it.
import type { HistoryEntry, Incident } from '../api/types';

/** One sentence, or nothing where nothing is known yet. */
export function cameOf(incident: Incident, all: Incident[], history: HistoryEntry[]): string | undefined {
  if (incident.state !== 'RESOLVED' || !incident.resolvedAt) return undefined;
  const closed = new Date(incident.resolvedAt).getTime();
  const again = all
    .filter((one) => one.id !== incident.id && one.kind === 'INCIDENT' && one.nodeId === incident.nodeId && new Date(one.createdAt).getTime() >= closed)
    .sort((a, b) => a.createdAt.localeCompare(b.createdAt))[0];
  if (again) return again.code === incident.code ? `It led to ${again.code} again.` : `It led to ${again.code}.`;
  const after = history.filter((entry) => new Date(entry.at).getTime() >= closed);
  const left = after.find((entry) => entry.type === 'NODE_ENTERED' && (entry.data as { from?: string } | undefined)?.from === incident.nodeId);
  if (left?.nodeId) return `The flow went on to ${left.nodeId}.`;
  const ended = after.find((entry) => entry.type === 'INSTANCE_COMPLETED' || entry.type === 'INSTANCE_FAILED' || entry.type === 'INSTANCE_CANCELLED');
  if (ended) return `The instance was ${ended.type.slice('INSTANCE_'.length).toLowerCase()}.`;
  return incident.kind === 'INCIDENT' ? 'It is being worked on.' : undefined;
}
