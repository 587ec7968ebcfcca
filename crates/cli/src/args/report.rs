//! What `report` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use spanwise_callstack::compat::Scope;

use super::shared::choice;
use super::{CALLS, CallsArgs, OutputArgs, PrintArg, ReadArgs, TopArgs};
use crate::commands::report::{compat, sections};

/// A heading of the help.
const COMPAT: &str = "Tables of other tools (--compat)";

/// Report where the time went: findings, GPU, kernels, threads, functions
///
/// Self time is exact: on each thread all time belongs to the innermost span
/// open then, so self times add up to the time the thread was busy, also where
/// spans overlap without nesting. GPU work is shown with the operator and the line
/// of Python that launched it; of the frames around a launch the innermost one of
/// your own code is taken. Given the traces of several ranks, it reports which rank the
/// others wait for, and why. Given a profile (pprof, speedscope, collapsed stacks), it
/// reports its values by function and label. Given a recording of calls (Intel PT, the text
/// of `perf script`, .fxt of magic-trace), --function shows how long each call takes.
#[derive(Debug, Args)]
#[command(after_help = format!("\
{}
Examples:
  spanwise report trace.json.gz
  spanwise report --section kernels --top 0 --format csv trace.json.gz > kernels.csv
  spanwise report --compat hta --section temporal_breakdown trace.json.gz
  spanwise report --format json trace.json.gz | jq '.findings[].title'
  spanwise report rank*.json.gz
  spanwise report --value gpu profile.pb.gz
  spanwise report --section calls calls.txt
  spanwise report --function handle_request calls.txt
  spanwise report --print magic-trace calls.txt
  spanwise report --section metrics --check gate.txt trace.json.gz

Names of --function, --include and --exclude are whole names, or patterns in which * is any
text and ? any one character. Calls are recorded with `run --backend intel-pt`, or with perf:
  perf record -e intel_pt//u -- ./program
  perf script --ns --itrace=be -F pid,tid,time,flags,ip,addr,sym,symoff,dso,event > calls.txt

A file for --check has a rule per line, of a metric or the number of findings of a kind:
  gpu_utilization >= 60%
  wall_time < 300ms
  finding.synchronisation == 0", sections::help()))]
pub(crate) struct ReportArgs {
    /// The trace or profile to read; or the traces of several ranks, or a folder of them
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Show these sections only, or `all`; a single one is printed without the enclosing document
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(
        sections::names().chain(compat::section_names())
    ))]
    pub(crate) section: Vec<String>,
    /// Of a profile, the column to show [default: the profile's own]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) value: Option<String>,
    /// Rules for `classes` and devices for `roofline` of your own, before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    /// Check metrics and findings against the rules in a file: exit status 1 where one
    /// does not hold
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// When something becomes a finding, such as gpu_idle_percent=50
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) threshold: Vec<String>,
    /// Show the tables of another tool instead, with its numbers
    #[arg(long, value_enum, value_name = "TOOL", help_heading = COMPAT)]
    #[arg(conflicts_with_all = ["classes", "check", "threshold"])]
    pub(crate) compat: Option<compat::Compat>,
    /// Ask HTA's critical path of annotations with this in their name; "" asks it of all.
    /// Without it: of ProfilerStep, or of all where there is none
    #[arg(long, value_name = "NAME", requires = "compat", help_heading = COMPAT)]
    pub(crate) annotation: Option<String>,
    /// Which of these annotations, from 0; the first where it is not said
    #[arg(long, value_name = "N", requires = "compat", help_heading = COMPAT)]
    pub(crate) instance: Option<usize>,
    /// Show how long the calls of this function take, and what the slowest spent it on
    #[arg(long, value_name = "NAME", help_heading = CALLS)]
    #[arg(conflicts_with_all = ["section", "value", "classes", "check", "threshold", "compat"])]
    pub(crate) function: Option<String>,
    /// Print the timeline as another tool does, line by line
    #[arg(long, value_enum, value_name = "TOOL", help_heading = CALLS)]
    #[arg(conflicts_with_all = ["function", "section", "value", "classes", "check", "threshold",
        "compat", "include", "exclude", "filter", "thread", "time", "top", "format", "color",
        "no_index", "no_inline", "python_lines"])]
    pub(crate) print: Option<PrintArg>,
    /// Which code was recorded, for --print [default: user]
    #[arg(long, value_name = "SCOPE", requires = "print", help_heading = CALLS)]
    #[arg(value_parser = choice(&Scope::NAMES, &[]))]
    pub(crate) scope: Option<Scope>,
    #[command(flatten)]
    pub(crate) calls: CallsArgs,
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
