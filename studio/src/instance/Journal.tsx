// The journal as a conversation: what was asked, what the model wanted, what came of it, who decided.
import type { HumanTask, Step, TaskJournal } from '../api/types';
import { Badge, Empty, InstanceLink, target, Value } from '../ui/parts';
import { duration, Time } from '../ui/time';
import { answered, asked, failure, result, tokens } from './journal';

export function Journal({ tasks, people, node }: { tasks: TaskJournal[]; people: HumanTask[]; node?: string }) {
  const shown = tasks.filter(({ task }) => !node || task.nodeId === node);
  if (shown.length === 0) return <Empty title={node ? `No worker has worked on ${node}` : 'No worker has worked on this yet'} />;
  return (
    <div className="journal">
      {shown.map((journal) => (
        <TaskConversation key={journal.task.id} journal={journal} people={people} />
      ))}
    </div>
  );
}

function TaskConversation({ journal, people }: { journal: TaskJournal; people: HumanTask[] }) {
  const { task, steps } = journal;
  const used = tokens([journal]);
  const attempts = [...new Set(steps.map((step) => step.attempt ?? task.attempt))];
  return (
    <section className="conversation" aria-label={`Work on ${task.nodeId}`}>
      <header>
        <h2>{task.nodeId}</h2>
        <span className="muted">
          topic <code>{task.topic}</code>
        </span>
        <Badge word={task.state} />
        {(task.failures ?? 0) > 0 && <Badge word={`${task.failures} failed`} tone="red" />}
        {task.workerId && <span className="muted">held by {task.workerId}</span>}
        {used.input + used.output > 0 && (
          <span className="muted num">
            {used.input.toLocaleString('en')} tokens in, {used.output.toLocaleString('en')} out
          </span>
        )}
      </header>
      {steps.length === 0 && <p className="muted">This worker keeps no journal: only its result counts.</p>}
      {attempts.map((attempt) => (
        <div key={attempt}>
          {attempts.length > 1 && <p className="attempt">Attempt {attempt}</p>}
          <ol className="steps">
            {steps
              .filter((step) => (step.attempt ?? task.attempt) === attempt)
              .map((step) => (
                <li key={step.sequence}>
                  <StepCard step={step} approval={people.find((one) => one.id === step.approvalTaskId)} />
                </li>
              ))}
          </ol>
        </div>
      ))}
    </section>
  );
}

function StepCard({ step, approval }: { step: Step; approval?: HumanTask }) {
  const took = step.endedAt ? duration(new Date(step.endedAt).getTime() - new Date(step.startedAt).getTime()) : null;
  const foot = (
    <span className="step-foot muted">
      {step.sequence} · {took ?? 'going on'} · <Time at={step.startedAt} />
      {step.reused && ` · taken over from attempt ${step.reused.attempt}, step ${step.reused.sequence}`}
    </span>
  );
  if (step.kind === 'MODEL') return <ModelTurn step={step} foot={foot} />;
  const said = result(step);
  return (
    <div className={`step call ${step.kind.toLowerCase()}`}>
      <div className="step-head">
        <strong>{step.kind === 'DELEGATION' ? `Delegates to ${target(step.toolRef)}` : step.kind === 'WAIT' ? 'Waits' : target(step.toolRef)}</strong>
        {step.policy && <Badge word={step.policy} tone={step.policy === 'read' ? 'grey' : 'amber'} />}
        {step.state !== 'COMPLETED' && <Badge word={step.state} />}
        {step.childInstanceId && <InstanceLink id={step.childInstanceId}>the child instance</InstanceLink>}
      </div>
      {(step.arguments ?? null) !== null && <Value value={step.arguments} label="Arguments" />}
      {(approval || step.decidedBy) && (
        <p className={`decision ${approval?.outcome ?? ''}`}>
          {approval?.state === 'OPEN' ? (
            <>
              Waits for {[...(approval.candidates?.groups ?? []), ...(approval.candidates?.users ?? [])].join(', ')} since <Time at={approval.createdAt} />
            </>
          ) : (
            <>
              <Badge word={approval?.outcome ?? step.state} /> by <strong>{approval?.decidedBy ?? step.decidedBy ?? 'nobody'}</strong> <Time at={approval?.endedAt} />
              {(approval?.comment ?? step.comment) && <q>{approval?.comment ?? step.comment}</q>}
            </>
          )}
        </p>
      )}
      {said !== undefined && said !== null && (
        <div className="answer">
          <span className="muted small">answered</span>
          <Value value={said} label="Answer" />
        </div>
      )}
      {step.lateResult !== undefined && step.lateResult !== null && (
        <div className="answer">
          <span className="muted small">came too late and was not used</span>
          <Value value={step.lateResult} />
        </div>
      )}
      {foot}
    </div>
  );
}

function ModelTurn({ step, foot }: { step: Step; foot: React.ReactNode }) {
  const { text, calls, model, input, output } = answered(step);
  const wanted = target(step.toolRef);
  return (
    <>
      {asked(step).map((words, index) => (
        <div key={index} className="step said">
          <pre className="text">{words}</pre>
        </div>
      ))}
      <div className="step model">
        <div className="step-head">
          <strong>{model ?? wanted}</strong>
          {model && model !== wanted && <span className="muted small">for {wanted}</span>}
          {step.state !== 'COMPLETED' && <Badge word={step.state} />}
          {input + output > 0 && (
            <span className="muted small num">
              {input} in, {output} out
            </span>
          )}
        </div>
        {text && <pre className="text">{text}</pre>}
        {calls.map((call, index) => (
          <p key={index} className="wants">
            wants <code>{call.tool.replace('__', '/')}</code>
          </p>
        ))}
        {step.state === 'COMPLETED' && !text && calls.length === 0 && <p className="muted">said nothing</p>}
        {step.state === 'FAILED' && (failure(step) ? <pre className="text">{failure(step)}</pre> : <Value value={step.result} />)}
        {foot}
      </div>
    </>
  );
}
