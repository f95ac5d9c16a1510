//! `qinglet import ...`: tasks from elsewhere. Reading is pure and apart from doing: a file becomes a
//! plan, which is printed as it is (`--dry-run`) or carried out.

mod account;
mod busybox;
mod changes;
pub mod crontab;
mod expression;
mod job;
mod line;
mod percent;
mod plan;
mod report;
#[cfg(debug_assertions)]
pub mod seam;
mod source;
mod store;
