//! What the commands that set several traces side by side take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{OutputArgs, ReadArgs, TopArgs};

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
