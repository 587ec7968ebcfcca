//! Options of `html`.

use std::path::PathBuf;

use clap::Args;

use super::{ReadArgs, size};

/// Write a report that opens in any browser: one file, nothing to install, no network
///
/// Findings, tables with charts, a timeline of the busiest tracks and a flame graph. What the
/// trace says about the machine beside its events (versions, command lines, host names), and where
/// the file lay, is left out: such a page is made to be sent to others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise html trace.json.gz -o report.html
  spanwise html --compare before.json.gz after.json.gz -o changes.html
  spanwise html --max-size 500K trace.json.gz -o small.html")]
pub(crate) struct HtmlArgs {
    /// The trace; with --compare, the one before and the one after
    #[arg(required = true, num_args = 1..=2, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The page to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write what changed between two traces
    #[arg(long)]
    pub(crate) compare: bool,
    /// Bytes that the page may have, or with K, M or G behind it; details are dropped to keep it
    #[arg(long, default_value = "5M", value_parser = size)]
    pub(crate) max_size: usize,
    /// Tell what the trace says about the machine and the program too, and the path of the file
    #[arg(long)]
    pub(crate) with_metadata: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
