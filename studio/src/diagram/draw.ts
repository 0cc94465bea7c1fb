// Gives BPMN without a diagram one: bpmn-auto-layout's where it is complete and clear, else our own.
import { autoLayout } from './auto';
import { faults } from './faults';
import type { Graph } from './graph';
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

/** Drawn versions. A version never changes, and the engine's text of it says no more and no less than its digest. */
const drawn = new Map<string, Promise<string>>();
const MOST_DRAWN = 40;

/** The same BPMN with the diagram that it lacks. */
export function withDiagram(xml: string, graph: Graph): Promise<string> {
  if (graph.hasDiagram) return Promise.resolve(xml);
  const known = drawn.get(xml);
  if (known !== undefined) return known;
  if (drawn.size >= MOST_DRAWN) drawn.clear();
  const made = picture(graph).then((drawing) => write(xml, graph, drawing));
  drawn.set(xml, made);
  return made;
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
