//! The steps of a launch and how each failure is told, in words that carry no path and no command.

use std::fmt;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal,)*) => {
        /// Where a launch failed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum LaunchStep {
            $($(#[$doc])* $name = $code,)*
        }

        impl LaunchStep {
            /// Every step.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word kept in receipts and shown to scripts.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

steps! {
    /// Too many launches wait already.
    Busy = 1 "busy",
    /// The launcher was stopped before this launch.
    Stopped = 2 "stopped",
    /// A pipe could not be made.
    Pipe = 3 "pipe",
    /// The shim could not be forked.
    Fork = 4 "fork",
    /// The shim's descriptors could not be arranged.
    Descriptors = 5 "descriptors",
    /// This very binary could not be executed as the shim.
    ExecShim = 6 "exec_shim",
    /// The orders could not be handed over, or were not understood.
    Orders = 7 "orders",
    /// The shim did not report in time.
    Timeout = 8 "timeout",
    /// The shim ended without a report.
    Died = 9 "died",
    /// The held shim's identity could not be proven.
    Identity = 10 "identity",
    /// The shim could not set itself up: session, subreaper, signals.
    Session = 11 "session",
    /// The log could not be opened, or is not the private file it should be.
    Log = 12 "log",
    /// The receipt's place could not be reserved.
    Receipt = 13 "receipt",
    /// The user's process could not be forked.
    ForkUser = 14 "fork_user",
    /// The user's process could not set itself up: group, descriptors, parent.
    User = 15 "user",
    /// The working directory cannot be entered.
    Directory = 16 "cwd",
    /// The program cannot be reached.
    Program = 17 "program",
    /// The program is not a regular file.
    ProgramKind = 18 "program_kind",
    /// The program has no execute bit, or not for this user.
    ProgramMode = 19 "program_mode",
    /// The program's file system forbids execution.
    ProgramMount = 20 "program_mount",
    /// The program's interpreter or loader cannot be reached.
    Interpreter = 21 "interpreter",
    /// The program's interpreter or loader cannot be executed.
    InterpreterMode = 22 "interpreter_mode",
    /// exec failed although everything was checked before: a race, or a format nobody knows.
    Exec = 23 "exec",
    /// The group that limits it could not be made, or does not let it in.
    Limits = 24 "limits",
    /// Its user, or the user's groups, could not be taken on.
    Account = 25 "account",
    /// Its nice value was refused.
    Priority = 26 "priority",
    /// Its weight for the out-of-memory killer was refused.
    OomScore = 27 "oom_score",
}

impl LaunchStep {
    /// The step with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| *step as u8 == code)
    }

    /// The step with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.word() == word)
    }
}

/// Why a launch failed. Nothing of the user's ran, unless the step is [`LaunchStep::Exec`], when
/// nothing of the user's ran either but the release had been given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchFailure {
    /// Where.
    pub step: LaunchStep,
    /// The system's own number for why; 0 when there is none.
    pub errno: i32,
}

impl LaunchFailure {
    /// A failure at `step` with the number an I/O error carries.
    pub fn of(step: LaunchStep, error: &std::io::Error) -> Self {
        Self { step, errno: error.raw_os_error().unwrap_or(0) }
    }

    /// The code the user's process would have had in a shell: 127 not found, 126 not executable.
    pub const fn exit_code(&self) -> i32 {
        if self.errno == libc::ENOENT { 127 } else { 126 }
    }
}

impl fmt::Display for LaunchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absent = matches!(self.errno, libc::ENOENT | libc::ENOTDIR);
        let denied = matches!(self.errno, libc::EACCES | libc::EPERM);
        let said = match self.step {
            LaunchStep::Busy => "too many launches are waiting; try again later",
            LaunchStep::Stopped => "the daemon is stopping",
            LaunchStep::Timeout => "the launch took too long",
            LaunchStep::Died => "the supervisor ended before it was ready",
            LaunchStep::Identity => "the supervisor's identity could not be proven",
            LaunchStep::Directory if self.errno == libc::ENOTDIR => "the working directory is not a directory",
            LaunchStep::Directory if absent => "the working directory does not exist",
            LaunchStep::Directory if denied => "permission denied on the working directory",
            LaunchStep::Program if absent => "the program does not exist",
            LaunchStep::Program if denied => "permission denied on the way to the program",
            LaunchStep::ProgramKind => "the program is not a regular file",
            LaunchStep::ProgramMode if self.errno == libc::ENOEXEC => {
                "the program is not executable; give it an execute bit"
            }
            LaunchStep::ProgramMode => "permission denied: the program may not be executed by this user",
            LaunchStep::ProgramMount => "the program is on a file system mounted noexec",
            LaunchStep::Interpreter if absent => "the program's interpreter does not exist",
            LaunchStep::Interpreter if denied => "permission denied on the way to the program's interpreter",
            LaunchStep::InterpreterMode => "the program's interpreter is not executable",
            LaunchStep::Exec if absent => "the program or its interpreter vanished before it could be executed",
            LaunchStep::Exec if denied => "permission denied when the program was executed",
            LaunchStep::Exec if self.errno == libc::ENOEXEC => {
                "the program is neither a script with `#!` nor a binary for this machine"
            }
            LaunchStep::Receipt if self.errno == libc::ENOSPC => {
                "no space for the receipt; free some in the state folder"
            }
            LaunchStep::Log if self.errno == libc::ENOSPC => "no space for the log; free some on the log file system",
            LaunchStep::Limits if self.errno == libc::ENOMEM => {
                "its memory limit is too low: it was killed before its program began"
            }
            LaunchStep::Limits => return self.with_errno(f, "its limits could not be set"),
            LaunchStep::Account => return self.with_errno(f, "its user could not be taken on"),
            LaunchStep::Priority => return self.with_errno(f, "its nice value was refused"),
            LaunchStep::OomScore => return self.with_errno(f, "its oomScoreAdj was refused"),
            LaunchStep::Pipe => return self.with_errno(f, "a pipe could not be made"),
            LaunchStep::Fork | LaunchStep::ForkUser => return self.with_errno(f, "a process could not be created"),
            LaunchStep::Descriptors => return self.with_errno(f, "descriptors could not be arranged"),
            LaunchStep::ExecShim => return self.with_errno(f, "the supervisor could not be executed"),
            LaunchStep::Orders => return self.with_errno(f, "the orders could not be handed over"),
            LaunchStep::Session => return self.with_errno(f, "the supervisor could not set itself up"),
            LaunchStep::Log => return self.with_errno(f, "the log could not be opened"),
            LaunchStep::Receipt => return self.with_errno(f, "the receipt's place could not be reserved"),
            LaunchStep::User => return self.with_errno(f, "the process could not be set up"),
            LaunchStep::Directory => return self.with_errno(f, "the working directory cannot be entered"),
            LaunchStep::Program => return self.with_errno(f, "the program cannot be reached"),
            LaunchStep::Interpreter => return self.with_errno(f, "the program's interpreter cannot be used"),
            LaunchStep::Exec => return self.with_errno(f, "the program could not be executed"),
        };
        f.write_str(said)
    }
}

impl LaunchFailure {
    fn with_errno(self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        if self.errno == 0 {
            return f.write_str(what);
        }
        write!(f, "{what}: {}", std::io::Error::from_raw_os_error(self.errno))
    }
}

/// Bytes of a [`report`].
pub(super) const REPORT_BYTES: usize = 6;

/// A report over a pipe, small enough to arrive in one piece: ready, or where it failed.
pub(super) fn report(result: Result<(), LaunchFailure>) -> [u8; REPORT_BYTES] {
    let (ok, step, errno) = match result {
        Ok(()) => (1, 0, 0),
        Err(failure) => (0, failure.step as u8, failure.errno),
    };
    let [a, b, c, d] = errno.to_le_bytes();
    [ok, step, a, b, c, d]
}

/// Reads a [`report`]; `None` when it is not one.
pub(super) fn read_report(bytes: [u8; REPORT_BYTES]) -> Option<Result<(), LaunchFailure>> {
    let [ok, step, a, b, c, d] = bytes;
    let errno = i32::from_le_bytes([a, b, c, d]);
    match ok {
        1 if step == 0 && errno == 0 => Some(Ok(())),
        0 => Some(Err(LaunchFailure { step: LaunchStep::from_code(step)?, errno })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_codes_and_words_of_their_own() {
        for &step in LaunchStep::ALL {
            assert_eq!(LaunchStep::from_code(step as u8), Some(step));
            assert_eq!(LaunchStep::from_word(step.word()), Some(step));
        }
        assert_eq!(LaunchStep::from_code(0), None);
        assert_eq!(LaunchStep::from_word(""), None);
    }

    #[test]
    fn reports_come_back_as_they_were_sent_and_garbage_is_refused() {
        assert_eq!(read_report(report(Ok(()))), Some(Ok(())));
        let failure = LaunchFailure { step: LaunchStep::Directory, errno: libc::ENOENT };
        assert_eq!(read_report(report(Err(failure))), Some(Err(failure)));
        for wrong in [[0; 6], [1, 1, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [0, 200, 0, 0, 0, 0]] {
            assert_eq!(read_report(wrong), None, "{wrong:?}");
        }
    }
}
