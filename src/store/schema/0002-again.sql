-- Frozen: its checksum stands in every store that was made with it. A change is a new migration.
--
-- Another Attempt of a Run. The wall's time is for people; within the boot it names, the boot
-- clock's decides; after another boot nobody knows what has passed, so the whole delay begins again.

ALTER TABLE runs ADD COLUMN next_attempt_at_ms INTEGER;
ALTER TABLE runs ADD COLUMN next_attempt_boot BLOB CHECK (length(next_attempt_boot) = 16);
ALTER TABLE runs ADD COLUMN next_attempt_boot_ms INTEGER;
ALTER TABLE runs ADD COLUMN next_attempt_delay_ms INTEGER;
-- 1: somebody asked for the Run's end while its timeout was ending an Attempt. The first intent
-- stays, and yet there must not be another Attempt.
ALTER TABLE runs ADD COLUMN no_retry INTEGER CHECK (no_retry = 1);
-- The ended Run that somebody tried again with this one.
ALTER TABLE runs ADD COLUMN retry_of BLOB CHECK (length(retry_of) = 16);
-- `unproven`: its supervisor was killed, and something of it may have got away.
ALTER TABLE attempts ADD COLUMN descendants TEXT CHECK (descendants = 'unproven');
