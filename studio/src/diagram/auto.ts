// The picture that bpmn-auto-layout draws. It reads flows from the `incoming` and `outgoing` of nodes, which the engine's
// BPMN leaves out as it may, so it gets a skeleton of the process that says them.
import type { Graph, Shape } from './graph';
import type { Box, Drawn, Point } from './layout';

export async function autoLayout(graph: Graph): Promise<Drawn> {
  const { layoutProcess } = await import('bpmn-auto-layout');
  return read(await layoutProcess(skeleton(graph)));
}

function skeleton(graph: Graph): string {
  const node = (shape: Shape) => {
    const into = graph.flows.filter((flow) => flow.to === shape.id).map((flow) => `<bpmn:incoming>${flow.id}</bpmn:incoming>`);
    const out = graph.flows.filter((flow) => flow.from === shape.id).map((flow) => `<bpmn:outgoing>${flow.id}</bpmn:outgoing>`);
    const host = shape.host ? ` attachedToRef="${shape.host}"` : '';
    return `<bpmn:${shape.type} id="${shape.id}"${host}>${into.join('')}${out.join('')}</bpmn:${shape.type}>`;
  };
  const flows = graph.flows.map((flow) => `<bpmn:sequenceFlow id="${flow.id}" sourceRef="${flow.from}" targetRef="${flow.to}"/>`);
  return `<?xml version="1.0" encoding="UTF-8"?><bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" id="_definitions" targetNamespace="urn:legation:bpmn:1"><bpmn:process id="${graph.process}">${graph.shapes.map(node).join('')}${flows.join('')}</bpmn:process></bpmn:definitions>`;
}

function read(xml: string): Drawn {
  const boxes = new Map<string, Box>();
  const ways = new Map<string, Point[]>();
  const number = (text: string, name: string) => Number(new RegExp(`\\b${name}="([^"]*)"`).exec(text)?.[1] ?? Number.NaN);
  for (const [, id = '', bounds = ''] of xml.matchAll(/<bpmndi:BPMNShape [^>]*bpmnElement="([^"]+)"[^>]*>\s*<dc:Bounds ([^>]*)\/>/g)) {
    boxes.set(id, { x: number(bounds, 'x'), y: number(bounds, 'y'), width: number(bounds, 'width'), height: number(bounds, 'height') });
  }
  for (const [, id = '', points = ''] of xml.matchAll(/<bpmndi:BPMNEdge [^>]*bpmnElement="([^"]+)"[^>]*>([\s\S]*?)<\/bpmndi:BPMNEdge>/g)) {
    ways.set(id, [...points.matchAll(/<di:waypoint ([^>]*)\/>/g)].map(([, point = '']) => [number(point, 'x'), number(point, 'y')]));
  }
  return { boxes, ways };
}
