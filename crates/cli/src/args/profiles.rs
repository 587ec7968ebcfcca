//! What the commands that make, change and draw profiles take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spanwise_analyze::FunctionBy;
use spanwise_answer::ConvertFormat;

use super::{OutputArgs, ReadArgs, TopArgs};

/// Turn traces into what another tool reads: a profile, or the trace in its format
///
/// In a profile, wall time stands on the stack of everything that was open, to the nanosecond;
/// GPU time on the stack that launched it, whatever the host did while the GPU
/// worked. Several traces, such as the ranks of a run, become one profile with a
/// label for the rank. Profiles (pprof, speedscope, collapsed stacks) are read too,
/// and merged where their columns are the same. A trace keeps every span, moment,
/// value and arrow, to the nanosecond, with what was damaged repaired; several traces
/// stand on one timeline, their processes named by rank or file.
#[derive(Debug, Args)]
#[command(after_help = "\
Formats, by the ending of the output or by --to:
  pprof       .pb.gz .pprof .pb   all columns and labels; go tool pprof, Pyroscope, Parca
  folded      .folded .collapsed  one line a stack; flame graph scripts
  speedscope  .speedscope.json    one profile a thread; speedscope.app
  firefox     .firefox.json       profiler.firefox.com
  csv         .csv                a row a sample; spreadsheets and data frames
  chrome      .json .json.gz      the trace itself; ui.perfetto.dev, chrome://tracing
  perfetto    .perfetto-trace .pftrace .perfetto
                                  the trace itself; ui.perfetto.dev, Perfetto's SQL
  fxt         .fxt .fxt.gz        the trace itself; Fuchsia's tools, magic-trace's viewer

Columns: samples, wall, gpu, gpu_busy, gpu_launches, copy; of memory, each as _space and
_objects: alloc (all that was asked for), inuse (held at the end), peak (held at the peak
of its device).
Labels: thread, rank, device, stream, phase, step, state.

Profiles of recordings of the scheduler and of locks, by --profile, with their columns:
  cpu     samples, cpu
  offcpu  switches, offcpu, blocked, runnable; labels: thread, why, waker
  locks   contentions, delay, holder_delay (on the stack that let go); labels: thread, why,
          lock, waker
  sched   time, by thread and state

Examples:
  spanwise convert trace.json.gz -o trace.pb.gz
  go tool pprof -top -tagignore=state=waiting trace.pb.gz
  go tool pprof -http=: -sample_index=gpu trace.pb.gz
  spanwise convert rank*.json.gz -o run.pb.gz
  spanwise convert --value gpu --stack python trace.json.gz -o gpu.folded
  go tool pprof -top -sample_index=peak_space -tagfocus=device=gpu0 trace.pb.gz
  spanwise convert --profile locks perf.txt -o locks.pb.gz
  spanwise convert damaged.json -o repaired.json.gz
  spanwise convert trace.json.gz -o trace.perfetto-trace
  spanwise convert rank*.json.gz -o run.perfetto-trace")]
pub(crate) struct ConvertArgs {
    /// The traces or profiles to read
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Where to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The format, where the ending of the output does not tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<ConvertFormatArg>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, and no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Say what changed between two runs, function by function
///
/// Each side is a trace or a profile (pprof, speedscope, collapsed stacks). Functions
/// are the same where name and file are, also when the code moved down its file; both
/// lines are then shown. Every function of either side has a row, what changed most by
/// itself first, and the self columns add up to the totals. Where both sides have steps,
/// all sums are divided by their number, so that runs of different length compare. Whether
/// a difference between traces is more than noise, and why, `spanwise compare` says.
#[derive(Debug, Args)]
#[command(after_help = "\
Formats of --output, by its ending:
  .pb.gz .pprof .pb   the difference; go tool pprof shows shares of the base
  .folded .collapsed  lines of a stack, the base's value and the other's; flamegraph.pl

Examples:
  spanwise diff before.json.gz after.json.gz
  spanwise diff --value gpu --stack ops before.json.gz after.json.gz
  spanwise diff --format csv --top 0 before.pb.gz after.pb.gz > change.csv
  spanwise diff before.json.gz after.json.gz -o change.pb.gz")]
pub(crate) struct DiffArgs {
    /// The trace or profile to compare with
    pub(crate) base: PathBuf,
    /// The trace or profile that may have changed
    pub(crate) other: PathBuf,
    /// Write the difference as a profile, instead of the table
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["top", "format", "color"])]
    pub(crate) output: Option<PathBuf>,
    /// What numbers are for: one step each, or the whole run
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = PerArg::Auto)]
    pub(crate) per: PerArg,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, and no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) show: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PerArg {
    /// A step where both sides have steps, the run otherwise
    Auto,
    /// A step; an error where a side has none
    Step,
    /// The whole run
    Run,
}

/// Draw a flame graph: who called whom, and how long it took
///
/// One SVG file, or one HTML page, that needs nothing else: click a frame to zoom,
/// search by name, read the numbers at the bottom. Frames are coloured by kind
/// (Python, operators, runtime calls, GPU work); with --diff by what grew (red) and
/// what shrank (blue) as a share of the whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise flame trace.json.gz -o trace.svg
  spanwise flame --value gpu --stack python trace.json.gz -o gpu.html
  spanwise flame --value peak_space trace.json.gz -o memory.svg
  spanwise flame --diff before.json.gz after.json.gz -o change.svg")]
pub(crate) struct FlameArgs {
    /// The trace or profile to draw
    pub(crate) trace: PathBuf,
    /// Where to write: .svg or .html
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Colour by what changed since this trace or profile
    #[arg(long, value_name = "BASE")]
    pub(crate) diff: Option<PathBuf>,
    /// Roots on top, growing downwards
    #[arg(long)]
    pub(crate) icicle: bool,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, and no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How a trace becomes a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What of a trace the profile is about [default: wall time, GPU time and memory]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) profile: Option<ThreadProfileArg>,
    /// Count samples of this event instead, such as page-faults; info lists a trace's events
    #[arg(long, value_name = "EVENT", conflicts_with = "profile")]
    pub(crate) event: Option<String>,
    /// What makes a frame of its own, of samples: a function, or each line of it
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FrameByArg::Function)]
    pub(crate) by: FrameByArg,
    /// The column to show, where only one can be shown [default: the profile's own, wall]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value: Option<String>,
    /// Which frames make up a stack
    #[arg(long, value_enum, value_name = "FRAMES", default_value_t = StackArg::Mixed)]
    pub(crate) stack: StackArg,
    /// Where the work of a backward pass stands: on its own thread's stack, or under
    /// the forward operator that it differentiates
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = BackwardArg::Own)]
    pub(crate) backward: BackwardArg,
    /// Leave this out where a frame begins with it, so that moved code compares
    #[arg(long, value_name = "PREFIX", default_value = "")]
    pub(crate) strip_prefix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FrameByArg {
    Function,
    Line,
}

impl From<FrameByArg> for FunctionBy {
    fn from(by: FrameByArg) -> Self {
        match by {
            FrameByArg::Function => FunctionBy::Function,
            FrameByArg::Line => FunctionBy::Line,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThreadProfileArg {
    /// Time that threads ran
    Cpu,
    /// Time that threads did not run, by the stack that they left their CPU with
    Offcpu,
    /// Waits for locks, by the stack that asked for the lock
    Locks,
    /// How long each thread ran, was blocked and waited for a CPU
    Sched,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertFormatArg {
    Pprof,
    Folded,
    Speedscope,
    Firefox,
    Csv,
    Chrome,
    Perfetto,
    Fxt,
}

impl From<ConvertFormatArg> for ConvertFormat {
    fn from(format: ConvertFormatArg) -> Self {
        match format {
            ConvertFormatArg::Pprof => ConvertFormat::Pprof,
            ConvertFormatArg::Folded => ConvertFormat::Folded,
            ConvertFormatArg::Speedscope => ConvertFormat::Speedscope,
            ConvertFormatArg::Firefox => ConvertFormat::Firefox,
            ConvertFormatArg::Csv => ConvertFormat::Csv,
            ConvertFormatArg::Chrome => ConvertFormat::Chrome,
            ConvertFormatArg::Perfetto => ConvertFormat::Perfetto,
            ConvertFormatArg::Fxt => ConvertFormat::Fxt,
        }
    }
}

impl From<ConvertFormat> for ConvertFormatArg {
    fn from(format: ConvertFormat) -> Self {
        match format {
            ConvertFormat::Pprof => ConvertFormatArg::Pprof,
            ConvertFormat::Folded => ConvertFormatArg::Folded,
            ConvertFormat::Speedscope => ConvertFormatArg::Speedscope,
            ConvertFormat::Firefox => ConvertFormatArg::Firefox,
            ConvertFormat::Csv => ConvertFormatArg::Csv,
            ConvertFormat::Chrome => ConvertFormatArg::Chrome,
            ConvertFormat::Perfetto => ConvertFormatArg::Perfetto,
            ConvertFormat::Fxt => ConvertFormatArg::Fxt,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackArg {
    /// Python frames, operators, annotations and runtime calls
    Mixed,
    /// Python frames alone
    Python,
    /// Everything but Python frames
    Ops,
    /// nn.Module markers alone
    Modules,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackwardArg {
    Own,
    ForwardStack,
}
