//! What can be asked on the command line.
//!
//! Each option stands only on the commands where it changes something, so that
//! none is accepted and ignored.

mod calls;
mod compare;
mod correlate;
mod info;
mod profiles;
mod query;
mod record;
mod report;
mod shared;
mod view;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use calls::{CALLS, CallsArgs, PrintArg};
pub(crate) use compare::{CompareArgs, CompareByArg, PerArg};
pub(crate) use correlate::CorrelateArgs;
pub(crate) use info::InfoArgs;
pub(crate) use profiles::{ConvertArgs, FileFormat, PageArgs, ProfileArgs, ending};
pub(crate) use query::QueryArgs;
pub(crate) use record::{
    AttachArgs, DoctorArgs, FlightArgs, LiveArgs, PtArgs, PythonArg, ResultArgs, RunArgs,
    SamplingArgs, StacksArg, all_pids, size,
};
pub(crate) use report::ReportArgs;
pub(crate) use shared::{ColorArg, OutputArgs, ReadArgs, TopArgs};
pub(crate) use view::ViewArgs;

/// Where did the time go, and why?
///
/// spanwise records programs, reads traces of them, such as those of the PyTorch
/// profiler, and says where the time went: on the GPU, on each thread, in each
/// function, and which line of Python launched what.
#[derive(Debug, Parser)]
#[command(version, name = "spanwise", max_term_width = 100, propagate_version = false)]
#[command(after_help = "\
Exit status: 0 fine, 1 the answer is no (a failed verification), 2 an error; of `run`, the
program's.

Examples:
  spanwise run -- ./program
  spanwise report trace.json.gz
  spanwise view trace.json.gz
  spanwise compare before.json.gz after.json.gz
  spanwise convert trace.json.gz -o flame.svg
  spanwise COMMAND --help")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Attach(AttachArgs),
    Top(LiveArgs),
    Doctor(DoctorArgs),
    Info(InfoArgs),
    Report(ReportArgs),
    View(ViewArgs),
    Query(QueryArgs),
    Compare(CompareArgs),
    Convert(ConvertArgs),
    Correlate(CorrelateArgs),
    #[command(hide = true)]
    Overhead(OverheadArgs),
    Completions(CompletionsArgs),
}

/// Show what profiling a Python program costs on this machine
///
/// Measured in the interpreter itself, with the package `spanwise` installed there: what a span
/// costs at each level of `spanwise.profiling`. `--self-check` holds each level's promise, at
/// most so many percent for spans of at least so many microseconds, against what is measured,
/// and the exit status is 1 where one does not hold.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise overhead
  spanwise overhead --self-check --python .venv/bin/python")]
pub(crate) struct OverheadArgs {
    /// Check the promises of the levels
    #[arg(long)]
    pub(crate) self_check: bool,
    /// The interpreter [default: the one beside this command, else python3]
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise completions bash > ~/.local/share/bash-completion/completions/spanwise
  spanwise completions zsh > ~/.zfunc/_spanwise")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
