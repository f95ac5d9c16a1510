//! The only file that names the database's path: lock, open, checks, migration.
