//! What the commands that record take.

mod pt;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use spanwise_capture::{CallsBy, ClockOf, RecordPolicy};

pub(crate) use pt::PtArgs;

use super::shared::{bytes, choice};
use super::{FileFormat, OutputArgs, TopArgs, ending};

/// Run a program, record it, and report where its time went
#[derive(Debug, Args)]
#[command(after_help = "\
Samples the stacks of all threads and child processes, and records when threads wait and why.
The program is not changed and needs no preparation. Its output stays its own: the report goes
to standard error, and the exit status is the program's (128 + the signal's number if a signal
ended it), or 2 if nothing could be recorded; `spanwise doctor` explains why. Ctrl-C reaches the
program as usual; a second one ends the recording alone.

Examples:
  spanwise run -- ./server --port 8080
  spanwise run -o flame.svg -- python train.py
  spanwise run -o trace.perfetto-trace -- python train.py
  spanwise run --trigger handle_request --duration-thresh 50ms -- ./server
  spanwise run --calls 'parse_*' --calls 'Cache::*' -- ./server
  spanwise run --torch -- python train.py
  spanwise run -o night.spanwise-recording -- make -j8
  spanwise report night.spanwise-recording")]
pub(crate) struct RunArgs {
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Run PyTorch's profiler in the program as well: operators and GPU kernels join the
    /// recording, on the same clock
    #[arg(long, conflicts_with = "backend")]
    pub(crate) torch: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) flight: FlightArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Record running processes, until Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = "\
Records all their threads, and the threads and processes that they start from then on. The
processes are not stopped and not changed, even if spanwise is killed. When they end, the
recording ends.

Examples:
  spanwise attach -p 1234 --duration 10s
  spanwise attach -p \"$(pgrep worker)\" --output workers.pb.gz
  spanwise attach -p $(head -1 postmaster.pid) --children
  spanwise attach -p 1234 --snapshot-size 32M --trigger-signal USR1 --multi-snapshot")]
pub(crate) struct AttachArgs {
    /// The process IDs, separated by commas or spaces; without any, one can be chosen on a terminal
    #[arg(long, short, value_name = "PID", num_args = 1.., value_parser = pids)]
    pub(crate) pid: Vec<Pids>,
    /// Record their running child processes as well, such as the workers of a server
    #[arg(long)]
    pub(crate) children: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) flight: FlightArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Show what processes do now, again and again, until Ctrl-C
///
/// Which threads run and what the others wait for, and which functions take the time, of C,
/// Rust or Python. Nothing is kept. With --session: which spans a program records about itself,
/// from the file that it writes, and nothing else is looked at.
/// Where the output is no terminal, it is shown once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise top -p 1234
  spanwise top -p 1234 --view
  spanwise top --session profiling_results/my_run.spanwise-session")]
pub(crate) struct LiveArgs {
    /// The process IDs, separated by commas or spaces
    #[arg(long, short, value_name = "PID", num_args = 1.., value_parser = pids)]
    #[arg(required_unless_present = "session", conflicts_with = "session")]
    pub(crate) pid: Vec<Pids>,
    /// A session that a program writes with spanwise-probe or spanwise.profiling; also one that
    /// has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) session: Option<PathBuf>,
    /// How long each look takes, such as 5s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(crate) interval: Duration,
    /// Show it once
    #[arg(long, conflicts_with = "looks")]
    pub(crate) once: bool,
    /// How often to look; 0 for until the process or the session ends
    #[arg(long, value_name = "N")]
    pub(crate) looks: Option<u64>,
    /// Samples a second of each running thread
    #[arg(long, value_name = "HZ", default_value_t = 199, conflicts_with = "session")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// Whether to show functions of Python, as for `attach`
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = PythonArg::Auto)]
    #[arg(conflicts_with = "session")]
    pub(crate) python: PythonArg,
    /// Show each look in the browser, on a timeline, instead of here
    #[arg(long, conflicts_with_all = ["session", "once", "looks", "top", "format", "color"])]
    pub(crate) view: bool,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl LiveArgs {
    /// How often to show the state; `None` for no limit.
    pub(crate) fn updates_max(&self, is_terminal: bool) -> Option<u64> {
        match self.looks {
            Some(0) => None,
            Some(looks) => Some(looks),
            None if self.once || !is_terminal => Some(1),
            None => None,
        }
    }
}

/// How to record.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Stop recording after this time, such as 10s or 500ms; a number alone is seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Samples per second of each running thread, up to 10000
    #[arg(long, value_name = "HZ", default_value_t = 299, help_heading = SAMPLES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// The clock that takes samples: of CPUs (less expensive where threads switch often; needs
    /// root), of threads, or auto: of CPUs where that is allowed
    #[arg(long, value_name = "WHOSE", value_parser = choice(&ClockOf::NAMES, &[]))]
    #[arg(default_value = "auto", help_heading = SAMPLES)]
    pub(crate) clock: ClockOf,
    /// How to unwind: fp (frame pointers: small recordings), dwarf (unwind tables, with a copy of
    /// each stack: complete stacks, some 5 MB per second of each busy CPU), or auto: dwarf on
    /// x86-64
    #[arg(long, value_enum, value_name = "HOW", default_value_t = StacksArg::Auto)]
    #[arg(help_heading = SAMPLES)]
    pub(crate) stacks: StacksArg,
    /// Bytes of each stack to copy for dwarf [default: 16384]
    #[arg(long, value_name = "BYTES", help_heading = SAMPLES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..=65_528))]
    pub(crate) stack_bytes: Option<u32>,
    /// Record Python functions (CPython 3.8 to 3.15): in programs named python or using
    /// libpython (auto), in every file that looks like an interpreter (on), or not (off)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = PythonArg::Auto)]
    #[arg(help_heading = SAMPLES)]
    pub(crate) python: PythonArg,
    /// Python stacks read per second
    #[arg(long, value_name = "HZ", default_value_t = 100, help_heading = SAMPLES)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) python_rate: u32,
    /// Record when threads leave their CPU and return: always, never, or auto: except while
    /// there are so many switches that recording them would slow the program down
    #[arg(long, value_name = "WHEN", value_parser = choice(&RecordPolicy::NAMES, &[]))]
    #[arg(default_value = "auto", help_heading = WAITS)]
    pub(crate) switches: RecordPolicy,
    /// Record the stacks of waiting threads, which give the reason of a wait: always, never, or
    /// auto: where the kernel allows it
    #[arg(long, value_name = "WHEN", value_parser = choice(&RecordPolicy::NAMES, &[]))]
    #[arg(default_value = "auto", help_heading = WAITS)]
    pub(crate) wait_stacks: RecordPolicy,
    /// Record the stack of every wait of at least this long; of shorter waits a share, with
    /// weights
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    #[arg(help_heading = WAITS)]
    pub(crate) wait_threshold: Duration,
    /// Record every call of the functions that match this pattern (`*`: any text, `?`: one
    /// character); repeatable
    #[arg(long, value_name = "PATTERN", help_heading = CALLS)]
    pub(crate) calls: Vec<String>,
    /// … except those that match this pattern; repeatable
    #[arg(long, value_name = "PATTERN", requires = "calls", help_heading = CALLS)]
    pub(crate) exclude: Vec<String>,
    /// Record calls with BPF, with uprobes (older kernels, a few functions only), or auto: BPF
    /// where it is available
    #[arg(long, value_name = "HOW", requires = "calls", help_heading = CALLS)]
    #[arg(value_parser = choice(&CallsBy::NAMES, &[]), default_value = "auto")]
    pub(crate) calls_by: CallsBy,
    /// CPU time that recording calls may cost, in percent of the program's own; above it, calls
    /// of the most expensive functions are counted instead, and finally not watched
    #[arg(long, value_name = "PERCENT", requires = "calls", default_value_t = 5.0)]
    #[arg(value_parser = percent, help_heading = CALLS)]
    pub(crate) calls_budget: f64,
    /// Count calls and sum their durations in the kernel, instead of recording each
    #[arg(long, requires = "calls", help_heading = CALLS)]
    pub(crate) aggregate: bool,
    /// Record every branch of this function by single-stepping: tens of thousands of times
    /// slower; other threads run on
    #[arg(long, alias = "step", value_name = "FUNCTION", conflicts_with = "calls")]
    #[arg(help_heading = SINGLE_STEP)]
    pub(crate) single_step: Option<String>,
    /// Calls of it to record; calls within a call are part of it
    #[arg(long, value_name = "COUNT", requires = "single_step", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..), help_heading = SINGLE_STEP)]
    pub(crate) step_calls: u32,
    /// Most instructions per call
    #[arg(long, value_name = "COUNT", requires = "single_step", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..), help_heading = SINGLE_STEP)]
    pub(crate) step_instructions: u64,
    /// Longest time per call
    #[arg(long, value_name = "TIME", requires = "single_step", default_value = "10s")]
    #[arg(value_parser = duration, help_heading = SINGLE_STEP)]
    pub(crate) step_time: Duration,
    #[command(flatten)]
    pub(crate) pt: PtArgs,
}

// Headings of the help: what people use every day comes before them.
const SAMPLES: &str = "Samples";
const WAITS: &str = "Waits";
const CALLS: &str = "Calls of functions";
const SNAPSHOTS: &str = "Snapshots: keep the last moments in memory, save them at a trigger";
const SINGLE_STEP: &str = "Single-stepping";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PythonArg {
    Auto,
    On,
    Off,
}

/// When the last moments are kept, and saved at a trigger.
#[derive(Debug, Args)]
pub(crate) struct FlightArgs {
    /// Memory for the last moments; saved at Ctrl-C, at the end of the program, at SIGUSR1 or
    /// SIGUSR2 to spanwise, or at a trigger below [default with a trigger: 64M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) snapshot_size: Option<usize>,
    /// Save when a thread calls this function, reaches this FILE:LINE or this 0xADDRESS; `.`
    /// stands for the function that programs call to ask for a snapshot (see spanwise.h)
    #[arg(long, value_name = "FUNCTION")]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) trigger: Option<String>,
    /// … only if the call took at least this long
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trigger")]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) duration_thresh: Option<Duration>,
    /// … only if the thread's previous call was at least this long ago
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trigger")]
    #[arg(conflicts_with = "duration_thresh")]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) delay_thresh: Option<Duration>,
    /// Save when the program raises this signal, such as USR1
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) trigger_signal: Option<i32>,
    /// Save when a thread has been off its CPU for at least this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) trigger_off_cpu: Option<Duration>,
    /// Save once, this long after the start
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) after: Option<Duration>,
    /// Save again and again, this long apart
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "output")]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) every: Option<Duration>,
    /// Continue after a snapshot: each trigger saves another
    #[arg(long, conflicts_with = "output")]
    #[arg(help_heading = SNAPSHOTS)]
    pub(crate) multi_snapshot: bool,
}

impl FlightArgs {
    /// True where a snapshot is wanted, and not the whole recording.
    pub(crate) fn is_asked(&self) -> bool {
        self.snapshot_size.is_some()
            || self.trigger.is_some()
            || self.trigger_signal.is_some()
            || self.trigger_off_cpu.is_some()
            || self.after.is_some()
            || self.every.is_some()
            || self.multi_snapshot
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StacksArg {
    Auto,
    Fp,
    Dwarf,
}

/// What becomes of the recording.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Write to this file instead of reporting: a trace, a profile, a flame graph or a page, as
    /// `convert` does; NAME.spanwise-recording is the recording itself
    #[arg(long, short, value_name = "FILE", conflicts_with = "top")]
    pub(crate) output: Option<PathBuf>,
    /// The format, if the ending does not say it
    #[arg(long, value_name = "FORMAT", requires = "output", value_parser = FileFormat::parser())]
    pub(crate) to: Option<FileFormat>,
    /// The folder to record to [default: the first free NAME.spanwise-recording]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) recording: Option<PathBuf>,
    /// Record only; `spanwise report` reads the folder later
    #[arg(long, conflicts_with_all = ["output", "top"])]
    pub(crate) no_decode: bool,
    /// Show the recording in the browser when it ends, as `spanwise view` does
    #[arg(long, conflicts_with_all = ["output", "no_decode", "top"])]
    pub(crate) view: bool,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    /// Keep the program's arguments in the recording; they may contain passwords
    #[arg(long)]
    pub(crate) with_arguments: bool,
    /// No progress bar, and no messages about the recording
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl ResultArgs {
    /// The folder to record to, where one is named.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.recording.as_deref().or_else(|| self.output_recording())
    }

    /// The output, where it is to be the recording itself.
    pub(crate) fn output_recording(&self) -> Option<&Path> {
        let output = self.output.as_deref().filter(|_| self.to.is_none())?;
        (ending(output) == "spanwise-recording").then_some(output)
    }

    pub(crate) fn is_only_recorded(&self) -> bool {
        self.no_decode || self.output_recording().is_some()
    }
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

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or("write a number above 0, such as 5 or 0.5".into())
}

/// A length of time; a number alone counts seconds, as for `sleep` and `timeout`.
fn duration(text: &str) -> Result<Duration, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let with_unit = if is_number { format!("{text}s") } else { text.to_owned() };
    let length = spanwise_report::parse_duration(&with_unit)
        .and_then(|ns| u64::try_from(ns).ok())
        .filter(|&ns| ns > 0);
    length
        .map(Duration::from_nanos)
        .ok_or("write a number of seconds, or a number and its unit: ns, us, ms or s".into())
}

/// Process IDs in one argument: what `pgrep` prints, one per line, is one as well.
#[derive(Debug, Clone)]
pub(crate) struct Pids(Vec<i32>);

/// All process IDs of several arguments.
pub(crate) fn all_pids(arguments: &[Pids]) -> Vec<i32> {
    arguments.iter().flat_map(|pids| &pids.0).copied().collect()
}

fn pids(text: &str) -> Result<Pids, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let pid = |word: &str| {
        let number = word.parse::<i32>().ok().filter(|&pid| pid > 0);
        number.ok_or_else(|| format!("not a process ID: {word}"))
    };
    let pids: Vec<i32> = words.map(pid).collect::<Result<_, _>>()?;
    match pids.is_empty() {
        true => Err("no process ID in it: is such a process running?".to_owned()),
        false => Ok(Pids(pids)),
    }
}

/// A number of bytes that fits into memory.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).filter(|&bytes| bytes <= 16 << 30);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or("write a number of bytes, or with K, M or G behind it, up to 16G".to_owned())
}

/// A signal by its name, with or without SIG, or by its number.
fn signal(text: &str) -> Result<i32, String> {
    const NAMES: [(&str, i32); 14] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ABRT", 6),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("CHLD", 17),
        ("CONT", 18),
        ("STOP", 19),
    ];
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let named = NAMES.iter().find(|row| row.0 == name).map(|row| row.1);
    let number = || name.parse().ok().filter(|number| (1..=64).contains(number));
    named.or_else(number).ok_or("write a name such as USR1, or a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let check = |text, expected| assert_eq!(size(text).ok(), expected, "{text}");
        check("4096", Some(4096));
        check("2K", Some(2048));
        check("32M", Some(32 << 20));
        check("16G", Some(16 << 30));
        check("17G", None);
        check("0", None);
        check("1KM", None);
        check("M", None);
        check("99999999999999999999G", None);
    }

    #[test]
    fn durations_are_read() {
        let check = |text, ms: Option<u64>| {
            assert_eq!(duration(text).ok(), ms.map(Duration::from_millis), "{text}");
        };
        check("30", Some(30_000));
        check("0.5", Some(500));
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("0", None);
        check("-1", None);
        check("", None);
        check("10 minutes", None);
    }

    #[test]
    fn process_ids_are_read() {
        let check = |text, expected: Option<&[i32]>| {
            assert_eq!(pids(text).ok().map(|pids| pids.0).as_deref(), expected, "{text}");
        };
        check("12", Some(&[12]));
        check("12,34", Some(&[12, 34]));
        check("12\n34\n", Some(&[12, 34]));
        check("12, 34 56", Some(&[12, 34, 56]));
        check("", None);
        check("0", None);
        check("12 nginx", None);
    }

    #[test]
    fn signals_are_read() {
        let check = |text, expected| assert_eq!(signal(text).ok(), expected, "{text}");
        check("USR1", Some(10));
        check("SIGSEGV", Some(11));
        check("40", Some(40));
        check("65", None);
        check("usr1", None);
    }
}
