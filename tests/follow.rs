//! Watching costs nothing: followers and strangers at the door leave no trace but what is due.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Instant, SystemTime};
use support::hold::Hold;
use support::{Bench, http, tree, until};

/// Starts the command line with its two outputs in files.
fn apart(bench: &Bench, args: &[&str]) -> (Child, PathBuf, PathBuf) {
    let (out, err) = (bench.root().join("out"), bench.root().join("err"));
    let mut command = bench.command(args);
    let child = command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap()).spawn().unwrap();
    (child, out, err)
}

fn holds(file: &PathBuf, bytes: &[u8]) -> Option<()> {
    (fs::read(file).unwrap() == bytes).then_some(())
}

#[test]
fn a_followed_log_streams_while_the_run_goes_on_and_ends_with_it() {
    let bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("t", &format!("echo one; {}; echo two; {}; printf three; exit 5", hold.text(), hold.text()));
    let run = bench.start("t");
    let (mut child, out, err) = apart(&bench, &["logs", &run, "--follow"]);
    for seen in [&b"one\n"[..], b"one\ntwo\n"] {
        until("what was written so far", || holds(&out, seen));
        hold.wait(1);
        assert_eq!(bench.run(&run)["status"], "running");
        assert!(child.try_wait().unwrap().is_none());
        hold.release(1);
    }
    let status = until("the follower to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(fs::read(out).unwrap(), b"one\ntwo\nthree");
    assert_eq!(fs::read_to_string(err).unwrap(), "");
    assert_eq!(bench.run(&run)["status"], "failed");
}

#[test]
fn a_followed_run_streams_while_it_goes_on_and_ends_with_its_outcome() {
    let bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("t", &format!("echo one; {}; printf two; exit 5", hold.text()));
    for (line, code) in [(&["run", "t", "--follow"][..], 0), (&["run", "t", "--follow", "--wait"], 1)] {
        let (mut child, out, err) = apart(&bench, line);
        until("what was written so far", || holds(&out, b"one\n"));
        assert!(child.try_wait().unwrap().is_none());
        hold.release(1);
        let status = until("the follower to end", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code));
        assert_eq!(fs::read(out).unwrap(), b"one\ntwo");
        let text = fs::read_to_string(err).unwrap();
        let id = text.lines().next().unwrap();
        assert_eq!(text, format!("{id}\nrun {id} of t failed with exit code 5\n"));
    }
}

/// The database and what stands beside it: name, time of change, bytes.
fn stored(bench: &Bench) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(bench.state()).unwrap().map(Result::unwrap) {
        let about = entry.metadata().unwrap();
        if about.is_file() {
            files.insert(entry.path(), (about.modified().unwrap(), fs::read(entry.path()).unwrap()));
        }
    }
    files
}

#[test]
fn following_writes_no_audit_and_nothing_else() {
    let mut bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("t", &format!("echo one; {}", hold.text()));
    let run = bench.start("t");
    hold.wait(1);
    bench.run_in(&run, "running");
    let rows = bench.json_lines(&["audit", "--limit", "1000"]).len();
    let before = stored(&bench);
    let written = tree::storage_writes(bench.pid());
    assert!(written.is_some());
    let reads = || bench.json(&["status"])["status"]["allowedReads"].as_u64().unwrap();
    let begun = reads();
    let followers: Vec<Child> = (0..4)
        .map(|at| bench.spawn(&["logs", &run, "--follow"], &bench.root().join(format!("follower-{at}"))))
        .collect();
    // Each looks twice a turn, at the run and at its log: twenty turns of one follower.
    let mut asked = 0;
    until("eighty looks", || {
        asked += 1;
        (reads() - begun >= 80 + asked).then_some(())
    });
    assert!(stored(&bench) == before, "the store was written while followers only read");
    assert_eq!(tree::storage_writes(bench.pid()), written, "bytes for the disk");
    assert_eq!(bench.json_lines(&["audit", "--limit", "1000"]).len(), rows);
    hold.release(1);
    for mut follower in followers {
        assert!(until("a follower to end", || follower.try_wait().unwrap()).success());
    }
    assert!(stored(&bench) != before, "the end of the run is stored where this test looks");
    bench.stop();
    let counted: i64 = bench.db().query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap();
    assert_eq!(counted, rows as i64);
}

#[test]
fn ten_thousand_bad_tokens_get_one_answer_and_two_rows_a_minute() {
    const THREADS: usize = 4;
    const EACH: usize = 2_500;
    let mut bench = Bench::serving();
    let begun = Instant::now();
    let request = |authorization: &str| {
        format!("GET /api/v3/projects/default/tasks HTTP/1.1\r\nHost: a\r\n{authorization}Connection: close\r\n\r\n")
    };
    let missing = bench.raw(request("").as_bytes());
    assert!(missing.starts_with(b"HTTP/1.1 401 "), "{}", String::from_utf8_lossy(&missing));
    let good = bench.token();
    // The secret is 43 letters of base64url, which may be `_` too.
    let (known, secret) = good.split_at(good.len() - 43);
    let known = known.trim_end_matches('_');
    let answered: usize = std::thread::scope(|scope| {
        let ask = |thread: usize| {
            let (state, missing) = (bench.state(), &missing);
            move || {
                let mut same = 0;
                for at in 0..EACH {
                    // A wrong secret of a credential there is, and a right one of none there is.
                    let token = if at % 2 == 0 {
                        format!("{known}_{}", wrong(secret, at * THREADS + thread))
                    } else {
                        format!("{known}x{at}_{secret}")
                    };
                    let answer = http::raw(&state, request(&format!("Authorization: Bearer {token}\r\n")).as_bytes());
                    assert_eq!(String::from_utf8_lossy(&answer.unwrap()), String::from_utf8_lossy(missing));
                    same += 1;
                }
                same
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(ask(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(answered, THREADS * EACH);
    bench.ok(&["task", "list"]);
    let minutes = begun.elapsed().as_secs() / 60 + 1;
    bench.stop();
    let db = bench.db();
    let sql = "SELECT count(*), sum(count) FROM audit WHERE outcome = 'authentication_rejected'";
    let (rows, counted): (u64, usize) = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(counted, THREADS * EACH + 1, "each is counted once");
    assert!((1..=2 * minutes).contains(&rows), "{rows} rows in {minutes} minutes");
}

/// A secret that differs from the right one in one letter.
fn wrong(secret: &str, at: usize) -> String {
    let at = at % (secret.len() - 1);
    let other = if secret.as_bytes()[at] == b'A' { 'B' } else { 'A' };
    format!("{}{other}{}", &secret[..at], &secret[at + 1..])
}
