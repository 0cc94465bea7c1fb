// Every question the screens ask, with the key under which the answer is kept. The feed refreshes by these keys.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { get, getText, path } from './client';
import type {
  Explanation, ExternalTaskList, History, HistoryEntry, HumanTask, HumanTaskList, Incident, IncidentList, Instance, InstanceCounts, InstanceJournal, InstanceList, InstanceStatus,
  KeyList, Lineage, Me, Process, ProcessList, ProcessStatistics, ProjectList, ServerList, Variables, Workers,
} from './types';

export interface InstanceFilter {
  process?: string;
  status?: InstanceStatus;
  businessKey?: string;
  label?: string;
  /** RFC 3339; from then on. */
  startedAfter?: string;
  /** RFC 3339; before then. */
  startedBefore?: string;
}

const enc = encodeURIComponent;

export const me = queryOptions({ queryKey: ['me'], queryFn: ({ signal }) => get<Me>('/v1/me', signal), staleTime: 60_000 });

export const instances = (filter: InstanceFilter) =>
  infiniteQueryOptions({
    queryKey: ['instances', filter],
    queryFn: ({ pageParam, signal }) => get<InstanceList>(path('/v1/instances', { ...filter, limit: 100, after: pageParam }), signal),
    initialPageParam: '',
    getNextPageParam: (last) => last.next ?? undefined,
  });

/** How many there are, by status; of a business key or a label nobody counts. */
export const counts = ({ process, startedAfter, startedBefore }: InstanceFilter) =>
  queryOptions({
    queryKey: ['counts', process, startedAfter, startedBefore],
    queryFn: async ({ signal }) => (await get<InstanceCounts>(path('/v1/instances/counts', { process, startedAfter, startedBefore }), signal)).counts,
    placeholderData: (before) => before,
    // Counting may walk a long index: not with every event.
    refetchInterval: 3_000,
  });

export const instance = (id: string) =>
  queryOptions({ queryKey: ['instance', id, 'view'], queryFn: ({ signal }) => get<Instance>(`/v1/instances/${enc(id)}`, signal) });

export const explain = (id: string) =>
  queryOptions({ queryKey: ['instance', id, 'explain'], queryFn: ({ signal }) => get<Explanation>(`/v1/instances/${enc(id)}/explain`, signal), refetchInterval: 15_000 });

/** The whole history, page by page; what has been read is not read again. */
export const history = (id: string) =>
  queryOptions({
    queryKey: ['instance', id, 'history'],
    queryFn: async ({ signal, client, queryKey }) => {
      const entries: HistoryEntry[] = [...(client.getQueryData<HistoryEntry[]>(queryKey) ?? [])];
      for (let pages = 0; pages < 50; pages++) {
        const after = entries.at(-1)?.revision;
        const page = await get<History>(path(`/v1/instances/${enc(id)}/history`, { after, limit: 5_000 }), signal);
        entries.push(...page.entries);
        if (page.after === undefined || page.after === null || page.entries.length === 0) break;
      }
      return entries;
    },
  });

export const journal = (id: string) =>
  queryOptions({ queryKey: ['instance', id, 'journal'], queryFn: ({ signal }) => get<InstanceJournal>(`/v1/instances/${enc(id)}/journal`, signal) });

/** With what each value was before only where that is shown: it is read from all of the history. */
export const variables = (id: string, withHistory: boolean) =>
  queryOptions({
    queryKey: ['instance', id, 'variables', withHistory],
    queryFn: ({ signal }) => get<Variables>(path(`/v1/instances/${enc(id)}/variables`, { history: withHistory ? 'true' : undefined }), signal),
    placeholderData: (before) => before,
  });

export const lineage = (id: string) =>
  queryOptions({ queryKey: ['instance', id, 'lineage'], queryFn: ({ signal }) => get<Lineage>(`/v1/instances/${enc(id)}/lineage`, signal) });

export const instanceTasks = (id: string) =>
  queryOptions({
    queryKey: ['instance', id, 'tasks'],
    queryFn: async ({ signal }) => {
      const of = (state: string) => get<HumanTaskList>(path('/v1/tasks', { instanceId: id, state, limit: 200 }), signal);
      const lists = await Promise.all(['OPEN', 'COMPLETED', 'CANCELLED', 'EXPIRED'].map(of));
      return lists.flatMap((list) => list.tasks);
    },
  });

export const instanceIncidents = (id: string) =>
  queryOptions({
    queryKey: ['instance', id, 'incidents'],
    queryFn: async ({ signal }) => {
      const of = (state: string) => get<IncidentList>(path('/v1/incidents', { instanceId: id, state, limit: 200 }), signal);
      const [open, resolved] = await Promise.all([of('OPEN'), of('RESOLVED')]);
      return [...open.incidents, ...resolved.incidents] as Incident[];
    },
  });

export const inbox = (state: string) =>
  infiniteQueryOptions({
    queryKey: ['tasks', 'me', state],
    queryFn: ({ pageParam, signal }) => get<HumanTaskList>(path('/v1/tasks', { for: 'me', state, limit: 100, after: pageParam }), signal),
    initialPageParam: '',
    getNextPageParam: (last) => last.next ?? undefined,
  });

export const task = (id: string) =>
  queryOptions({ queryKey: ['tasks', 'one', id], queryFn: ({ signal }) => get<HumanTask>(`/v1/tasks/${enc(id)}`, signal) });

export const INCIDENT_KINDS = ['INCIDENT', 'NOTICE'] as const;

export interface IncidentFilter {
  /** The open ones, unless it says otherwise. */
  state?: 'OPEN' | 'RESOLVED';
  kind?: (typeof INCIDENT_KINDS)[number];
  instanceId?: string;
  process?: string;
}

export const incidents = (filter: IncidentFilter) =>
  infiniteQueryOptions({
    queryKey: ['incidents', 'list', filter],
    queryFn: ({ pageParam, signal }) => get<IncidentList>(path('/v1/incidents', { ...filter, limit: 100, after: pageParam }), signal),
    initialPageParam: '',
    getNextPageParam: (last) => last.next ?? undefined,
  });

export const incident = (id: string) =>
  queryOptions({ queryKey: ['incidents', 'one', id], queryFn: ({ signal }) => get<Incident>(`/v1/incidents/${enc(id)}`, signal) });

export const processes = queryOptions({ queryKey: ['processes'], queryFn: async ({ signal }) => (await get<ProcessList>('/v1/processes', signal)).processes });

export const process = (key: string, version?: number) =>
  queryOptions({ queryKey: ['process', key, version ?? 'newest'], queryFn: ({ signal }) => get<Process>(path(`/v1/processes/${enc(key)}`, { version }), signal) });

export const versions = (key: string) =>
  queryOptions({ queryKey: ['process', key, 'versions'], queryFn: async ({ signal }) => (await get<ProcessList>(`/v1/processes/${enc(key)}/versions`, signal)).processes });

/** A version never changes, so its picture is fetched once. */
export const bpmn = (key: string, version: number) =>
  queryOptions({
    queryKey: ['bpmn', key, version],
    queryFn: ({ signal }) => getText(`/v1/processes/${enc(key)}/versions/${version}/bpmn`, signal),
    staleTime: Infinity,
    gcTime: 30 * 60_000,
  });

/** What stands at each node now, and how long the newest visits took. */
export const statistics = (key: string, version: number) =>
  queryOptions({
    queryKey: ['statistics', key, version],
    queryFn: ({ signal }) => get<ProcessStatistics>(`/v1/processes/${enc(key)}/versions/${version}/statistics`, signal),
    refetchInterval: 10_000,
  });

export const servers = queryOptions({ queryKey: ['servers'], queryFn: async ({ signal }) => (await get<ServerList>('/v1/servers', signal)).servers });

export const projects = queryOptions({ queryKey: ['projects'], queryFn: async ({ signal }) => (await get<ProjectList>('/v1/projects', signal)).projects });

/** Open tasks of a topic, newest first. */
export const topicTasks = (topic: string) =>
  queryOptions({ queryKey: ['workers', 'tasks', topic], queryFn: ({ signal }) => get<ExternalTaskList>(path('/v1/external-tasks', { topic, limit: 50 }), signal) });

export const workers = queryOptions({ queryKey: ['workers'], queryFn: ({ signal }) => get<Workers>('/v1/workers', signal), refetchInterval: 5_000 });

export const keys = queryOptions({ queryKey: ['keys'], queryFn: async ({ signal }) => (await get<KeyList>('/v1/keys', signal)).keys });
