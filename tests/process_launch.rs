//! From orders to user code: what arrives, what does not, and that nothing runs unless it is released.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod process_kit;

use process_kit::{Rig, copy, is_alive, is_root, kill, rerun_as_nobody, until, wait_for_end, write_program};
use qinglet::model::limits::LAUNCHES_TOGETHER_MAX;
use qinglet::process::identity::{self, Inspection};
use qinglet::process::launch::{Held, LaunchFailure, LaunchStep, open_exe};
use qinglet::process::stat;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn arguments_arrive_byte_for_byte() {
    let rig = Rig::new();
    let mut words: Vec<String> = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "\\",
        "line\nline\n",
        "\t",
        "$HOME `id` $(id) ; & | *",
        "-n",
        "é漢",
        "",
        "\x7f\x01",
    ]
    .map(String::from)
    .into();
    words.resize_with(256, String::new);
    words[255] = "x".repeat(16 * 1024);
    let mut argv = vec!["/bin/sh", "-c", "for word do printf '%s\\0' \"$word\"; done", "sh"];
    argv.extend(words.iter().map(String::as_str));
    let finished = rig.run(rig.orders(&argv));
    let expected: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    assert!(finished.log.bytes == expected, "{} bytes", finished.log.bytes.len());
    assert_eq!(finished.receipt.exit_code, 0);
}

/// Makes execveat(2) fail for this thread and those it starts, as on a kernel or in a container that
/// lacks it.
fn refuse_execveat(errno: i32) {
    let step = |code: u32, k: u32, jt: u8| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        // Skips the next one when it is this call.
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_execveat as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are numbers.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the filter points to the program, which outlives the call; the kernel copies it.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!((promised, set), (0, 0), "{}", std::io::Error::last_os_error());
}

#[test]
fn without_execveat_the_same_binary_is_executed_by_its_name_in_proc() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let tried = std::thread::spawn(move || {
            refuse_execveat(errno);
            let rig = Rig::new();
            assert_eq!(rig.run(rig.shell("echo here")).text(), "here\n", "errno {errno}");
        });
        tried.join().unwrap();
    }
}

#[test]
fn the_environment_is_exactly_what_was_ordered() {
    let rig = Rig::new();
    let (mut orders, names) = rig.orders(&["/usr/bin/env", "-0"]);
    orders.env = vec![
        ("EMPTY".into(), String::new()),
        ("LINES".into(), "a\nb\n".into()),
        ("LONG".into(), "v".repeat(16 * 1024)),
        ("QUOTES".into(), "'\"\\$(x)`=;".into()),
    ];
    orders.env.extend((0..250).map(|n| (format!("N{n}"), n.to_string())));
    let mut expected = String::new();
    orders.env.iter().for_each(|(name, value)| write!(expected, "{name}={value}\0").unwrap());
    assert_eq!(rig.run((orders, names)).text(), expected);
}

#[test]
fn orders_near_their_bound_pass_the_pipe_and_beyond_it_are_refused() {
    let rig = Rig::new();
    let (mut orders, names) = rig.orders(&["/bin/true"]);
    // Below the kernel's own bound of 128 KiB a string.
    orders.env = (0..4).map(|n| (format!("LARGE{n}"), "v".repeat(120 * 1024))).collect();
    assert_eq!(rig.run((orders, names)).receipt.exit_code, 0);
    let (mut orders, _) = rig.orders(&["/bin/true"]);
    orders.env = vec![("LARGE".into(), "v".repeat(600 * 1024))];
    assert_eq!(rig.launch(orders).err().unwrap().step, LaunchStep::Orders);
}

#[test]
fn user_code_starts_clean() {
    let rig = Rig::new();
    let status = rig.run(rig.orders(&["/bin/cat", "/proc/self/status"])).text();
    for line in ["SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "SigCgt:\t0000000000000000", "Umask:\t0022"]
    {
        assert!(status.contains(line), "{line}: {status}");
    }
    let stat_line = rig.run(rig.orders(&["/bin/cat", "/proc/self/stat"])).log.bytes;
    let user = stat::parse(&stat_line).unwrap();
    let daemon = stat::read(std::process::id() as i32).unwrap();
    assert_eq!(user.group, user.pid, "its own group");
    assert_eq!(user.session, user.parent, "the shim's session");
    assert_ne!(user.session, daemon.session);

    // ls itself opens the folder as 3.
    forget_a_descriptor();
    let fds = rig.run(rig.orders(&["/bin/ls", "-l", "/proc/self/fd"])).text();
    let leads_to = |n: u8, to: &str| fds.lines().any(|line| line.contains(&format!(" {n} -> {to}")));
    assert!(leads_to(0, "/dev/null") && leads_to(1, "pipe:") && leads_to(2, "pipe:") && leads_to(3, "/proc/"), "{fds}");
    assert_eq!(fds.lines().filter(|line| line.contains(" -> ")).count(), 4, "{fds}");

    assert_eq!(rig.run(rig.orders(&["/bin/pwd"])).text(), "/\n");
    let (mut orders, names) = rig.orders(&["/bin/pwd"]);
    orders.cwd = Some(rig.file("").to_str().unwrap().trim_end_matches('/').into());
    assert_eq!(rig.run((orders, names)).text().trim_end(), rig.root.join("work").to_str().unwrap());
}

/// Opens one that exec does not close, as some library of the daemon's might.
fn forget_a_descriptor() {
    // SAFETY: no pointer is passed.
    assert_eq!(unsafe { libc::dup2(0, FORGOTTEN) }, FORGOTTEN);
}

const FORGOTTEN: i32 = 77;

#[test]
fn a_reader_that_goes_away_ends_its_writer() {
    // With SIGPIPE ignored, as in the daemon, `yes` would complain on stderr instead of dying quietly.
    let rig = Rig::new();
    assert_eq!(rig.run(rig.shell("yes | head -1")).text(), "y\n");
}

#[test]
fn the_shim_shows_no_secret_and_holds_nothing_of_the_daemons() {
    // Only root may look into an undumpable process.
    let rig = Rig::with(|options| options.dumpable = Some(!is_root()));
    let (mut orders, names) = rig.shell("sleep 60");
    orders.env = vec![("PASSWORD".into(), "hunter2-hunter2".into())];
    forget_a_descriptor();
    let held = rig.launch(orders).ok().unwrap();
    let pid = held.pid;
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
    assert_eq!(read("cmdline"), b"qinglet\0shim\0");
    assert_eq!(read("environ"), b"", "an empty environment");
    let status = String::from_utf8(read("status")).unwrap();
    assert!(status.contains("Name:\tqinglet-shim"), "{status}");
    let seen = stat::read(pid).unwrap();
    assert_eq!((seen.group, seen.session, seen.parent), (pid, pid, std::process::id() as i32));
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    assert!(std::fs::symlink_metadata(format!("/proc/{pid}/fd/{FORGOTTEN}")).is_err());
    let mut fds: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap().to_str().unwrap().to_owned())
        .filter(|target| !target.starts_with("pipe:") && !target.starts_with("anon_inode:"))
        .collect();
    fds.sort();
    let root = rig.root.to_str().unwrap();
    assert!(fds.iter().all(|fd| fd == "/dev/null" || fd.starts_with(root)), "{fds:?}");

    held.release().unwrap();
    until("the orders are wiped", || !memory_of(pid).windows(15).any(|window| window == b"hunter2-hunter2"));
    kill(pid, 15);
    rig.finish(pid, &names);
}

/// Every private writable byte of a process.
fn memory_of(pid: i32) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let parse = |hex| u64::from_str_radix(hex, 16).unwrap();
        let mut bytes = vec![0; (parse(end) - parse(start)) as usize];
        if memory.read_exact_at(&mut bytes, parse(start)).is_ok() {
            all.extend(bytes);
        }
    }
    all
}

#[test]
fn the_shim_is_undumpable_unless_the_launcher_must_leave_it() {
    for dumpable in [false, true] {
        let rig = Rig::with(|options| options.dumpable = Some(dumpable));
        assert_eq!(rig.launcher.leaves_shims_dumpable(), dumpable);
        let held = rig.launch(rig.shell("exit 0").0).ok().unwrap();
        let environ = std::fs::File::open(format!("/proc/{}/environ", held.pid));
        // Root may look at everything; the rerun as an ordinary user tells the difference.
        assert_eq!(environ.is_ok(), dumpable || is_root());
    }
}

/// Set in the rerun under hidepid=2.
const HIDDEN: &str = "QINGLET_TEST_HIDDEN";

#[test]
fn where_proc_hides_undumpable_children_shims_stay_dumpable() {
    if std::env::var_os(HIDDEN).is_some() {
        let rig = Rig::new();
        assert!(rig.launcher.leaves_shims_dumpable());
        assert_eq!(rig.run(rig.shell("echo fine")).text(), "fine\n");
        // Otherwise the held shim could not be identified, and that is a failure, not a guess.
        let rig = Rig::with(|options| options.dumpable = Some(false));
        let (orders, names) = rig.shell("exit 0");
        assert_eq!(rig.launch(orders).err().unwrap().step, LaunchStep::Identity);
        rig.assert_nothing_ran(&names);
    } else if is_root() {
        let hide =
            "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
        let name = "where_proc_hides_undumpable_children_shims_stay_dumpable";
        process_kit::rerun(|tests| {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", hide, "sh"]).arg(tests).args(["--exact", name]).env(HIDDEN, "1");
            command
        });
    }
}

#[test]
fn what_the_user_may_not_reach_is_told_as_such() {
    let rig = Rig::new();
    let closed = rig.file("closed");
    std::fs::create_dir(&closed).unwrap();
    write_program(&closed.join("program"), "#!/bin/sh\n", 0o755);
    write_program(&rig.file("theirs"), "#!/bin/sh\n", 0o600);
    write_program(&rig.file("group-only"), "#!/bin/sh\n", 0o654);
    std::fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    let said = |program: &Path, cwd: Option<&Path>| {
        let (mut orders, names) = rig.orders(&[program.to_str().unwrap()]);
        orders.cwd = cwd.map(|cwd| cwd.to_str().unwrap().to_owned());
        let failure = rig.launch(orders).err().unwrap();
        rig.assert_nothing_ran(&names);
        failure.to_string()
    };
    assert_eq!(said(&rig.file("theirs"), None), "the program is not executable; give it an execute bit");
    // For root no folder is closed; the rerun as an ordinary user sees the rest.
    if !is_root() {
        assert_eq!(said(&closed.join("program"), None), "permission denied on the way to the program");
        assert_eq!(said(Path::new("/bin/true"), Some(&closed)), "permission denied on the working directory");
        let not_for_us = "permission denied: the program may not be executed by this user";
        assert_eq!(said(&rig.file("group-only"), None), not_for_us);
    }
    std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_program_on_a_file_system_mounted_noexec_is_told_as_such() {
    let rig = Rig::new();
    let mount = rig.file("");
    let options = ["-t", "tmpfs", "-o", "noexec,size=64k,mode=0700", "tmpfs"];
    if !Command::new("mount").args(options).arg(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a file system mounted noexec needs root and mount(8)");
        return;
    }
    write_program(&rig.file("program"), "#!/bin/sh\n", 0o755);
    let failure = rig.launch(rig.orders(&[rig.file("program").to_str().unwrap()]).0).err();
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    assert_eq!(failure.unwrap().to_string(), "the program is on a file system mounted noexec");
}

#[test]
fn each_mistake_is_told_apart_and_nothing_runs() {
    let rig = Rig::new();
    let path = |name: &str| rig.file(name).to_str().unwrap().to_owned();
    let (plain, script, crlf, nested, loop_a) =
        (path("plain"), path("script"), path("crlf"), path("nested"), path("a"));
    write_program(Path::new(&plain), "#!/bin/sh\ntouch ran\n", 0o644);
    write_program(Path::new(&script), "#!/nonexistent/interpreter\n", 0o755);
    write_program(Path::new(&crlf), "#!/bin/sh\r\necho\r\n", 0o755);
    write_program(Path::new(&nested), &format!("#!{script}\n"), 0o755);
    write_program(Path::new(&loop_a), &format!("#!{loop_a}\n"), 0o755);
    let by_plain = path("by-plain");
    write_program(Path::new(&by_plain), &format!("#!{plain}\n"), 0o755);
    let dangling = path("dangling");
    symlink("/nonexistent", &dangling).unwrap();

    let failure = |argv: &[&str], cwd: Option<&str>| {
        let (mut orders, names) = rig.orders(argv);
        orders.cwd = cwd.map(String::from);
        let failure = rig.launch(orders).err().unwrap();
        rig.assert_nothing_ran(&names);
        let said = failure.to_string();
        assert!(!said.contains(rig.root.to_str().unwrap()), "no path in {said:?}");
        (failure.step, said)
    };
    for (argv0, cwd, step, said) in [
        ("/nonexistent", None, LaunchStep::Program, "the program does not exist"),
        (&*dangling, None, LaunchStep::Program, "the program does not exist"),
        ("/etc/passwd/x", None, LaunchStep::Program, "the program does not exist"),
        ("/tmp", None, LaunchStep::ProgramKind, "the program is not a regular file"),
        (&*plain, None, LaunchStep::ProgramMode, "the program is not executable; give it an execute bit"),
        (&*script, None, LaunchStep::Interpreter, "the program's interpreter does not exist"),
        (&*crlf, None, LaunchStep::Interpreter, "the program's interpreter does not exist"),
        (&*nested, None, LaunchStep::Interpreter, "the program's interpreter does not exist"),
        (&*by_plain, None, LaunchStep::InterpreterMode, "the program's interpreter is not executable"),
        ("/bin/true", Some("/nonexistent"), LaunchStep::Directory, "the working directory does not exist"),
        ("/bin/true", Some("/etc/passwd"), LaunchStep::Directory, "the working directory is not a directory"),
    ] {
        assert_eq!(failure(&[argv0], cwd), (step, said.to_owned()), "{argv0} in {cwd:?}");
    }
    assert_eq!(failure(&[&loop_a], None).0, LaunchStep::Interpreter);
}

#[test]
fn a_binary_without_its_loader_is_told_before_the_start() {
    let rig = Rig::new();
    let mut binary = std::fs::read("/bin/true").unwrap();
    let Some(at) = binary.windows(5).position(|window| window == b"/lib6" || window == b"/lib/") else {
        eprintln!("skipped: /bin/true is static here, so it has no loader to lose");
        return;
    };
    binary[at + 1] = b'X';
    let path = rig.file("lost");
    std::fs::write(&path, binary).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let failure = rig.launch(rig.orders(&[path.to_str().unwrap()]).0).err().unwrap();
    assert_eq!(failure.to_string(), "the program's interpreter does not exist");
}

#[test]
fn what_only_exec_can_find_out_leaves_a_receipt_with_the_reason() {
    let rig = Rig::new();
    let path = rig.file("garbage");
    write_program(&path, "no script and no binary\n", 0o755);
    let receipt = rig.run(rig.orders(&[path.to_str().unwrap()])).receipt;
    let failure = receipt.start_error.unwrap();
    assert_eq!((failure.step, failure.errno, receipt.exit_code), (LaunchStep::Exec, libc::ENOEXEC, 126));

    let vanishing = rig.file("vanishing");
    write_program(&vanishing, "#!/bin/sh\n", 0o755);
    let (orders, names) = rig.orders(&[vanishing.to_str().unwrap()]);
    let held = rig.launch(orders).ok().unwrap();
    std::fs::remove_file(&vanishing).unwrap();
    let pid = held.pid;
    held.release().unwrap();
    let receipt = rig.finish(pid, &names).receipt;
    assert_eq!((receipt.start_error.unwrap().errno, receipt.exit_code), (libc::ENOENT, 127));
}

#[test]
fn a_log_or_receipt_that_is_not_private_stops_the_launch() {
    let rig = Rig::new();
    let (orders, names) = rig.shell("exit 0");
    std::fs::remove_file(&names.log_path).unwrap();
    symlink("/dev/null", &names.log_path).unwrap();
    assert_eq!(rig.launch(orders).err().unwrap().step, LaunchStep::Log);

    let (mut orders, _) = rig.shell("exit 0");
    orders.receipt_dir = rig.file("missing");
    assert_eq!(rig.launch(orders).err().unwrap().step, LaunchStep::Receipt);
}

#[test]
fn nothing_runs_until_it_is_released_and_an_abandoned_shim_leaves_nothing() {
    let rig = Rig::new();
    let marker = rig.file("ran");
    let (orders, names) = rig.shell(&format!("touch {}", marker.display()));
    let held = rig.launch(orders).ok().unwrap();
    let (pid, handle) = (held.pid, held.handle);
    let user = children_of(pid);
    assert_eq!(user.len(), 1, "the held process exists already");
    assert_eq!(identity::inspect(&handle), Inspection::Running);
    drop(held);
    wait_for_end(pid);
    assert_eq!(identity::inspect(&handle), Inspection::NotRunning, "a zombie has ended");
    assert!(!is_alive(user[0]));
    assert!(!marker.exists());
    rig.assert_nothing_ran(&names);
}

#[test]
fn a_held_shim_that_is_told_to_stop_or_loses_its_process_runs_nothing() {
    let rig = Rig::new();
    let marker = rig.file("ran");
    for victim_is_shim in [true, false] {
        let (orders, names) = rig.shell(&format!("touch {}", marker.display()));
        let held = rig.launch(orders).ok().unwrap();
        let pid = held.pid;
        let user = children_of(pid)[0];
        let (victim, signal) = if victim_is_shim { (pid, 15) } else { (user, 9) };
        kill(victim, signal);
        wait_for_end(pid);
        assert!(held.release().is_err(), "told that nothing ran");
        assert!(!marker.exists());
        rig.assert_nothing_ran(&names);
    }
    let (orders, _) = rig.shell(&format!("touch {}", marker.display()));
    let held = rig.launch(orders).ok().unwrap();
    let user = children_of(held.pid)[0];
    kill(held.pid, 9);
    until("the held process dies with its shim", || !is_alive(user));
    assert!(!marker.exists());
}

fn children_of(parent: i32) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat::read(*pid).is_ok_and(|stat| stat.parent == parent)).collect()
}

#[test]
fn a_binary_that_was_replaced_is_still_the_one_that_runs() {
    let path = std::env::temp_dir().join(format!("qinglet-copy-{}", std::process::id()));
    copy(&process_kit::exe(), &path);
    let exe = open_exe(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    write_program(&path, "#!/bin/sh\necho an impostor\n", 0o755);
    let rig = Rig::with(|options| options.exe = exe);
    let finished = rig.run(rig.shell("echo fine"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(finished.text(), "fine\n");
}

#[test]
fn a_launcher_whose_binary_is_none_says_so() {
    let rig = Rig::with(|options| options.exe = open_exe(Path::new("/etc/passwd")).unwrap());
    let (orders, names) = rig.shell("exit 0");
    let failure = rig.launch(orders).err().unwrap();
    assert_eq!((failure.step, failure.errno), (LaunchStep::ExecShim, libc::EACCES));
    rig.assert_nothing_ran(&names);
    assert_eq!(rig.children.count(), 0, "freed by the launcher itself");
}

#[test]
fn a_binary_that_never_reports_is_given_up_in_time() {
    // `sleep` as the shim: it reads no orders and fails, or with a stopped one waits for ever.
    let rig = Rig::with(|options| {
        options.exe = open_exe(Path::new("/bin/cat")).unwrap();
        options.launch_ms = 300;
    });
    let failure = rig.launch(rig.shell("exit 0").0).err().unwrap();
    assert!(matches!(failure.step, LaunchStep::Died | LaunchStep::Timeout), "{failure:?}");
    assert_eq!(rig.children.count(), 0);
}

#[test]
fn launches_that_wait_together_are_under_way_together() {
    // `yes` as the shim writes for ever to what is /dev/null for it, and never reports.
    let rig = Rig::with(|options| {
        options.exe = open_exe(Path::new("/usr/bin/yes")).unwrap();
        options.launch_ms = 1000;
    });
    let (tell, told) = std::sync::mpsc::channel();
    let several = LAUNCHES_TOGETHER_MAX;
    for _ in 0..=several {
        let tell = tell.clone();
        let reply = move |outcome: Result<Held, LaunchFailure>| tell.send(outcome.err().unwrap().step).unwrap();
        rig.launcher.launch(rig.shell("exit 0").0, Box::new(reply));
    }
    let mut most = 0;
    let mut failed = Vec::new();
    while failed.len() <= several {
        most = most.max(rig.children.count());
        failed.extend(told.recv_timeout(Duration::from_millis(1)));
    }
    // The first may have begun before the second was there.
    assert!((several - 1..=several).contains(&most), "{most} at once");
    assert!(failed.iter().all(|step| *step == LaunchStep::Timeout), "{failed:?}");
    assert_eq!(rig.children.count(), 0);
}

#[test]
fn the_shim_command_typed_by_hand_explains_itself() {
    let output = Command::new(process_kit::exe()).arg("shim").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("started by the daemon only"));
}

#[test]
fn a_stopped_launcher_refuses() {
    let rig = Rig::new();
    rig.launcher.stop();
    rig.launcher.stop();
    assert_eq!(rig.launch(rig.shell("exit 0").0).err().unwrap().step, LaunchStep::Stopped);
}

#[test]
fn all_this_holds_for_an_ordinary_user() {
    rerun_as_nobody("all_this_holds_for_an_ordinary_user");
}
