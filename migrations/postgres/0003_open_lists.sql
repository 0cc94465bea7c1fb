-- What is open without a walk past all that ended: with the state as a column of its index SQLite prefers it to the one
-- by time.
DROP INDEX incidents_open;
CREATE INDEX incidents_open ON incidents (project, state, created_at, root, id) WHERE state = 'OPEN';
DROP INDEX tasks_open;
CREATE INDEX tasks_open ON tasks (project, ended_at, created_at, root, id) WHERE ended_at IS NULL;
