//! The program: hands its arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(qinglet::cli::main(std::env::args_os().skip(1)) as u8)
}
