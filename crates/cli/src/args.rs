//! What can be asked on the command line.
//!
//! Each option stands only on the commands where it changes something, so that
//! none is accepted and ignored.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::report::{compat, sections};

/// Where did the time go, and why?
///
/// spanwise reads traces of programs, such as those of the PyTorch profiler, and
/// says where the time went: on the GPU, on each thread, in each function, and
/// which line of Python launched what.
#[derive(Debug, Parser)]
#[command(version, name = "spanwise", max_term_width = 100, propagate_version = false)]
#[command(after_help = "\
Exit status: 0 fine, 1 the answer is no (a failed verification), 2 an error.

Example: spanwise report trace.json.gz")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(InfoArgs),
    Report(ReportArgs),
    #[command(visible_alias = "merge")]
    Convert(ConvertArgs),
    Diff(DiffArgs),
    Flame(FlameArgs),
    Compare(CompareArgs),
    Correlate(CorrelateArgs),
    Index(IndexArgs),
    Verify(VerifyArgs),
    Completions(CompletionsArgs),
}

/// Say what a trace is: source, devices, categories, tracks, notices
///
/// Counts and names, quickly: from the index beside the trace where there is one.
/// Notices tell what of the file was skipped or repaired: what, how often, where
/// first, and an example.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise info trace.json.gz
  spanwise info --format json trace.json.gz | jq .trace.spans")]
pub(crate) struct InfoArgs {
    /// The trace to read
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Say where the time went: findings, GPU, kernels, threads, functions
///
/// Self time is exact: on each thread every moment belongs to the innermost span
/// open then, so self times add up to the time the thread was busy, also where
/// spans overlap without nesting. GPU work is shown with the operator and the line
/// of Python that launched it; of the frames around a launch the innermost one of
/// your own code is taken. Of several traces, the ranks of a run, it says who waits for
/// whom, and why. Of a profile (pprof, speedscope, collapsed stacks), it says which
/// functions and labels its values stand under.
#[derive(Debug, Args)]
#[command(after_help = format!("\
{}
Examples:
  spanwise report trace.json.gz
  spanwise report --section kernels --top 0 --format csv trace.json.gz > kernels.csv
  spanwise report --compat hta --section temporal_breakdown trace.json.gz
  spanwise report --format json trace.json.gz | jq '.findings[].title'
  spanwise report rank*.json.gz
  spanwise report --value gpu profile.pb.gz
  spanwise report --section metrics --check gate.txt trace.json.gz

A file for --check has a rule a line:
  gpu_utilization >= 60%
  wall_time < 300ms
  finding.synchronisation == 0", sections::help()))]
pub(crate) struct ReportArgs {
    /// The trace or profile to read; or the traces of several ranks, or a folder of them
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Show these sections only, or `all`; one alone has nothing around its CSV or JSON
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(
        sections::names().chain(compat::section_names())
    ))]
    pub(crate) section: Vec<String>,
    /// Of a profile, the column to show [default: the profile's own]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value: Option<String>,
    /// Rules for `classes` and devices for `roofline` of your own, before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    /// Check metrics and findings against the rules in a file: exit status 1 where one
    /// does not hold
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// When something becomes a finding, such as gpu_idle_percent=50
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) threshold: Vec<String>,
    /// Show the tables of another tool instead, with its numbers
    #[arg(long, value_enum, value_name = "TOOL")]
    #[arg(conflicts_with_all = ["classes", "check", "threshold"])]
    pub(crate) compat: Option<compat::Compat>,
    /// Ask HTA's critical path of annotations with this in their name; "" asks it of all.
    /// Without it: of ProfilerStep, or of all where there is none
    #[arg(long, value_name = "NAME", requires = "compat")]
    pub(crate) annotation: Option<String>,
    /// Which of these annotations, from 0; the first where it is not said
    #[arg(long, value_name = "N", requires = "compat")]
    pub(crate) instance: Option<usize>,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar and no hints at the end
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

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

Examples:
  spanwise convert trace.json.gz -o trace.pb.gz
  go tool pprof -top -tagignore=state=waiting trace.pb.gz
  go tool pprof -http=: -sample_index=gpu trace.pb.gz
  spanwise convert rank*.json.gz -o run.pb.gz
  spanwise convert --value gpu --stack python trace.json.gz -o gpu.folded
  go tool pprof -top -sample_index=peak_space -tagfocus=device=gpu0 trace.pb.gz
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
/// all sums are divided by their number, so that runs of different length compare.
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

/// Rank what in traces moves with metrics of an experiment
///
/// METRICS is a table, CSV or JSON: a row a run, matched with the traces by the name of
/// the file, of the run or of its folder, else by order; or, with one trace and a column
/// `step`, a row a step. Functions, kernels, classes of work, phases and overheads are
/// compared with each metric by rank (Spearman), which suits few samples: p-values are
/// exact up to 9 samples and adjusted for all that was compared. Less than 4 samples say
/// nothing. The slope is what the metric gains with a millisecond, or a percentage point.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise correlate results.csv runs/*.json.gz
  spanwise correlate --metric tokens_per_s --top 5 results.json runs/
  spanwise correlate losses.csv trace.json.gz
  spanwise correlate --format csv results.csv runs/ > movers.csv

A table of runs, and one of steps:
  run,loss,tokens_per_s      step,loss
  a,0.31,1820                10,0.42
  b,0.29,1790                11,0.41")]
pub(crate) struct CorrelateArgs {
    /// The table: CSV with a header, or JSON
    pub(crate) metrics: PathBuf,
    /// The traces of the runs, folders of them, or one trace with steps
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Look at these columns only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar and no hints at the end
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How a trace becomes a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
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

/// Say what changed between two traces, and whether that is more than noise
///
/// Times are per step. A verdict needs several steps: the shift between the two sides is
/// the median of all differences of a step here and a step there (Hodges and Lehmann),
/// which outliers do not move, with its 95 % interval; steps that resemble the ones before
/// them count for less; p is corrected for the number of rows (Benjamini and Hochberg).
/// What two recordings of one program differ by anyway is no change: 1.5 % on a GPU,
/// 10 % on the host, or 0.5 % of the step there.
#[derive(Debug, Args)]
#[command(after_help = "\
Rows, by --by:
  op        the innermost operator around the work, on GPU and host
  class     class of GPU work (attention, gemm, norm …)
  kernel    kernel
  phase     prefill, decode, forward, backward …, on GPU and host
  function  the Python function around it, by file and name, on GPU and host

Examples:
  spanwise compare before.json.gz after.json.gz
  spanwise compare --by kernel --top 30 before.json.gz after.json.gz
  spanwise compare before1.json before2.json -- after1.json after2.json")]
pub(crate) struct CompareArgs {
    /// The two traces to compare; or, with --, the traces of the base
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The traces of the other side
    #[arg(last = true, value_name = "OTHER")]
    pub(crate) others: Vec<PathBuf>,
    /// What the rows stand for
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CompareByArg::Op)]
    pub(crate) by: CompareByArg,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar and no hints at the end
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareByArg {
    Op,
    Class,
    Kernel,
    Phase,
    Function,
}

/// Write the index beside each trace, so that it opens at once
///
/// An index holds the same columns as the trace in memory and is mapped instead of
/// read. Other commands write it by themselves when they read a trace for the first
/// time; this one writes it anew, whatever is there.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  spanwise index traces/*.json.gz")]
pub(crate) struct IndexArgs {
    /// The traces to index
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Check that each trace is sound, and say what is odd about its data
///
/// A violated check means that numbers computed from the trace cannot be trusted
/// and makes the exit status 1. A note is an oddity of the recording, such as GPU
/// work without a launch or spans that overlap without nesting.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise verify trace.json.gz
  spanwise verify --quiet traces/*.json.gz && echo sound")]
pub(crate) struct VerifyArgs {
    /// The traces to check
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Show what is violated only, and no progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Rows of each list, in every format; 0 for all
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
}

impl TopArgs {
    pub(crate) fn rows(&self) -> spanwise_write::Top {
        match self.top {
            0 => spanwise_write::Top::All,
            rows => spanwise_write::Top::First(rows),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ThreadsArgs {
    /// Threads that may read at once; 0 for one a core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Read the trace itself; neither use nor write an index beside it
    #[arg(long)]
    pub(crate) no_index: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// For people (text) or for programs: raw integers, with the unit in the key
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FormatArg::Text)]
    pub(crate) format: FormatArg,
    /// Colour in text; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Text,
    Json,
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
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
