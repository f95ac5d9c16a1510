-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- Secrets. A value is only here sealed; the keys are in a file of their own beside the store.

CREATE TABLE secrets (
  project TEXT NOT NULL REFERENCES projects (id),
  name TEXT NOT NULL,
  -- Goes on after a deletion, so that a reference to a version never means another value.
  version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 2147483647),
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  updated_at_ms INTEGER NOT NULL,
  -- Whose mutation deleted it last.
  deletion BLOB CHECK (length(deletion) = 16),
  PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;

-- With a rowid, because a value may be 16 KiB and would overflow in a clustered b-tree.
CREATE TABLE secret_envelopes (
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  key_id TEXT NOT NULL,
  algorithm TEXT NOT NULL CHECK (algorithm = 'xchacha20-poly1305'),
  nonce BLOB NOT NULL CHECK (length(nonce) = 24),
  sealed BLOB NOT NULL CHECK (length(sealed) BETWEEN 17 AND 16400),
  mutation BLOB NOT NULL UNIQUE CHECK (length(mutation) = 16),
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (project, name, version),
  FOREIGN KEY (project, name) REFERENCES secrets (project, name)
) STRICT;

-- Which values still depend on a key that is to go.
CREATE INDEX secret_envelopes_by_key ON secret_envelopes (key_id);
