// A YAML editor. It lives in a shadow root: there its styles are adopted sheets, which the page's policy allows,
// where a style element would be refused.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';
import type { DocumentProblem } from '../api/types';

export interface Jump {
  line: number;
  column: number;
  /** Tells two jumps to the same place apart. */
  at: number;
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--code-key)' },
  { tag: [tags.string, tags.content], color: 'var(--code-text)' },
  { tag: [tags.number, tags.bool, tags.keyword, tags.atom], color: 'var(--code-value)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const look = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--ink)', fontSize: '13px', borderRadius: '8px' },
  '&.cm-focused': { outline: '2px solid var(--accent)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', maxHeight: '62vh', minHeight: '320px' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--selection) !important' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', color: 'var(--ink)', border: '1px solid var(--line)', maxWidth: '60ch', whiteSpace: 'pre-wrap' },
});

export default function Editor({ text, change, problems, jump, readOnly, label }: { text: string; change: (text: string) => void; problems: DocumentProblem[]; jump: Jump | null; readOnly: boolean; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const report = useRef(change);
  report.current = change;
  const first = useRef(text);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          lineNumbers(),
          history(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          indentUnit.of('  '),
          yaml(),
          syntaxHighlighting(colours),
          look,
          lintGutter(),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.lineWrapping,
          EditorState.readOnly.of(readOnly),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) report.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, [readOnly, label]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const diagnostics = problems.map((problem) => diagnostic(editor.state, problem));
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [problems]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || !jump) return;
    editor.dispatch({ selection: { anchor: offset(editor.state, jump.line, jump.column) }, scrollIntoView: true });
    editor.focus();
  }, [jump]);

  return <div ref={host} className="editor" />;
}

function offset(state: EditorState, line: number, column: number): number {
  const at = state.doc.line(Math.min(Math.max(1, line), state.doc.lines));
  return Math.min(at.from + Math.max(0, column - 1), at.to);
}

function diagnostic(state: EditorState, problem: DocumentProblem): Diagnostic {
  const from = offset(state, problem.line ?? 1, problem.column ?? 1);
  const line = state.doc.lineAt(from);
  const word = /^[^\s,}\]]*/.exec(state.doc.sliceString(from, line.to))?.[0].length ?? 0;
  return {
    from,
    to: Math.min(line.to, from + Math.max(1, word)),
    severity: problem.severity === 'ERROR' ? 'error' : 'warning',
    message: problem.hint ? `${problem.message}\n${problem.hint}` : problem.message,
    source: problem.code,
  };
}
