//! The configuration file's text (design D19): one strict JSON object, every key optional, an unknown
//! one refused. Pure: bytes in, a value or a sentence out.

use super::json;
use super::limits::{CONFIG_BYTES_MAX, FOLDER_BYTES_MAX, Profile};
use super::log_level::LogLevel;
use super::nearest::nearest;
use super::on_stop::OnStop;
use super::setting_limit::SettingLimit;
use serde_json::{Map, Value};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a configuration says; `None` = nothing. The flags of `serve` are one too.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Config {
    /// The state folder, absolute.
    pub state: Option<PathBuf>,
    /// The log folder, absolute.
    pub logs: Option<PathBuf>,
    /// The runtime folder, absolute.
    pub runtime: Option<PathBuf>,
    /// Whose numbers count.
    pub profile: Option<Profile>,
    /// Whether there is an HTTP side at all.
    pub api: Option<bool>,
    /// Where TCP listens.
    pub listen: Option<SocketAddr>,
    /// Whether the wall clock is right whatever speaks against it.
    pub trust_clock: Option<bool>,
    /// What becomes of running tasks when the daemon is told to stop.
    pub on_stop: Option<OnStop>,
    /// How much the daemon says.
    pub log_level: Option<LogLevel>,
    /// Numbers of the profile, in the order of [`SettingLimit::ALL`], within their widest bounds.
    pub limits: [Option<i64>; SettingLimit::ALL.len()],
}

/// Why a text is no configuration: the key, if it is about one, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Its whole key, like `limits.queuedRuns`; empty when it is about the whole text.
    pub key: String,
    /// What is wrong and what is right.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() { f.write_str(&self.what) } else { write!(f, "`{}` {}", self.key, self.what) }
    }
}

fn wrong<T>(key: &str, what: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError { key: key.to_owned(), what: what.into() })
}

/// Every key of the outer object, as an unknown one is compared with them.
const KEYS: [&str; 10] =
    ["state", "logs", "runtime", "profile", "api", "listen", "clock", "onStop", "logLevel", "limits"];

/// Reads a whole configuration.
pub fn parse(bytes: &[u8]) -> Result<Config, ConfigError> {
    if bytes.len() > CONFIG_BYTES_MAX {
        return wrong("", format!("it is longer than {CONFIG_BYTES_MAX} bytes"));
    }
    let value = match json::parse(bytes) {
        Ok(value) => value,
        Err(refused) => return wrong("", format!("it is not JSON as it must be: {refused}")),
    };
    let Value::Object(fields) = value else { return wrong("", "it must be one JSON object, like {}") };
    let mut config = Config::default();
    for (key, value) in &fields {
        match key.as_str() {
            "state" => config.state = Some(folder(key, value)?),
            "logs" => config.logs = Some(folder(key, value)?),
            "runtime" => config.runtime = Some(folder(key, value)?),
            "profile" => config.profile = Some(choice(key, value, "edge or standalone", Profile::parse)?),
            "api" => config.api = Some(choice(key, value, "on or off", api)?),
            "listen" => config.listen = Some(choice(key, value, LISTEN, |text| text.parse().ok())?),
            "clock" => config.trust_clock = Some(choice(key, value, "auto or always", trust_clock)?),
            "onStop" => config.on_stop = Some(choice(key, value, "leave, drain or stop", OnStop::parse)?),
            "logLevel" => {
                config.log_level = Some(choice(key, value, "error, warn, info or debug", LogLevel::parse)?);
            }
            "limits" => match value {
                Value::Object(fields) => limits(fields, &mut config)?,
                _ => return wrong(key, format!("must be a JSON object, not {}", kind(value))),
            },
            _ => return unknown("", key, &KEYS),
        }
    }
    Ok(config)
}

const LISTEN: &str = "an address and a port, like 127.0.0.1:7370 or [::1]:0";

/// Reads the word for whether there is an API.
pub fn api(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Reads the word for whether the wall clock is believed.
pub fn trust_clock(text: &str) -> Option<bool> {
    match text {
        "auto" => Some(false),
        "always" => Some(true),
        _ => None,
    }
}

fn unknown<T>(before: &str, key: &str, known: &[&str]) -> Result<T, ConfigError> {
    let near = nearest(key, known.iter().copied()).unwrap_or_default();
    // A key may be as long as the file.
    let shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    wrong(&format!("{before}{shown}"), format!("is unknown; the nearest known key is `{before}{near}`"))
}

fn text<'a>(key: &str, value: &'a Value) -> Result<&'a str, ConfigError> {
    match value {
        Value::String(text) => Ok(text),
        other => wrong(key, format!("must be a string, not {}", kind(other))),
    }
}

fn choice<T>(key: &str, value: &Value, all: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, ConfigError> {
    read(text(key, value)?).map_or_else(|| wrong(key, format!("must be {all}")), Ok)
}

fn folder(key: &str, value: &Value) -> Result<PathBuf, ConfigError> {
    let text = text(key, value)?;
    if !text.starts_with('/') || text.len() > FOLDER_BYTES_MAX || text.chars().any(char::is_control) {
        return wrong(
            key,
            format!("must be an absolute path of at most {FOLDER_BYTES_MAX} bytes without control characters"),
        );
    }
    Ok(PathBuf::from(text))
}

fn limits(fields: &Map<String, Value>, config: &mut Config) -> Result<(), ConfigError> {
    for (name, value) in fields {
        let Some(at) = SettingLimit::ALL.iter().position(|limit| limit.name() == name) else {
            return unknown("limits.", name, &SettingLimit::ALL.map(SettingLimit::name));
        };
        let (least, most) = SettingLimit::ALL[at].widest();
        let key = SettingLimit::ALL[at].key();
        match value.as_i64() {
            Some(number) if (least..=most).contains(&number) => config.limits[at] = Some(number),
            Some(number) => return wrong(key, format!("is {number} and must be from {least} to {most}")),
            None => {
                return wrong(key, format!("must be a whole number from {least} to {most}, not {}", kind(value)));
            }
        }
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null; leave it out",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "such a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"{"state": "/s", "logs": "/l", "runtime": "/r", "profile": "standalone", "api": "on",
            "listen": "127.0.0.1:80", "clock": "always", "onStop": "drain", "logLevel": "debug",
            "limits": {"activeAttempts": 5, "queuedRuns": 6, "logBytes": 100000, "attemptLogBytes": 70000,
                       "logDays": 7, "historyRuns": 800, "historyDays": 9, "auditRows": 1000}}"#;
        let config = parse(text.as_bytes()).unwrap();
        let expected = Config {
            state: Some("/s".into()),
            logs: Some("/l".into()),
            runtime: Some("/r".into()),
            profile: Some(Profile::Standalone),
            api: Some(true),
            listen: Some("127.0.0.1:80".parse().unwrap()),
            trust_clock: Some(true),
            on_stop: Some(OnStop::Drain),
            log_level: Some(LogLevel::Debug),
            limits: [5, 6, 100_000, 70_000, 7, 800, 9, 1000].map(Some),
        };
        assert_eq!(config, expected);
        assert_eq!(parse(b" {} ").unwrap(), Config::default());
        for key in KEYS {
            assert!(text.contains(&format!("\"{key}\"")), "{key} is not in this test");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, says) in [
            (r#"{"stat": "/s"}"#, "`stat` is unknown; the nearest known key is `state`"),
            (
                r#"{"limits": {"queued": 1}}"#,
                "`limits.queued` is unknown; the nearest known key is `limits.queuedRuns`",
            ),
            (r#"{"state": 1}"#, "`state` must be a string, not such a number"),
            (r#"{"state": "s"}"#, "`state` must be an absolute path of at most 1024 bytes without control characters"),
            (r#"{"logLevel": "loud"}"#, "`logLevel` must be error, warn, info or debug"),
            (r#"{"listen": "localhost:1"}"#, "`listen` must be an address and a port, like 127.0.0.1:7370 or [::1]:0"),
            (r#"{"listen": null}"#, "`listen` must be a string, not null; leave it out"),
            (r#"{"limits": []}"#, "`limits` must be a JSON object, not a list"),
            (r#"{"limits": {"logDays": 0}}"#, "`limits.logDays` is 0 and must be from 1 to 3650"),
            (
                r#"{"limits": {"activeAttempts": "4"}}"#,
                "`limits.activeAttempts` must be a whole number from 1 to 64, not a string",
            ),
            ("[]", "it must be one JSON object, like {}"),
            ("", "it is not JSON as it must be: EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(error(text), says, "{text}");
        }
        assert!(error(r#"{"api": "on", "api": "off"}"#).contains("duplicate field `api`"));
        assert!(error(r#"{"state": "/a\nb"}"#).contains("control characters"));
        assert!(error(&format!("{{\"state\": \"/{}\"}}", "x".repeat(1024))).contains("1024 bytes"));
        assert!(error(&" ".repeat(CONFIG_BYTES_MAX + 1)).contains("longer than 65536 bytes"));
        let long = error(&format!("{{\"{}\": 1}}", "\\n".repeat(10_000)));
        assert!(long.len() < 300 && !long.contains('\n'), "{long}");
    }
}
