//! The example tasks that tell somebody how a run has ended: applied as they are, triggered by a run that
//! fails, with stand-ins for the programs they use.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use support::{Bench, until};

const EXAMPLES: [&str; 2] = ["notice-webhook", "notice-logger"];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.json"))
}

/// A folder with this one program, which writes its name and arguments, one a line, into a file when it
/// is called: the folder, and the file.
fn stand_in(bench: &Bench, program: &str) -> (PathBuf, PathBuf) {
    let folder = bench.root().join(format!("path-{program}"));
    let told = folder.join("told");
    fs::create_dir(&folder).unwrap();
    let stub = folder.join(program);
    let (new, told_at) = (folder.join("new"), told.display());
    fs::write(
        &stub,
        format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\nprintf '%s\\n' {program} \"$@\" > {0}\nmv {0} {told_at}\n",
            new.display()
        ),
    )
    .unwrap();
    fs::set_permissions(&stub, Permissions::from_mode(0o755)).unwrap();
    (folder, told)
}

/// Applies an example with this search path and nothing else changed.
fn apply(bench: &Bench, name: &str, path: &Path) {
    let mut task: Value = serde_json::from_slice(&fs::read(example(name)).unwrap()).unwrap();
    let entries = task["spec"]["config"]["environment"].as_array_mut().unwrap();
    entries.push(json!({"name": "PATH", "kind": "public", "value": path}));
    let file = bench.root().join(format!("{name}.json"));
    fs::write(&file, task.to_string()).unwrap();
    bench.ok(&["task", "apply", file.to_str().unwrap()]);
}

fn told(file: &Path) -> Vec<String> {
    let text = until(&format!("{}", file.display()), || fs::read_to_string(file).ok());
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_failed_run_is_told_to_the_log_and_to_a_web_address_by_whichever_program_is_there() {
    let bench = Bench::serving();
    bench.shell("job", "exit 3");
    for name in EXAMPLES {
        // As they are, and again: the files are what `task apply` takes, and say all there is.
        bench.ok(&["task", "apply", example(name).to_str().unwrap()]);
        assert!(bench.ok(&["task", "apply", example(name).to_str().unwrap()]).contains("unchanged"));
        let trigger = format!("after-{name}");
        let set = ["trigger", "set", &trigger, "--task", name, "--after", "job", "--outcome", "failed,timed_out,lost"];
        // Two that fail at once are two notices.
        bench.ok(&[&set[..], &["--overlap", "allow"]].concat());
        let description = bench.json(&["task", "show", name])["task"]["description"].clone();
        assert!(
            description.as_str().unwrap().contains("qinglet trigger set ")
                && description.as_str().unwrap().ends_with("--overlap allow"),
            "{description}"
        );
    }
    let (path, log) = stand_in(&bench, "logger");
    apply(&bench, "notice-logger", &path);
    let mut logged = false;
    for program in ["uclient-fetch", "curl", "wget"] {
        let (path, file) = stand_in(&bench, program);
        apply(&bench, "notice-webhook", &path);
        let run = bench.run_wait("job").0["id"].as_str().unwrap().to_owned();
        let args = told(&file);
        assert_eq!(args[0], program);
        assert_eq!(args.last().unwrap(), "https://example.org/hook");
        let body = args.iter().find_map(|arg| arg.find('{').map(|at| &arg[at..])).unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body, json!({"task": "job", "run": run, "outcome": "failed", "exitCode": 3}));
        if !logged {
            let line = format!("task job: run {run} failed, exit code 3");
            assert_eq!(told(&log), ["logger", "-t", "qinglet", "-p", "daemon.warning", &line]);
            bench.ok(&["trigger", "disable", "after-notice-logger"]);
            logged = true;
        }
    }
    // Tried by hand there is no cause, and it is said; with no program the run fails and says why.
    fs::remove_file(&log).unwrap();
    assert_eq!(bench.run_wait("notice-logger").1, 0);
    assert!(told(&log)[5].starts_with("task none: run ") && told(&log)[5].ends_with(" test"));
    fs::create_dir(bench.root().join("empty")).unwrap();
    apply(&bench, "notice-webhook", &bench.root().join("empty"));
    let run = bench.start("notice-webhook");
    let run = bench.run_in(&run, "retry_wait");
    assert_eq!(run["latestAttempt"]["exitCode"], 127, "{run}");
    assert!(bench.log(run["id"].as_str().unwrap()).starts_with(b"none of uclient-fetch, curl and wget"));
}
