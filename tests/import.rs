//! `import crontab` with the real binary: what is taken and how it runs, what is not and why, and that
//! doing it again changes nothing.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use support::Bench;

fn written(bench: &Bench, text: &str) -> String {
    let file = bench.root().join("crontab");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Imports a text; the rows, and the exit code.
fn import(bench: &Bench, text: &str, options: &[&str]) -> (Vec<Value>, i32) {
    let file = written(bench, text);
    let output = bench.cli(&[&["--json", "import", "crontab", &file][..], options].concat());
    let rows = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    (rows.collect(), output.code)
}

fn results(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["result"].as_str().unwrap()).collect()
}

fn id(row: &Value) -> &str {
    row["taskId"].as_str().unwrap()
}

fn me() -> String {
    String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap().trim().to_owned()
}

fn revisions(bench: &Bench) -> Vec<Value> {
    let mut all = bench.json_lines(&["task", "list"]);
    all.extend(bench.json_lines(&["trigger", "list"]));
    all.into_iter().map(|one| json!([one["taskId"], one["revision"], one["updatedAtMs"]])).collect()
}

#[test]
fn a_dry_run_shows_line_by_line_what_would_be_done_and_needs_nothing() {
    let bench = Bench::new();
    let file = written(
        &bench,
        "# mine\nMAILTO=me\nCRON_TZ=UTC\n30 3 * * * backup\n@daily x\n@reboot up\n60 * * * * y\n0 9 */2 * * z",
    );
    let output = bench.cli(&["import", "crontab", &file, "--dry-run"]);
    assert_eq!(output.code, 3, "{output:?}");
    let shown: Vec<String> = output
        .stdout
        .lines()
        .map(|line| line.split("cron-").enumerate().map(|(at, part)| if at == 0 { part } else { &part[8..] }).collect())
        .collect();
    let want = [
        "LINE  RESULT     TASK           WHEN             TEXT",
        "2     set        -              -                MAILTO=…",
        "3     set        -              -                CRON_TZ=…",
        "4     taken        30 3 * * * UTC   30 3 * * * backup",
        "5     taken        0 0 * * * UTC    @daily x",
        "6     taken        at boot          @reboot up",
        "7     not taken  -              -                60 * * * * y",
        "8     taken        0 9 */2 * * UTC  0 9 */2 * * z",
        "",
        "line 2  note       no mail is sent; `qinglet logs` has the output, and a trigger with --after can send one",
        "line 5  changed    @daily is written 0 0 * * *",
        "line 7  not taken  60 * * * *: at character 1: 60 is not a minute; minutes are 0 to 59",
        "line 8  note       busybox crond runs this on other days; with --busybox they are taken",
    ];
    assert_eq!(shown, want, "{}", output.stdout);
    assert_eq!(output.stderr, "nothing was stored: --dry-run\n");
    assert!(!bench.state().exists());
    // Without --dry-run a daemon must be there.
    let output = bench.cli(&["import", "crontab", &file]);
    assert!(output.code == 4 && output.stdout.is_empty() && output.stderr.contains("there is no state"), "{output:?}");
    bench.init();
    let output = bench.cli(&["import", "crontab", &file]);
    assert!(output.code == 4 && output.stderr.contains("no daemon answers"), "{output:?}");
}

#[test]
fn what_is_imported_runs_as_cron_runs_it() {
    let bench = Bench::serving();
    let home = bench.root().join("home");
    fs::create_dir(&home).unwrap();
    let text = format!(
        "HOME={}\nGREETING=\" hi  \"\nPATH=/bin:/usr/bin:/opt/odd\n0 3 * * * pwd; echo \"[$GREETING] $PATH\" #x#\n\
         0 4 * * * cat; printf '\\%s' \\%%one%%two\\%%\n@reboot sleep 0\n",
        home.display()
    );
    let (rows, code) = import(&bench, &text, &[]);
    assert_eq!((code, results(&rows)), (0, vec!["set", "set", "set", "taken", "taken", "taken"]), "{rows:?}");
    let log = |row: &Value| {
        let (run, code) = bench.run_wait(id(row));
        assert_eq!(code, 0, "{run}");
        String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap()
    };
    assert_eq!(log(&rows[3]), format!("{}\n[ hi  ] /bin:/usr/bin:/opt/odd\n", home.display()));
    assert_eq!(log(&rows[4]), "one\n\ntwo%\n%");
    let task = bench.json(&["task", "show", id(&rows[3])]);
    assert_eq!(task["task"]["spec"]["config"]["leftovers"], "keep");
    let trigger = bench.json(&["trigger", "show", id(&rows[3])]);
    let (trigger, host) = (&trigger["trigger"], qinglet::schedule::host_zone::read().zone);
    assert_eq!(trigger["spec"]["config"]["expression"], "0 3 * * *");
    assert_eq!((&trigger["spec"]["config"]["timezone"], &trigger["enabled"]), (&json!(host), &json!(true)));
    let boot = bench.json(&["trigger", "show", id(&rows[5])]);
    assert_eq!(
        (&boot["trigger"]["spec"]["schema"], &boot["trigger"]["schedule"]),
        (&json!("qinglong/boot@v1"), &json!("at boot"))
    );
}

#[test]
fn a_percent_sign_is_read_as_the_cron_reads_it_that_the_file_is_for() {
    let bench = Bench::new();
    let line = "0 3 * * * date +\\%F%in\n";
    let (rows, _) = import(&bench, line, &["--dry-run"]);
    assert_eq!(rows[0]["command"], "{ date +%F\n} <<'END'\nin\nEND\n");
    assert_eq!(rows[0]["changes"], json!(["what follows the first bare % is its standard input"]));
    assert_eq!(rows[0]["notes"], json!(["busybox crond leaves % to the shell; with --busybox so does this"]));
    assert_eq!(rows[0]["trigger"]["config"]["overlap"], "allow");
    let (rows, _) = import(&bench, line, &["--dry-run", "--busybox"]);
    assert_eq!((&rows[0]["command"], &rows[0]["changes"]), (&json!("date +\\%F%in"), &json!([])));
    assert_eq!(rows[0]["trigger"]["config"]["overlap"], "skip");
}

#[test]
fn settings_count_from_their_line_on() {
    let bench = Bench::new();
    let text = "0 3 * * * a\nSHELL=/bin/bash\nCRON_TZ=CST-8\n0 3 * * * b\nSHELL=/bin/zsh\n0 3 * * * c\nSHELL=/bin/sh\n\
                CRON_TZ=Mars/Base\n0 3 * * * d\n@reboot e\nCRON_TZ=UTC\n0 3 * * * f\n1X=1\nQINGLET_A=1\nLOGNAME=x\nA=\"b\n\
                HOME=tmp\n0 3 * * * g\n";
    let (rows, code) = import(&bench, text, &["--dry-run"]);
    assert_eq!(code, 3);
    let of = |line: usize| rows.iter().find(|row| row["line"] == line).unwrap();
    let zone = |line: usize| &of(line)["trigger"]["config"]["timezone"];
    assert_eq!((zone(4), zone(12)), (&json!("CST-8"), &json!("UTC")));
    for (line, why) in [
        (6, "the shell /bin/zsh; there are /bin/sh and /bin/bash"),
        (8, "CRON_TZ of line 8 cannot be used: at character 1: there is no zone Mars/Base"),
        (9, "CRON_TZ of line 8 cannot be used"),
        (13, "no variable of a task can have this name"),
        (14, "no variable of a task can have this name"),
        (16, "its value has a quote at one end only"),
        (18, "HOME must be an absolute path"),
    ] {
        assert!(of(line)["reason"].as_str().unwrap().contains(why), "{}", of(line));
    }
    for line in [1, 4, 10, 12] {
        assert_eq!(of(line)["result"], "taken", "{}", of(line));
    }
    assert!(of(15)["notes"].to_string().contains("LOGNAME stays"));
    assert!(!serde_json::to_string(&rows).unwrap().contains("/bin/zsh\"\n"));
}

#[test]
fn lines_of_other_users_are_named_or_left_out() {
    let bench = Bench::new();
    let text = format!("0 3 * * * {} mine\n@reboot\tnobody-else\t his\n0 4 * * * {0}\n", me());
    let (rows, code) = import(&bench, &text, &["--dry-run", "--system"]);
    assert_eq!((code, results(&rows)), (3, vec!["taken", "not_taken", "not_taken"]), "{rows:?}");
    assert_eq!(rows[0]["command"], "mine");
    let why = format!("it is for the user nobody-else, and tasks of this version run as {}, like the daemon", me());
    assert_eq!(rows[1]["reason"], why);
    assert_eq!(rows[2]["reason"], "there is no command after the user");
    let (rows, code) = import(&bench, &text, &["--dry-run", "--system", "--user", "nobody-else"]);
    assert_eq!((code, results(&rows)), (3, vec!["skipped", "not_taken", "skipped"]), "{rows:?}");
    let (rows, code) = import(&bench, &text[..text.find('@').unwrap()], &["--dry-run", "--system", "--user", &me()]);
    assert_eq!((code, results(&rows)), (0, vec!["taken"]));
    // Without --system it says whose the whole file is.
    let (rows, code) = import(&bench, "0 3 * * * x\n", &["--dry-run", "--user", "nobody-else"]);
    assert_eq!((code, results(&rows)), (3, vec!["not_taken"]));
    assert_eq!(import(&bench, "0 3 * * * x\n", &["--dry-run", "--user", &me()]).1, 0);
}

#[test]
fn importing_again_changes_nothing_and_a_changed_line_is_a_new_pair() {
    let bench = Bench::serving();
    let text = "A=1\n0 3 * * * first\n0 4 * * *\tsecond\n0 4 * * * second\n";
    let (before, code) = import(&bench, text, &[]);
    assert_eq!((code, results(&before)), (0, vec!["set", "taken", "taken", "taken"]));
    assert_ne!(id(&before[2]), id(&before[3]), "a line that is there twice runs twice");
    let stored = revisions(&bench);
    let (again, code) = import(&bench, text, &[]);
    assert_eq!((code, results(&again)), (0, vec!["set", "unchanged", "unchanged", "unchanged"]));
    // Other lines, other blanks and other places are no change either.
    let moved = "# a\n\nA = 1\r\n0  4 * * * second\n0 4 * * * second\n  0 3 * * * first";
    assert_eq!(results(&import(&bench, moved, &[]).0), vec!["set", "unchanged", "unchanged", "unchanged"]);
    assert_eq!(revisions(&bench), stored);
    // A line that changes.
    let changed = text.replace("0 3", "5 3");
    let (rows, code) = import(&bench, &changed, &[]);
    assert_eq!((code, results(&rows)), (0, vec!["set", "taken", "unchanged", "unchanged", "gone"]));
    assert_eq!((id(&rows[4]), &rows[4]["text"]), (id(&before[1]), &json!("0 3 * * * first")));
    let file = bench.root().join("crontab");
    let words = bench.ok(&["import", "crontab", file.to_str().unwrap()]);
    let way = format!("trigger delete {}` and `qinglet", id(&before[1]));
    assert!(words.contains("is in the file no more and still runs") && words.contains(&way), "{words}");
    assert_eq!(bench.json_lines(&["task", "list"]).len(), 4, "nothing is deleted");
}

#[test]
fn a_changed_setting_changes_its_tasks_but_nothing_that_was_changed_by_hand() {
    let bench = Bench::serving();
    let (rows, _) = import(&bench, "A=1\n0 3 * * * first\n0 4 * * * second\n", &[]);
    let (first, second) = (id(&rows[1]).to_owned(), id(&rows[2]).to_owned());
    let file = bench.root().join("task.json");
    let mut task = bench.json(&["task", "show", &second]);
    task["task"]["spec"]["config"]["timeoutMs"] = 60_000.into();
    fs::write(&file, task.to_string()).unwrap();
    bench.ok(&["task", "apply", file.to_str().unwrap()]);
    bench.ok(&["trigger", "disable", &first]);
    let (rows, code) = import(&bench, "A=1\n0 3 * * * first\n0 4 * * * second\n", &[]);
    assert_eq!((code, results(&rows)), (0, vec!["set", "unchanged", "unchanged"]));
    let (rows, code) = import(&bench, "A=2\n0 3 * * * first\n0 4 * * * second\n", &[]);
    assert_eq!((code, results(&rows)), (3, vec!["set", "updated", "not_taken"]), "{rows:?}");
    assert!(rows[2]["reason"].as_str().unwrap().contains("was changed by hand; delete both"), "{rows:?}");
    let now = bench.json(&["task", "show", &first]);
    assert_eq!(now["task"]["spec"]["config"]["environment"][0]["value"], "2");
    let trigger = bench.json(&["trigger", "show", &first])["trigger"].take();
    assert_eq!((&trigger["state"], &trigger["taskRevision"]), (&json!("disabled"), &json!(2)));
    assert_eq!(bench.json(&["task", "show", &second])["task"]["spec"]["config"]["timeoutMs"], 60_000);
}

#[test]
fn one_that_is_refused_does_not_keep_the_others_out() {
    let bench = Bench::serving();
    let text = "0 3 * * * first\n0 4 * * * second\n0 5 * * * third\n";
    let (planned, _) = import(&bench, text, &["--dry-run"]);
    bench.shell(id(&planned[1]), "true");
    let (rows, code) = import(&bench, text, &[]);
    assert_eq!((code, results(&rows)), (3, vec!["taken", "not_taken", "taken"]), "{rows:?}");
    assert!(rows[1]["reason"].as_str().unwrap().contains("that no import has made; delete it first"));
    // The daemon's own refusal of one.
    bench.ok(&["task", "disable", id(&rows[0])]);
    bench.ok(&["trigger", "delete", id(&rows[0])]);
    bench.ok(&["task", "delete", id(&rows[1])]);
    let (rows, code) = import(&bench, text, &[]);
    assert_eq!((code, results(&rows)), (3, vec!["not_taken", "taken", "unchanged"]), "{rows:?}");
    assert!(rows[0]["reason"].as_str().unwrap().contains("the task is disabled"), "{rows:?}");
    bench.ok(&["task", "enable", id(&rows[0])]);
    assert_eq!(import(&bench, text, &[]).1, 0, "what was half done is finished");
    assert_eq!(bench.json_lines(&["trigger", "list"]).len(), 3);
    // A deleted task comes back, and the trigger it left starts it again.
    bench.ok(&["task", "delete", id(&rows[0])]);
    assert_eq!(results(&import(&bench, text, &[]).0), vec!["taken", "unchanged", "unchanged"]);
    assert_eq!(
        bench.json(&["trigger", "show", id(&rows[0])])["trigger"]["state"]
            .as_str()
            .unwrap()
            .replace("clock_untrusted", "active"),
        "active"
    );
    // Somebody who may not.
    bench.ok(&["access", "grant", "guest", "viewer"]);
    let token = bench.root().join("guest.token");
    fs::write(&token, bench.ok(&["access", "token", "new", "guest"])).unwrap();
    let file = written(&bench, "0 6 * * * more\n");
    let output = bench.cli(&["--token-file", token.to_str().unwrap(), "import", "crontab", &file]);
    assert!(output.code == 3 && output.stdout.contains("does not allow it"), "{output:?}");
}

#[test]
fn lines_that_a_change_of_the_clocks_affects_are_named() {
    let bench = Bench::new();
    let text =
        "CRON_TZ=Europe/Prague\n30 2 * * * a\n*/10 2 * * * b\n30 4 * * * c\n0 * * * * d\nCRON_TZ=UTC\n30 2 * * * e\n";
    let (rows, _) = import(&bench, text, &["--dry-run"]);
    let told: Vec<String> = rows.iter().map(|row| row["notes"][0].as_str().unwrap_or_default().to_owned()).collect();
    let once = "when the clocks change it runs once; ";
    let want = [
        "",
        &format!("{once}busybox crond skips or doubles it"),
        &format!("{once}crond skips or doubles it"),
        "",
        "",
        "",
        "",
    ];
    assert_eq!(told, want);
}
