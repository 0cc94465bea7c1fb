// The drawing itself: bpmn-js over the engine's BPMN. Loaded when a diagram is first shown.
import NavigatedViewer from 'bpmn-js/lib/NavigatedViewer';
import 'bpmn-js/dist/assets/bpmn-js.css';
import 'bpmn-js/dist/assets/diagram-js.css';
import { useEffect, useMemo, useRef, useState } from 'react';
import { withDiagram } from './draw';
import { readGraph } from './graph';
import type { Heat } from './heat';

export interface Marks {
  /** Shapes and flows that tokens have passed. */
  passed: Set<string>;
  /** Nodes where something happens now. */
  active: string[];
  /** Nodes with an open incident. */
  incidents: string[];
}

interface Canvas {
  zoom(level: 'fit-viewport' | number, center?: 'auto'): number;
  zoom(): number;
  addMarker(id: string, marker: string): void;
  removeMarker(id: string, marker: string): void;
  resized(): void;
  viewbox(): { inner: { width: number; height: number }; outer: { width: number; height: number } };
}
interface Overlays {
  add(id: string, overlay: { position: Record<string, number>; html: HTMLElement }): void;
  clear(): void;
}
interface Registry {
  get(id: string): unknown;
  getAll(): { id: string }[];
}
interface EventBus {
  on(event: string, listener: (event: { element: { id: string; type: string } }) => void): void;
}

const INK = { defaultFillColor: 'var(--surface)', defaultStrokeColor: 'var(--ink)', defaultLabelColor: 'var(--ink)' };

export default function Viewer({ xml, digest, marks, heat, selected, onSelect, label }: { xml: string; digest?: string; marks?: Marks; heat?: Map<string, Heat>; selected?: string; onSelect?: (node: string | undefined) => void; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const viewer = useRef<NavigatedViewer | null>(null);
  const [drawn, setDrawn] = useState(0);
  const [failed, setFailed] = useState<string | null>(null);
  const graph = useMemo(() => readGraph(xml), [xml]);
  const select = useRef(onSelect);
  select.current = onSelect;

  useEffect(() => {
    if (!box.current) return;
    const made = new NavigatedViewer({ container: box.current, bpmnRenderer: INK, textRenderer: { defaultStyle: { fontFamily: 'Arial, "Liberation Sans", sans-serif', fontSize: 12 } } });
    viewer.current = made;
    let isGone = false;
    let isDrawn = false;
    (made.get('eventBus') as EventBus).on('element.click', ({ element }) => select.current?.(element.type === 'bpmn:Process' ? undefined : element.id.replace(/_label$/, '')));
    withDiagram(xml, graph, digest)
      .then((text) => (isGone ? undefined : made.importXML(text)))
      .then(() => {
        if (isGone) return;
        isDrawn = true;
        fit(made.get('canvas') as Canvas);
        setDrawn((count) => count + 1);
      })
      .catch((error: unknown) => !isGone && setFailed(String(error)));
    const watch = new ResizeObserver(() => {
      if (!isGone && isDrawn) fit(made.get('canvas') as Canvas);
    });
    watch.observe(box.current);
    return () => {
      isGone = true;
      watch.disconnect();
      made.destroy();
      viewer.current = null;
    };
  }, [xml, graph, digest]);

  useEffect(() => {
    const made = viewer.current;
    if (!made || drawn === 0) return;
    const canvas = made.get('canvas') as Canvas;
    const overlays = made.get('overlays') as Overlays;
    const registry = made.get('elementRegistry') as Registry;
    const marked: [string, string][] = [];
    const mark = (id: string | undefined, name: string) => {
      if (!id || !registry.get(id)) return;
      canvas.addMarker(id, name);
      marked.push([id, name]);
    };
    for (const id of marks?.passed ?? []) mark(id, 'passed');
    for (const id of marks?.active ?? []) mark(id, 'active');
    for (const id of marks?.incidents ?? []) mark(id, 'broken');
    mark(selected, 'chosen');
    for (const [id, { level, text, title }] of heat ?? []) {
      if (!registry.get(id)) continue;
      if (level > 0) mark(id, `heat-${level}`);
      overlays.add(id, { position: { bottom: -4, left: 0 }, html: dot(`figure heat-${level}`, text, title) });
    }
    const counts = new Map<string, number>();
    for (const id of marks?.active ?? []) counts.set(id, (counts.get(id) ?? 0) + 1);
    for (const [id, count] of counts) if (registry.get(id)) overlays.add(id, { position: { top: -11, left: -11 }, html: dot('token', String(count), `${count} here now`) });
    for (const id of new Set(marks?.incidents)) if (registry.get(id)) overlays.add(id, { position: { top: -11, right: 11 }, html: dot('alarm', '!', 'incident') });
    return () => {
      if (viewer.current !== made) return;
      overlays.clear();
      for (const [id, name] of marked) canvas.removeMarker(id, name);
    };
  }, [drawn, marks, heat, selected]);

  const zoom = (by: number) => {
    const canvas = viewer.current?.get('canvas') as Canvas | undefined;
    if (canvas) canvas.zoom(Math.min(3, Math.max(0.2, canvas.zoom() * by)), 'auto');
  };
  const names = graph.shapes.filter((shape) => !shape.id.startsWith('_')).map((shape) => shape.name || shape.id);
  if (failed) return <p className="state" role="alert">The diagram cannot be drawn: {failed}</p>;
  return (
    <div className="diagram">
      <div ref={box} className="diagram-canvas" role="group" aria-label={`${label}: ${names.join(', ')}`} />
      <div className="diagram-tools">
        <button type="button" aria-label="Zoom in" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" onClick={() => viewer.current && fit(viewer.current.get('canvas') as Canvas)}>
          Fit
        </button>
      </div>
    </div>
  );
}

/** All of it, but never larger than life. */
function fit(canvas: Canvas) {
  // Sizes are remembered: without this a turned phone is fitted by what it was, down to nothing.
  canvas.resized();
  const { outer, inner } = canvas.viewbox();
  // Hidden, or on its way out: there is nothing to fit into.
  if (!(outer.width > 0 && outer.height > 0 && inner.width > 0 && inner.height > 0)) return;
  canvas.zoom('fit-viewport', 'auto');
  const level = canvas.zoom();
  canvas.zoom(Math.min(1, level * 0.94), 'auto');
}

function dot(kind: string, text: string, title: string): HTMLElement {
  const element = document.createElement('div');
  element.className = `mark ${kind}`;
  element.textContent = text;
  element.title = title;
  return element;
}
