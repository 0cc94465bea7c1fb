import { BpmnModdle } from 'bpmn-moddle';
import { describe, expect, it } from 'vitest';
import type { HistoryEntry } from '../api/types';
import { picture, withDiagram } from './draw';
import { faults } from './faults';
import { keep, recall } from './kept';
import { type Graph, passed, readGraph } from './graph';
import { type Box, type Drawn, labelsOf, layout } from './layout';

const XML = `<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" xmlns:di="http://www.omg.org/spec/DD/20100524/DI" xmlns:legation="urn:legation:bpmn:1" id="_definitions" targetNamespace="urn:legation:bpmn:1">
  <bpmn:process id="p" isExecutable="true">
    <bpmn:startEvent id="_start"/>
    <bpmn:userTask id="read" name="Read &lt;it&gt;"/>
    <bpmn:exclusiveGateway id="_outcome_read" legation:outcomesOf="read"/>
    <bpmn:boundaryEvent id="_expired_read" name="P5D" attachedToRef="read">
      <bpmn:timerEventDefinition/>
    </bpmn:boundaryEvent>
    <bpmn:serviceTask id="file" name="File"/>
    <bpmn:endEvent id="refused"/>
    <bpmn:endEvent id="done"/>
    <bpmn:sequenceFlow id="f1" sourceRef="_start" targetRef="read"/>
    <bpmn:sequenceFlow id="f2" sourceRef="read" targetRef="_outcome_read"/>
    <bpmn:sequenceFlow id="f3" sourceRef="_outcome_read" targetRef="file" name="Sign"/>
    <bpmn:sequenceFlow id="f4" sourceRef="_outcome_read" targetRef="refused" name="Refuse"/>
    <bpmn:sequenceFlow id="f5" sourceRef="_expired_read" targetRef="refused"/>
    <bpmn:sequenceFlow id="f6" sourceRef="file" targetRef="done"/>
    <bpmn:sequenceFlow id="f7" sourceRef="_outcome_read" targetRef="read" name="Again"/>
  </bpmn:process>
</bpmn:definitions>`;

const entered = (nodeId: string, from?: string) => ({ type: 'NODE_ENTERED', nodeId, data: { from } }) as unknown as HistoryEntry;

describe('the graph', () => {
  it('reads shapes, flows and escaped names', () => {
    const graph = readGraph(XML);
    expect(graph.process).toBe('p');
    expect(graph.shapes.find((shape) => shape.id === 'read')?.name).toBe('Read <it>');
    expect(graph.flows).toHaveLength(7);
    expect(graph.hasDiagram).toBe(false);
  });
  it('marks the gateway that the document only implies', () => {
    const taken = passed(readGraph(XML), [entered('read'), entered('file', 'read')]);
    expect([...taken].sort()).toEqual(['_outcome_read', '_start', 'f1', 'f2', 'f3', 'file', 'read']);
  });
  it('marks each branch of a fork, and nothing that was not taken', () => {
    const graph = readGraph(XML);
    expect(passed(graph, [entered('read')]).has('f4')).toBe(false);
    expect(passed(graph, []).size).toBe(0);
  });
});

describe('the layout', () => {
  const graph = readGraph(XML);
  const { boxes, ways } = layout(graph);
  const box = (id: string) => boxes.get(id) as Box;

  it('draws every shape and every flow', () => {
    expect([...boxes.keys()].sort()).toEqual(graph.shapes.map((shape) => shape.id).sort());
    for (const flow of graph.flows) expect((ways.get(flow.id) ?? []).length).toBeGreaterThan(1);
  });
  it('puts no shape on another', () => {
    const main = graph.shapes.filter((shape) => !shape.host).map((shape) => box(shape.id));
    for (const [index, a] of main.entries()) {
      for (const b of main.slice(index + 1)) {
        const apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(apart).toBe(true);
      }
    }
  });
  it('goes from left to right, with the usual path in one row', () => {
    const middle = (id: string) => box(id).y + box(id).height / 2;
    const path = ['_start', 'read', '_outcome_read', 'file', 'done'];
    for (const [index, id] of path.entries()) {
      expect(middle(id)).toBe(middle('_start'));
      if (index > 0) expect(box(id).x).toBeGreaterThan(box(path[index - 1] as string).x);
    }
  });
  it('draws ways of right angles only', () => {
    for (const points of ways.values()) {
      for (const [index, point] of points.entries()) {
        const before = points[index - 1];
        if (before) expect(before[0] === point[0] || Math.abs(before[1] - point[1]) < 1).toBe(true);
      }
    }
  });
  it('gives BPMN that bpmn-moddle reads without a warning', async () => {
    const { warnings, rootElement } = await new BpmnModdle().fromXML(await withDiagram(XML, graph, undefined));
    expect(warnings).toEqual([]);
    expect((rootElement as unknown as { diagrams: unknown[] }).diagrams).toHaveLength(1);
  });
});

/** A tab's storage that refuses what is larger than its room. */
function tab(room = Infinity): Storage & { text: string } {
  const items = new Map<string, string>();
  return {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, text: string) => {
      if (text.length > room) throw new Error('QuotaExceededError');
      items.set(name, text);
    },
    get text() {
      return [...items.values()].join('');
    },
  } as unknown as Storage & { text: string };
}

describe('kept drawings', () => {
  const graph = readGraph(XML);
  const drawing = layout(graph);

  it('are used again for the same digest, also after a reload, and by no other build', () => {
    const storage = tab();
    keep('d1', drawing, 'build-1', storage);
    expect(recall('d1', graph, 'build-1', storage)).toEqual(drawing);
    expect(recall('d2', graph, 'build-1', storage)).toBeUndefined();
    expect(recall('d1', graph, 'build-2', storage)).toBeUndefined();
  });
  it('draw a version without asking anybody to lay it out', async () => {
    const storage = tab();
    const first = await withDiagram(XML, graph, 'd1', storage);
    const moved = storage.text.replace(/\\"x\\":(\d+)/, (_, x: string) => `\\"x\\":${Number(x) + 7_000}`);
    storage.setItem('legation.drawings', moved);
    const second = await withDiagram(XML, graph, 'd1', storage);
    expect(second).not.toBe(first);
    expect(second).toMatch(/x="7\d\d\d/);
    expect(await withDiagram(XML, graph, undefined, storage)).toBe(first);
  });
  it('lack nothing that is to be drawn', () => {
    const storage = tab();
    keep('d1', drawing, 'b', storage);
    const more: Graph = { ...graph, shapes: [...graph.shapes, { ...graph.shapes[0], id: 'new' } as Graph['shapes'][number]] };
    expect(recall('d1', more, 'b', storage)).toBeUndefined();
  });
  it('are no more than forty, and the longest unused goes first', () => {
    const storage = tab();
    for (let number = 0; number < 40; number++) keep(`d${number}`, drawing, 'b', storage);
    expect(recall('d0', graph, 'b', storage)).toBeDefined();
    keep('d40', drawing, 'b', storage);
    expect(recall('d0', graph, 'b', storage)).toBeDefined();
    expect(recall('d1', graph, 'b', storage)).toBeUndefined();
    expect(recall('d40', graph, 'b', storage)).toBeDefined();
  });
  it('do without a storage, with a full one, and with one that somebody else wrote into', () => {
    const full = tab(10);
    keep('d1', drawing, 'b', full);
    expect(recall('d1', graph, 'b', full)).toBeUndefined();
    keep('d1', drawing, 'b', undefined);
    expect(recall('d1', graph, 'b', undefined)).toBeUndefined();
    for (const text of ['{', '7', '{"build":"b","drawings":[["d1","{"]]}', '{"build":"b","drawings":7}']) {
      const odd = tab();
      odd.setItem('legation.drawings', text);
      expect(recall('d1', graph, 'b', odd)).toBeUndefined();
    }
  });
});

/** As the engine writes them; the browser story holds them against what it answers. */
const FIXTURES = import.meta.glob<string>('./fixtures/*.bpmn', { query: '?raw', import: 'default', eager: true });
const fixture = (key: string) => readGraph(FIXTURES[`./fixtures/${key}.bpmn`] ?? '');

describe('the picture of a process', () => {
  it.each(['complaint', 'refund_payout', 'large_payout', 'month_end', 'audit', 'shipment'])('of %s is bpmn-auto-layout\'s', async (key) => {
    expect((await picture(fixture(key))).by).toBe('bpmn-auto-layout');
  });
  it.each(['contract_review', 'onboarding'])('of %s is our own, because two ways cannot be told apart in the other', async (key) => {
    expect((await picture(fixture(key))).by).toBe('own layout');
  });
  it.each(Object.entries(FIXTURES))('of %s has everything, and nothing lies on anything', async (_, xml) => {
    const graph = readGraph(xml);
    expect(graph.flows.length).toBeGreaterThan(1);
    expect(faults(graph, await picture(graph))).toEqual([]);
    // Ours has to do for each of them.
    expect(faults(graph, layout(graph))).toEqual([]);
  });
  it('is our own where bpmn-auto-layout refuses', async () => {
    const graph: Graph = { process: 'p', hasDiagram: false, flows: [], shapes: [{ id: 'a"', type: 'userTask', name: '' }] };
    expect((await picture(graph)).by).toBe('own layout');
  });
});

describe('a fault of a drawing', () => {
  const graph = readGraph(XML);
  const good = layout(graph);
  const spoilt = (part: (drawn: Drawn) => void) => {
    const drawn = { boxes: new Map(good.boxes), ways: new Map(good.ways) };
    part(drawn);
    return faults(graph, { ...drawn, labels: labelsOf(graph, drawn.boxes, drawn.ways) }).join('; ');
  };
  it('is what is missing', () => {
    expect(spoilt(({ boxes }) => boxes.delete('_expired_read'))).toBe('_expired_read is not drawn');
    expect(spoilt(({ ways }) => ways.set('f1', []))).toBe('f1 is not drawn');
  });
  it('is a shape on another, and a boundary event away from its host', () => {
    expect(spoilt(({ boxes }) => boxes.set('done', good.boxes.get('file') as Box))).toContain('file lies on done');
    expect(spoilt(({ boxes }) => boxes.set('_expired_read', { x: 900, y: 900, width: 36, height: 36 }))).toContain('_expired_read is not at read');
  });
  it('is a way that ends nowhere, runs aslant, through a shape or on another way', () => {
    const middle = (id: string): [number, number] => [(good.boxes.get(id) as Box).x, (good.boxes.get(id) as Box).y + 20];
    expect(spoilt(({ ways }) => ways.set('f6', [[0, 0], [1, 900]]))).toMatch(/f6 does not leave file.*f6 does not reach done/);
    expect(spoilt(({ ways }) => ways.set('f1', [middle('_start'), middle('done')]))).toMatch(/f1 runs (aslant|through)/);
    expect(spoilt(({ ways }) => ways.set('f1', good.ways.get('f6') as [number, number][]))).toContain('f1 runs on f6');
  });
});
