// Every address of Studio. What a screen shows stands in its URL, so it can be shared.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { INCIDENT_KINDS, type IncidentFilter, type InstanceFilter } from './api/queries';
import type { InstanceStatus } from './api/types';
import { InboxScreen } from './screens/Inbox';
import { InstancesScreen } from './screens/Instances';
import { Empty, Failed, Heading, Loading } from './ui/parts';
import { Shell } from './ui/Shell';

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <>
      <Heading title="No page" />
      <Empty title="There is no such page">The menu above leads to all there are.</Empty>
    </>
  ),
  errorComponent: ({ error }) => <Failed error={error} />,
});

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined);
const time = (value: unknown) => (typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value)) ? value : undefined);
const count = (value: unknown) => (Number.isInteger(value) && Number(value) > 0 ? Number(value) : undefined);
const one = <T extends string>(value: unknown, of: readonly T[]) => of.find((word) => word === value);

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/instances', search: {} });
  },
});

export const STATUSES: InstanceStatus[] = ['RUNNING', 'CANCELLING', 'COMPLETED', 'FAILED', 'CANCELLED'];

export const instancesRoute = createRoute({
  getParentRoute: () => root,
  path: '/instances',
  component: InstancesScreen,
  validateSearch: (search: Record<string, unknown>): InstanceFilter => ({
    process: text(search.process),
    status: one(search.status, STATUSES),
    businessKey: text(search.businessKey),
    label: text(search.label),
    startedAfter: time(search.startedAfter),
    startedBefore: time(search.startedBefore),
  }),
});

export const INSTANCE_TABS = ['timeline', 'journal', 'variables', 'lineage', 'incidents', 'history'] as const;
export type InstanceTab = (typeof INSTANCE_TABS)[number];

export const instanceRoute = createRoute({
  getParentRoute: () => root,
  path: '/instances/$id',
  component: lazyRouteComponent(() => import('./screens/Instance'), 'InstanceScreen'),
  validateSearch: (search: Record<string, unknown>): { tab?: InstanceTab; node?: string; page?: number } => ({ tab: one(search.tab, INSTANCE_TABS), node: text(search.node), page: count(search.page) }),
});

const TASK_STATES = ['OPEN', 'COMPLETED', 'EXPIRED', 'CANCELLED'] as const;

export const inboxRoute = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  component: InboxScreen,
  validateSearch: (search: Record<string, unknown>): { task?: string; state?: (typeof TASK_STATES)[number] } => ({ task: text(search.task), state: one(search.state, TASK_STATES) }),
});

const processesRoute = createRoute({
  getParentRoute: () => root,
  path: '/processes',
  component: lazyRouteComponent(() => import('./screens/Processes'), 'ProcessesScreen'),
});

export const PROCESS_TABS = ['diagram', 'source', 'start', 'versions'] as const;
export type ProcessTab = (typeof PROCESS_TABS)[number];

export const processRoute = createRoute({
  getParentRoute: () => root,
  path: '/processes/$key',
  component: lazyRouteComponent(() => import('./screens/Process'), 'ProcessScreen'),
  validateSearch: (search: Record<string, unknown>): { tab?: ProcessTab; version?: number } => ({
    tab: one(search.tab, PROCESS_TABS),
    version: count(search.version),
  }),
});

const workersRoute = createRoute({
  getParentRoute: () => root,
  path: '/workers',
  component: lazyRouteComponent(() => import('./screens/Workers'), 'WorkersScreen'),
});

export const incidentsRoute = createRoute({
  getParentRoute: () => root,
  path: '/incidents',
  component: lazyRouteComponent(() => import('./screens/Incidents'), 'IncidentsScreen'),
  validateSearch: (search: Record<string, unknown>): IncidentFilter & { incident?: string } => ({
    state: one(search.state, ['OPEN', 'RESOLVED'] as const),
    kind: one(search.kind, INCIDENT_KINDS),
    instanceId: text(search.instanceId),
    process: text(search.process),
    incident: text(search.incident),
  }),
});

const settingsRoute = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyRouteComponent(() => import('./screens/Settings'), 'SettingsScreen'),
});

export const router = createRouter({
  routeTree: root.addChildren([home, instancesRoute, instanceRoute, inboxRoute, processesRoute, processRoute, workersRoute, incidentsRoute, settingsRoute]),
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading rows={6} />,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
