//! Options about recordings of calls, which `report` and `convert` read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A heading of the help.
pub(crate) const CALLS: &str = "Recordings of calls (Intel PT, perf script, magic-trace)";

/// How a recording of calls is read, and which part of it.
///
/// Names are whole names, or patterns in which * is any text and ? any one character.
#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// The files are snapshots of one program, one after the other
    #[arg(long, help_heading = CALLS)]
    pub(crate) snapshots: bool,
    /// Only calls of these functions, and what they call
    #[arg(long, value_name = "NAME", help_heading = CALLS)]
    pub(crate) include: Vec<String>,
    /// No calls of these functions, nor what they call
    #[arg(long, value_name = "NAME", help_heading = CALLS)]
    pub(crate) exclude: Vec<String>,
    /// Only from a call of START up to the next call of STOP
    #[arg(long, value_name = "START..STOP", help_heading = CALLS)]
    pub(crate) filter: Option<String>,
    /// Only this thread, by number or name
    #[arg(long, value_name = "THREAD", help_heading = CALLS)]
    pub(crate) thread: Vec<String>,
    /// Only this time range, from the start of the recording, such as 10us..2ms
    #[arg(long, value_name = "FROM..TO", help_heading = CALLS)]
    pub(crate) time: Option<String>,
    /// Where the exception handlers of an OCaml program are: addresses as
    /// enter=A,push=B,pop=C, each as often as needed
    #[arg(long, value_name = "ADDRESSES", help_heading = CALLS)]
    pub(crate) ocaml_traps: Option<String>,
    /// The map of code that a runtime made, such as /tmp/perf-1234.map
    #[arg(long, value_name = "FILE", help_heading = CALLS)]
    pub(crate) perf_map: Vec<PathBuf>,
    /// Do not ask debug information which functions the compiler put into others
    #[arg(long, help_heading = CALLS)]
    pub(crate) no_inline: bool,
}

impl CallsArgs {
    /// The first of these options that was given, so that none is ignored.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let how_it_is_read = [
            (self.snapshots, "--snapshots"),
            (self.ocaml_traps.is_some(), "--ocaml-traps"),
            (!self.perf_map.is_empty(), "--perf-map"),
            (self.no_inline, "--no-inline"),
        ];
        let option = how_it_is_read.iter().find(|(is_given, _)| *is_given);
        option.map(|&(_, option)| option).or_else(|| self.first_of_part())
    }

    /// The same of those that choose a part.
    pub(crate) fn first_of_part(&self) -> Option<&'static str> {
        let options = [
            (!self.include.is_empty(), "--include"),
            (!self.exclude.is_empty(), "--exclude"),
            (self.filter.is_some(), "--filter"),
            (!self.thread.is_empty(), "--thread"),
            (self.time.is_some(), "--time"),
        ];
        options.iter().find(|(is_given, _)| *is_given).map(|&(_, option)| option)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintArg {
    MagicTrace,
}
