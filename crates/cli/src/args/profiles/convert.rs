//! Options of `convert`.

use std::path::PathBuf;

use clap::Args;
use spanwise_analyze::FunctionBy;

use super::{FileFormat, PROFILES, PageArgs, ProfileArgs};
use crate::args::shared::choice;
use crate::args::{CallsArgs, ReadArgs};

/// Convert traces to a profile, another trace format, a flame graph or a page
///
/// In a profile, wall time stands on the stack of everything that was open, to the nanosecond;
/// GPU time on the stack that launched it, whatever the host did while the GPU worked. Several
/// traces, such as the ranks of a run, become one profile with a label for the rank. Profiles
/// (pprof, speedscope, collapsed stacks) are read too, and merged if their columns are the same.
///
/// A trace keeps every span, instant, counter and link, to the nanosecond, with what was damaged
/// repaired; several traces stand on one timeline, their processes named by rank or file.
///
/// A flame graph is one file: click a frame to zoom, search by name. A page is the report with
/// charts, a timeline and a flame graph, made to be sent to others: it opens offline, and what the
/// trace says about the machine (versions, command lines, host names) is left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Formats, by the ending of the output or by --to:
  pprof       .pb.gz .pprof .pb   all columns and labels; go tool pprof, Pyroscope, Parca
  folded      .folded .collapsed  one line per stack; flame graph scripts
  speedscope  .speedscope.json    one profile per thread; speedscope.app
  firefox     .firefox.json       profiler.firefox.com
  csv         .csv                a row per sample; spreadsheets and data frames
  flame       .svg                a flame graph; with --to flame also .html
  html        .html               the report as a page
  chrome      .json .json.gz      the trace itself; ui.perfetto.dev, chrome://tracing
  perfetto    .perfetto-trace .pftrace .perfetto
                                  the trace itself; ui.perfetto.dev, Perfetto's SQL
  fxt         .fxt .fxt.gz        the trace itself; Fuchsia's tools, magic-trace's viewer

Columns: samples, wall, gpu, gpu_busy, gpu_launches, copy; of memory, each as _space and
_objects: alloc (all that was asked for), inuse (held at the end), peak (held at the peak
of its device).
Labels: thread, rank, device, stream, phase, step, state.

Profiles of recordings of the scheduler and of locks, by --profile, with their columns:
  cpu     samples, cpu
  offcpu  switches, offcpu, blocked, runnable; labels: thread, why, waker
  locks   contentions, delay, holder_delay (on the stack that let go); labels: thread, why,
          lock, waker
  sched   time, by thread and state

Examples:
  spanwise convert trace.json.gz -o trace.pb.gz
  go tool pprof -top -tagignore=state=waiting trace.pb.gz
  go tool pprof -http=: -sample_index=gpu trace.pb.gz
  spanwise convert trace.json.gz -o flame.svg
  spanwise convert --value gpu --stack python trace.json.gz -o gpu.svg
  spanwise convert trace.json.gz -o report.html
  spanwise convert rank*.json.gz -o run.pb.gz
  spanwise convert rank*.json.gz -o run.perfetto-trace
  go tool pprof -top -sample_index=peak_space -tagfocus=device=gpu0 trace.pb.gz
  spanwise convert --profile locks perf.txt -o locks.pb.gz
  spanwise convert --include 'engine::*' --exclude '*log*' calls.txt -o engine.fxt
  spanwise convert damaged.json -o repaired.json.gz")]
pub(crate) struct ConvertArgs {
    /// The traces or profiles to read
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// Where to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The format, if the ending of the output does not say it
    #[arg(long, value_name = "FORMAT", value_parser = FileFormat::parser())]
    pub(crate) to: Option<FileFormat>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    /// What makes a frame of its own, of samples: a function, or each line of it
    /// [default: function; pprof: line]
    #[arg(long, value_name = "WHAT", help_heading = PROFILES)]
    #[arg(value_parser = choice(&FunctionBy::NAMES, &[]))]
    pub(crate) by: Option<FunctionBy>,
    /// Draw roots on top, growing downwards
    #[arg(long, help_heading = PROFILES)]
    pub(crate) icicle: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    #[command(flatten)]
    pub(crate) calls: CallsArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    /// No progress bar, and no line about what was written
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
