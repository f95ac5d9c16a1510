//! What user code gets of the daemon and what anybody can see of both: nothing beyond what is meant.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::process::stat;
use std::collections::BTreeMap;
use std::fs;
use support::{Bench, tree, until};

/// A task that runs on, and its processes.
struct Long {
    bench: Bench,
    run: String,
    shim: i32,
    user: i32,
}

/// A daemon started from a place that is set up in every way a task must not inherit.
fn serving() -> Bench {
    let mut bench = Bench::ready();
    bench.start_from("umask 077; trap '' HUP USR1 USR2 WINCH; exec 7</dev/null 9>&1").serve(&[]);
    bench
}

/// Starts a task whose program is a `sleep`; `more` are options of `task add`.
fn long(more: &[&str], argument: &str) -> Long {
    let bench = serving();
    let mut line = vec!["task", "add", "long"];
    line.extend(more);
    line.extend(["--", "/bin/sh", "-c", "exec sleep 300", argument]);
    bench.ok(&line);
    let run = bench.start("long");
    bench.run_in(&run, "running");
    let is_program = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let (shim, user) = until("the program", || {
        let [shim, user] = tree::below(bench.pid())[..] else { return None };
        is_program(user.pid).then_some((shim.pid, user.pid))
    });
    Long { bench, run, shim, user }
}

/// The lines of a status file by their names.
fn status(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(":\t")).collect()
}

#[test]
fn s03_14_8_nothing_of_a_task_stands_in_the_arguments_or_environment_of_daemon_and_shim() {
    let folder = std::env::temp_dir().join(format!("qinglet-hunter2-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let cwd = folder.to_str().unwrap();
    let long = long(&["--env", "ITS_OWN_VALUE=hunter2-in-env", "--cwd", cwd], "hunter2-in-command");
    fs::remove_dir(&folder).unwrap();
    let token = long.bench.token();
    let words = [token.as_str(), &token[token.len() - 43..], "hunter2", "ITS_OWN_VALUE", "exec sleep", &long.run];
    for (who, pid) in [("daemon", long.bench.pid()), ("shim", long.shim)] {
        for file in ["cmdline", "environ"] {
            // The shim shows its environment to nobody but root.
            let Ok(bytes) = fs::read(format!("/proc/{pid}/{file}")) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            for word in words {
                assert!(!text.contains(word), "{word} stands in the {file} of the {who}: {text:?}");
            }
        }
    }
    let line = fs::read(format!("/proc/{}/cmdline", long.shim)).unwrap();
    assert_eq!(String::from_utf8_lossy(&line), "qinglet\0shim\0");
    // What was meant for the program is there.
    let environ = fs::read(format!("/proc/{}/environ", long.user)).unwrap();
    assert!(String::from_utf8_lossy(&environ).contains("ITS_OWN_VALUE=hunter2-in-env\0"));
    assert!(!String::from_utf8_lossy(&environ).contains("ql3c_"));
    let said = fs::read_to_string(long.bench.daemon_log()).unwrap();
    assert!(!said.contains("hunter2") && !said.contains("ql3c_"), "{said}");
}

#[test]
fn s03_14_8_a_start_that_fails_names_no_command_and_no_value() {
    let bench = serving();
    bench.ok(&["task", "add", "bad", "--env", "ITS_OWN_VALUE=hunter2", "--", "/does/not/exist", "hunter2"]);
    let (run, code) = bench.run_wait("bad");
    assert_eq!(code, 1);
    let id = run["id"].as_str().unwrap();
    let events = bench.ok(&["--json", "events", id]);
    let log = fs::read_to_string(bench.daemon_log()).unwrap();
    for text in [run.to_string(), bench.ok(&["show", id]), events, log, bench.ok(&["--json", "audit"])] {
        assert!(!text.contains("hunter2") && !text.contains("/does/not/exist"), "{text}");
    }
}

#[test]
fn user_code_has_the_descriptors_0_1_2_and_no_other() {
    let long = long(&[], "");
    let fds = fs::read_dir(format!("/proc/{}/fd", long.user)).unwrap().flatten();
    let target = |fd: fs::DirEntry| {
        let link = fs::read_link(fd.path()).unwrap().display().to_string();
        (fd.file_name().into_string().unwrap(), link)
    };
    let fds: BTreeMap<String, String> = fds.map(target).collect();
    assert_eq!(fds.keys().collect::<Vec<_>>(), ["0", "1", "2"], "{fds:?}");
    assert_eq!(fds["0"], "/dev/null");
    assert!(fds["1"].starts_with("pipe:") && fds["1"] == fds["2"], "{fds:?}");
}

#[test]
fn user_code_leads_a_group_of_its_own_in_a_session_that_is_not_the_daemons() {
    let long = long(&[], "");
    let [daemon, shim, user] = [long.bench.pid(), long.shim, long.user].map(|pid| stat::read(pid).unwrap());
    assert_eq!((user.parent, user.group), (long.shim, long.user));
    assert_eq!((shim.group, shim.session, user.session), (long.shim, long.shim, long.shim));
    assert_ne!(daemon.session, user.session);
    assert_ne!(daemon.group, user.group);
}

#[test]
fn user_code_starts_with_default_dispositions_an_empty_mask_and_umask_022() {
    let bench = serving();
    bench.ok(&["task", "add", "look", "--", "/bin/cat", "/proc/self/status"]);
    let (run, code) = bench.run_wait("look");
    assert_eq!(code, 0);
    let text = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
    let seen = status(&text);
    for field in ["SigBlk", "SigIgn", "SigCgt"] {
        assert_eq!(seen[field], "0000000000000000", "{field}");
    }
    assert_eq!((seen["Umask"], seen["Threads"]), ("0022", "1"));
    // The daemon's own are not like that, so a task could have inherited them.
    let text = fs::read_to_string(format!("/proc/{}/status", bench.pid())).unwrap();
    let own = status(&text);
    assert_ne!((own["SigBlk"], own["SigIgn"]), (seen["SigBlk"], seen["SigIgn"]));
    assert_eq!(own["Umask"], "0077");
}

#[test]
fn user_code_starts_in_the_folder_it_was_given_or_in_the_root() {
    let bench = serving();
    let folder = bench.root().to_str().unwrap().to_owned();
    bench.ok(&["task", "add", "there", "--cwd", &folder, "--", "/bin/pwd"]);
    bench.ok(&["task", "add", "root", "--", "/bin/pwd"]);
    for (task, folder) in [("there", folder.as_str()), ("root", "/")] {
        let (run, _) = bench.run_wait(task);
        assert_eq!(String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap(), format!("{folder}\n"));
    }
}
