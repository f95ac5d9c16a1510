//! What a shim is told over its pipe: never by argv, environment or file (design D4).
//!
//! A header without secrets comes first, so that the shim can make itself undumpable before it reads
//! the rest. Integers are little-endian. Texts carry their length and end in NUL, so that they can be
//! handed to exec where they lie. Both sides are the same binary; the version only guards against mistakes.

use super::cgroup::{OomCount, Plan, PlanView};
use super::step::{LaunchFailure, LaunchStep};
use crate::model::command::Leftovers;
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::limits;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 4] = *b"QLO4";
/// Bytes of the header: magic, flags, length of the body.
pub(super) const HEADER_BYTES: usize = 12;
const FLAG_DUMPABLE: u32 = 1;
const FLAG_KEEP: u64 = 1;
const FLAG_SECRETS: u64 = 2;
const FLAG_ACCOUNT: u64 = 4;
const FLAG_NICE: u64 = 8;
const FLAG_OOM: u64 = 16;
const FLAGS: u64 = 31;

/// One launch. It holds the callback token and the user's environment, so it has no `Debug` and is
/// wiped when dropped.
pub struct Orders {
    /// The Run, for the receipt.
    pub run: RunId,
    /// The Attempt, for the receipt.
    pub attempt: AttemptId,
    /// The sequence the receipt will carry.
    pub sequence: i64,
    /// The callback capability: 256 random bits whose digest the store has.
    pub token: [u8; 32],
    /// The private folder for the receipt.
    pub receipt_dir: PathBuf,
    /// The private folder of the log.
    pub log_dir: PathBuf,
    /// The log's name, without `.log`.
    pub log_artifact: String,
    /// The most the log may hold.
    pub log_bytes_max: u64,
    /// Program and arguments; the program is an absolute path.
    pub argv: Vec<String>,
    /// The whole environment; nothing of the daemon's own is added.
    pub env: Vec<(String, String)>,
    /// Where to start, an absolute path; `/` when absent.
    pub cwd: Option<String>,
    /// Between TERM and KILL of what is left over.
    pub grace_ms: u64,
    /// After the main process has ended, how long output and leftovers may go on.
    pub drain_grace_ms: u64,
    /// What becomes of leftovers then.
    pub leftovers: Leftovers,
    /// The environment holds secrets: no core dump of the program.
    pub has_secrets: bool,
    /// Whose values are replaced in the log: each one's place in `env`, and the name to put there.
    pub redact: Vec<(usize, String)>,
    /// How it is held apart from the rest of the machine.
    pub confined: Confined,
}

/// How a task is held apart from the rest of the machine.
#[derive(Clone, Default)]
pub struct Confined {
    /// The groups that limit it.
    pub groups: Vec<Plan>,
    /// The user, the group and further groups it gets; the shim's own when absent.
    pub account: Option<(u32, u32, Vec<u32>)>,
    /// Its nice value; the shim's own when absent.
    pub nice: Option<i32>,
    /// Its weight for the out-of-memory killer; 0 when absent, and then only as far as it can be had.
    pub oom_score_adj: Option<i32>,
}

impl Confined {
    fn flags(&self) -> u64 {
        let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
        flag(self.account.is_some(), FLAG_ACCOUNT)
            | flag(self.nice.is_some(), FLAG_NICE)
            | flag(self.oom_score_adj.is_some(), FLAG_OOM)
    }

    fn pack(&self, out: &mut Packer) {
        for number in [self.nice, self.oom_score_adj].into_iter().flatten() {
            out.count(number as usize);
        }
        if let Some((uid, gid, groups)) = &self.account {
            let ids = [*uid as usize, *gid as usize, groups.len()];
            for id in ids.into_iter().chain(groups.iter().map(|group| *group as usize)) {
                out.count(id);
            }
        }
        out.count(self.groups.len());
        for group in &self.groups {
            out.text(&[group.folder.as_os_str().as_bytes()]);
            out.count(group.oom as usize);
            out.count(group.settings.len());
            for setting in &group.settings {
                out.text(&[setting.file.as_bytes()]);
                out.text(&[setting.value.as_bytes()]);
            }
        }
    }

    fn packed_len(&self) -> usize {
        let ids = self.account.as_ref().map_or(0, |(_, _, groups)| 3 + groups.len());
        let numbers = [self.nice, self.oom_score_adj].iter().flatten().count() + ids + 1;
        let group = |group: &Plan| {
            let settings = group.settings.iter();
            let settings = settings.map(|setting| setting.file.len() + setting.value.len() + 2 * AROUND);
            group.folder.as_os_str().len() + AROUND + 2 * 4 + settings.sum::<usize>()
        };
        numbers * 4 + self.groups.iter().map(group).sum::<usize>()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.token.fill(0);
        std::hint::black_box(&self.token);
        let texts = self.argv.drain(..).chain(self.env.drain(..).map(|(_, value)| value));
        texts.for_each(|text| wipe(text.into_bytes()));
    }
}

/// Overwrites before freeing, as far as safe code can ask for it.
pub(super) fn wipe(mut bytes: Vec<u8>) {
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

/// What the launcher adds to every order.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner<'a> {
    /// The shim stays dumpable, because this /proc hides undumpable processes from their parent.
    pub(super) dumpable: bool,
    /// Where the shim shall die; debug builds only.
    pub(super) crash_at: &'a str,
}

/// Header and body in one piece. Refused when too large or when a text holds a NUL.
pub(super) fn pack(orders: &Orders, manner: Manner<'_>) -> Result<Vec<u8>, LaunchFailure> {
    let refused = |errno| LaunchFailure { step: LaunchStep::Orders, errno };
    let mut out = Packer(Vec::with_capacity(HEADER_BYTES + packed_len(orders, manner)));
    out.0.extend([0; HEADER_BYTES]);
    out.0.extend(orders.run.0.as_bytes());
    out.0.extend(orders.attempt.0.as_bytes());
    out.0.extend(orders.sequence.to_le_bytes());
    out.0.extend(orders.token);
    let keep = if orders.leftovers == Leftovers::Keep { FLAG_KEEP } else { 0 };
    let secrets = if orders.has_secrets { FLAG_SECRETS } else { 0 };
    let flags = keep | secrets | orders.confined.flags();
    for number in [orders.log_bytes_max, orders.grace_ms, orders.drain_grace_ms, flags] {
        out.0.extend(number.to_le_bytes());
    }
    out.text(&[manner.crash_at.as_bytes()]);
    out.text(&[orders.receipt_dir.as_os_str().as_bytes()]);
    out.text(&[orders.log_dir.as_os_str().as_bytes()]);
    out.text(&[orders.log_artifact.as_bytes()]);
    out.text(&[orders.cwd.as_deref().unwrap_or("/").as_bytes()]);
    out.count(orders.argv.len());
    orders.argv.iter().for_each(|arg| out.text(&[arg.as_bytes()]));
    out.count(orders.env.len());
    orders.env.iter().for_each(|(name, value)| out.text(&[name.as_bytes(), b"=", value.as_bytes()]));
    out.count(orders.redact.len());
    for (at, name) in &orders.redact {
        out.count(*at);
        out.text(&[name.as_bytes()]);
    }
    orders.confined.pack(&mut out);

    let mut packed = out.0;
    let length = packed.len() - HEADER_BYTES;
    let sound = unpack(packed.get(HEADER_BYTES..).unwrap_or_default()).is_ok();
    if length > limits::ORDERS_BYTES_MAX || !sound {
        wipe(packed);
        return Err(refused(if sound { libc::E2BIG } else { libc::EINVAL }));
    }
    let flags = if manner.dumpable { FLAG_DUMPABLE } else { 0 };
    let header = [MAGIC, flags.to_le_bytes(), (length as u32).to_le_bytes()];
    packed.iter_mut().zip(header.as_flattened()).for_each(|(to, from)| *to = *from);
    Ok(packed)
}

/// What every text takes beside itself: its length and the NUL.
const AROUND: usize = 5;

/// Counted first, so that no half of a secret is left behind by a growing buffer.
fn packed_len(orders: &Orders, manner: Manner<'_>) -> usize {
    const NUMBERS: usize = 16 + 16 + 8 + 32 + 4 * 8 + 3 * 4;
    let dirs = orders.receipt_dir.as_os_str().len() + orders.log_dir.as_os_str().len();
    let fixed = manner.crash_at.len() + dirs + orders.log_artifact.len() + orders.cwd.as_ref().map_or(1, String::len);
    let args = orders.argv.iter().map(|arg| arg.len() + AROUND);
    let env = orders.env.iter().map(|(name, value)| name.len() + 1 + value.len() + AROUND);
    let redact = orders.redact.iter().map(|(_, name)| name.len() + 4 + AROUND);
    let lists = args.sum::<usize>() + env.sum::<usize>() + redact.sum::<usize>();
    NUMBERS + fixed + 5 * AROUND + lists + orders.confined.packed_len()
}

struct Packer(Vec<u8>);

impl Packer {
    fn count(&mut self, count: usize) {
        self.0.extend((count as u32).to_le_bytes());
    }

    fn text(&mut self, parts: &[&[u8]]) {
        self.count(parts.iter().map(|part| part.len()).sum());
        self.0.extend(parts.iter().copied().flatten());
        self.0.push(0);
    }
}

/// The header: whether to stay dumpable, and how long the body is.
pub(super) fn unpack_header(header: [u8; HEADER_BYTES]) -> Option<(bool, usize)> {
    let mut reader = Reader(&header);
    let magic: [u8; 4] = reader.array()?;
    let flags = u32::from_le_bytes(reader.array()?);
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let known = magic == MAGIC && flags & !FLAG_DUMPABLE == 0 && length <= limits::ORDERS_BYTES_MAX;
    known.then_some((flags & FLAG_DUMPABLE != 0, length))
}

/// Orders as they lie in the shim's memory; nothing is copied.
pub(super) struct OrdersView<'a> {
    pub(super) run: RunId,
    pub(super) attempt: AttemptId,
    pub(super) sequence: i64,
    pub(super) token: [u8; 32],
    pub(super) log_bytes_max: u64,
    pub(super) grace_ms: u64,
    pub(super) drain_grace_ms: u64,
    pub(super) leftovers: Leftovers,
    pub(super) has_secrets: bool,
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    pub(super) crash_at: &'a CStr,
    pub(super) receipt_dir: &'a Path,
    pub(super) log_dir: &'a Path,
    pub(super) log_artifact: &'a CStr,
    pub(super) cwd: &'a CStr,
    pub(super) argv: Vec<&'a CStr>,
    pub(super) env: Vec<&'a CStr>,
    /// Values to be replaced in the log, each with what stands there instead.
    pub(super) redact: Vec<(&'a [u8], &'a CStr)>,
    pub(super) groups: Vec<PlanView<'a>>,
    pub(super) account: Option<(u32, u32, Vec<u32>)>,
    pub(super) nice: Option<i32>,
    pub(super) oom_score_adj: Option<i32>,
}

/// Reads a body.
pub(super) fn unpack(body: &[u8]) -> Result<OrdersView<'_>, &'static str> {
    let mut reader = Reader(body);
    let view = reader.orders().ok_or("the orders end too early or hold a NUL")?;
    if !reader.0.is_empty() {
        return Err("the orders have more bytes than they should");
    }
    if view.argv.is_empty() {
        return Err("the orders name no program");
    }
    Ok(view)
}

/// Header and body read and packed again, for tests that feed any bytes in. `None` where the bytes are
/// refused, or hold what no [`Orders`] can: text that is not UTF-8, a variable without `=`.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub fn repacked(bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = bytes.split_first_chunk()?;
    let (dumpable, _) = unpack_header(*header).filter(|(_, length)| *length == body.len())?;
    let view = unpack(body).ok()?;
    let text = |text: &CStr| text.to_str().ok().map(str::to_owned);
    // A value lies where its variable does, so the place in memory says which it is.
    let place = |value: &[u8]| {
        let same = |entry: &&CStr| entry.to_bytes_with_nul().as_ptr_range().contains(&value.as_ptr());
        view.env.iter().position(same)
    };
    let groups = view.groups.iter().map(PlanView::owned).collect::<Option<_>>()?;
    let variable = |entry: &&CStr| entry.to_str().ok()?.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
    let orders = Orders {
        run: view.run,
        attempt: view.attempt,
        sequence: view.sequence,
        token: view.token,
        receipt_dir: view.receipt_dir.into(),
        log_dir: view.log_dir.into(),
        log_artifact: text(view.log_artifact)?,
        log_bytes_max: view.log_bytes_max,
        argv: view.argv.iter().map(|arg| text(arg)).collect::<Option<_>>()?,
        env: view.env.iter().map(variable).collect::<Option<_>>()?,
        cwd: Some(text(view.cwd)?),
        grace_ms: view.grace_ms,
        drain_grace_ms: view.drain_grace_ms,
        leftovers: view.leftovers,
        has_secrets: view.has_secrets,
        redact: view.redact.iter().map(|(value, name)| Some((place(value)?, text(name)?))).collect::<Option<_>>()?,
        confined: Confined {
            groups,
            account: view.account.clone(),
            nice: view.nice,
            oom_score_adj: view.oom_score_adj,
        },
    };
    pack(&orders, Manner { dumpable, crash_at: view.crash_at.to_str().ok()? }).ok()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn signed(&mut self) -> Option<i32> {
        self.count().map(|number| number as i32)
    }

    fn account(&mut self) -> Option<(u32, u32, Vec<u32>)> {
        let (uid, gid, count) = (self.count()? as u32, self.count()? as u32, self.count()?);
        if count > self.0.len() / 4 {
            return None;
        }
        let groups = (0..count).map(|_| self.count().map(|group| group as u32)).collect::<Option<_>>()?;
        Some((uid, gid, groups))
    }

    fn groups(&mut self) -> Option<Vec<PlanView<'a>>> {
        let count = self.count().filter(|count| *count <= self.0.len())?;
        (0..count).map(|_| self.group()).collect()
    }

    fn group(&mut self) -> Option<PlanView<'a>> {
        let (folder, oom) = (self.path()?, OomCount::from_number(self.count()? as u32)?);
        let count = self.count().filter(|count| *count <= self.0.len())?;
        let settings = (0..count).map(|_| Some((self.text()?, self.text()?))).collect::<Option<_>>()?;
        Some(PlanView { folder, settings, oom })
    }

    /// Places in the environment and names, as the values that stand there.
    fn redact(&mut self, env: &[&'a CStr]) -> Option<Vec<(&'a [u8], &'a CStr)>> {
        let count = self.count()?;
        if count > env.len() {
            return None;
        }
        let mut entry = || {
            let variable = env.get(self.count()?)?.to_bytes();
            let value = variable.splitn(2, |byte| *byte == b'=').nth(1)?;
            Some((value, self.text()?))
        };
        (0..count).map(|_| entry()).collect()
    }

    fn count(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn text(&mut self) -> Option<&'a CStr> {
        let length = self.count()?;
        CStr::from_bytes_with_nul(self.take(length.checked_add(1)?)?).ok()
    }

    fn path(&mut self) -> Option<&'a Path> {
        self.text().map(|text| Path::new(OsStr::from_bytes(text.to_bytes())))
    }

    fn texts(&mut self) -> Option<Vec<&'a CStr>> {
        let count = self.count()?;
        // Each text takes five bytes at least, so a count that lies cannot ask for memory.
        if count > self.0.len() / 5 {
            return None;
        }
        (0..count).map(|_| self.text()).collect()
    }

    fn orders(&mut self) -> Option<OrdersView<'a>> {
        let (run, attempt) = (RunId(Uuid::from_bytes(self.array()?)), AttemptId(Uuid::from_bytes(self.array()?)));
        let (sequence, token) = (self.number()? as i64, self.array()?);
        let (log_bytes_max, grace_ms, drain_grace_ms) = (self.number()?, self.number()?, self.number()?);
        let flags = self.number().filter(|flags| flags & !FLAGS == 0)?;
        let has = |flag| flags & flag != 0;
        let leftovers = if has(FLAG_KEEP) { Leftovers::Keep } else { Leftovers::Kill };
        let (crash_at, receipt_dir, log_dir) = (self.text()?, self.path()?, self.path()?);
        let (log_artifact, cwd) = (self.text()?, self.text()?);
        let (argv, env) = (self.texts()?, self.texts()?);
        let redact = self.redact(&env)?;
        let nice = if has(FLAG_NICE) { Some(self.signed()?) } else { None };
        let oom_score_adj = if has(FLAG_OOM) { Some(self.signed()?) } else { None };
        let account = if has(FLAG_ACCOUNT) { Some(self.account()?) } else { None };
        let groups = self.groups()?;
        Some(OrdersView {
            run,
            attempt,
            sequence,
            token,
            log_bytes_max,
            grace_ms,
            drain_grace_ms,
            leftovers,
            has_secrets: has(FLAG_SECRETS),
            crash_at,
            receipt_dir,
            log_dir,
            log_artifact,
            cwd,
            argv,
            env,
            redact,
            groups,
            account,
            nice,
            oom_score_adj,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn orders() -> Orders {
        Orders {
            run: RunId(Uuid::from_bytes([1; 16])),
            attempt: AttemptId(Uuid::from_bytes([2; 16])),
            sequence: 1,
            token: [3; 32],
            receipt_dir: "/state/receipts/aa".into(),
            log_dir: "/logs/bb".into(),
            log_artifact: "local-x".into(),
            log_bytes_max: 4,
            argv: vec!["/bin/echo".into(), String::new(), "a b\n'\"".into()],
            env: vec![("A".into(), "x=y\n".into()), ("B".into(), String::new())],
            cwd: None,
            grace_ms: 5,
            drain_grace_ms: 6,
            leftovers: Leftovers::Keep,
            has_secrets: true,
            redact: vec![(0, "secret.a".into())],
            confined: Confined {
                groups: plans(),
                account: Some((33, u32::MAX - 1, vec![5, 6])),
                nice: Some(-7),
                oom_score_adj: None,
            },
        }
    }

    fn plans() -> Vec<Plan> {
        let requires = crate::model::confinement::Requires { memory_bytes: Some(4096), ..Default::default() };
        crate::process::cgroup::Groups::sample().plan(AttemptId(Uuid::from_bytes([2; 16])), &requires)
    }

    #[test]
    fn orders_come_back_as_they_were_given() {
        let manner = Manner { dumpable: true, crash_at: "x" };
        let packed = pack(&orders(), manner).ok().unwrap();
        assert_eq!(packed.len(), packed.capacity(), "counted exactly, so that it never grew");
        let (header, body) = packed.split_first_chunk().unwrap();
        assert_eq!(unpack_header(*header), Some((true, body.len())));
        let view = unpack(body).ok().unwrap();
        assert_eq!((view.run, view.attempt, view.sequence), (orders().run, orders().attempt, 1));
        assert_eq!((view.token, view.log_bytes_max), ([3; 32], 4));
        assert_eq!((view.grace_ms, view.drain_grace_ms, view.leftovers), (5, 6, Leftovers::Keep));
        assert_eq!((view.receipt_dir, view.log_dir), (Path::new("/state/receipts/aa"), Path::new("/logs/bb")));
        assert_eq!((view.log_artifact, view.cwd, view.crash_at), (c"local-x", c"/", c"x"));
        assert_eq!(view.argv, [c"/bin/echo", c"", c"a b\n'\""]);
        assert_eq!(view.env, [c"A=x=y\n", c"B="]);
        assert!(view.has_secrets);
        assert_eq!(view.redact, [(&b"x=y\n"[..], c"secret.a")]);
        assert_eq!((view.nice, view.oom_score_adj), (Some(-7), None));
        assert_eq!(view.account, Some((33, u32::MAX - 1, vec![5, 6])));
        let [group] = &view.groups[..] else { panic!("one") };
        let [plan] = &plans()[..] else { panic!("one") };
        assert_eq!((group.folder, group.oom), (&*plan.folder, plan.oom));
        let settings = group.settings.iter().map(|(file, value)| (file.to_str().unwrap(), value.to_str().unwrap()));
        let told = plan.settings.iter().map(|setting| (&*setting.file, setting.value.as_str()));
        assert!(settings.eq(told) && !plan.settings.is_empty());
    }

    #[test]
    fn a_nul_no_program_and_too_many_bytes_are_refused() {
        let errno = |orders: &Orders| pack(orders, Manner::default()).err().unwrap().errno;
        let mut nul = orders();
        nul.argv.push("a\0b".into());
        assert_eq!(errno(&nul), libc::EINVAL);
        let mut none = orders();
        none.argv.clear();
        assert_eq!(errno(&none), libc::EINVAL);
        let mut large = orders();
        large.argv.push("x".repeat(limits::ORDERS_BYTES_MAX));
        assert_eq!(errno(&large), libc::E2BIG);
    }

    proptest! {
        #[test]
        fn cut_or_changed_orders_never_break_the_reader(cut in 0usize..600, at in 0usize..600, to in any::<u8>()) {
            let packed = pack(&orders(), Manner::default()).ok().unwrap();
            let mut body = packed[HEADER_BYTES..].to_vec();
            let at = at % body.len();
            body[at] = to;
            body.truncate(body.len() - cut % body.len());
            let _ = unpack(&body);
        }
    }
}
