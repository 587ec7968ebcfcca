//! What the commands that record take.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::pt::PtArgs;
use super::shared::bytes;
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
  spanwise run --trigger handle_request --duration-thresh 50ms -- ./server
  spanwise run --calls 'parse_*' --calls 'Cache::*' -- ./server
  spanwise run --torch -- python train.py
  spanwise run --backend intel-pt --trigger handle_request -- ./server
  spanwise run --no-decode --recording night.spanwise-recording -- make -j8
  spanwise report night.spanwise-recording")]
pub(crate) struct RunArgs {
    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Let PyTorch's own profiler run in the program once it imports torch: its operations and
    /// the kernels of GPUs become part of the recording, on the same clock
    #[arg(long, conflicts_with = "backend")]
    pub(crate) torch: bool,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) flight: FlightArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Record processes that run already, until Ctrl-C
///
/// All their threads, and the threads and programs that these start from then on; with
/// --children also the processes that they have started before. The processes are not
/// stopped and not changed, also if spanwise is killed; when they end, the recording ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise attach -p 1234 --duration 10s
  spanwise attach -p $(head -1 postmaster.pid) --children
  spanwise attach -p 1234 --snapshot-size 32M --trigger-signal USR1 --multi-snapshot
  spanwise attach -p $(pgrep -d, worker) --output workers.pb.gz")]
pub(crate) struct AttachArgs {
    /// The numbers of the processes; without any, one can be chosen on a terminal
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Vec<i32>,
    /// Record the processes that these have started as well, such as the workers of a server
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
    /// The numbers of the processes
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(required_unless_present = "session", conflicts_with = "session")]
    pub(crate) pid: Vec<i32>,
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
    /// How many looks there are to be; `None` for as many as there can be.
    pub(crate) fn looks_max(&self, is_terminal: bool) -> Option<u64> {
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
    /// Samples a second of each running thread, at most 10000: beyond that a machine with an
    /// emulated clock does nothing else
    #[arg(long, value_name = "HZ", default_value_t = 299)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// Whose clock says when a sample is taken: that of each processor costs less where threads
    /// switch often, and interrupts other programs, too; it needs root
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = ClockArg::Auto)]
    pub(crate) clock: ClockArg,
    /// How stacks are found
    #[arg(long, value_enum, value_name = "HOW", default_value_t = StacksArg::Auto)]
    pub(crate) stacks: StacksArg,
    /// How much of each stack is copied where unwinding tables are used [default: 16384]
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..=65_528))]
    pub(crate) stack_bytes: Option<u32>,
    /// Whether to record when threads stop running and go on
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = WantedArg::Auto)]
    pub(crate) switches: WantedArg,
    /// Whether to record the stacks of threads that stop running, which say what they wait for,
    /// where one may look into the kernel
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = WantedArg::Auto)]
    pub(crate) wait_stacks: WantedArg,
    /// Waits of at least this long have their stack recorded; of shorter ones a share, which
    /// stands for all of them
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub(crate) wait_threshold: Duration,
    /// Record every call of the functions whose names fit this pattern, with its beginning and
    /// its end: `*` stands for any text, `?` for a character. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) calls: Vec<String>,
    /// … but not of those that fit this one
    #[arg(long, value_name = "PATTERN", requires = "calls")]
    pub(crate) exclude: Vec<String>,
    /// How calls are noticed: by BPF, or by uprobes, which older kernels have as well and which
    /// can watch a few functions only
    #[arg(long, value_enum, value_name = "HOW", requires = "calls")]
    #[arg(default_value_t = CallsByArg::Auto)]
    pub(crate) calls_by: CallsByArg,
    /// How much of the program's own CPU time recording calls may cost, in percent: above that,
    /// calls of the functions that cost most are counted in the kernel, and at last no longer
    /// watched
    #[arg(long, value_name = "PERCENT", requires = "calls", default_value_t = 5.0)]
    #[arg(value_parser = percent)]
    pub(crate) calls_budget: f64,
    /// Count calls in the kernel from the beginning, with how long they took, instead of recording
    /// each
    #[arg(long, requires = "calls")]
    pub(crate) aggregate: bool,
    /// Record every branch of this function, from its call to its return, one instruction at a
    /// time: tens of thousands of times slower than it is, while other threads run on
    #[arg(long, value_name = "FUNCTION", conflicts_with = "calls")]
    pub(crate) step: Option<String>,
    /// How many calls of it are recorded so; not those inside of one
    #[arg(long, value_name = "COUNT", requires = "step", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) step_calls: u32,
    /// The most instructions of one call of it
    #[arg(long, value_name = "COUNT", requires = "step", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) step_instructions: u64,
    /// The most time that one call of it may take so
    #[arg(long, value_name = "TIME", requires = "step", default_value = "10s")]
    #[arg(value_parser = duration)]
    pub(crate) step_time: Duration,
    /// Whether to record which functions of Python run: read out of the memory of interpreters,
    /// 3.8 to 3.13, without stopping them
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = PythonArg::Auto)]
    pub(crate) python: PythonArg,
    /// How often a second the stacks of Python are read
    #[arg(long, value_name = "HZ", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) python_rate: u32,
    #[command(flatten)]
    pub(crate) pt: PtArgs,
    /// End the recording after this time, such as 10s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockArg {
    /// That of processors, where one may
    Auto,
    /// Of processors: what others do is passed over in the kernel
    Processors,
    /// Of each thread, while it runs
    Threads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WantedArg {
    /// But for times in which there are so many that it would slow the program down
    Auto,
    /// However many there are
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallsByArg {
    /// BPF where it can be had, uprobes otherwise
    Auto,
    Bpf,
    Uprobes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PythonArg {
    /// Where a program is called python, or uses libpython
    Auto,
    /// Looked for in every file that a program uses
    On,
    Off,
}

/// When the last moments are kept, and saved at a trigger.
#[derive(Debug, Args)]
pub(crate) struct FlightArgs {
    /// Keep only the last moments, in this much memory, and save them at a trigger: Ctrl-C,
    /// the end of the program, SIGUSR1 or SIGUSR2 to spanwise, or one of those below, which
    /// keep 64M where this is not given
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) snapshot_size: Option<usize>,
    /// Save them when any thread calls this function, of the program or of a library; a dot
    /// stands for the one that programs call to ask for it (see spanwise.h), which is watched
    /// in any case
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) trigger: Option<String>,
    /// … only if the call took at least this long
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trigger")]
    pub(crate) duration_thresh: Option<Duration>,
    /// … only if the thread's call before was at least this long ago
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trigger")]
    #[arg(conflicts_with = "duration_thresh")]
    pub(crate) delay_thresh: Option<Duration>,
    /// Save them when the program raises this signal, such as USR1
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub(crate) trigger_signal: Option<i32>,
    /// Save them when a thread has waited at least this long, decided when it goes on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) trigger_off_cpu: Option<Duration>,
    /// Save them this long after the beginning
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) after: Option<Duration>,
    /// Save them again and again, this long apart
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "output")]
    pub(crate) every: Option<Duration>,
    /// Go on after a snapshot: each trigger saves another
    #[arg(long, conflicts_with = "output")]
    pub(crate) multi_snapshot: bool,
}

impl FlightArgs {
    /// True where the last moments are wanted, and not all of them.
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
    /// Keep the program's arguments in the recording; without this, only its name is kept, since
    /// arguments may hold passwords
    #[arg(long)]
    pub(crate) with_arguments: bool,
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
    /// Look at the recording in the browser when it ends, as `spanwise view` does
    #[arg(long, conflicts_with_all = ["output", "no_decode", "top"])]
    pub(crate) view: bool,
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

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or("write a number above 0, such as 5 or 0.5".into())
}

fn duration(text: &str) -> Result<Duration, String> {
    let length = length(text).and_then(|ns| u64::try_from(ns).ok()).filter(|&ns| ns > 0);
    length.map(Duration::from_nanos).ok_or("write a number and its unit: ns, us, ms or s".into())
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
    fn signals_are_read() {
        let check = |text, expected| assert_eq!(signal(text).ok(), expected, "{text}");
        check("USR1", Some(10));
        check("SIGSEGV", Some(11));
        check("40", Some(40));
        check("65", None);
        check("usr1", None);
    }
}
