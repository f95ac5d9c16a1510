//! The OpenWrt package on a system with busybox as its only userland: installed, started, reloaded, crashed,
//! upgraded under a running task, removed. procd, UCI and opkg are stand-ins (`router/openwrt`); what they are
//! called with is compared with what OpenWrt documents.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod router;
mod support;

use qinglet::model::limits::STOP_BOUND_MS;
use router::{Router, TOP, binaries};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::until;

const STATE: &str = "/etc/qinglet/state";

/// OpenWrt's name of this machine's architecture.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "aarch64_generic",
        "arm" => "arm_cortex-a7_neon-vfpv4",
        _ => "x86_64",
    }
}

fn ipk(binaries: &Path, output: &Path, arches: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg(format!("{TOP}/targets/openwrt/ipk.sh")).args([binaries, output]).args(arches);
    command.env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap()
}

/// A system as OpenWrt has it, with procd running and the package beside it as /tmp/qinglet.ipk.
fn openwrt() -> Router {
    let router = Router::new(STATE);
    let stand_ins = PathBuf::from(TOP).join("tests/router/openwrt");
    for (from, to) in [
        ("rc.common", "/etc/rc.common"),
        ("functions.sh", "/lib/functions.sh"),
        ("procd", "/sbin/procd"),
        ("uci", "/sbin/uci"),
        ("opkg", "/bin/opkg"),
    ] {
        router.put(&stand_ins.join(from), to, 0o755);
    }
    router.ok("ln -s tmp /var && mkdir -p /tmp/run /etc/config /lib/upgrade/keep.d /usr/lib");
    router.background("exec /sbin/procd");
    let made = router.outside().join("binaries");
    binaries(&made);
    let output = router.outside().join("packages");
    let done = ipk(&made, &output, &[arch()]);
    assert!(done.status.success(), "{done:?}");
    let package = fs::read_dir(&output).unwrap().next().unwrap().unwrap().path();
    router.put(&package, "/tmp/qinglet.ipk", 0o644);
    router
}

/// What procd's functions were called with since the last look.
fn calls(router: &Router) -> Vec<Vec<String>> {
    let text = router.read("/tmp/procd/calls");
    fs::write(router.path("/tmp/procd/calls"), "").unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The daemon's process, as procd has it.
fn daemon(router: &Router) -> String {
    router.served();
    router.read("/tmp/procd/pid").trim().to_owned()
}

/// As procd.sh of OpenWrt 18.06 to 24.10 documents them.
const DOCUMENTED: [&str; 12] = [
    "procd_open_instance",
    "procd_set_param",
    "procd_append_param",
    "procd_close_instance",
    "procd_add_reload_trigger",
    "procd_running",
    "procd_send_signal",
    "procd_kill",
    "procd_add_instance",
    "procd_add_validation",
    "procd_open_trigger",
    "procd_close_trigger",
];

/// A parameter's values as procd takes them: words, a whole number, or yes and no.
fn is_documented(name: &str, values: &[String]) -> bool {
    let number = |text: &String| text.parse::<u32>().is_ok();
    match name {
        "command" | "netdev" | "file" | "watch" | "env" | "data" | "limits" => !values.is_empty(),
        "respawn" => values.len() == 3 && values.iter().all(number),
        "term_timeout" | "nice" => values.len() == 1 && number(&values[0]),
        "stdout" | "stderr" | "no_new_privs" => values.len() == 1 && ["0", "1"].contains(&values[0].as_str()),
        "pidfile" | "user" | "group" | "facility" | "seccomp" | "capabilities" | "reload_signal" => values.len() == 1,
        _ => false,
    }
}

#[test]
fn procd_starts_stops_reloads_and_respawns_it() {
    if !router::enter("procd_starts_stops_reloads_and_respawns_it") {
        return;
    }
    let router = openwrt();
    router.ok("opkg install /tmp/qinglet.ipk");
    let first = daemon(&router);
    let said = calls(&router);
    for call in &said {
        assert!(DOCUMENTED.contains(&call[0].as_str()), "{call:?}");
        if call[0] == "procd_set_param" {
            assert!(is_documented(&call[1], &call[2..]), "{call:?}");
        }
        if call[0] == "procd_append_param" {
            assert!(["command", "env", "data", "limits", "file"].contains(&call[1].as_str()), "{call:?}");
        }
    }
    let param = |name: &str| -> Vec<String> {
        let mut set = said.iter().filter(|call| call[0] == "procd_set_param" && call[1] == name);
        set.next_back().unwrap_or_else(|| panic!("{name} was not set"))[2..].to_vec()
    };
    assert_eq!(param("command"), ["/usr/lib/qinglet/run", STATE]);
    assert_eq!(param("respawn")[2], "0", "it never gives up");
    assert_eq!((param("stdout"), param("stderr")), (vec!["1".to_owned()], vec!["1".to_owned()]));
    let seconds: u64 = param("term_timeout")[0].parse().unwrap();
    assert!(seconds * 1000 >= STOP_BOUND_MS, "{seconds} s, but a stop takes up to {STOP_BOUND_MS} ms");
    assert!(said.contains(&vec!["procd_add_reload_trigger".to_owned(), "qinglet".to_owned()]));
    assert!(!said.iter().any(|call| call[0].contains("jail")), "a task could not leave a jail");
    // Its messages are the system log's.
    assert!(router.read("/tmp/logd").contains("qinglet: info: serving:"), "{}", router.read("/tmp/logd"));
    assert_eq!(router.ok("/etc/init.d/qinglet status"), "running");
    assert!(router.path("/etc/rc.d/S95qinglet").is_symlink() && router.path("/etc/rc.d/K10qinglet").is_symlink());

    // What runs already goes on.
    router.ok("/etc/init.d/qinglet start");
    assert_eq!(daemon(&router), first);

    // A reload is a signal to the very same process.
    calls(&router);
    router.ok("uci set qinglet.main.log_level=debug && /etc/init.d/qinglet reload");
    let signal = calls(&router).into_iter().find(|call| call[0] == "procd_send_signal").unwrap();
    assert_eq!(signal, ["procd_send_signal", "qinglet", "*", "HUP"]);
    until("the daemon to hear of it", || router.read("/tmp/logd").contains(": reload").then_some(()));
    assert_eq!(daemon(&router), first);
    assert!(router.read("/etc/qinglet/config.json").contains(r#""logLevel":"debug""#));

    // A crash: it comes again, and the task has not noticed.
    let run = router.few_seconds();
    router.ok(&format!("kill -KILL {first}"));
    let second = until("it to come again", || {
        Some(router.read("/tmp/procd/pid").trim().to_owned()).filter(|pid| *pid != first && !pid.is_empty())
    });
    router.served();
    // A restart: the old one has ended before the new one begins.
    router.ok("/etc/init.d/qinglet restart");
    until("another process", || (![second.as_str(), ""].contains(&router.read("/tmp/procd/pid").trim())).then_some(()));
    router.served();
    assert!(!router.read("/tmp/logd").contains("in use by"), "{}", router.read("/tmp/logd"));
    router.lived(&run);

    router.ok("/etc/init.d/qinglet stop");
    until("it to stop", || (router.sh("/etc/init.d/qinglet status").stdout == "inactive\n").then_some(()));
    assert_eq!(router.cli("status").code, 4);
    assert_eq!(router.read("/tmp/procd/killed"), "", "no stop took longer than it may");

    // Switched off, it does not start.
    router.ok("uci set qinglet.main.enabled=0 && /etc/init.d/qinglet start");
    assert_eq!(router.sh("sleep 0.5; /etc/init.d/qinglet status").stdout, "inactive\n");
}

#[test]
fn settings_become_the_configuration() {
    if !router::enter("settings_become_the_configuration") {
        return;
    }
    let router = openwrt();
    router.ok("opkg install /tmp/qinglet.ipk");
    router.served();
    let config = || serde_json::from_str::<Value>(&router.read("/etc/qinglet/config.json")).unwrap();
    let plain = json!({"state": STATE, "logs": "/tmp/qinglet-logs", "runtime": "/tmp/run/qinglet", "profile": "edge",
        "api": "on", "clock": "auto", "onStop": "leave", "logLevel": "info", "limits": {}});
    assert_eq!(config(), plain);
    assert_eq!(router.mode("/etc/qinglet/config.json"), (0o600, 0));
    // Flash is not written when nothing has changed.
    let at = || fs::metadata(router.path("/etc/qinglet/config.json")).unwrap().modified().unwrap();
    let before = at();
    router.ok("/etc/init.d/qinglet reload");
    assert_eq!(at(), before);

    for (option, value) in [
        ("listen", "127.0.0.1:0"),
        ("profile", "standalone"),
        ("on_stop", "stop"),
        ("clock", "always"),
        ("active_attempts", "3"),
        ("queued_runs", "17"),
        ("log_bytes", "1048576"),
        ("attempt_log_bytes", "65536"),
        ("log_days", "3"),
        ("history_runs", "100"),
        ("history_days", "5"),
        ("audit_rows", "500"),
    ] {
        router.ok(&format!("uci set qinglet.main.{option}={value}"));
    }
    router.ok("uci commit qinglet && /etc/init.d/qinglet restart");
    until("it to listen", || router.read("/tmp/logd").contains("http://127.0.0.1:").then_some(()));
    let full = json!({"state": STATE, "logs": "/tmp/qinglet-logs", "runtime": "/tmp/run/qinglet",
        "profile": "standalone", "api": "on", "listen": "127.0.0.1:0", "clock": "always", "onStop": "stop",
        "logLevel": "info", "limits": {"activeAttempts": 3, "queuedRuns": 17, "logBytes": 1_048_576,
        "attemptLogBytes": 65_536, "logDays": 3, "historyRuns": 100, "historyDays": 5, "auditRows": 500}});
    assert_eq!(config(), full);
    router.ok("/etc/init.d/qinglet stop");
    until("it to stop", || (router.cli("status").code == 4).then_some(()));

    // What is no number, or holds a quote, stays text, so that it is refused by name and never taken for another.
    router.ok(r#"uci set 'qinglet.main.log_days=3 "days" \ more'; uci set qinglet.main.queued_runs=010"#);
    router.ok("/etc/init.d/qinglet start");
    let limits = &config()["limits"];
    assert_eq!((&limits["logDays"], &limits["queuedRuns"]), (&json!("3 \"days\" \\ more"), &json!("010")));
}

#[test]
fn an_upgrade_leaves_a_running_task_alone_migrates_the_state_and_keeps_a_copy() {
    if !router::enter("an_upgrade_leaves_a_running_task_alone_migrates_the_state_and_keeps_a_copy") {
        return;
    }
    let router = openwrt();
    router.ok("opkg install /tmp/qinglet.ipk");
    router.served();
    router.exchanges("uci set qinglet.main.profile=standalone && /etc/init.d/qinglet restart");
    let run = router.few_seconds();
    let program = || fs::metadata(router.path("/usr/bin/qinglet")).unwrap().ino();
    let old = program();
    router.exchanges("opkg install /tmp/qinglet.ipk");
    assert_ne!(old, program(), "the program was exchanged");
    assert!(router.read("/etc/config/qinglet").contains("option profile 'standalone'"), "a user's change stays");
    assert!(router.read("/etc/config/qinglet-opkg").contains("option profile 'edge'"));
    router.lived(&run);
    assert!(!router.path("/etc/uci-defaults/qinglet").exists(), "it has run");

    // As apk upgrades: nothing is stopped before, what was exchanged is started.
    let run = router.few_seconds();
    let other = "cp /usr/bin/qinglet /tmp/other && echo >>/tmp/other && mv /tmp/other /usr/bin/qinglet";
    router.exchanges(&format!("{other} && PKG_UPGRADE=1 /etc/init.d/qinglet start"));
    router.lived(&run);

    // A state of the first version.
    router.ok("/etc/init.d/qinglet stop");
    until("it to stop", || (router.read("/tmp/procd/pid").is_empty()).then_some(()));
    router.make_older();
    router.ok("opkg install /tmp/qinglet.ipk");
    router.served();
    assert_eq!(router.copies(), 1);
    assert!(router.qinglet("task list").contains("few"), "what it held is there");

    // Removed: the state stays, and what the package said removes it.
    let said = router.ok("opkg remove qinglet");
    for gone in [
        "/usr/bin/qinglet",
        "/usr/lib/qinglet/run",
        "/etc/init.d/qinglet",
        "/lib/upgrade/qinglet.sh",
        "/lib/upgrade/keep.d/qinglet",
        "/etc/qinglet/config.json",
        "/etc/rc.d/S95qinglet",
    ] {
        assert!(!router.path(gone).exists() && !router.path(gone).is_symlink(), "{gone} is still there");
    }
    until("it to stop", || (router.read("/tmp/procd/pid").is_empty()).then_some(()));
    assert!(router.path(STATE).join("owner.token").exists(), "the state was removed");
    let purge = said.split("too: ").nth(1).unwrap();
    router.ok(purge.lines().next().unwrap());
    assert!(!router.path("/etc/qinglet").exists());
}

#[test]
fn what_a_firmware_upgrade_keeps_is_served_again() {
    if !router::enter("what_a_firmware_upgrade_keeps_is_served_again") {
        return;
    }
    let router = openwrt();
    router.ok("opkg install /tmp/qinglet.ipk");
    router.served();
    router.qinglet("task add hello -- /bin/true");
    // As sysupgrade does: the files that keep.d names, the hooks of /lib/upgrade, a tar of those files.
    let list = "find $(cat /lib/upgrade/keep.d/*) -type f -o -type l >/tmp/list; echo /etc/config/qinglet >>/tmp/list
        sysupgrade_init_conffiles=; . /lib/upgrade/qinglet.sh
        for hook in $sysupgrade_init_conffiles; do $hook /tmp/list; done";
    router.ok(&format!("CONF_BACKUP_LIST=1; {list}"));
    assert!(!router.path("/etc/qinglet/before-upgrade.backup").exists(), "a mere list makes nothing");
    router.ok(&format!("{list}; tar -czf /tmp/kept.tar.gz $(cat /tmp/list)"));
    let kept = router.read("/tmp/list");
    for file in ["/etc/config/qinglet", "/etc/qinglet/config.json", "/etc/qinglet/state/owner.token"] {
        assert!(kept.lines().any(|line| line == file), "{file} is not kept: {kept}");
    }
    let backup = router.cli("backup /tmp/probe").code == 0;
    assert_eq!(kept.contains("before-upgrade.backup"), backup, "{kept}");
    if backup {
        assert_eq!(router.mode("/etc/qinglet/before-upgrade.backup"), (0o600, 0));
    }
    // The next system: the same image with nothing but what was kept.
    router.ok("/etc/init.d/qinglet stop");
    until("it to stop", || (router.read("/tmp/procd/pid").is_empty()).then_some(()));
    router.ok("rm -r /etc/qinglet && tar -xzf /tmp/kept.tar.gz -C / && chmod 755 /etc/qinglet/state");
    router.ok("opkg install /tmp/qinglet.ipk");
    router.served();
    assert!(router.qinglet("task list").contains("hello"));
}

/// Every entry of a tar: mode, owner and name, in order.
fn entries(tar: &Path) -> Vec<String> {
    let done = Command::new("tar").args(["--numeric-owner", "-tvf"]).arg(tar).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            format!("{} {} {}", words[0], words[1], words[5..].join(" "))
        })
        .collect()
}

#[test]
fn each_file_of_a_package_is_as_it_must_be_and_so_are_its_bytes() {
    let bench = support::Bench::new();
    let binaries = bench.root().join("binaries");
    fs::create_dir(&binaries).unwrap();
    for triple in ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "armv7-unknown-linux-musleabihf"] {
        fs::write(binaries.join(format!("qinglet-{triple}")), format!("for {triple}\n")).unwrap();
    }
    let (one, two) = (bench.root().join("one"), bench.root().join("two"));
    for output in [&one, &two] {
        let done = ipk(&binaries, output, &[]);
        assert!(done.status.success(), "{done:?}");
    }
    let names: BTreeSet<_> = fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let version = env!("CARGO_PKG_VERSION");
    for (arch, triple) in [
        ("aarch64_cortex-a53", "aarch64-unknown-linux-musl"),
        ("aarch64_generic", "aarch64-unknown-linux-musl"),
        ("arm_cortex-a7_neon-vfpv4", "armv7-unknown-linux-musleabihf"),
        ("arm_cortex-a9_vfpv3-d16", "armv7-unknown-linux-musleabihf"),
        ("x86_64", "x86_64-unknown-linux-musl"),
    ] {
        let name = format!("qinglet_{version}-r1_{arch}.ipk");
        assert!(names.contains(Path::new(&name).as_os_str()), "{name} is missing: {names:?}");
        assert_eq!(fs::read(one.join(&name)).unwrap(), fs::read(two.join(&name)).unwrap(), "{name} differs");
        let open = bench.root().join(arch);
        fs::create_dir(&open).unwrap();
        let unpack = |tar: &Path, to: &Path| {
            fs::create_dir_all(to).unwrap();
            let done = Command::new("tar").arg("-xf").arg(tar).arg("-C").arg(to).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        let outer: Vec<_> =
            ["debian-binary", "data.tar.gz", "control.tar.gz"].map(|name| format!("-rw-r--r-- 0/0 ./{name}")).into();
        assert_eq!(entries(&one.join(&name)), outer);
        unpack(&one.join(&name), &open);
        assert_eq!(fs::read_to_string(open.join("debian-binary")).unwrap(), "2.0\n");
        let data = "drwxr-xr-x 0/0 ./
drwxr-xr-x 0/0 ./etc/
drwxr-xr-x 0/0 ./etc/config/
-rw------- 0/0 ./etc/config/qinglet
drwxr-xr-x 0/0 ./etc/init.d/
-rwxr-xr-x 0/0 ./etc/init.d/qinglet
drwxr-xr-x 0/0 ./etc/uci-defaults/
-rwxr-xr-x 0/0 ./etc/uci-defaults/qinglet
drwxr-xr-x 0/0 ./lib/
drwxr-xr-x 0/0 ./lib/upgrade/
drwxr-xr-x 0/0 ./lib/upgrade/keep.d/
-rw-r--r-- 0/0 ./lib/upgrade/keep.d/qinglet
-rw-r--r-- 0/0 ./lib/upgrade/qinglet.sh
drwxr-xr-x 0/0 ./usr/
drwxr-xr-x 0/0 ./usr/bin/
-rwxr-xr-x 0/0 ./usr/bin/qinglet
drwxr-xr-x 0/0 ./usr/lib/
drwxr-xr-x 0/0 ./usr/lib/qinglet/
-rwxr-xr-x 0/0 ./usr/lib/qinglet/run";
        assert_eq!(entries(&open.join("data.tar.gz")), data.lines().collect::<Vec<_>>());
        let control = "drwxr-xr-x 0/0 ./
-rw-r--r-- 0/0 ./conffiles
-rw-r--r-- 0/0 ./control
-rwxr-xr-x 0/0 ./postinst
-rwxr-xr-x 0/0 ./postrm
-rwxr-xr-x 0/0 ./prerm";
        assert_eq!(entries(&open.join("control.tar.gz")), control.lines().collect::<Vec<_>>());
        unpack(&open.join("data.tar.gz"), &open.join("data"));
        unpack(&open.join("control.tar.gz"), &open.join("control"));
        let said = |file: &str| fs::read_to_string(open.join(file)).unwrap();
        assert_eq!(said("data/usr/bin/qinglet"), format!("for {triple}\n"));
        assert_eq!(said("control/conffiles"), "/etc/config/qinglet\n");
        let control = said("control/control");
        for line in ["Package: qinglet".to_owned(), format!("Version: {version}-r1"), format!("Architecture: {arch}")] {
            assert!(control.lines().any(|found| found == line), "{line} is not in {control}");
        }
        assert!(!control.contains("Depends"), "an empty list of dependencies ends opkg");
        assert!(control.lines().all(|line| !line.is_empty() && line.contains(": ")), "{control}");
    }
    assert_eq!(names.len(), 5);

    // Without a binary there is no package, and it is said how to get one.
    fs::remove_file(binaries.join("qinglet-aarch64-unknown-linux-musl")).unwrap();
    let done = ipk(&binaries, &bench.root().join("three"), &[]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("make cross"), "{said}");
}

#[test]
fn the_sdk_recipe_installs_the_same_files() {
    let bench = support::Bench::new();
    let dist = bench.root().join("dist");
    fs::create_dir(&dist).unwrap();
    fs::write(dist.join("qinglet-x86_64-unknown-linux-musl"), "the program\n").unwrap();
    // Stand-ins for what the SDK includes, as far as a recipe's own part needs them.
    fs::write(bench.root().join("rules.mk"), "INCLUDE_DIR:=$(TOPDIR)\nPKG_BUILD_DIR:=$(TOPDIR)/build\n").unwrap();
    let package = "define BuildPackage\n\
        $(eval $(Package/$(1)))\n\
        do:\n\t$(call Package/$(1)/install,$(TOPDIR)/root)\n\t@echo '$(PKG_NAME) $(PKG_VERSION)-r$(PKG_RELEASE)'\n\
        \t@echo 'keeps $(strip $(Package/$(1)/conffiles))'\n\t@echo 'watches $(PKG_FILE_DEPENDS)'\nendef\n";
    fs::write(bench.root().join("package.mk"), package).unwrap();
    let recipe = |arch: &str| {
        // The SDK calls what it compiles by the folder's name, whatever the package's is.
        let mut make = Command::new("make");
        make.arg("-C").arg(format!("{TOP}/targets/openwrt/qinglet")).arg(format!("TOPDIR={}", bench.root().display()));
        make.arg(format!("ARCH_PACKAGES={arch}")).arg(format!("QINGLET_DIST={}", dist.display())).arg("do");
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().unwrap()
    };
    let done = recipe("x86_64");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{done:?}");
    assert!(said.contains(concat!("qinglet ", env!("CARGO_PKG_VERSION"), "-r1")), "{said}");
    assert!(said.contains("keeps /etc/config/qinglet"), "{said}");
    // A new binary is packed anew.
    let watched = said.lines().find(|line| line.starts_with("watches ")).unwrap();
    assert!(watched.ends_with("/dist/qinglet-x86_64-unknown-linux-musl"), "{said}");
    let list = fs::read_to_string(format!("{TOP}/targets/openwrt/files.list")).unwrap();
    let mut count = 0;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let to = line.split(' ').nth(2).unwrap();
        assert!(bench.root().join("root").join(&to[1..]).is_file(), "{to} was not installed");
        count += 1;
    }
    assert_eq!(count, 7);
    for (arch, words) in
        [("mips_24kc", "no binary for mips_24kc: add a line to"), ("aarch64_generic", "run `make cross`")]
    {
        let refused = recipe(arch);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(words), "{said}");
    }
}
