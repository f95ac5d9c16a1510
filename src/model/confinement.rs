//! How a task is held apart from the rest of the machine: `requires`, `runAs`, `nice`, `oomScoreAdj`
//! of its spec (design D14, D15). What was left out stays out of the canonical form, so that a
//! definition from before these fields keeps its digest.

use super::capability::Capability;
use super::limits;
use serde_json::{Map, Value, json};

/// A field that breaks a rule: its path and the rule.
type Wrong = (String, String);

/// Everything of a spec that confines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// What the machine must hold it to.
    pub requires: Requires,
    /// Whose process it is; the daemon's user's when absent.
    pub run_as: Option<RunAs>,
    /// Its nice value, -20..=19.
    pub nice: Option<i32>,
    /// How readily the out-of-memory killer takes it, -1000..=1000.
    pub oom_score_adj: Option<i32>,
}

/// `requires`: limits and capabilities without which it must not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requires {
    /// Memory of all its processes together, swap included.
    pub memory_bytes: Option<i64>,
    /// Its processes and threads.
    pub pids: Option<i64>,
    /// Its share of the processor; 100 is one whole core.
    pub cpu_percent: Option<i64>,
    /// Capabilities by name, sorted.
    pub capabilities: Vec<Capability>,
}

/// `runAs`: a user and perhaps a group, each by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    /// The user.
    pub user: String,
    /// The group; the user's own when absent.
    pub group: Option<String>,
}

impl RunAs {
    /// Reads `user` or `user:group`.
    pub fn parse(text: &str) -> Option<Self> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let sound = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b',' | b'/' | b'"' | b'\\');
            !name.is_empty()
                && name.len() <= limits::ACCOUNT_BYTES_MAX
                && !name.starts_with('-')
                && name.bytes().all(plain)
        };
        let both = sound(user) && group.is_none_or(sound);
        both.then(|| Self { user: user.to_owned(), group: group.map(str::to_owned) })
    }

    /// The text it was read from.
    pub fn text(&self) -> String {
        self.group.as_ref().map_or_else(|| self.user.clone(), |group| format!("{}:{group}", self.user))
    }
}

impl Confinement {
    /// Reads the four fields of a `config`. The error names the first that is wrong.
    pub fn read(config: &Map<String, Value>) -> Result<Self, Wrong> {
        Ok(Self {
            requires: config.get("requires").map(Requires::read).transpose()?.unwrap_or_default(),
            run_as: config.get("runAs").map(run_as).transpose()?,
            nice: whole(config, "", "nice", -20, 19)?.map(|n| n as i32),
            oom_score_adj: whole(config, "", "oomScoreAdj", -1000, 1000)?.map(|n| n as i32),
        })
    }

    /// Adds what was given to a canonical `config`.
    pub fn write(&self, config: &mut Map<String, Value>) {
        let requires = self.requires.to_value();
        if requires.as_object().is_some_and(|fields| !fields.is_empty()) {
            config.insert("requires".into(), requires);
        }
        if let Some(run_as) = &self.run_as {
            config.insert("runAs".into(), run_as.text().into());
        }
        if let Some(nice) = self.nice {
            config.insert("nice".into(), nice.into());
        }
        if let Some(adj) = self.oom_score_adj {
            config.insert("oomScoreAdj".into(), adj.into());
        }
    }

    /// What the machine must be able to do for it. Whether `runAs` needs anything depends on who asks.
    pub fn needs(&self) -> impl Iterator<Item = Capability> + '_ {
        let requires = &self.requires;
        let limits = [
            (requires.memory_bytes.is_some(), Capability::MemoryLimit),
            (requires.pids.is_some(), Capability::PidsLimit),
            (requires.cpu_percent.is_some(), Capability::CpuLimit),
            (self.nice.is_some_and(|nice| nice < 0), Capability::RaisedPriority),
            (self.oom_score_adj.is_some_and(|adj| adj < 0), Capability::OomProtection),
        ];
        let implied = limits.into_iter().filter_map(|(needed, capability)| needed.then_some(capability));
        requires.capabilities.iter().copied().chain(implied)
    }
}

impl Requires {
    fn read(value: &Value) -> Result<Self, Wrong> {
        const KNOWN: [&str; 4] = ["memoryBytes", "pids", "cpuPercent", "capabilities"];
        let Some(fields) = value.as_object() else {
            return Err(("requires".into(), format!("must be an object with {}", KNOWN.join(", "))));
        };
        if let Some(key) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err((format!("requires.{key}"), format!("unknown field; there are {}", KNOWN.join(", "))));
        }
        Ok(Self {
            memory_bytes: whole(
                fields,
                "requires.",
                "memoryBytes",
                limits::TASK_MEMORY_BYTES_MIN,
                limits::TASK_MEMORY_BYTES_MAX,
            )?,
            pids: whole(fields, "requires.", "pids", 1, limits::TASK_PIDS_MAX)?,
            cpu_percent: whole(fields, "requires.", "cpuPercent", 1, limits::TASK_CPU_PERCENT_MAX)?,
            capabilities: fields.get("capabilities").map(capabilities).transpose()?.unwrap_or_default(),
        })
    }

    fn to_value(&self) -> Value {
        let mut fields = Map::new();
        let numbers = [("memoryBytes", self.memory_bytes), ("pids", self.pids), ("cpuPercent", self.cpu_percent)];
        for (name, number) in numbers {
            if let Some(number) = number {
                fields.insert(name.into(), number.into());
            }
        }
        if !self.capabilities.is_empty() {
            fields.insert("capabilities".into(), self.capabilities.iter().map(|one| json!(one.word())).collect());
        }
        fields.into()
    }
}

fn run_as(value: &Value) -> Result<RunAs, Wrong> {
    value.as_str().and_then(RunAs::parse).ok_or_else(|| {
        let most = limits::ACCOUNT_BYTES_MAX;
        ("runAs".into(), format!("must be \"user\" or \"user:group\", names of at most {most} bytes or numbers"))
    })
}

fn capabilities(value: &Value) -> Result<Vec<Capability>, Wrong> {
    let rule = || {
        let words: Vec<&str> = Capability::ALL.iter().map(|one| one.word()).collect();
        ("requires.capabilities".to_owned(), format!("must be a list of {}, each once", words.join(", ")))
    };
    let list = value.as_array().ok_or_else(rule)?;
    let read = list.iter().map(|word| word.as_str().and_then(Capability::parse).ok_or_else(rule));
    let mut all = read.collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|one| one.word());
    if all.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(rule());
    }
    Ok(all)
}

fn whole(fields: &Map<String, Value>, prefix: &str, name: &str, min: i64, max: i64) -> Result<Option<i64>, Wrong> {
    match fields.get(name).map(Value::as_i64) {
        None => Ok(None),
        Some(Some(number)) if (min..=max).contains(&number) => Ok(Some(number)),
        Some(_) => Err((format!("{prefix}{name}"), format!("must be a whole number from {min} to {max}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: Value) -> Result<Confinement, Wrong> {
        let Value::Object(fields) = config else { panic!("an object") };
        Confinement::read(&fields)
    }

    #[test]
    fn what_is_given_comes_back_sorted_and_what_is_not_stays_out() {
        let full = json!({
            "requires": {"memoryBytes": 16_777_216, "pids": 20, "cpuPercent": 50,
                         "capabilities": ["timeout", "memory-limit"]},
            "runAs": "http:www-data", "nice": -5, "oomScoreAdj": 300,
        });
        let got = read(full.clone()).unwrap();
        let mut written = Map::new();
        got.write(&mut written);
        let mut want = full;
        want["requires"]["capabilities"] = json!(["memory-limit", "timeout"]);
        assert_eq!(Value::Object(written), want);
        for empty in [json!({}), json!({"requires": {}}), json!({"requires": {"capabilities": []}})] {
            let mut written = Map::new();
            read(empty).unwrap().write(&mut written);
            assert!(written.is_empty(), "{written:?}");
        }
    }

    #[test]
    fn what_it_needs_follows_from_what_it_asks_for() {
        let needs = |config| read(config).unwrap().needs().map(Capability::word).collect::<Vec<_>>();
        assert_eq!(needs(json!({"nice": 5, "oomScoreAdj": 0, "runAs": "x"})), [""; 0]);
        assert_eq!(needs(json!({"nice": -1, "oomScoreAdj": -1})), ["raised-priority", "oom-protection"]);
        assert_eq!(
            needs(
                json!({"requires": {"pids": 1, "memoryBytes": 1_048_576, "cpuPercent": 1, "capabilities": ["timeout"]}})
            ),
            ["timeout", "memory-limit", "pids-limit", "cpu-limit"]
        );
    }

    #[test]
    fn every_rule_is_named_with_its_field() {
        for (config, field) in [
            (json!({"requires": 1}), "requires"),
            (json!({"requires": {"memory": 1}}), "requires.memory"),
            (json!({"requires": {"memoryBytes": 1_048_575}}), "requires.memoryBytes"),
            (json!({"requires": {"pids": 0}}), "requires.pids"),
            (json!({"requires": {"cpuPercent": 0.5}}), "requires.cpuPercent"),
            (json!({"requires": {"capabilities": ["magic"]}}), "requires.capabilities"),
            (json!({"requires": {"capabilities": ["timeout", "timeout"]}}), "requires.capabilities"),
            (json!({"nice": 20}), "nice"),
            (json!({"nice": -21}), "nice"),
            (json!({"oomScoreAdj": 1001}), "oomScoreAdj"),
            (json!({"runAs": 33}), "runAs"),
            (json!({"runAs": ""}), "runAs"),
            (json!({"runAs": "a:"}), "runAs"),
            (json!({"runAs": "a:b:c"}), "runAs"),
            (json!({"runAs": "a b"}), "runAs"),
            (json!({"runAs": "-x"}), "runAs"),
            (json!({"runAs": "x".repeat(limits::ACCOUNT_BYTES_MAX + 1)}), "runAs"),
        ] {
            assert_eq!(read(config.clone()).unwrap_err().0, field, "{config}");
        }
    }
}
