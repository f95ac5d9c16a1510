//! What a shim is told over its pipe: never by argv, environment or file (design D4).
//!
//! A header without secrets comes first, so that the shim can make itself undumpable before it reads
//! the rest. Integers are little-endian. Texts carry their length and end in NUL, so that they can be
//! handed to exec where they lie. Both sides are the same binary; the version only guards against mistakes.

use super::step::{LaunchFailure, LaunchStep};
use crate::model::command::Leftovers;
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::limits;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 4] = *b"QLO3";
/// Bytes of the header: magic, flags, length of the body.
pub(super) const HEADER_BYTES: usize = 12;
const FLAG_DUMPABLE: u32 = 1;
const FLAG_KEEP: u64 = 1;
const FLAG_SECRETS: u64 = 2;

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
    let flags = keep | if orders.has_secrets { FLAG_SECRETS } else { 0 };
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

/// Counted first, so that no half of a secret is left behind by a growing buffer.
fn packed_len(orders: &Orders, manner: Manner<'_>) -> usize {
    const NUMBERS: usize = 16 + 16 + 8 + 32 + 4 * 8 + 3 * 4;
    const AROUND: usize = 5;
    let dirs = orders.receipt_dir.as_os_str().len() + orders.log_dir.as_os_str().len();
    let fixed = manner.crash_at.len() + dirs + orders.log_artifact.len() + orders.cwd.as_ref().map_or(1, String::len);
    let args = orders.argv.iter().map(|arg| arg.len() + AROUND);
    let env = orders.env.iter().map(|(name, value)| name.len() + 1 + value.len() + AROUND);
    let redact = orders.redact.iter().map(|(_, name)| name.len() + 4 + AROUND);
    NUMBERS + fixed + 5 * AROUND + args.sum::<usize>() + env.sum::<usize>() + redact.sum::<usize>()
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

    fn flags(&mut self) -> Option<(Leftovers, bool)> {
        let flags = self.number().filter(|flags| flags & !(FLAG_KEEP | FLAG_SECRETS) == 0)?;
        let leftovers = if flags & FLAG_KEEP == 0 { Leftovers::Kill } else { Leftovers::Keep };
        Some((leftovers, flags & FLAG_SECRETS != 0))
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
        let (leftovers, has_secrets) = self.flags()?;
        let (crash_at, receipt_dir, log_dir) = (self.text()?, self.path()?, self.path()?);
        let (log_artifact, cwd) = (self.text()?, self.text()?);
        let (argv, env) = (self.texts()?, self.texts()?);
        let redact = self.redact(&env)?;
        Some(OrdersView {
            run,
            attempt,
            sequence,
            token,
            log_bytes_max,
            grace_ms,
            drain_grace_ms,
            leftovers,
            has_secrets,
            crash_at,
            receipt_dir,
            log_dir,
            log_artifact,
            cwd,
            argv,
            env,
            redact,
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
        }
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
        fn cut_or_changed_orders_never_break_the_reader(cut in 0usize..200, at in 0usize..200, to in any::<u8>()) {
            let packed = pack(&orders(), Manner::default()).ok().unwrap();
            let mut body = packed[HEADER_BYTES..].to_vec();
            let at = at % body.len();
            body[at] = to;
            body.truncate(body.len() - cut % body.len());
            let _ = unpack(&body);
        }
    }
}
