//! Options of `view`.

use std::path::PathBuf;

use clap::Args;
use spanwise_serve::OtherPage;

use super::ReadArgs;
use super::shared::choice;

const ABOUT_VIEWERS: [&str; 3] = ["ui.perfetto.dev", "speedscope.app", "profiler.firefox.com"];

/// Look at traces in the browser: timeline, flame graph, findings, comparison
///
/// Opens a page that asks this program for what fits on the screen, so that traces of
/// gigabytes open at once. Everything stays on this machine: the page is served on the
/// loopback address only, under a secret that is new each time, and loads nothing from
/// elsewhere. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise view trace.json.gz
  spanwise view before.json.gz after.json.gz
  spanwise view --in perfetto trace.json.gz
  spanwise view --no-browser --port 8600 traces/    # then: ssh -L 8600:localhost:8600 HOST")]
pub(crate) struct ViewArgs {
    /// The traces to look at, or folders of them; a session whose program runs is followed
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Another viewer to look with: its page is loaded from its maker, the trace stays here
    #[arg(long, value_name = "VIEWER", conflicts_with = "port")]
    #[arg(value_parser = choice(&OtherPage::NAMES, &ABOUT_VIEWERS))]
    pub(crate) r#in: Option<OtherPage>,
    /// The port to listen on; any that is free where this is 0
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Print the address only, for a browser elsewhere
    #[arg(long)]
    pub(crate) no_browser: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
