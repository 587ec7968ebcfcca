//! Options of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spanwise_analyze::Phase;

use super::profiles::PROFILES;
use super::{OutputArgs, PageArgs, ProfileArgs, ReadArgs, TopArgs};

const VERDICTS: &str = "Traces: what is compared, and rules for builds";
const FUNCTIONS: &str = "Functions and profiles (--functions)";
const KERNELS: &str = "Kernels (--kernels)";

/// Compare two runs: what changed, whether that is more than noise, and why
///
/// Of traces, times are per step. Where the steps of both sides correspond, each is compared with
/// its counterpart, else all steps of a phase with each other; four recordings per side or more are
/// samples themselves. A verdict uses a trimmed mean (20 % at either end), corrects for steps that
/// resemble the ones before them, and adjusts p-values for the number of rows (Benjamini and
/// Hochberg). Differences that two recordings of one program show anyway are no change: 1.5 % on a
/// GPU, 2 % of a step, 10 % on the host or 0.5 % of the step there.
/// docs/how-it-works/comparison.md has the details.
///
/// With --functions, and of profiles (pprof, speedscope, collapsed stacks): every function of
/// either side, without verdicts, what changed most by itself first; the self columns add up to the
/// totals. Functions are the same if name and file are, also where the code moved down its file.
/// If both sides have steps, all sums are divided by their number.
///
/// With --kernels: which kernels of one trace do the work of which kernels of the other, aligned by
/// where they were launched: the same, another one, several fused into one, one split, or one side
/// only. Each row has its confidence; the rows of a side add up to its GPU work.
#[derive(Debug, Args)]
#[command(after_help = "\
Rows, by --by (on GPU, host and waiting, except for class and kernel):
  op           the innermost operator around the work
  class        class of GPU work (attention, gemm, norm …)
  kernel       kernel
  module       path of nn.Module classes
  layer        instance of the module that is repeated most
  phase        prefill, decode, forward, backward …
  step         each step with its counterpart
  stack        all Python functions around it
  python-line  the Python function, distinguished by the line of its definition
  function     the Python function, by file and name; with --functions, each function
  line         with --functions, each line of a function, of samples

Rules of --fail-if, of which docs/how-to/check-in-ci.md has the grammar:
  slower                     the step is slower
  slower > 3%                … by more than 3 %, or 2ms
  slower > 3% in decode      a phase; or rows of that name, * stands for anything
  slower > 1% in any on gpu  any row on the GPU
  changed in any             slower or faster
  unsure                     no verdict can be given
  slower > 3% measured       as measured, whatever the verdict

Confidence of a row of --kernels:
  high    one operator holds all of it on both sides, or the name of a fused kernel lists
          the operators that it replaces, or attention in parts became one kernel
  medium  it keeps happening between kernels that correspond, or all is of one class
  low     the rest

Formats of --output, by its ending:
  .json .csv .txt     what is printed otherwise
  .html               a page, with a timeline and a flame graph of what changed
  .svg                a flame graph: what grew is red, what shrank is blue
  .pb.gz .pprof .pb   the difference; go tool pprof shows shares of the base
  .folded .collapsed  lines of a stack, the base's value and the other's; flamegraph.pl

Examples:
  spanwise compare before.json.gz after.json.gz
  spanwise compare --by kernel --top 30 before.json.gz after.json.gz
  spanwise compare --phase decode --steps 3..10 before.json.gz after.json.gz
  spanwise compare before1.json before2.json -- after1.json after2.json
  spanwise compare --fail-if 'slower > 3% in decode' before.json.gz after.json.gz
  spanwise compare --save-baseline decode.baseline before1.json before2.json
  spanwise compare --baseline decode.baseline after.json.gz
  spanwise compare before.pb.gz after.pb.gz
  spanwise compare --functions --value gpu --stack ops before.json.gz after.json.gz
  spanwise compare --kernels eager.json.gz compiled.json.gz
  spanwise compare before.json.gz after.json.gz -o change.html
  spanwise compare before.json.gz after.json.gz -o change.svg")]
pub(crate) struct CompareArgs {
    /// The two traces or profiles; with --, the traces of the base; with --baseline, the other's
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The traces of the other side
    #[arg(last = true, value_name = "OTHER")]
    pub(crate) others: Vec<PathBuf>,
    /// What the rows stand for [default: op, or what the baseline has; of functions, function]
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "kernels")]
    pub(crate) by: Option<CompareByArg>,
    /// Compare function by function, without verdicts, as for profiles
    #[arg(long)]
    #[arg(conflicts_with_all = ["kernels", "others", "phase", "steps", "all", "with_stacks",
        "fail_if", "baseline", "save_baseline"])]
    pub(crate) functions: bool,
    /// Show which kernels do the work of which, such as fused ones
    #[arg(long)]
    #[arg(conflicts_with_all = ["others", "phase", "steps", "all", "with_stacks", "fail_if",
        "baseline", "save_baseline"])]
    pub(crate) kernels: bool,
    /// Write to a file, in the format of its ending: see below
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub(crate) output: Option<PathBuf>,
    /// Only this phase: prefill, decode, forward, backward …
    #[arg(long, value_name = "PHASE", value_parser = parse_phase, help_heading = VERDICTS)]
    pub(crate) phase: Option<Phase>,
    /// Only steps with these numbers, both ends included: 3..10, 3.. or ..10
    #[arg(long, value_name = "RANGE", value_parser = parse_steps, help_heading = VERDICTS)]
    pub(crate) steps: Option<(i64, i64)>,
    /// Also rows without any change
    #[arg(long, help_heading = VERDICTS)]
    pub(crate) all: bool,
    /// Also the Python stacks behind each row, on both sides
    #[arg(long, alias = "stacks", help_heading = VERDICTS)]
    pub(crate) with_stacks: bool,
    /// Exit with status 1 where this holds, and show where; may be given several times
    #[arg(long, value_name = "RULE", help_heading = VERDICTS)]
    pub(crate) fail_if: Vec<String>,
    /// Compare with a file that --save-baseline wrote, instead of with traces
    #[arg(long, value_name = "FILE", conflicts_with_all = ["others", "save_baseline"])]
    #[arg(help_heading = VERDICTS)]
    pub(crate) baseline: Option<PathBuf>,
    /// Write what the traces contribute to a small file, and compare nothing
    #[arg(long, value_name = "FILE", help_heading = VERDICTS)]
    #[arg(conflicts_with_all = ["others", "fail_if", "all", "with_stacks", "output", "top",
        "format"])]
    pub(crate) save_baseline: Option<PathBuf>,
    /// What numbers are for: one step each, or the whole run
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = PerArg::Auto)]
    #[arg(help_heading = FUNCTIONS)]
    pub(crate) per: PerArg,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// Draw roots on top, growing downwards (.svg)
    #[arg(long, help_heading = PROFILES)]
    pub(crate) icicle: bool,
    /// Show the layers of both side by side instead, and what a layer runs
    #[arg(long, requires = "kernels", help_heading = KERNELS)]
    pub(crate) layers: bool,
    /// Rules for classes of your own, before the built-in ones
    #[arg(long, value_name = "FILE", requires = "kernels", help_heading = KERNELS)]
    pub(crate) classes: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
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
pub(crate) enum PerArg {
    /// A step where both sides have steps, the run otherwise
    Auto,
    /// A step; an error where a side has none
    Step,
    /// The whole run
    Run,
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
    Line,
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
