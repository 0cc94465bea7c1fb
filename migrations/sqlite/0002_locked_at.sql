-- When the last lease of a task began: what comes before is time in the queue, what follows is the worker's. Kept when
-- the lease ends. NULL: never leased, or leased before this column was there.
ALTER TABLE external_tasks ADD COLUMN locked_at INTEGER;
