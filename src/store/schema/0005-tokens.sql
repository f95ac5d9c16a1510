-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- Tokens that end by themselves. Null: it ends when somebody ends it. Every version carries it.

ALTER TABLE credentials ADD COLUMN expires_at_ms INTEGER CHECK (expires_at_ms >= 0);

CREATE INDEX credentials_expiring ON credentials (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- The day, counted from 1970 in UTC, on which a token was used last. Apart from the token, whose
-- versions only a decision may add; written at most once a day for each.
CREATE TABLE credential_uses (
  credential TEXT NOT NULL PRIMARY KEY,
  last_used_day INTEGER NOT NULL CHECK (last_used_day >= 0)
) STRICT, WITHOUT ROWID;
