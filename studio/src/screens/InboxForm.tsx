// The answer to a task of a person: its form and its outcomes.
import { useMutation } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { post } from '../api/client';
import type { HumanTask } from '../api/types';
import { SchemaForm } from '../forms/SchemaForm';
import { begin, type Draft, fields, read, type Schema } from '../forms/schema';
import { Refused } from '../ui/parts';
import { NotYours, useDecided, useIsFor } from './InboxTask';

export default function Complete({ task, decided }: { task: HumanTask; decided: () => void }) {
  const list = useMemo(() => fields(task.form as Schema | undefined), [task.form]);
  const [draft, setDraft] = useState<Draft>(() => begin(list));
  const [tried, setTried] = useState<Record<string, string>>({});
  const [comment, setComment] = useState('');
  const [missing, setMissing] = useState<string | null>(null);
  const isMine = useIsFor(task);
  const after = useDecided(task, decided);
  const outcomes = task.outcomes ?? [];
  const complete = useMutation({
    mutationFn: (body: { outcome?: string; variables: Record<string, unknown>; comment?: string }) => post(`/v1/tasks/${encodeURIComponent(task.id)}/complete`, body),
    onSuccess: after,
  });
  if (!isMine) return <NotYours task={task} />;
  const takesComment = outcomes.some((one) => one.comment !== 'none');
  const send = (outcome?: string) => {
    const { values, wrong } = read(list, draft);
    setTried(wrong);
    const rule = outcomes.find((one) => one.name === outcome);
    const lacks = rule?.comment === 'required' && comment.trim() === '';
    setMissing(lacks ? `“${rule.label ?? rule.name}” needs a comment` : null);
    if (Object.keys(wrong).length > 0 || lacks) return;
    complete.mutate({ outcome, variables: values, comment: comment.trim() || undefined });
  };
  return (
    <form
      className="decide stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (outcomes.length === 0) send();
      }}
    >
      <SchemaForm list={list} draft={draft} change={(name, value) => setDraft((before) => ({ ...before, [name]: value }))} wrong={tried} />
      {takesComment && (
        <label>
          Comment
          <textarea rows={2} value={comment} aria-invalid={missing !== null} onChange={(event) => setComment(event.target.value)} />
          {missing && <span className="help bad">{missing}</span>}
        </label>
      )}
      <div className="row wrap">
        {outcomes.length === 0 ? (
          <button type="submit" className="primary" disabled={complete.isPending}>
            Complete
          </button>
        ) : (
          outcomes.map((one, index) => (
            <button key={one.name} type="button" className={index === 0 ? 'primary' : ''} disabled={complete.isPending} onClick={() => send(one.name)}>
              {one.label ?? one.name}
            </button>
          ))
        )}
      </div>
      <Refused error={complete.error} />
    </form>
  );
}
