//! Options of `query`.

use clap::Args;

use super::{OutputArgs, ReadArgs};

/// Ask traces in SQL
///
/// The tables are spans, tracks, instants, counters and links of all traces that are named,
/// with views for what is asked most; `--tables` lists them with their columns. Times are
/// nanoseconds since the trace began. The SQL is SQLite's, and can only read.
///
/// Sorts and intermediate rows stay in memory, and nothing is written to disk. A query may use
/// half of what --max-memory leaves, and one that needs more ends with an error. In CSV, a text
/// that a spreadsheet would take for a formula begins with an apostrophe.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise query trace.json.gz \"select * from gpu_by_kernel order by gpu_ns desc limit 10\"
  spanwise query --format csv a.json b.json \"select trace, sum(dur) from kernels group by trace\"
  spanwise query trace.json.gz - < question.sql
  spanwise query --tables")]
pub(crate) struct QueryArgs {
    /// The traces to ask, then the SQL text; `-` reads it from standard input
    #[arg(value_name = "TRACE… SQL", required_unless_present = "tables", num_args = 0..)]
    pub(crate) words: Vec<String>,
    /// List tables, views and functions
    #[arg(long, conflicts_with = "words")]
    pub(crate) tables: bool,
    /// Show at most so many rows; 0 shows all
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
