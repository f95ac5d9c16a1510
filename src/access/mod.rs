//! Who may come in: tokens, the pepper they are digested under, authentication, the first owner, and
//! the folding of rejected attempts (design D13).
//!
//! It reads and writes the store and two small files in the state folder, `pepper` and
//! `owner.token`. It decides nothing about permissions; that is `model::policy`.

pub mod authenticate;
pub mod bootstrap;
pub mod digest;
pub mod keyring;
pub mod pepper;
mod private_file;
pub mod rejections;
pub mod seal;
pub mod token;
