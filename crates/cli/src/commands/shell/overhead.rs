//! `spanwise overhead`: what profiling a Python program costs, measured in its interpreter.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::args::OverheadArgs;

pub(in crate::commands) fn run(args: &OverheadArgs) -> anyhow::Result<ExitCode> {
    let python = args.python.clone().unwrap_or_else(own_python);
    let mut command = Command::new(&python);
    command.args(["-m", "spanwise", "overhead"]);
    if args.self_check {
        command.arg("--self-check");
    }
    let status = command.status().with_context(|| {
        format!("{}: cannot be started; name another with --python", python.display())
    })?;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(2))),
        None => bail!("{}: ended by a signal", python.display()),
    }
}

/// The Python beside this command, as in an environment that the package is installed in; else
/// the one that the shell would find.
fn own_python() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("python3")));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("python3"))
}
