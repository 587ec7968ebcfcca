//! Options of `correlate`.

use std::path::PathBuf;

use clap::Args;

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
