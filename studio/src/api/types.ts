// Names for what the engine answers. The shapes come from specs/openapi.json (`npm run types`), never from here.
import type { components } from './schema';

type Schemas = components['schemas'];
export type DocumentProblem = Schemas['DocumentProblem'];
export type Explanation = Schemas['Explanation'];
export type FeedEvent = Schemas['FeedEvent'];
export type History = Schemas['History'];
export type HistoryEntry = Schemas['HistoryEntry'];
export type HumanTask = Schemas['HumanTaskView'];
export type HumanTaskList = Schemas['HumanTaskList'];
export type Incident = Schemas['IncidentView'];
export type IncidentAnswer = Schemas['IncidentAnswer'];
export type IncidentList = Schemas['IncidentList'];
export type Instance = Schemas['InstanceView'];
export type InstanceCounts = Schemas['InstanceCounts'];
export type InstanceJournal = Schemas['InstanceJournal'];
export type InstanceList = Schemas['InstanceList'];
export type InstanceStarted = Schemas['InstanceStarted'];
export type InstanceStatus = Schemas['InstanceStatus'];
export type KeyList = Schemas['KeyList'];
export type CreatedKey = Schemas['CreatedKey'];
export type Lineage = Schemas['Lineage'];
export type LineageNode = Schemas['LineageNode'];
export type Me = Schemas['Me'];
export type Problem = Schemas['Problem'];
export type NodeStatistics = Schemas['NodeStatistics'];
export type Process = Schemas['ProcessView'];
export type ProcessList = Schemas['ProcessList'];
export type ProcessStatistics = Schemas['ProcessStatistics'];
export type ProjectList = Schemas['ProjectList'];
export type ServerList = Schemas['ServerList'];
export type StatusCount = Schemas['StatusCount'];
export type DeployAnswer = Schemas['DeployAnswer'];
export type ExternalTask = Schemas['ExternalTaskView'];
export type ExternalTaskList = Schemas['ExternalTaskList'];
export type Step = Schemas['StepView'];
export type TaskJournal = Schemas['TaskJournal'];
export type ValidateAnswer = Schemas['ValidateAnswer'];
export type Variable = Schemas['VariableView'];
export type VariableWrite = Schemas['VariableWrite'];
export type Variables = Schemas['VariablesAnswer'];
export type Workers = Schemas['WorkersAnswer'];

/** Any JSON value as the engine sent it; numbers that a double cannot hold are {@link Exact}. */
export type Json = null | boolean | number | string | Exact | Json[] | { [name: string]: Json };

/** A number with more digits than a double keeps, such as money with many places. Shown and sent as written. */
export class Exact {
  constructor(readonly text: string) {}
  toString() {
    return this.text;
  }
  toJSON(): unknown {
    const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;
    return raw ? raw(this.text) : Number(this.text);
  }
}
