//! The settings in force and where each came from: flags win over the file, the file over the profile
//! and what holds when nobody says anything (design D19). Pure.

use super::config::Config;
use super::limits::{Limits, Profile};
use super::log_level::LogLevel;
use super::on_stop::OnStop;
use super::setting_limit::SettingLimit;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Where the state lies when nothing else is said (design D19).
pub const STATE_DEFAULT: &str = "/var/lib/qinglet";

/// Where a setting came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The command line.
    Flag,
    /// The configuration file.
    File,
    /// The profile's own number.
    Profile,
    /// Nobody said anything.
    Default,
}

impl Source {
    /// The word used in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::File => "file",
            Self::Profile => "profile",
            Self::Default => "default",
        }
    }
}

/// One setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set<T> {
    /// What is in force.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

impl<T> Set<T> {
    fn pick(flag: Option<T>, file: Option<T>, or: impl FnOnce() -> T) -> Self {
        match (flag, file) {
            (Some(value), _) => Self { value, source: Source::Flag },
            (None, Some(value)) => Self { value, source: Source::File },
            (None, None) => Self { value: or(), source: Source::Default },
        }
    }
}

/// Every setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The state folder.
    pub state: Set<PathBuf>,
    /// The log folder.
    pub logs: Set<PathBuf>,
    /// The runtime folder.
    pub runtime: Set<PathBuf>,
    /// Whose numbers count where nothing else is said.
    pub profile: Set<Profile>,
    /// Whether there is an HTTP side at all.
    pub api: Set<bool>,
    /// Where TCP listens; without it there is none.
    pub listen: Set<Option<SocketAddr>>,
    /// The wall clock is always right, whatever speaks against it.
    pub trust_clock: Set<bool>,
    /// What becomes of running tasks when the daemon is told to stop.
    pub on_stop: Set<OnStop>,
    /// How much the daemon says.
    pub log_level: Set<LogLevel>,
    limits: [Set<i64>; SettingLimit::ALL.len()],
}

/// One setting as it is shown: key, value, source.
pub type Shown = (&'static str, Value, Source);

/// What reading the file again comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// What is in force from now on.
    pub settings: Settings,
    /// What has changed.
    pub changed: Vec<Shown>,
    /// Keys that say something else now, and go on as they were until the next start.
    pub needs_restart: Vec<&'static str>,
}

impl Settings {
    /// The settings that flags and file come to. An error is a sentence that names the keys.
    pub fn resolve(flags: &Config, file: &Config) -> Result<Self, String> {
        let state = Set::pick(flags.state.clone(), file.state.clone(), || PathBuf::from(STATE_DEFAULT));
        let below = |name: &str| state.value.join(name);
        let profile = Set::pick(flags.profile, file.profile, || Profile::Edge);
        let settings = Self {
            logs: Set::pick(flags.logs.clone(), file.logs.clone(), || below("logs")),
            runtime: Set::pick(flags.runtime.clone(), file.runtime.clone(), || below("run")),
            api: Set::pick(flags.api, file.api, || true),
            listen: Set::pick(flags.listen.map(Some), file.listen.map(Some), || None),
            trust_clock: Set::pick(flags.trust_clock, file.trust_clock, || false),
            on_stop: Set::pick(flags.on_stop, file.on_stop, || OnStop::Leave),
            log_level: Set::pick(flags.log_level, file.log_level, || LogLevel::Info),
            limits: limits(flags, file, profile.value)?,
            state,
            profile,
        };
        if settings.listen.value.is_some() && !settings.api.value {
            return Err("`listen` needs the API, and `api` is off: leave one of them out".into());
        }
        if settings.logs.value == settings.runtime.value {
            return Err("`logs` and `runtime` are the same folder: give each its own".into());
        }
        if [&settings.logs, &settings.runtime].iter().any(|folder| folder.value == settings.state.value) {
            return Err("`logs` or `runtime` is the state folder itself: give each its own".into());
        }
        Ok(settings)
    }

    /// The profile's numbers with those that were set.
    pub fn limits(&self) -> Limits {
        let mut limits = *self.profile.value.limits();
        for (limit, set) in SettingLimit::ALL.into_iter().zip(self.limits) {
            limit.put(&mut limits, set.value);
        }
        limits
    }

    /// Every setting for people and scripts.
    pub fn shown(&self) -> Vec<Shown> {
        let path = |path: &Path| Value::from(path.to_string_lossy());
        let mut all = self.needing_restart(&path);
        all.push(("onStop", self.on_stop.value.word().into(), self.on_stop.source));
        all.push(("logLevel", self.log_level.value.word().into(), self.log_level.source));
        let limits = SettingLimit::ALL.into_iter().zip(self.limits);
        all.extend(limits.map(|(limit, set)| (limit.key(), set.value.into(), set.source)));
        all
    }

    fn needing_restart(&self, path: &impl Fn(&Path) -> Value) -> Vec<Shown> {
        let listen = self.listen.value.map_or(Value::Null, |address| address.to_string().into());
        vec![
            ("state", path(&self.state.value), self.state.source),
            ("logs", path(&self.logs.value), self.logs.source),
            ("runtime", path(&self.runtime.value), self.runtime.source),
            ("profile", self.profile.value.word().into(), self.profile.source),
            ("api", if self.api.value { "on" } else { "off" }.into(), self.api.source),
            ("listen", listen, self.listen.source),
            ("clock", if self.trust_clock.value { "always" } else { "auto" }.into(), self.trust_clock.source),
        ]
    }

    /// What the file, read again, comes to while this is in force. An error is a sentence, and nothing
    /// changes.
    pub fn reload(&self, flags: &Config, file: &Config) -> Result<Reload, String> {
        let wanted = Self::resolve(flags, file)?;
        let settings = Self {
            on_stop: wanted.on_stop,
            log_level: wanted.log_level,
            // Under the profile that goes on being in force.
            limits: limits(flags, file, self.profile.value)?,
            ..self.clone()
        };
        let differ = |before: Vec<Shown>, after: Vec<Shown>| {
            let pairs = before.into_iter().zip(after);
            pairs.filter(|(before, after)| before.1 != after.1).map(|(_, after)| after).collect::<Vec<_>>()
        };
        let path = |path: &Path| Value::from(path.to_string_lossy());
        let restart = differ(self.needing_restart(&path), wanted.needing_restart(&path));
        Ok(Reload {
            changed: differ(self.shown(), settings.shown()),
            needs_restart: restart.into_iter().map(|(key, _, _)| key).collect(),
            settings,
        })
    }
}

fn limits(flags: &Config, file: &Config, profile: Profile) -> Result<[Set<i64>; SettingLimit::ALL.len()], String> {
    let mut all = [Set { value: 0, source: Source::Profile }; SettingLimit::ALL.len()];
    for (at, limit) in SettingLimit::ALL.into_iter().enumerate() {
        let set = Set::pick(flags.limits[at], file.limits[at], || limit.of(profile.limits()));
        let source = if set.source == Source::Default { Source::Profile } else { set.source };
        let (least, most) = limit.range(profile);
        if !(least..=most).contains(&set.value) {
            let (key, value, profile) = (limit.key(), set.value, profile.word());
            return Err(format!("`{key}` is {value}; under the profile {profile} it must be from {least} to {most}"));
        }
        all[at] = Set { source, ..set };
    }
    let value = |limit: SettingLimit| all[limit as usize].value;
    let (one, together) = (value(SettingLimit::AttemptLogBytes), value(SettingLimit::LogBytes));
    if one > together {
        return Err(format!(
            "`limits.attemptLogBytes` is {one}, more than the {together} of `limits.logBytes`, which is for all logs \
             together: set both"
        ));
    }
    Ok(all)
}

/// The settings in force, for threads that show them or go by them.
#[derive(Debug)]
pub struct InForce(RwLock<Settings>);

impl InForce {
    /// These are in force.
    pub const fn new(settings: Settings) -> Self {
        Self(RwLock::new(settings))
    }

    /// A copy of what is in force now.
    pub fn get(&self) -> Settings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these are.
    pub fn put(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::parse;
    use super::*;

    fn config(text: &str) -> Config {
        parse(text.as_bytes()).unwrap()
    }

    fn resolved(flags: &str, file: &str) -> Settings {
        Settings::resolve(&config(flags), &config(file)).unwrap()
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_profile_and_default() {
        let file = r#"{"state": "/file", "profile": "standalone", "logLevel": "warn", "limits": {"queuedRuns": 9}}"#;
        let settings = resolved(r#"{"state": "/flag", "onStop": "drain"}"#, file);
        let shown = settings.shown();
        let find = |key: &str| {
            let (_, value, source) = shown.iter().find(|(known, _, _)| *known == key).unwrap();
            (value.clone(), source.word())
        };
        assert_eq!(find("state"), ("/flag".into(), "flag"));
        assert_eq!(find("logs"), ("/flag/logs".into(), "default"));
        assert_eq!(find("onStop"), ("drain".into(), "flag"));
        assert_eq!(find("logLevel"), ("warn".into(), "file"));
        assert_eq!(find("limits.queuedRuns"), (9.into(), "file"));
        assert_eq!(find("limits.activeAttempts"), (32.into(), "profile"));
        assert_eq!(find("listen"), (Value::Null, "default"));
        assert_eq!((settings.limits().queued_runs, settings.limits().connections), (9, 128));
        assert_eq!(resolved("{}", "{}").limits(), *Profile::Edge.limits());
    }

    #[test]
    fn what_does_not_go_together_is_refused_by_name() {
        let refused = |file: &str| Settings::resolve(&Config::default(), &config(file)).unwrap_err();
        assert!(refused(r#"{"listen": "127.0.0.1:1", "api": "off"}"#).contains("`listen` needs the API"));
        let many = r#"{"limits": {"activeAttempts": 17}}"#;
        assert!(
            refused(many).contains("`limits.activeAttempts` is 17; under the profile edge it must be from 1 to 16")
        );
        assert!(refused(r#"{"limits": {"logBytes": 65536}}"#).contains("`limits.attemptLogBytes` is 4194304"));
        assert!(refused(r#"{"logs": "/x", "runtime": "/x"}"#).contains("same folder"));
        assert!(refused(r#"{"logs": "/x", "state": "/x"}"#).contains("state folder itself"));
    }

    #[test]
    fn a_reload_changes_what_may_change_and_names_the_rest() {
        let flags = config(r#"{"onStop": "drain"}"#);
        let before = Settings::resolve(&flags, &config(r#"{"logLevel": "warn"}"#)).unwrap();
        let file = r#"{"listen": "127.0.0.1:1", "profile": "standalone", "onStop": "stop",
                       "limits": {"auditRows": 500, "activeAttempts": 8}}"#;
        let reload = before.reload(&flags, &config(file)).unwrap();
        let changed: Vec<&str> = reload.changed.iter().map(|(key, _, _)| *key).collect();
        assert_eq!(changed, ["logLevel", "limits.activeAttempts", "limits.auditRows"]);
        assert_eq!(reload.needs_restart, ["profile", "listen"]);
        assert_eq!(reload.settings.limits().queued_runs, 256, "the profile goes on");
        assert_eq!(reload.settings.on_stop.value, OnStop::Drain, "a flag goes on winning");
        // 20 would do under the profile of the next start, and not under the one in force.
        let file = r#"{"profile": "standalone", "limits": {"activeAttempts": 20}}"#;
        assert!(before.reload(&flags, &config(file)).unwrap_err().contains("under the profile edge"));
        let again = reload.settings.reload(&flags, &config(r#"{"limits": {"auditRows": 500, "activeAttempts": 8}}"#));
        assert_eq!(again.map(|reload| (reload.changed, reload.needs_restart)), Ok((vec![], vec![])));
    }
}
