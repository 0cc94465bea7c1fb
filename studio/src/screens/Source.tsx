// The document, checked by the engine while it is typed, and deployed as a new version.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { post, putYaml } from '../api/client';
import type { DeployAnswer, DocumentProblem, Process, ValidateAnswer } from '../api/types';
import Editor, { type Jump } from '../editor/Editor';
import { useMay } from '../session/me';
import { Badge, Refused } from '../ui/parts';
import { useSettled } from '../ui/time';

export default function Source({ process, isNewest }: { process: Process; isNewest: boolean }) {
  const deployed = process.source ?? '';
  const mayDeploy = useMay('deploy');
  const [text, setText] = useState(deployed);
  const [jump, setJump] = useState<Jump | null>(null);
  const settled = useSettled(text, 350);
  const client = useQueryClient();
  const navigate = useNavigate({ from: '/processes/$key' });
  const isChanged = text !== deployed;
  const file = `processes/${process.key}.process.yaml`;
  const check = useQuery({
    queryKey: ['validate', process.key, settled],
    queryFn: () => post<ValidateAnswer>('/v1/validate', { files: { [file]: settled } }),
    enabled: settled !== deployed,
    gcTime: 10_000,
    staleTime: 10_000,
    placeholderData: (before) => before,
  });
  const deploy = useMutation({
    mutationFn: () => putYaml<DeployAnswer>(`/v1/processes/${encodeURIComponent(process.key)}`, text),
    onSuccess: async () => {
      await client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === 'process' || queryKey[0] === 'processes' });
      void navigate({ search: (before) => ({ ...before, version: undefined }) });
    },
  });
  const problems = isChanged ? (check.data?.problems ?? []) : [];
  const errors = problems.filter((one) => one.severity === 'ERROR').length;
  const isChecked = settled === text && !check.isFetching && check.data !== undefined;
  return (
    <div className="source">
      <div className="row wrap">
        <span role="status" className="muted">
          {!isChanged ? (isNewest ? 'As deployed' : 'As deployed; not the newest version') : check.isError ? 'Could not be checked' : !isChecked ? 'Checking…' : errors > 0 ? `${errors} ${errors === 1 ? 'error' : 'errors'}` : 'No errors'}
        </span>
        <span className="spring" />
        {isChanged && (
          <button type="button" onClick={() => setText(deployed)}>
            Undo all changes
          </button>
        )}
        {mayDeploy && (
          <button type="button" className="primary" disabled={!isChanged || !isChecked || errors > 0 || deploy.isPending} onClick={() => deploy.mutate()}>
            {deploy.isPending ? 'Deploying…' : 'Deploy as a new version'}
          </button>
        )}
      </div>
      <Editor text={text} change={setText} problems={problems} jump={jump} readOnly={false} label={`Source of ${process.key}`} />
      <Problems problems={problems} go={(line, column) => setJump({ line, column, at: Date.now() })} />
      {deploy.data && isChanged && !deploy.data.processes.some((one) => one.changed) && (
        <p className="banner" role="status">
          No new version: it means the same as the deployed one.
        </p>
      )}
      <Refused error={deploy.error ?? check.error} />
    </div>
  );
}

function Problems({ problems, go }: { problems: DocumentProblem[]; go: (line: number, column: number) => void }) {
  if (problems.length === 0) return null;
  return (
    <ul className="problems" aria-label="Problems">
      {problems.map((one, index) => (
        <li key={`${one.code}${one.line}${index}`}>
          <button type="button" onClick={() => go(one.line ?? 1, one.column ?? 1)}>
            <Badge word={one.severity} /> <span className="num">line {one.line ?? '?'}</span> <span>{one.message}</span>
          </button>
          {one.hint && <pre className="hint">{one.hint}</pre>}
        </li>
      ))}
    </ul>
  );
}
