//! What the commands that record take.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ConvertFormatArg, OutputArgs, TopArgs, length};

/// Run a program, record it, and say where its time went
///
/// The stacks of all its threads, and of the programs that it starts, are sampled by a clock
/// while they run; when a thread waits and when it goes on is recorded to the nanosecond.
/// The program is not changed and needs no preparation. What it prints is its own: the report
/// goes to standard error, and the exit status is the program's (128 and the signal's number
/// where a signal ended it).
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C reaches the program, as without spanwise, and the report comes when it has ended; a
second one ends the recording alone. The exit status is 2 where nothing could be recorded;
`spanwise doctor` says why.

Examples:
  spanwise run -- ./server --port 8080
  spanwise run --output trace.perfetto-trace -- python train.py
  spanwise run --no-decode --recording night.spanwise-recording -- make -j8
  spanwise report night.spanwise-recording")]
pub(crate) struct RunArgs {
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Record processes that run already, until Ctrl-C
///
/// All their threads, and the threads and programs that these start. The processes are not
/// stopped and not changed, also if spanwise is killed; when they end, the recording ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise attach -p 1234 --duration 10s
  spanwise attach -p $(pgrep -d, worker) --output workers.pb.gz")]
pub(crate) struct AttachArgs {
    /// The numbers of the processes
    #[arg(long, short, value_name = "PID", required = true, value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// How to record.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Samples a second of each running thread, at most 10000: beyond that a machine with an
    /// emulated clock does nothing else
    #[arg(long, value_name = "HZ", default_value_t = 997)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How stacks are found
    #[arg(long, value_enum, value_name = "HOW", default_value_t = StacksArg::Auto)]
    pub(crate) stacks: StacksArg,
    /// How much of each stack is copied where unwinding tables are used [default: 16384]
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..=65_528))]
    pub(crate) stack_bytes: Option<u32>,
    /// End the recording after this time, such as 10s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StacksArg {
    /// By unwinding tables where the processor is an x86-64, else by frame pointers
    Auto,
    /// By frame pointers: small recordings, and short stacks of code that has none
    Fp,
    /// By unwinding tables, from a copy of each stack: whole stacks of any code, and some
    /// 16 MB a second of each busy processor
    Dwarf,
}

/// What becomes of the recording.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The folder to record to [default: NAME.spanwise-recording, where there is none yet]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) recording: Option<PathBuf>,
    /// Write it as a trace or a profile, instead of the report: formats and endings are
    /// those of `convert`
    #[arg(long, short, value_name = "FILE", conflicts_with = "top")]
    pub(crate) output: Option<PathBuf>,
    /// The format, where the ending of the output does not tell
    #[arg(long, value_enum, value_name = "FORMAT", requires = "output")]
    pub(crate) to: Option<ConvertFormatArg>,
    /// Only record; `spanwise report` reads the folder later
    #[arg(long, conflicts_with_all = ["output", "top"])]
    pub(crate) no_decode: bool,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    /// No progress bar, and nothing about the recording itself
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Say what can be recorded on this machine, and what to do about the rest
///
/// Every ability is tried, not guessed from settings. The exit status is 1 where programs
/// cannot be sampled at all.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  spanwise doctor")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn duration(text: &str) -> Result<Duration, String> {
    let length = length(text).and_then(|ns| u64::try_from(ns).ok()).filter(|&ns| ns > 0);
    length.map(Duration::from_nanos).ok_or("write a number and its unit: ns, us, ms or s".into())
}
