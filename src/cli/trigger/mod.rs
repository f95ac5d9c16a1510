//! `qinglet trigger ...`: a file for each verb.

pub mod preview;
