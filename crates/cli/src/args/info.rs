//! Options of `info`.

use std::path::PathBuf;

use clap::Args;

use super::{OutputArgs, ReadArgs, TopArgs};

/// Show what a trace is, whether it is sound, or write its index
///
/// Source, devices, categories, tracks and warnings, quickly: from the index beside the trace if
/// there is one. Warnings list what of the file was skipped or repaired: what, how often, where
/// first, and an example.
///
/// With --verify: whether numbers computed from each trace can be trusted. A violated check makes
/// the exit status 1. A note is a peculiarity of the recording, such as GPU work without a launch
/// or spans that overlap without nesting.
///
/// With --index: writes the index of each trace, which holds the same columns as the trace in
/// memory and is mapped instead of read. Other commands write it when they read a trace for the
/// first time; this one always writes it anew.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spanwise info trace.json.gz
  spanwise info --format json trace.json.gz | jq .trace.spans
  spanwise info --verify --quiet traces/*.json.gz && echo sound
  spanwise info --index traces/*.json.gz")]
pub(crate) struct InfoArgs {
    /// The trace or profile; with --verify or --index, one or more traces
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Check that each trace is sound; exit status 1 if one is not
    #[arg(long, conflicts_with_all = ["index", "top"])]
    pub(crate) verify: bool,
    /// Write the index beside each trace, so that it opens at once
    #[arg(long, conflicts_with_all = ["top", "no_index", "python_lines"])]
    pub(crate) index: bool,
    #[command(flatten)]
    pub(crate) top: TopArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar; with --verify, only violated checks; with --index, nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
