-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- Every table b-tree that a commit touches costs at least one page of flash, so tables are
-- clustered by the key they are read by and there are no indexes but those that answer a question.
-- Ids are 16 bytes, digests 32, times epoch milliseconds, states the words of the life tables.

CREATE TABLE projects (
  id TEXT NOT NULL PRIMARY KEY,
  status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
  version INTEGER NOT NULL CHECK (version >= 1),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO projects VALUES ('default', 'active', 1, 0, 0);

CREATE TABLE role_bindings (
  project TEXT NOT NULL REFERENCES projects (id),
  subject_type TEXT NOT NULL CHECK (subject_type IN ('user', 'api_app', 'mcp_client', 'agent')),
  subject_id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  role TEXT CHECK (role IN ('owner', 'admin', 'operator', 'viewer')),
  mutation BLOB,
  changed_by_type TEXT NOT NULL,
  changed_by_id TEXT NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (project, subject_type, subject_id, version)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX role_bindings_by_mutation ON role_bindings (project, mutation) WHERE mutation IS NOT NULL;

CREATE TABLE credentials (
  id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  subject_type TEXT NOT NULL CHECK (subject_type IN ('user', 'api_app', 'mcp_client', 'agent')),
  subject_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'revoked')),
  secret_digest BLOB NOT NULL CHECK (length(secret_digest) = 32),
  mutation BLOB,
  changed_by_type TEXT NOT NULL,
  changed_by_id TEXT NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (id, version)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX credentials_by_mutation ON credentials (mutation) WHERE mutation IS NOT NULL;
CREATE INDEX credentials_by_subject ON credentials (subject_type, subject_id);

CREATE TABLE tasks (
  project TEXT NOT NULL REFERENCES projects (id),
  id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  created_at_ms INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;

-- With a rowid, because a definition may be 64 KiB and would overflow in a clustered b-tree.
CREATE TABLE task_revisions (
  project TEXT NOT NULL,
  task TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision BETWEEN 1 AND 2147483647),
  replaces INTEGER,
  mutation BLOB NOT NULL UNIQUE,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  created_at_ms INTEGER NOT NULL,
  definition TEXT NOT NULL,
  PRIMARY KEY (project, task, revision)
) STRICT;

CREATE TABLE task_deletions (
  mutation BLOB NOT NULL PRIMARY KEY,
  project TEXT NOT NULL,
  task TEXT NOT NULL,
  revision INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE context_recipes (
  ref TEXT NOT NULL PRIMARY KEY,
  bindings TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE execution_revisions (
  project TEXT NOT NULL,
  task TEXT NOT NULL,
  revision INTEGER NOT NULL,
  task_digest BLOB NOT NULL CHECK (length(task_digest) = 32),
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  context_ref TEXT NOT NULL REFERENCES context_recipes (ref),
  created_at_ms INTEGER NOT NULL,
  execution TEXT NOT NULL,
  PRIMARY KEY (project, task, revision)
) STRICT;

CREATE TABLE runs (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  project TEXT NOT NULL REFERENCES projects (id),
  task TEXT NOT NULL,
  task_revision INTEGER NOT NULL,
  task_digest BLOB NOT NULL CHECK (length(task_digest) = 32),
  status TEXT NOT NULL CHECK (status IN ('created', 'queued', 'dispatching', 'running', 'waiting_approval',
    'retry_wait', 'lost', 'succeeded', 'failed', 'cancelled', 'timed_out')),
  version INTEGER NOT NULL CHECK (version >= 0),
  event_sequence INTEGER NOT NULL CHECK (event_sequence >= 0),
  priority INTEGER NOT NULL,
  origin TEXT NOT NULL,
  trigger_type TEXT NOT NULL,
  trigger_id TEXT,
  scheduled_for_ms INTEGER,
  idempotency_key TEXT,
  created_at_ms INTEGER NOT NULL,
  queued_at_ms INTEGER,
  started_at_ms INTEGER,
  finished_at_ms INTEGER,
  -- 1, 2, ... in the order in which Runs ended, whatever the wall clock did meanwhile.
  end_order INTEGER CHECK (end_order >= 1),
  cancel_requested_at_ms INTEGER,
  cancel_reason TEXT CHECK (cancel_reason IN ('user', 'policy', 'shutdown', 'reconcile', 'timeout')),
  error_code TEXT,
  CHECK ((finished_at_ms IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled', 'timed_out'))),
  CHECK ((finished_at_ms IS NOT NULL) = (end_order IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX runs_by_idempotency_key ON runs (project, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_by_age ON runs (project, created_at_ms);
CREATE INDEX runs_by_task ON runs (project, task, created_at_ms);
-- What is not over: as small as the queue, whatever the history is. Its last column, always null,
-- lets the queue be counted without a look at the table.
CREATE INDEX runs_open ON runs (status, priority DESC, created_at_ms, id, finished_at_ms)
  WHERE finished_at_ms IS NULL;
-- What was asked to end and has not; empty most of the time.
CREATE INDEX runs_cancelling ON runs (cancel_requested_at_ms)
  WHERE finished_at_ms IS NULL AND cancel_requested_at_ms IS NOT NULL;
-- What retention walks, oldest end first. Always touched at its right end, so one page a commit.
CREATE UNIQUE INDEX runs_by_end ON runs (end_order) WHERE end_order IS NOT NULL;
CREATE INDEX runs_ended ON runs (project, status, created_at_ms) WHERE finished_at_ms IS NOT NULL;

CREATE TABLE attempts (
  run BLOB NOT NULL REFERENCES runs (id),
  number INTEGER NOT NULL CHECK (number >= 1),
  id BLOB NOT NULL CHECK (length(id) = 16),
  status TEXT NOT NULL CHECK (status IN ('claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled',
    'timed_out', 'lost')),
  callback_sequence INTEGER NOT NULL CHECK (callback_sequence >= 0),
  token_digest BLOB CHECK (length(token_digest) = 32),
  log_artifact TEXT,
  handle TEXT,
  pid INTEGER,
  -- The wall's for people; within the boot it names, the boot clock's decides.
  deadline_at_ms INTEGER,
  deadline_boot BLOB CHECK (length(deadline_boot) = 16),
  deadline_boot_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  started_at_ms INTEGER,
  finished_at_ms INTEGER,
  exit_code INTEGER,
  signal INTEGER,
  error_code TEXT,
  error_summary TEXT,
  log_complete INTEGER CHECK (log_complete IN (0, 1)),
  leftovers INTEGER,
  -- Once its log was removed: when, how long it was, and whether it had been cut at its cap.
  log_retired_at_ms INTEGER,
  log_retired_bytes INTEGER,
  log_retired_truncated INTEGER CHECK (log_retired_truncated IN (0, 1)),
  PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_events (
  run BLOB NOT NULL REFERENCES runs (id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  id BLOB NOT NULL CHECK (length(id) = 16),
  type TEXT NOT NULL,
  actor_type TEXT NOT NULL,
  actor_id TEXT,
  attempt_number INTEGER,
  payload TEXT,
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (run, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipt_journal (
  attempt BLOB NOT NULL PRIMARY KEY,
  run BLOB NOT NULL,
  number INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'quarantined')),
  updated_at_ms INTEGER NOT NULL,
  FOREIGN KEY (run, number) REFERENCES attempts (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  project TEXT NOT NULL,
  id BLOB NOT NULL CHECK (length(id) = 16),
  operation TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT,
  subject_type TEXT,
  subject_id TEXT,
  credential_id TEXT,
  target TEXT,
  count INTEGER NOT NULL CHECK (count >= 1),
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (project, id)
) STRICT, WITHOUT ROWID;

-- One row: where the wall clock stood against the boot clock when it was last believed, and until
-- when, on the boot clock of that boot, nothing may be deleted for its age.
CREATE TABLE clock (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  boot BLOB NOT NULL CHECK (length(boot) = 16),
  anchor_ms INTEGER NOT NULL,
  paused_until_ms INTEGER NOT NULL
) STRICT;
