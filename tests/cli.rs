//! The command line against the real binary: what it takes, what it refuses and in which words.

mod support;

use support::Bench;

/// Runs a line that must be refused; the sentence without the program's name.
#[track_caller]
fn refused(code: i32, line: &[&str]) -> String {
    let output = Bench::new().cli(line);
    assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{output:?}");
    let text = output.stderr.strip_prefix("qinglet: ").unwrap_or_default().trim_end();
    assert!(!text.is_empty() && !text.contains('\n'), "{output:?}");
    text.to_owned()
}

#[test]
fn a_mistyped_command_or_option_is_named_with_the_nearest_known_one() {
    assert_eq!(
        refused(2, &["rnu", "x"]),
        "there is no command `rnu`; the nearest is `run`, and `qinglet help` lists all"
    );
    assert_eq!(
        refused(2, &["task", "ad"]),
        "there is no command `task ad`; the nearest is `task add`, and `qinglet help` lists all"
    );
    assert_eq!(refused(2, &["runs", "--lmit", "3"]), "`runs` has no option --lmit; the nearest known one is --limit");
    assert_eq!(refused(2, &["--jsn", "runs"]), "no option --jsn; the nearest known one is --json");
}

#[test]
fn a_line_that_is_not_whole_says_what_it_needs() {
    assert_eq!(refused(2, &[]), "no command given; see `qinglet help`");
    assert_eq!(refused(2, &["run"]), "`run` needs TASK; see `qinglet help run`");
    assert!(refused(2, &["access", "token"]).starts_with("`access token` needs one of: new, revoke"));
    assert_eq!(refused(2, &["task", "add", "a"]), "say what to run: --shell TEXT, or -- FILE ARG...");
    assert!(refused(2, &["runs", "--limit"]).starts_with("--limit needs a value"));
    assert_eq!(
        refused(2, &["task", "add", "a", "/bin/echo"]),
        "`task add` does not take `/bin/echo`; put `--` before the program to run"
    );
}

#[test]
fn options_with_words_of_their_own_name_them() {
    assert!(refused(2, &["task", "add", "a", "--run-as", "-x", "--shell", "x"]).contains("runAs"));
    assert_eq!(
        refused(2, &["task", "add", "a", "--leftovers", "some", "--shell", "x"]),
        "--leftovers must be kill or keep"
    );
    assert!(refused(2, &["access", "token", "new", "a", "--expires", "soon"]).starts_with("--expires soon: must be"));
}

#[test]
fn invalid_values_are_named_before_anything_is_asked_of_a_daemon() {
    assert!(refused(2, &["run", "a/b"]).starts_with("\"a/b\" cannot be a task id; one is a letter or digit"));
    for (option, value, rule) in [
        ("--memory", "8MB", "must be a size like 16MiB, 512K or 1G, 1 MiB at least"),
        ("--memory", "1000", "must be a size like"),
        ("--pids", "0", "must be a whole number from 1 to 4194304"),
        ("--cpu", "0%", "must be a whole number from 1 to"),
        ("--nice", "20", "must be a whole number from -20 to 19"),
        ("--oom-score-adj", "-1001", "must be a whole number from -1000 to 1000"),
        ("--require", "magic", "requires.capabilities"),
        ("--run-as", "a b", "runAs"),
    ] {
        let said = refused(2, &["task", "add", "a", option, value, "--shell", "x"]);
        assert!(said.contains(rule), "{said}");
    }
    assert_eq!(refused(2, &["stop", "12"]), "\"12\" is not a run id; `qinglet runs` shows them");
    assert_eq!(refused(2, &["show", "12"]), "\"12\" is not a run id; `qinglet runs` shows them");
    assert!(refused(2, &["runs", "--status", "runing"]).starts_with("--status runing: the nearest state is running;"));
    assert_eq!(refused(2, &["runs", "--limit", "0"]), "--limit must be a whole number from 1 to 10000");
    assert_eq!(refused(2, &["access", "grant", "a", "ownr"]), "there is no role \"ownr\"; the nearest is owner");
    let add = |more: &[&str]| refused(2, &[&["task", "add", "a"][..], more].concat());
    assert_eq!(add(&["--shell", "x", "--grace", "5"]), "--grace must be a time like 500ms, 5s or 2m, from 0ms to 300s");
    assert_eq!(add(&["--shell", "x", "--env", "A=1", "--env", "A=2"]), "environment: A is set twice");
    assert!(add(&["--", "echo"]).starts_with("command.file: must be an absolute path"));
    assert!(refused(2, &["serve", "--listen", "7370"]).starts_with("--listen 7370: must be an address and a port"));
}

#[test]
fn a_value_that_may_be_a_secret_is_not_repeated() {
    let text = refused(2, &["task", "add", "a", "--shell", "x", "--env", "hunter2"]);
    assert_eq!(text, "--env needs NAME=VALUE; there is no `=` in what was given");
    let text = refused(2, &["access", "token", "revoke", "ql3c_x_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    assert_eq!(text, "this is not a token's id; `qinglet access list` shows the ids");
}

#[test]
fn without_a_state_or_a_daemon_the_way_to_one_is_named() {
    let bench = Bench::new();
    let state = bench.state().display().to_string();
    let output = bench.cli(&["runs"]);
    assert_eq!(output.code, 4);
    assert_eq!(
        output.stderr,
        format!("qinglet: there is no state at {state}; make one with `qinglet --state {state} init`\n")
    );
    std::fs::create_dir(bench.state()).unwrap();
    for line in [&["runs"][..], &["run", "a", "--wait"], &["task", "add", "a", "--shell", "x"], &["status"]] {
        let output = bench.cli(line);
        assert_eq!(output.code, 4, "{output:?}");
        assert_eq!(
            output.stderr,
            format!(
                "qinglet: no daemon answers at {state}/run/api.sock; start it with `qinglet --state {state} serve`\n"
            )
        );
    }
}

#[test]
fn help_explains_and_exits_0() {
    let bench = Bench::new();
    let all = bench.ok(&["help"]);
    assert!(all.contains("task add ID") && all.contains("restore FILE"), "{all}");
    for line in [&["help", "run"][..], &["run", "--help"], &["run", "-h"]] {
        let text = bench.ok(line);
        assert!(text.contains("Usage: qinglet run TASK") && text.contains("-f, --follow"), "{text}");
    }
    assert_eq!(bench.ok(&["--version"]), concat!("qinglet ", env!("CARGO_PKG_VERSION")));
    assert_eq!(bench.cli(&["help", "nothing"]).code, 2);
}
