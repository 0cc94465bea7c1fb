// One short sentence for each event of the feed. Bookkeeping, such as a token moving on, gets none.

const QUIET = new Set(['VARIABLE_SET', 'NODE_ENTERED', 'TOKEN_ENDED', 'NODE_WAITS', 'TIMER_ARMED', 'TIMER_DISARMED', 'HUMAN_TASK_CLOSED']);

const SENTENCES = {
  INSTANCE_STARTED: (data) => (data.startedBy ? 'starts as a process of its own' : `starts, asked for by ${data.initiator}`),
  INSTANCE_COMPLETED: () => 'completed',
  TASK_CREATED: (data) => `waits for a worker of ${data.topic}`,
  TASK_ENDED: (data) => (data.outcome === 'COMPLETED' ? 'done' : data.outcome.toLowerCase()),
  DECISION_TAKEN: (data) => `the rule decides ${list(data.values)}`,
  BRANCH_TAKEN: (data) => `goes to ${data.target}`,
  APPROVAL_OPENED: () => 'a person has to approve the exact inputs first',
  CHILD_STARTED: (data) => `hands over to ${data.process} and lets go of its task`,
  CHILD_ENDED: (data) => `gets word: the child ended ${data.status}`,
};

const STEPS = {
  MODEL: { STARTED: 'asks the model', COMPLETED: 'the model has answered' },
  TOOL: { STARTED: 'calls', COMPLETED: 'got the answer of' },
  DELEGATION: { STARTED: 'delegates:', PROPOSED: 'proposes:', APPROVED: 'is allowed:', REJECTED: 'is refused:', COMPLETED: 'reads the outputs of' },
};

/** Undefined when there is nothing to say. */
export function sentence(event) {
  const data = event.data ?? {};
  if (event.sequence !== undefined) return step(event, data);
  if (QUIET.has(event.type)) return undefined;
  const words = SENTENCES[event.type]?.(data) ?? `${plain(event.type)} ${list(data)}`;
  return event.nodeId ? `${event.nodeId}: ${words}` : words;
}

function step(event, data) {
  const state = event.type.replace('STEP_', '');
  const words = STEPS[data.kind]?.[state] ?? plain(state);
  const target = data.kind === 'MODEL' ? '' : ` ${data.toolRef.replace('delegate:', '')}`;
  return `step ${event.sequence}: ${words}${target}`;
}

function plain(type) {
  return type.toLowerCase().replaceAll('_', ' ');
}

function list(values = {}) {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(' ');
}
