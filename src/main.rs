//! The program: the hidden `shim` command, and everything else by the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Looked at first: a shim must not carry what the rest of the program would set up.
    if std::env::args_os().nth(1).is_some_and(|command| command == "shim") {
        qinglet::process::shim::main();
    }
    ExitCode::from(qinglet::cli::main(std::env::args_os().skip(1)) as u8)
}
