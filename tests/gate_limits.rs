//! The process's own limits are reached: descriptors, and PIDs. The server runs in a child, so that its
//! limits are not the test's.

#![allow(clippy::unwrap_used, clippy::panic)] // all of it is test code, though not all in a test function

mod gate_support;

use gate_support::*;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const CHILD: &str = "QINGLET_GATE_CHILD";

/// Not a test of its own: the server the others talk to, told by lines on its standard input.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let setup = start(bounds());
    setup.lives();
    // Opened now, because later nothing may be left to open it with.
    let mut status = File::open("/proc/self/status").unwrap();
    let mut hoard = Vec::new();
    println!("\nready {}", setup.server.tcp_address().unwrap());
    for line in std::io::stdin().lock().lines() {
        match line.unwrap().as_str() {
            "hoard" => hoard.extend(std::iter::from_fn(|| File::open("/dev/null").ok())),
            "free" => hoard.clear(),
            _ => {}
        }
        let mut text = String::new();
        status.rewind().unwrap();
        status.read_to_string(&mut text).unwrap();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        println!("\nstate {} {} {}", field("Threads:"), field("VmRSS:"), hoard.len());
    }
}

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    address: String,
}

/// Threads, resident KiB, descriptors hoarded.
type State = (u64, u64, u64);

impl Server {
    fn start(shell: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{shell} exec \"$0\" --exact child --nocapture --test-threads=1")])
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, stdin, stdout, address: String::new() };
        server.address = server.line("ready ");
        server
    }

    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server is gone");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn tell(&mut self, what: &str) -> State {
        writeln!(self.stdin.as_mut().unwrap(), "{what}").unwrap();
        let line = self.line("state ");
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        (numbers[0], numbers[1], numbers[2])
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn lives(&self) {
        for request in [get("/api/health"), send("PUT", &format!("{TASKS}/a"), "{}"), get("/aPi")] {
            let mut stream = self.tcp();
            stream.write_all(request.as_bytes()).unwrap();
            let answer = read(stream);
            assert_eq!(status(&answer), if request.contains("aPi") { 404 } else { 200 }, "{answer}");
        }
    }

    fn flood(&self) {
        let mut idle: Vec<TcpStream> = (0..100).map(|_| self.tcp()).collect();
        for (number, stream) in idle.iter_mut().enumerate() {
            // Some of them are gone by now.
            let _ = stream.write(get("/api/health").get(..number).unwrap_or("GET").as_bytes());
            if number % 10 == 0 {
                self.lives();
            }
        }
    }

    fn flat(before: State, after: State) {
        assert!(after.0 <= before.0, "threads: {before:?} {after:?}");
        assert!(after.1 < before.1 + 2048, "memory: {before:?} {after:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself and removes its folder when nobody tells it anything more.
        self.stdin = None;
        for _ in 0..500 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn descriptors_used_up() {
    let mut server = Server::start("ulimit -n 100;");
    server.lives();
    let before = server.tell("state");
    let full = server.tell("hoard");
    assert!(full.2 > 10, "nothing was used up: {full:?}");
    server.lives();
    server.flood();
    server.lives();
    Server::flat(before, server.tell("state"));
    let free = server.tell("free");
    assert_eq!(free.2, 0);
    server.lives();
    server.flood();
    server.lives();
    Server::flat(before, server.tell("state"));
}

#[test]
fn fewer_descriptors_than_connections() {
    let mut server = Server::start("ulimit -n 40;");
    server.lives();
    let before = server.tell("state");
    server.flood();
    server.lives();
    Server::flat(before, server.tell("state"));
}

#[test]
fn pids_used_up() {
    let group = match group() {
        Ok(group) => group,
        Err(why) => {
            println!("SKIP: no pids cgroup can be made: {why}");
            return;
        }
    };
    let mut server = Server::start(&format!("echo $$ > {}/cgroup.procs &&", group.display()));
    server.lives();
    // The library's threads that were one too many leave after five seconds.
    let before = server.tell("state");
    let now = fs::read_to_string(group.join("pids.current")).unwrap();
    assert_eq!(now.trim(), before.0.to_string(), "the server is in its group");
    fs::write(group.join("pids.max"), now).unwrap();
    server.lives();
    server.flood();
    server.lives();
    Server::flat(before, server.tell("state"));
    drop(server);
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        fs::remove_dir(&group).is_ok()
    });
    assert!(gone, "the group is not empty");
}

/// A fresh group of the pids controller, v1 or v2.
fn group() -> Result<PathBuf, String> {
    let name = format!("qinglet-gate-{}", std::process::id());
    let places = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
    let mut why = String::new();
    for group in places.map(|place| PathBuf::from(place).join(&name)) {
        let made = fs::create_dir(&group).and_then(|()| fs::write(group.join("pids.max"), "max"));
        match made {
            Ok(()) => return Ok(group),
            Err(error) => why = format!("{}: {error}", group.display()),
        }
        let _ = fs::remove_dir(&group);
    }
    Err(why)
}
