-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- What starts tasks by itself. The current revision stands in the head; every revision that there
-- was in `trigger_revisions`, a deletion as one without a definition.

CREATE TABLE triggers (
  project TEXT NOT NULL REFERENCES projects (id),
  id TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision BETWEEN 1 AND 2147483647),
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  kind TEXT NOT NULL CHECK (kind IN ('cron', 'boot', 'run_finished')),
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  task TEXT NOT NULL,
  -- Whose runs' ends it waits for.
  watched TEXT,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  definition TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX triggers_by_task ON triggers (project, task);
CREATE INDEX triggers_watching ON triggers (project, watched) WHERE watched IS NOT NULL;
CREATE INDEX triggers_at_boot ON triggers (project, id) WHERE kind = 'boot';

CREATE TABLE trigger_revisions (
  project TEXT NOT NULL,
  trigger_id TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision BETWEEN 1 AND 2147483647),
  replaces INTEGER,
  mutation BLOB NOT NULL UNIQUE,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  created_at_ms INTEGER NOT NULL,
  definition TEXT,
  PRIMARY KEY (project, trigger_id, revision)
) STRICT;

-- How far each has come: apart from its head, because every occurrence writes here.
CREATE TABLE trigger_schedules (
  project TEXT NOT NULL,
  trigger_id TEXT NOT NULL,
  -- Counts every change of this row.
  version INTEGER NOT NULL CHECK (version >= 1),
  -- Null: nothing is due by time. 0: still to be computed.
  next_fire_at_ms INTEGER,
  -- What the wall clock said when that was computed.
  computed_at_ms INTEGER,
  last_scheduled_at_ms INTEGER,
  last_run BLOB CHECK (length(last_run) = 16),
  -- The boot in which a trigger at boot has started its task, or was made.
  last_boot BLOB CHECK (length(last_boot) = 16),
  skipped INTEGER NOT NULL,
  last_skipped_at_ms INTEGER,
  last_skip_reason TEXT,
  PRIMARY KEY (project, trigger_id),
  FOREIGN KEY (project, trigger_id) REFERENCES triggers (project, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX trigger_schedules_due ON trigger_schedules (next_fire_at_ms) WHERE next_fire_at_ms IS NOT NULL;

ALTER TABLE runs ADD COLUMN trigger_revision INTEGER;
-- 1: it waits until no earlier run of its trigger goes on.
ALTER TABLE runs ADD COLUMN serial INTEGER CHECK (serial = 1);
-- The run whose end started this one, and how many such there were before it.
ALTER TABLE runs ADD COLUMN cause_run BLOB CHECK (length(cause_run) = 16);
ALTER TABLE runs ADD COLUMN chain_depth INTEGER;
