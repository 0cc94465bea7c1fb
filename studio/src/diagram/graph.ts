// The nodes and flows in the BPMN that the engine writes, and which of them an instance has passed.
import type { HistoryEntry } from '../api/types';

export interface Shape {
  id: string;
  type: string;
  name: string;
  /** The node that a boundary event sits on. */
  host?: string;
  /** The node whose outcomes a gateway routes. */
  outcomesOf?: string;
}

export interface Flow {
  id: string;
  from: string;
  to: string;
  name: string;
}

export interface Graph {
  process: string;
  shapes: Shape[];
  flows: Flow[];
  hasDiagram: boolean;
}

const SHAPES = new Set([
  'startEvent', 'endEvent', 'serviceTask', 'businessRuleTask', 'userTask', 'callActivity', 'exclusiveGateway', 'parallelGateway', 'intermediateCatchEvent', 'boundaryEvent',
]);

export function readGraph(xml: string): Graph {
  const graph: Graph = { process: '', shapes: [], flows: [], hasDiagram: xml.includes('<bpmndi:BPMNDiagram') };
  for (const match of xml.matchAll(/<bpmn:(\w+)((?:\s+[\w:]+="[^"]*")*)\s*\/?>/g)) {
    const [, tag = '', text = ''] = match;
    const attributes = read(text);
    const id = attributes.id ?? '';
    if (tag === 'process') graph.process = id;
    else if (tag === 'sequenceFlow') graph.flows.push({ id, from: attributes.sourceRef ?? '', to: attributes.targetRef ?? '', name: attributes.name ?? '' });
    else if (SHAPES.has(tag)) graph.shapes.push({ id, type: tag, name: attributes.name ?? '', host: attributes.attachedToRef, outcomesOf: attributes['legation:outcomesOf'] });
  }
  return graph;
}

function read(text: string): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (const [, name = '', value = ''] of text.matchAll(/([\w:]+)="([^"]*)"/g)) {
    attributes[name] = value.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#10;', '\n').replaceAll('&#9;', '\t').replaceAll('&amp;', '&');
  }
  return attributes;
}

/** The shapes and flows that tokens have passed, from the nodes they entered. */
export function passed(graph: Graph, history: HistoryEntry[]): Set<string> {
  const taken = new Set<string>();
  for (const entry of history) {
    if (entry.type !== 'NODE_ENTERED' || !entry.nodeId) continue;
    taken.add(entry.nodeId);
    const from = (entry.data as { from?: string } | undefined)?.from;
    const starts = graph.shapes.filter((shape) => shape.id === '_start').map((shape) => shape.id);
    for (const id of route(graph, from ? [from] : starts, entry.nodeId)) taken.add(id);
  }
  return taken;
}

/** The flows, and the events or gateways that the document only implies, between two nodes. */
function route(graph: Graph, from: string[], to: string): string[] {
  for (const start of from) {
    const direct = graph.flows.find((flow) => flow.from === start && flow.to === to);
    if (direct) return [start, direct.id];
    for (const flow of graph.flows.filter((one) => one.to === to)) {
      const between = graph.shapes.find((shape) => shape.id === flow.from);
      if (between?.outcomesOf === start) {
        const before = graph.flows.find((one) => one.from === start && one.to === between.id);
        return [start, between.id, flow.id, ...(before ? [before.id] : [])];
      }
      if (between?.host === start) return [start, between.id, flow.id];
    }
  }
  return [];
}
