//! What the commands that set several traces side by side take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spanwise_analyze::Phase;

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

/// Say what changed between two traces, whether that is more than noise, and why
///
/// Times are per step. Where the steps of both sides correspond, each is compared with its
/// counterpart, else all steps of a phase with each other; four recordings a side or more
/// are samples themselves. The fifth of the differences at either end is left out, steps
/// that resemble the ones before them count for less, and p is corrected for the number of
/// rows (Benjamini and Hochberg). What two recordings of one program differ by anyway is no
/// change: 1.5 % on a GPU, 2 % of a step, 10 % on the host or 0.5 % of the step there.
/// docs/compare.md tells more. Of profiles, and of single traces by function without
/// verdicts, `spanwise diff` says what changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Rows, by --by (on GPU, host and waiting, but for class and kernel):
  op           the innermost operator around the work
  class        class of GPU work (attention, gemm, norm …)
  kernel       kernel
  module       path of nn.Module classes
  layer        instance of the module that is repeated most
  phase        prefill, decode, forward, backward …
  step         each step with its counterpart
  stack        all Python functions around it
  python-line  the Python function, told apart by the line of its definition
  function     the Python function, by file and name

Rules of --fail-if (docs/compare.md has all of it):
  slower                     the step is slower
  slower > 3%                … by more than 3 %, or 2ms
  slower > 3% in decode      a phase; or rows of that name, * stands for anything
  slower > 1% in any on gpu  any row on the GPU
  changed in any             slower or faster
  unsure                     no verdict can be given
  slower > 3% measured       as measured, whatever the verdict

Examples:
  spanwise compare before.json.gz after.json.gz
  spanwise compare --by kernel --top 30 before.json.gz after.json.gz
  spanwise compare --phase decode --steps 3..10 before.json.gz after.json.gz
  spanwise compare before1.json before2.json -- after1.json after2.json
  spanwise compare --fail-if 'slower > 3% in decode' before.json.gz after.json.gz
  spanwise compare --save-baseline decode.baseline before1.json before2.json
  spanwise compare --baseline decode.baseline after.json.gz
  spanwise compare before.json.gz after.json.gz -o change.html")]
pub(crate) struct CompareArgs {
    /// The two traces to compare; with --, those of the base; with --baseline, the other's
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The traces of the other side
    #[arg(last = true, value_name = "OTHER")]
    pub(crate) others: Vec<PathBuf>,
    /// What the rows stand for [default: op, or what the baseline has]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Option<CompareByArg>,
    /// Only this phase: prefill, decode, forward, backward …
    #[arg(long, value_name = "PHASE", value_parser = parse_phase)]
    pub(crate) phase: Option<Phase>,
    /// Only steps with these numbers, both ends included: 3..10, 3.. or ..10
    #[arg(long, value_name = "RANGE", value_parser = parse_steps)]
    pub(crate) steps: Option<(i64, i64)>,
    /// Also rows without any change
    #[arg(long)]
    pub(crate) all: bool,
    /// Also the Python stacks behind each row, on both sides
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Exit with status 1 where this holds, and show where; may be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) fail_if: Vec<String>,
    /// Compare with a file that --save-baseline wrote, instead of with traces
    #[arg(long, value_name = "FILE", conflicts_with_all = ["others", "save_baseline"])]
    pub(crate) baseline: Option<PathBuf>,
    /// Write what the traces contribute to a small file, and compare nothing
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["others", "fail_if", "all", "stacks", "output", "top", "format"])]
    pub(crate) save_baseline: Option<PathBuf>,
    /// Write to a file, in the format of its ending: .html, .json, .csv or .txt
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, no hints, no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) show: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareByArg {
    Op,
    Class,
    Kernel,
    Module,
    Layer,
    Phase,
    Step,
    Stack,
    PythonLine,
    Function,
}

fn parse_phase(text: &str) -> Result<Phase, String> {
    Phase::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Phase::ALL.iter().map(|phase| phase.text()).collect();
        format!("not a phase; there are {}", names.join(", "))
    })
}

fn parse_steps(text: &str) -> Result<(i64, i64), String> {
    let number = |text: &str, without: i64| match text {
        "" => Ok(without),
        digits => digits.parse().map_err(|_| format!("not a number: {digits:?}")),
    };
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let range = (number(from, i64::MIN)?, number(to, i64::MAX)?);
    if text.is_empty() || range.0 > range.1 {
        return Err("a range is such as 3..10, 3.. or ..10".to_owned());
    }
    Ok(range)
}
