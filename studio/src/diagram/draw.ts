// Gives BPMN without a diagram one: bpmn-auto-layout's where it is complete and clear, else our own.
import { autoLayout } from './auto';
import { faults } from './faults';
import type { Graph } from './graph';
import { keep, recall } from './kept';
import { type Box, type Layout, labelsOf, layout } from './layout';

export interface Picture extends Layout {
  by: 'bpmn-auto-layout' | 'own layout';
}

export async function picture(graph: Graph): Promise<Picture> {
  try {
    const auto = await autoLayout(graph);
    const drawn = { ...auto, labels: labelsOf(graph, auto.boxes, auto.ways) };
    if (faults(graph, drawn).length === 0) return { ...drawn, by: 'bpmn-auto-layout' };
  } catch {
    // It refuses some graphs, and its part of the app may be out of reach.
  }
  return { ...layout(graph), by: 'own layout' };
}

/** This build's address holds a checksum of what draws. */
const BUILD = import.meta.url;

/** The same BPMN with the diagram that it lacks. Where the digest of its version is known, the drawing is kept. */
export async function withDiagram(xml: string, graph: Graph, digest: string | undefined, storage = globalThis.sessionStorage as Storage | undefined): Promise<string> {
  if (graph.hasDiagram) return xml;
  const known = digest === undefined ? undefined : recall(digest, graph, BUILD, storage);
  if (known) return write(xml, graph, known);
  const drawing = await picture(graph);
  if (digest !== undefined) keep(digest, drawing, BUILD, storage);
  return write(xml, graph, drawing);
}

function write(xml: string, graph: Graph, { boxes, ways, labels }: Layout): string {
  const bounds = (box: Box) => `<dc:Bounds x="${box.x}" y="${box.y}" width="${box.width}" height="${box.height}"/>`;
  const label = (id: string) => {
    const box = labels.get(id);
    return box ? `<bpmndi:BPMNLabel>${bounds(box)}</bpmndi:BPMNLabel>` : '';
  };
  const shapes = graph.shapes.map((shape) => {
    const box = boxes.get(shape.id);
    return box ? `<bpmndi:BPMNShape id="_shape_${shape.id}" bpmnElement="${shape.id}">${bounds(box)}${label(shape.id)}</bpmndi:BPMNShape>` : '';
  });
  const edges = graph.flows.map((flow) => {
    const points = (ways.get(flow.id) ?? []).map(([x, y]) => `<di:waypoint x="${Math.round(x)}" y="${Math.round(y)}"/>`);
    return points.length > 1 ? `<bpmndi:BPMNEdge id="_edge${flow.id}" bpmnElement="${flow.id}">${points.join('')}${label(flow.id)}</bpmndi:BPMNEdge>` : '';
  });
  const plane = `<bpmndi:BPMNDiagram id="_diagram"><bpmndi:BPMNPlane id="_plane" bpmnElement="${graph.process}">${shapes.join('')}${edges.join('')}</bpmndi:BPMNPlane></bpmndi:BPMNDiagram>`;
  return xml.replace('</bpmn:definitions>', `${plane}</bpmn:definitions>`);
}
