//! What `spanwise decode` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{FileFormat, OutputArgs, ReadArgs, TopArgs};

/// Turn a recording of control flow into calls, and say how long they took
///
/// Reads the text of `perf script` (Intel PT branches, or stack samples) and the .fxt
/// files of magic-trace. Calls, returns, tail calls, system calls, interrupts, exceptions
/// and gaps become call stacks with times. Without --output it says which functions took
/// the time and how long each call takes; with --function how long the calls of that
/// function take, and what was different in the slowest.
#[derive(Debug, Args)]
#[command(after_help = "\
Names are whole names, or patterns in which * is any text and ? any one character.

To record and print with perf, on a machine with Intel PT:
  perf record -e intel_pt//u -- ./program
  perf script --ns --itrace=be -F pid,tid,time,flags,ip,addr,sym,symoff,dso,event > calls.txt

Examples:
  spanwise decode calls.txt
  spanwise decode --function handle_request calls.txt
  spanwise decode calls.txt -o calls.perfetto-trace
  spanwise decode --include 'engine::*' --exclude '*log*' calls.txt -o engine.fxt
  spanwise decode --filter start_cycle..end_cycle calls.txt
  spanwise decode --print magic-trace calls.txt")]
pub(crate) struct DecodeArgs {
    /// The recording; several are snapshots of one program, one after the other
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the calls, as a trace or a profile: formats and endings are those of `convert`
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["top", "format", "color"])]
    pub(crate) output: Option<PathBuf>,
    /// The format, where the ending of the output does not tell
    #[arg(long, value_name = "FORMAT", requires = "output", value_parser = FileFormat::parser())]
    pub(crate) to: Option<FileFormat>,
    /// Say how long calls of this function take, and what the slowest spent it on
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    pub(crate) function: Option<String>,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// Where the exception handlers of an OCaml program are: addresses as
    /// enter=A,push=B,pop=C, each as often as needed
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) ocaml_traps: Option<String>,
    /// The map of code that a runtime made, such as /tmp/perf-1234.map
    #[arg(long, value_name = "FILE")]
    pub(crate) perf_map: Vec<PathBuf>,
    /// Do not ask debug information which functions the compiler put into others
    #[arg(long)]
    pub(crate) no_inline: bool,
    /// Print the timeline as another tool does, line by line
    #[arg(long, value_enum, value_name = "TOOL")]
    #[arg(conflicts_with_all = ["output", "to", "function", "include", "exclude", "filter",
        "thread", "time", "top", "format", "color", "no_index", "no_inline"])]
    pub(crate) print: Option<PrintArg>,
    /// Which code was recorded, where a timeline is printed [default: user]
    #[arg(long, value_enum, value_name = "SCOPE", requires = "print")]
    pub(crate) scope: Option<ScopeArg>,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, no hints, and no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) show: OutputArgs,
}

/// Which part of the recording is wanted.
#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Only calls of these functions, and what they call
    #[arg(long, value_name = "NAME")]
    pub(crate) include: Vec<String>,
    /// No calls of these functions, nor what they call
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,
    /// Only from a call of START up to the next call of STOP
    #[arg(long, value_name = "START..STOP")]
    pub(crate) filter: Option<String>,
    /// Only this thread, by number or name
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Vec<String>,
    /// Only this stretch, from the beginning of the recording, such as 10us..2ms
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) time: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintArg {
    MagicTrace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    User,
    Kernel,
    Both,
}
