-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- What an event says in digests and mutations is kept as bytes, not as hexadecimal text in the payload:
-- an event fits its page then (a row above 230 bytes takes another page of 1 KiB for itself), and a
-- Run's history is a third smaller. Rows from before keep their payload.

ALTER TABLE run_events ADD COLUMN definition_digest BLOB CHECK (length(definition_digest) = 32);
ALTER TABLE run_events ADD COLUMN execution_digest BLOB CHECK (length(execution_digest) = 32);
ALTER TABLE run_events ADD COLUMN trigger_digest BLOB CHECK (length(trigger_digest) = 32);
ALTER TABLE run_events ADD COLUMN mutation BLOB CHECK (length(mutation) = 16);
