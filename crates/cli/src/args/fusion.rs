//! What `fusion` takes.

use std::path::PathBuf;

use clap::Args;

use super::{OutputArgs, ReadArgs, TopArgs};

/// Say which kernels of one trace do the work of which kernels of another
///
/// GPU work is aligned by where it was launched: step and phase, module, operator, then
/// order. Work at the same place is the same kernel, another one, several that were fused
/// into one, one that was split, or there on one side only. Each row says how sure that
/// is; nothing is left out, so the rows of a side add up to its GPU work. Times are sums
/// over all repetitions of a row.
#[derive(Debug, Args)]
#[command(after_help = "\
How sure a row is:
  high    one operator holds all of it on both sides, or the name of a fused kernel lists
          the operators that it replaces, or attention in parts became one kernel
  medium  it keeps happening between kernels that correspond, or all is of one class
  low     the rest

Examples:
  spanwise fusion eager.json.gz compiled.json.gz
  spanwise fusion --layers eager.json.gz compiled.json.gz
  spanwise fusion --format json --top 0 a.json.gz b.json.gz | jq '.changes[]'")]
pub(crate) struct FusionArgs {
    /// The trace to start from
    pub(crate) base: PathBuf,
    /// The trace to set beside it
    pub(crate) other: PathBuf,
    /// Show the layers of both side by side instead, and what a layer runs
    #[arg(long)]
    pub(crate) layers: bool,
    /// Rules for classes of your own, before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
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
