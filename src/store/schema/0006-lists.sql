-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- A list of ended Runs is read in the order of one index for each state, and merged where no state is
-- asked for; what is open is as small as the queue. So no list needs an index of all Runs: admission
-- wrote two of them, which nothing but lists read, and a task's Runs in one state were looked for among
-- all it ever had.

DROP INDEX runs_by_age;
DROP INDEX runs_by_task;
CREATE INDEX runs_ended_by_task ON runs (project, task, status, created_at_ms) WHERE finished_at_ms IS NOT NULL;
