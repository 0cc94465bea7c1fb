-- Times are epoch milliseconds, JSON is TEXT, ids are made by the engine. Whatever belongs to a tree of instances
-- has the root instance first in its key. Table by table the same as the PostgreSQL file of this number.

CREATE TABLE roots (
    id          TEXT PRIMARY KEY,
    project     TEXT NOT NULL,
    version     INTEGER NOT NULL,   -- counts the commits that changed the tree
    stopping    TEXT,               -- JSON: why the whole tree is being stopped
    budget      TEXT,               -- JSON
    key_id      TEXT,               -- the master key that wraps data_key
    data_key    BLOB,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
    root            TEXT NOT NULL,
    id              TEXT NOT NULL,
    project         TEXT NOT NULL,
    process         TEXT NOT NULL,
    version         INTEGER NOT NULL,
    status          TEXT NOT NULL,
    suspended       INTEGER NOT NULL,
    business_key    TEXT,
    parent          TEXT,
    parent_task     TEXT,
    parent_attempt  INTEGER,
    parent_sequence INTEGER,
    depth           INTEGER NOT NULL,
    initiator       TEXT,
    started_by      TEXT NOT NULL,
    labels          TEXT NOT NULL,
    error_code      TEXT,
    incidents       INTEGER NOT NULL,   -- open ones
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    updated_at      INTEGER NOT NULL,
    revision        INTEGER NOT NULL,   -- of the last history row
    format          INTEGER NOT NULL,   -- of the snapshot
    snapshot        TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT;
CREATE UNIQUE INDEX instances_one_child_a_step ON instances (root, parent_task, parent_attempt, parent_sequence)
    WHERE parent_sequence IS NOT NULL;
CREATE INDEX instances_by_time ON instances (project, started_at, root, id);
CREATE INDEX instances_by_process ON instances (project, process, started_at, root, id);
CREATE INDEX instances_by_status ON instances (project, status, started_at, root, id) WHERE status <> 'COMPLETED';
CREATE INDEX instances_by_business_key ON instances (project, business_key, started_at, root, id)
    WHERE business_key IS NOT NULL;

CREATE TABLE external_tasks (
    root          TEXT NOT NULL,
    id            TEXT NOT NULL,
    project       TEXT NOT NULL,
    instance      TEXT NOT NULL,
    node          TEXT NOT NULL,
    topic         TEXT NOT NULL,
    agent         INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    position      INTEGER NOT NULL,    -- place in the queue; a resumed task keeps it
    lease_no      INTEGER NOT NULL,
    lease_random  TEXT,
    worker        TEXT,                -- NULL: no lease, or the lease was given back
    credential    TEXT,
    locked_until  INTEGER,
    lock_ms       INTEGER,
    claimable_at  INTEGER,             -- from when a fetch may lease it; NULL: not
    expiries      INTEGER NOT NULL,    -- expired leases in a row
    lapse_at      INTEGER,             -- when the command that declares the lease lost is due
    attempt       INTEGER NOT NULL,
    retired       INTEGER NOT NULL,
    outcome       TEXT,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    traceparent   TEXT,
    revision      INTEGER NOT NULL,    -- counts the writes to this row
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT;
CREATE INDEX external_tasks_queue ON external_tasks (project, topic, priority DESC, position, claimable_at)
    WHERE claimable_at IS NOT NULL;
CREATE INDEX external_tasks_lapse ON external_tasks (lapse_at) WHERE lapse_at IS NOT NULL;
CREATE INDEX external_tasks_open ON external_tasks (project, topic, created_at, root, id) WHERE NOT retired;

CREATE TABLE steps (
    root             TEXT NOT NULL,
    task             TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    sequence         INTEGER NOT NULL,
    instance         TEXT NOT NULL,
    kind             TEXT NOT NULL,
    state            TEXT NOT NULL,
    tool_ref         TEXT,
    settled          INTEGER,          -- place in the task's order of completion
    request_digest   TEXT NOT NULL,
    effective_digest TEXT,
    grant_lease      INTEGER,          -- the number of the lease that was granted the step last
    reused_from      INTEGER,
    child            TEXT,
    late_result      TEXT,
    resolved_by      TEXT,
    writer           TEXT NOT NULL,
    batch_no         INTEGER NOT NULL, -- of the last change
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    body             TEXT NOT NULL,
    PRIMARY KEY (root, task, attempt, sequence)
) STRICT;
CREATE INDEX steps_feed ON steps (writer, batch_no);

CREATE TABLE payloads (
    root    TEXT NOT NULL,
    owner   TEXT NOT NULL,             -- an instance or a task
    digest  TEXT NOT NULL,
    size    INTEGER NOT NULL,          -- of the plain value, in bytes
    key_id  TEXT,
    nonce   BLOB,
    body    BLOB NOT NULL,
    PRIMARY KEY (root, owner, digest)
) STRICT;

CREATE TABLE history (
    root       TEXT NOT NULL,
    instance   TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    command_id TEXT NOT NULL,
    writer     TEXT NOT NULL,
    batch_no   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    format     INTEGER NOT NULL,
    actor      TEXT,
    events     TEXT NOT NULL,
    PRIMARY KEY (root, instance, revision)
) STRICT;
CREATE INDEX history_commands ON history (command_id);
CREATE INDEX history_feed ON history (writer, batch_no);

CREATE TABLE mailbox (
    root    TEXT NOT NULL,
    id      TEXT NOT NULL,
    project TEXT NOT NULL,
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    due_at  INTEGER,                   -- NULL: held until it is given a time
    tries   INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mailbox_once ON mailbox (root, kind, key);
CREATE INDEX mailbox_due ON mailbox (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE timers (
    root     TEXT NOT NULL,
    id       TEXT NOT NULL,
    project  TEXT NOT NULL,
    instance TEXT NOT NULL,
    node     TEXT,
    kind     TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    held     INTEGER NOT NULL,         -- its instance is suspended
    body     TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due_at) WHERE NOT held;

CREATE TABLE subscriptions (
    root        TEXT NOT NULL,
    id          TEXT NOT NULL,
    project     TEXT NOT NULL,
    instance    TEXT NOT NULL,
    node        TEXT NOT NULL,
    message     TEXT NOT NULL,
    correlation TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_by_message ON subscriptions (project, message, correlation);

CREATE TABLE messages (
    project     TEXT NOT NULL,
    id          TEXT NOT NULL,
    message     TEXT NOT NULL,
    correlation TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    body        TEXT NOT NULL,
    PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_by_name ON messages (project, message, correlation);

CREATE TABLE tasks (
    root          TEXT NOT NULL,
    id            TEXT NOT NULL,
    project       TEXT NOT NULL,
    instance      TEXT NOT NULL,
    node          TEXT NOT NULL,
    kind          TEXT NOT NULL,       -- approval, human
    state         TEXT NOT NULL,
    groups        TEXT NOT NULL,       -- JSON: who may act
    users         TEXT NOT NULL,
    external_task TEXT,                -- the step that an approval is about
    attempt       INTEGER,
    sequence      INTEGER,
    digest        TEXT,
    due_at        INTEGER,
    created_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    decided_by    TEXT,
    outcome       TEXT,
    comment       TEXT,
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT;
CREATE UNIQUE INDEX tasks_one_live_approval ON tasks (root, external_task, attempt, sequence)
    WHERE kind = 'approval' AND ended_at IS NULL;
CREATE INDEX tasks_open ON tasks (project, created_at, root, id) WHERE ended_at IS NULL;
CREATE INDEX tasks_by_time ON tasks (project, created_at, root, id);

CREATE TABLE task_candidates (         -- of open tasks
    project   TEXT NOT NULL,
    candidate TEXT NOT NULL,           -- group:<name> or user:<name>
    root      TEXT NOT NULL,
    task      TEXT NOT NULL,
    PRIMARY KEY (project, candidate, root, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_candidates_by_task ON task_candidates (root, task);

CREATE TABLE incidents (
    root          TEXT NOT NULL,
    id            TEXT NOT NULL,
    project       TEXT NOT NULL,
    instance      TEXT NOT NULL,
    node          TEXT,
    external_task TEXT,
    sequence      INTEGER,
    kind          TEXT NOT NULL,       -- incident, notice
    code          TEXT NOT NULL,
    message       TEXT NOT NULL,
    state         TEXT NOT NULL,       -- OPEN, RESOLVED
    created_at    INTEGER NOT NULL,
    resolved_at   INTEGER,
    resolved_by   TEXT,
    resolution    TEXT,
    body          TEXT NOT NULL,
    PRIMARY KEY (root, id)
) STRICT;
CREATE INDEX incidents_open ON incidents (project, created_at, root, id) WHERE state = 'OPEN';
CREATE INDEX incidents_by_time ON incidents (project, created_at, root, id);

CREATE TABLE search (
    root     TEXT NOT NULL,
    instance TEXT NOT NULL,
    name     TEXT NOT NULL,
    project  TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (root, instance, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX search_by_value ON search (project, name, value);

CREATE TABLE idempotency (
    project    TEXT NOT NULL,
    principal  TEXT NOT NULL,
    operation  TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  TEXT NOT NULL,
    status     INTEGER,
    answer     TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project, principal, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_time ON idempotency (created_at);

CREATE TABLE definitions (
    project    TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    body       TEXT NOT NULL,
    source     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (project, key, version)
) STRICT;

CREATE TABLE documents (
    project    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    source     TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project, kind, key, version)
) STRICT;

CREATE TABLE projects (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE principals (
    project    TEXT NOT NULL,
    id         TEXT NOT NULL,
    kind       TEXT NOT NULL,          -- person, worker, service
    name       TEXT NOT NULL,
    groups     TEXT NOT NULL,          -- JSON
    roles      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX principals_one_name ON principals (project, kind, name);

CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    project      TEXT NOT NULL,
    principal    TEXT NOT NULL,
    hash         TEXT NOT NULL,        -- SHA-256 of the key, hex
    prefix       TEXT NOT NULL,        -- what people recognise it by
    label        TEXT,
    topics       TEXT,                 -- JSON; NULL: all
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_one_hash ON api_keys (hash);
CREATE INDEX api_keys_by_project ON api_keys (project, created_at);

CREATE TABLE workers (
    project    TEXT NOT NULL,
    worker_id  TEXT NOT NULL,
    topics     TEXT NOT NULL,          -- JSON
    principal  TEXT,
    leases     INTEGER,
    started_at INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    PRIMARY KEY (project, worker_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
