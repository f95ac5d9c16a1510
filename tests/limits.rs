//! What a task may take of the machine and as whom it runs, against the real binary. The limits need
//! root and a machine with control groups; without, these tests skip.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use support::{Bench, is_root, skip, tree, until};

/// Whether this machine has everything named; else the test skips.
fn has(test: &str, bench: &Bench, words: &[&str]) -> bool {
    let status = bench.json(&["status"]);
    let can: Vec<&str> =
        status["status"]["machine"]["can"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let missing = words.iter().find(|word| !can.contains(word));
    if let Some(word) = missing {
        skip(test, &format!("a machine with {word}"));
    }
    missing.is_none()
}

/// This daemon's groups that are there now.
fn groups(bench: &Bench) -> Vec<PathBuf> {
    let state = fs::metadata(bench.state()).unwrap();
    let mut found = Vec::new();
    let name = format!("qinglet-{:x}-{:x}.", state.dev(), state.ino());
    below(Path::new("/sys/fs/cgroup"), &name, 8, &mut found);
    found
}

fn below(folder: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().starts_with(name) {
            found.push(entry.path());
        } else if depth > 0 {
            below(&entry.path(), name, depth - 1, found);
        }
    }
}

fn status(run: &Value) -> &str {
    run["status"].as_str().unwrap()
}

/// Takes memory until there is no more: a shell variable that doubles.
const EAT: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

#[test]
fn a_task_that_runs_out_of_memory_is_told_apart_and_its_group_is_gone() {
    let test = "a_task_that_runs_out_of_memory_is_told_apart_and_its_group_is_gone";
    let bench = Bench::serving();
    if !has(test, &bench, &["memory-limit"]) {
        return;
    }
    bench.shell_with("eater", &["--memory", "8MiB"], EAT);
    let (run, code) = bench.run_wait("eater");
    assert_eq!((status(&run), code), ("failed", 1), "{run}");
    let attempt = &run["latestAttempt"];
    assert_eq!((attempt["signal"].as_i64(), run["errorCode"].as_str()), (Some(9), Some("OUT_OF_MEMORY")), "{run}");
    assert_eq!(attempt["errorSummary"], "out of memory, its limit was 8 MiB");
    let id = run["id"].as_str().unwrap();
    assert!(bench.ok(&["show", id]).contains("failed: killed: out of memory, its limit was 8 MiB"));
    assert!(bench.ok(&["runs"]).contains("failed, out of memory"));
    assert_eq!(bench.json_lines(&["runs"])[0]["errorCode"], "OUT_OF_MEMORY");
    assert!(bench.ok(&["check", id]).contains("OUT_OF_MEMORY"));
    assert_eq!(bench.json(&["check", id])["evidence"]["errorCode"], "OUT_OF_MEMORY");
    assert_eq!(groups(&bench), [""; 0].map(PathBuf::from), "what was killed leaves no group");
    // A KILL by anybody else is none of that.
    bench.shell_with("killed", &["--memory", "8MiB"], "kill -9 $$");
    let (run, _) = bench.run_wait("killed");
    assert!(run["errorCode"].is_null() && run["latestAttempt"]["signal"] == 9, "{run}");
    // A part that was killed is said beside whatever the end was.
    bench.shell_with("part", &["--memory", "8MiB"], &format!("/bin/sh -c '{EAT}'; exit 0"));
    let (run, code) = bench.run_wait("part");
    assert_eq!((status(&run), code, run["errorCode"].as_str()), ("succeeded", 0, Some("OUT_OF_MEMORY")), "{run}");
    let shown = bench.ok(&["show", run["id"].as_str().unwrap()]);
    assert!(shown.contains("succeeded with exit code 0; part of it was killed: out of memory"), "{shown}");
}

#[test]
fn processes_and_processor_are_limited_while_the_task_runs_and_no_group_stays() {
    let test = "processes_and_processor_are_limited_while_the_task_runs_and_no_group_stays";
    let bench = Bench::serving();
    if !has(test, &bench, &["pids-limit", "cpu-limit", "memory-limit"]) {
        return;
    }
    bench.shell_with(
        "held",
        &["--pids", "4", "--cpu", "50%", "--memory", "16M"],
        "cat /proc/self/cgroup; for i in 1 2 3 4 5 6 7 8; do sleep 300 & done; wait",
    );
    let run = bench.start("held");
    bench.run_in(&run, "running");
    let groups_there = until("the groups", || Some(groups(&bench)).filter(|groups| !groups.is_empty()));
    let read = |files: &[&str]| {
        let file = groups_there.iter().flat_map(|group| files.iter().map(|file| group.join(file)));
        file.filter_map(|file| fs::read_to_string(file).ok()).map(|text| text.trim().to_owned()).next().unwrap()
    };
    assert_eq!(read(&["pids.max"]), "4");
    assert!(["50000", "50000 100000"].contains(&read(&["cpu.cfs_quota_us", "cpu.max"]).as_str()));
    assert_eq!(read(&["memory.limit_in_bytes", "memory.max"]), "16777216");
    assert!(["16777216", "0"].contains(&read(&["memory.memsw.limit_in_bytes", "memory.swap.max"]).as_str()));
    let member = tree::below(bench.pid()).into_iter().map(|process| process.pid).collect::<Vec<_>>();
    let inside = read(&["cgroup.procs"]);
    let inside: Vec<i32> = inside.lines().map(|line| line.parse().unwrap()).collect();
    assert!(!inside.contains(&bench.pid()) && !inside.contains(&member[0]), "daemon and shim stay outside");
    // The shell could not make all it wanted, says so, and ends of it or waits; either way it stops.
    until("the limit to be met", || {
        Some(()).filter(|()| read(&["pids.events"]).contains(|c: char| ('1'..='9').contains(&c)))
    });
    bench.cli(&["stop", &run, "--wait"]);
    assert!(groups(&bench).is_empty());
    let shown = bench.ok(&["task", "show", "held"]);
    for words in ["16 MiB", "50 % of one core"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert_eq!(bench.json(&["task", "show", "held"])["task"]["spec"]["config"]["requires"]["pids"], 4);
}

#[test]
fn what_the_machine_lacks_is_refused_before_anything_runs() {
    let bench = Bench::serving();
    let marker = bench.root().join("ran");
    let touch = format!("touch {}", marker.display());
    bench.shell_with("walled", &["--require", "filesystem-isolation", "--retry", "0"], &touch);
    let (run, code) = bench.run_wait("walled");
    assert_eq!((status(&run), code), ("failed", 1));
    assert_eq!(run["errorCode"], "EXECUTOR_CAPABILITY_UNAVAILABLE");
    let why = run["latestAttempt"]["errorSummary"].as_str().unwrap();
    assert!(why.contains("filesystem-isolation") && why.contains("this version does not have it"), "{why}");
    bench.shell_with("nobody", &["--run-as", "no-such-user"], &touch);
    let (run, _) = bench.run_wait("nobody");
    assert_eq!(run["errorCode"], "RUN_AS_UNKNOWN", "{run}");
    assert!(bench.ok(&["show", run["id"].as_str().unwrap()]).contains("was not started: there is no user"));
    assert!(!marker.exists());
    let text = bench.ok(&["status"]);
    assert!(text.contains("machine cannot") && text.contains("filesystem-isolation: this version"), "{text}");
    assert!(text.contains("timeout, process-group-termination, working-directory, isolated-environment"), "{text}");
}

#[test]
fn an_ordinary_users_daemon_refuses_what_only_root_can_do() {
    let test = "an_ordinary_users_daemon_refuses_what_only_root_can_do";
    let mut bench = Bench::new();
    if is_root() {
        bench.run_as(65_534);
    }
    bench.init();
    bench.serve(&[]);
    let marker = bench.root().join("ran");
    let touch = format!("touch {}", marker.display());
    for (task, option, value, word) in [
        ("root", "--run-as", "root", "run-as"),
        ("first", "--nice", "-5", "raised-priority"),
        ("kept", "--oom-score-adj", "-500", "oom-protection"),
    ] {
        bench.shell_with(task, &[option, value], &touch);
        let (run, _) = bench.run_wait(task);
        assert_eq!(run["errorCode"], "EXECUTOR_CAPABILITY_UNAVAILABLE", "{test}: {task}: {run}");
        assert!(run["latestAttempt"]["errorSummary"].as_str().unwrap().contains(word), "{run}");
    }
    assert!(!marker.exists());
    if is_root() {
        // Nothing has to be changed for the user it is anyway.
        bench.shell_with("self", &["--run-as", "65534:65534"], "id -u");
        let (run, _) = bench.run_wait("self");
        assert_eq!(status(&run), "succeeded", "{run}");
    }
}

#[test]
fn a_task_runs_as_its_user_with_the_users_groups_and_nothing_of_roots() {
    let test = "a_task_runs_as_its_user_with_the_users_groups_and_nothing_of_roots";
    let bench = Bench::serving();
    if !has(test, &bench, &["run-as"]) {
        return;
    }
    let program = "id -u; id -g; grep -E '^(Groups|CapEff|NoNewPrivs)' /proc/self/status; echo $HOME $USER; \
                echo named >/dev/stderr; cat /proc/self/oom_score_adj; \
                echo -900 2>/dev/null >/proc/self/oom_score_adj || echo kept";
    bench.shell_with("other", &["--run-as", "1:1"], program);
    let (run, code) = bench.run_wait("other");
    let log = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
    assert_eq!(code, 0, "{run} {log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["1", "1"], "{log}");
    assert!(log.contains("CapEff:\t0000000000000000") && log.contains("named\n0\nkept\n"), "{log}");
    assert!(
        !lines.iter().any(|line| line.starts_with("Groups:") && line.split_whitespace().any(|g| g == "0")),
        "{log}"
    );
}

#[test]
fn daemon_and_shim_step_back_for_the_out_of_memory_killer_and_tasks_do_not() {
    let test = "daemon_and_shim_step_back_for_the_out_of_memory_killer_and_tasks_do_not";
    let bench = Bench::serving();
    if !has(test, &bench, &["oom-protection"]) {
        return;
    }
    weighed(&bench, "plain", &[], ["-900", "-900", "0"], None);
    weighed(&bench, "weighed", &["--oom-score-adj", "-200"], ["-900", "-900", "-200"], None);
}

#[test]
fn a_task_is_as_nice_and_as_ready_to_be_killed_as_it_says() {
    let test = "a_task_is_as_nice_and_as_ready_to_be_killed_as_it_says";
    let bench = Bench::serving();
    let own = fs::read_to_string(format!("/proc/{}/oom_score_adj", bench.pid())).unwrap();
    weighed(&bench, "nice", &["--oom-score-adj", "300", "--nice", "7"], [own.trim(), own.trim(), "300"], Some("7"));
    if has(test, &bench, &["raised-priority"]) {
        weighed(&bench, "first", &["--nice", "-3"], [own.trim(), own.trim(), "0"], Some("-3"));
    }
}

/// Starts a task with these options; daemon, shim and program must have these weights.
fn weighed(bench: &Bench, task: &str, options: &[&str], weights: [&str; 3], nice: Option<&str>) {
    bench.shell_with(task, options, "exec sleep 300");
    {
        let run = bench.start(task);
        bench.run_in(&run, "running");
        let [shim, user] = until("shim and program", || {
            let below = tree::below(bench.pid());
            let found: [i32; 2] = below.iter().map(|process| process.pid).collect::<Vec<_>>().try_into().ok()?;
            fs::read_to_string(format!("/proc/{}/comm", found[1])).ok().filter(|name| name == "sleep\n")?;
            Some(found)
        });
        let adj_of = |pid: i32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().to_owned();
        assert_eq!([bench.pid(), shim, user].map(adj_of), weights);
        if let Some(nice) = nice {
            let stat = fs::read_to_string(format!("/proc/{user}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            assert_eq!(fields[16], nice);
        }
        bench.ok(&["stop", &run, "--wait"]);
    }
}

#[test]
fn an_environment_is_inherited_only_where_the_task_says_so() {
    let mut bench = Bench::ready();
    bench.env("FROM_THE_DAEMON", "seen").env("LD_PRELOAD", "").env("QINGLET_ODD", "1").serve(&[]);
    bench.shell("isolated", "env");
    bench.shell_with("inheriting", &["--inherit-env"], "env");
    for (task, inherits) in [("isolated", false), ("inheriting", true)] {
        let (run, _) = bench.run_wait(task);
        let log = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
        assert_eq!(log.contains("FROM_THE_DAEMON=seen"), inherits, "{log}");
        assert!(!log.contains("LD_PRELOAD") && !log.contains("QINGLET_ODD") && log.contains("QINGLET_RUN_ID"), "{log}");
    }
    assert!(bench.ok(&["task", "show", "inheriting"]).contains("the daemon's environment"));
}

#[test]
fn groups_of_killed_shims_are_removed_by_the_next_daemon_and_those_lived_in_stay() {
    let test = "groups_of_killed_shims_are_removed_by_the_next_daemon_and_those_lived_in_stay";
    let mut bench = Bench::serving();
    if !has(test, &bench, &["memory-limit", "pids-limit"]) {
        return;
    }
    bench.shell_with("dead", &["--memory", "16M"], "exec sleep 300");
    bench.shell_with("alive", &["--memory", "16M", "--pids", "5"], "exec sleep 300");
    let dead = bench.start("dead");
    bench.run_in(&dead, "running");
    let shim = tree::below(bench.pid())[0].pid;
    let gone = until("its group", || groups(&bench).pop());
    let alive = bench.start("alive");
    bench.run_in(&alive, "running");
    let before = until("all groups", || Some(groups(&bench)).filter(|all| all.len() == 3));
    // One that was made and never entered, and one that is none of ours by its name.
    let name = gone.file_name().unwrap().to_str().unwrap();
    let instance = name.split_once('.').unwrap().0;
    let never = "01890000-0000-7000-8000-000000000000";
    let empty = gone.with_file_name(format!("{instance}.{never}"));
    let foreign = gone.with_file_name(format!("{instance}0.{never}"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&foreign).unwrap();
    bench.kill();
    tree::signal(shim, libc::SIGKILL);
    bench.serve(&[]);
    bench.run_in(&dead, "lost");
    until("stale groups to be removed", || Some(()).filter(|()| !empty.exists()));
    assert!(foreign.exists(), "only what we named is removed");
    let there: Vec<_> = before.iter().filter(|group| **group != gone && group.exists()).collect();
    assert_eq!(there.len(), 2, "who runs keeps its groups");
    bench.ok(&["stop", &alive, "--wait"]);
    fs::remove_dir(&foreign).unwrap();
    // What the killed shim left goes at the latest with the round after the next start.
    bench.stop();
    bench.serve(&[]);
    until("the killed shim's group to be removed", || Some(()).filter(|()| !gone.exists()));
    assert!(groups(&bench).is_empty());
}
