-- Times are epoch milliseconds, JSON is TEXT, ids are made by the engine. Whatever belongs to a tree of instances
-- has the root instance first in its key. Table by table the same as the SQLite file of this number. Keys compare
-- by bytes (COLLATE "C"), so that both databases order alike.

CREATE TABLE roots (
    id          TEXT COLLATE "C" PRIMARY KEY,
    project     TEXT COLLATE "C" NOT NULL,
    version     BIGINT NOT NULL,   -- counts the commits that changed the tree
    stopping    TEXT,               -- JSON: why the whole tree is being stopped
    budget      TEXT,               -- JSON
    key_id      TEXT,               -- the master key that wraps data_key
    data_key    BYTEA,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT
);

CREATE TABLE instances (
    root            TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    project         TEXT COLLATE "C" NOT NULL,
    process         TEXT COLLATE "C" NOT NULL,
    version         BIGINT NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    suspended       BOOLEAN NOT NULL,
    business_key    TEXT COLLATE "C",
    parent          TEXT COLLATE "C",
    parent_task     TEXT COLLATE "C",
    parent_attempt  BIGINT,
    parent_sequence BIGINT,
    depth           BIGINT NOT NULL,
    initiator       TEXT,
    started_by      TEXT NOT NULL,
    labels          TEXT NOT NULL,
    error_code      TEXT,
    incidents       BIGINT NOT NULL,   -- open ones
    started_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL,   -- of the last history row
    format          BIGINT NOT NULL,   -- of the snapshot
    snapshot        TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE UNIQUE INDEX instances_one_child_a_step ON instances (root, parent_task, parent_attempt, parent_sequence)
    WHERE parent_sequence IS NOT NULL;
CREATE INDEX instances_by_time ON instances (project, started_at, root, id);
CREATE INDEX instances_by_process ON instances (project, process, started_at, root, id);
CREATE INDEX instances_by_status ON instances (project, status, started_at, root, id) WHERE status <> 'COMPLETED';
CREATE INDEX instances_by_business_key ON instances (project, business_key, started_at, root, id)
    WHERE business_key IS NOT NULL;

CREATE TABLE external_tasks (
    root          TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    project       TEXT COLLATE "C" NOT NULL,
    instance      TEXT COLLATE "C" NOT NULL,
    node          TEXT COLLATE "C" NOT NULL,
    topic         TEXT COLLATE "C" NOT NULL,
    agent         BOOLEAN NOT NULL,
    priority      BIGINT NOT NULL,
    position      BIGINT NOT NULL,    -- place in the queue; a resumed task keeps it
    lease_no      BIGINT NOT NULL,
    lease_random  TEXT,
    worker        TEXT,                -- NULL: no lease, or the lease was given back
    credential    TEXT,
    locked_until  BIGINT,
    lock_ms       BIGINT,
    claimable_at  BIGINT,             -- from when a fetch may lease it; NULL: not
    expiries      BIGINT NOT NULL,    -- expired leases in a row
    lapse_at      BIGINT,             -- when the command that declares the lease lost is due
    attempt       BIGINT NOT NULL,
    retired       BOOLEAN NOT NULL,
    outcome       TEXT,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    traceparent   TEXT,
    revision      BIGINT NOT NULL,    -- counts the writes to this row
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE INDEX external_tasks_queue ON external_tasks (project, topic, priority DESC, position, claimable_at)
    WHERE claimable_at IS NOT NULL;
CREATE INDEX external_tasks_lapse ON external_tasks (lapse_at) WHERE lapse_at IS NOT NULL;
CREATE INDEX external_tasks_open ON external_tasks (project, topic, created_at, root, id) WHERE NOT retired;

CREATE TABLE steps (
    root             TEXT COLLATE "C" NOT NULL,
    task             TEXT COLLATE "C" NOT NULL,
    attempt          BIGINT NOT NULL,
    sequence         BIGINT NOT NULL,
    instance         TEXT COLLATE "C" NOT NULL,
    kind             TEXT COLLATE "C" NOT NULL,
    state            TEXT NOT NULL,
    tool_ref         TEXT,
    settled          BIGINT,          -- place in the task's order of completion
    request_digest   TEXT NOT NULL,
    effective_digest TEXT,
    grant_lease      BIGINT,          -- the number of the lease that was granted the step last
    reused_from      BIGINT,
    child            TEXT,
    late_result      TEXT,
    resolved_by      TEXT,
    writer           TEXT COLLATE "C" NOT NULL,
    batch_no         BIGINT NOT NULL, -- of the last change
    started_at       BIGINT NOT NULL,
    ended_at         BIGINT,
    body             TEXT NOT NULL,
    PRIMARY KEY (root, task, attempt, sequence)
);
CREATE INDEX steps_feed ON steps (writer, batch_no);

CREATE TABLE payloads (
    root    TEXT COLLATE "C" NOT NULL,
    owner   TEXT COLLATE "C" NOT NULL,             -- an instance or a task
    digest  TEXT COLLATE "C" NOT NULL,
    size    BIGINT NOT NULL,          -- of the plain value, in bytes
    key_id  TEXT,
    nonce   BYTEA,
    body    BYTEA NOT NULL,
    PRIMARY KEY (root, owner, digest)
);

CREATE TABLE history (
    root       TEXT COLLATE "C" NOT NULL,
    instance   TEXT COLLATE "C" NOT NULL,
    revision   BIGINT NOT NULL,
    command_id TEXT COLLATE "C" NOT NULL,
    writer     TEXT COLLATE "C" NOT NULL,
    batch_no   BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    format     BIGINT NOT NULL,
    actor      TEXT,
    events     TEXT NOT NULL,
    PRIMARY KEY (root, instance, revision)
);
CREATE INDEX history_commands ON history (command_id);
CREATE INDEX history_feed ON history (writer, batch_no);

CREATE TABLE mailbox (
    root    TEXT COLLATE "C" NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    project TEXT COLLATE "C" NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    key     TEXT COLLATE "C" NOT NULL,
    due_at  BIGINT,                   -- NULL: held until it is given a time
    tries   BIGINT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE UNIQUE INDEX mailbox_once ON mailbox (root, kind, key);
CREATE INDEX mailbox_due ON mailbox (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE timers (
    root     TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    project  TEXT COLLATE "C" NOT NULL,
    instance TEXT COLLATE "C" NOT NULL,
    node     TEXT COLLATE "C",
    kind     TEXT COLLATE "C" NOT NULL,
    due_at   BIGINT NOT NULL,
    held     BOOLEAN NOT NULL,         -- its instance is suspended
    body     TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE INDEX timers_due ON timers (due_at) WHERE NOT held;

CREATE TABLE subscriptions (
    root        TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    project     TEXT COLLATE "C" NOT NULL,
    instance    TEXT COLLATE "C" NOT NULL,
    node        TEXT COLLATE "C" NOT NULL,
    message     TEXT COLLATE "C" NOT NULL,
    correlation TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE INDEX subscriptions_by_message ON subscriptions (project, message, correlation);

CREATE TABLE messages (
    project     TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    message     TEXT COLLATE "C" NOT NULL,
    correlation TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    body        TEXT NOT NULL,
    PRIMARY KEY (project, id)
);
CREATE INDEX messages_by_name ON messages (project, message, correlation);

CREATE TABLE tasks (
    root          TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    project       TEXT COLLATE "C" NOT NULL,
    instance      TEXT COLLATE "C" NOT NULL,
    node          TEXT COLLATE "C" NOT NULL,
    kind          TEXT COLLATE "C" NOT NULL,       -- approval, human
    state         TEXT NOT NULL,
    groups        TEXT NOT NULL,       -- JSON: who may act
    users         TEXT NOT NULL,
    external_task TEXT COLLATE "C",                -- the step that an approval is about
    attempt       BIGINT,
    sequence      BIGINT,
    digest        TEXT COLLATE "C",
    due_at        BIGINT,
    created_at    BIGINT NOT NULL,
    ended_at      BIGINT,
    decided_by    TEXT,
    outcome       TEXT,
    comment       TEXT,
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE UNIQUE INDEX tasks_one_live_approval ON tasks (root, external_task, attempt, sequence)
    WHERE kind = 'approval' AND ended_at IS NULL;
CREATE INDEX tasks_open ON tasks (project, created_at, root, id) WHERE ended_at IS NULL;
CREATE INDEX tasks_by_time ON tasks (project, created_at, root, id);

CREATE TABLE task_candidates (         -- of open tasks
    project   TEXT COLLATE "C" NOT NULL,
    candidate TEXT COLLATE "C" NOT NULL,           -- group:<name> or user:<name>
    root      TEXT COLLATE "C" NOT NULL,
    task      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (project, candidate, root, task)
);
CREATE INDEX task_candidates_by_task ON task_candidates (root, task);

CREATE TABLE incidents (
    root          TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    project       TEXT COLLATE "C" NOT NULL,
    instance      TEXT COLLATE "C" NOT NULL,
    node          TEXT COLLATE "C",
    external_task TEXT COLLATE "C",
    sequence      BIGINT,
    kind          TEXT COLLATE "C" NOT NULL,       -- incident, notice
    code          TEXT NOT NULL,
    message       TEXT COLLATE "C" NOT NULL,
    state         TEXT NOT NULL,       -- OPEN, RESOLVED
    created_at    BIGINT NOT NULL,
    resolved_at   BIGINT,
    resolved_by   TEXT,
    resolution    TEXT,
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
);
CREATE INDEX incidents_open ON incidents (project, created_at, root, id) WHERE state = 'OPEN';
CREATE INDEX incidents_by_time ON incidents (project, created_at, root, id);

CREATE TABLE search (
    root     TEXT COLLATE "C" NOT NULL,
    instance TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    project  TEXT COLLATE "C" NOT NULL,
    value    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (root, instance, name)
);
CREATE INDEX search_by_value ON search (project, name, value);

CREATE TABLE idempotency (
    project    TEXT COLLATE "C" NOT NULL,
    principal  TEXT COLLATE "C" NOT NULL,
    operation  TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    body_hash  TEXT NOT NULL,
    status     BIGINT,
    answer     TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project, principal, operation, key)
);
CREATE INDEX idempotency_by_time ON idempotency (created_at);

CREATE TABLE definitions (
    project    TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    digest     TEXT COLLATE "C" NOT NULL,
    body       TEXT NOT NULL,
    source     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (project, key, version)
);

CREATE TABLE documents (
    project    TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    digest     TEXT COLLATE "C" NOT NULL,
    source     TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project, kind, key, version)
);

CREATE TABLE projects (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE principals (
    project    TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,          -- person, worker, service
    name       TEXT COLLATE "C" NOT NULL,
    groups     TEXT NOT NULL,          -- JSON
    roles      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project, id)
);
CREATE UNIQUE INDEX principals_one_name ON principals (project, kind, name);

CREATE TABLE api_keys (
    id           TEXT COLLATE "C" PRIMARY KEY,
    project      TEXT COLLATE "C" NOT NULL,
    principal    TEXT COLLATE "C" NOT NULL,
    hash         TEXT COLLATE "C" NOT NULL,        -- SHA-256 of the key, hex
    prefix       TEXT NOT NULL,        -- what people recognise it by
    label        TEXT,
    topics       TEXT,                 -- JSON; NULL: all
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX api_keys_one_hash ON api_keys (hash);
CREATE INDEX api_keys_by_project ON api_keys (project, created_at);

CREATE TABLE workers (
    project    TEXT COLLATE "C" NOT NULL,
    worker_id  TEXT COLLATE "C" NOT NULL,
    topics     TEXT NOT NULL,          -- JSON
    principal  TEXT COLLATE "C",
    leases     BIGINT,
    started_at BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL,
    PRIMARY KEY (project, worker_id)
);

CREATE TABLE settings (
    key   TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);
