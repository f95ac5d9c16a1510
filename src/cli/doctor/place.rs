//! Where there is to be looked: what flags and configuration come to, as far as they are of use.

use super::super::context::Context;
use crate::model::config::Config;
use crate::model::settings::Settings;
use crate::runtime::ConfigFile;
use std::path::{Path, PathBuf};

/// Where there is to be looked.
#[derive(Clone, Debug)]
pub struct Place {
    /// The state folder.
    pub state: PathBuf,
    /// The configuration file.
    pub file: ConfigFile,
    /// The settings; those of an empty configuration when the file is no use.
    pub settings: Option<Settings>,
    /// What to type to come to this state, with a space.
    pub option: String,
}

impl Place {
    /// Where these options lead.
    pub fn of(context: &Context) -> Self {
        let flags = Config { state: std::path::absolute(&context.state).ok(), ..Config::default() };
        let settings = context.settings(&flags).ok().or_else(|| Settings::resolve(&flags, &Config::default()).ok());
        Self { state: context.state.clone(), file: context.file.clone(), settings, option: context.state_option() }
    }

    /// The path itself, or the nearest folder above it that is there.
    pub fn nearest(path: &Path) -> &Path {
        path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
    }

    #[cfg(test)]
    pub fn made_up() -> Self {
        Self {
            state: "/nonexistent".into(),
            file: ConfigFile { path: "/nonexistent/config.json".into(), named: false },
            settings: None,
            option: String::new(),
        }
    }
}
