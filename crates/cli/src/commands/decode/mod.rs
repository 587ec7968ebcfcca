//! `spanwise decode`: a recording of control flow becomes calls.

mod options;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::{Facts, NamePattern};
use spanwise_callstack::compat::Machine;
use spanwise_model::Trace;
use spanwise_read::PerfOptions;
use spanwise_write::{Document, Format, Source, Top};

use super::profiles::Target;
use super::profiles::convert::{format_of, write_trace_as};
use crate::args::{DecodeArgs, PrintArg};
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &DecodeArgs) -> anyhow::Result<ExitCode> {
    let perf = PerfOptions {
        traps: args.ocaml_traps.as_deref().map(options::traps).transpose()?.unwrap_or_default(),
        maps: args.perf_map.clone(),
        is_without_inlines: args.no_inline,
    };
    if args.print == Some(PrintArg::MagicTrace) {
        return print_timeline(args, &perf);
    }
    let selection = args.part.selection()?;
    let mut trace = open(args, &perf)?;
    if !selection.is_everything() {
        let threads = args.read.begin();
        trace = spanwise_analyze::select_calls(&trace, &selection, threads);
        if trace.spans().is_empty() {
            bail!("nothing of the recording is left: no call fits what was asked for");
        }
    }
    match &args.output {
        Some(target) => write(args, &trace, target)?,
        None => show(args, &trace)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The recording; what only the text of perf can be told needs the text of perf.
fn open(args: &DecodeArgs, perf: &PerfOptions) -> anyhow::Result<Trace> {
    let progress = Progress::new(args.quiet);
    match &args.files[..] {
        [file] if !perf.says_something() => Ok(args.read.open(file, &progress)?),
        files => Ok(args
            .read
            .with_options(&progress, |options| spanwise_read::open_perf(files, options, perf))?),
    }
}

fn print_timeline(args: &DecodeArgs, perf: &PerfOptions) -> anyhow::Result<ExitCode> {
    let mut machine = Machine::new(options::scope(args.scope), perf.traps.clone());
    let mut out = stdout();
    let mut write = |line: &str| writeln!(out, "{line}");
    let progress = Progress::new(args.quiet);
    args.read.with_options(&progress, |options| {
        spanwise_read::replay_perf(&args.files, options, perf, &mut machine, &mut write)
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &DecodeArgs, trace: &Trace, target: &Path) -> anyhow::Result<()> {
    let format = format_of(target, args.to)?;
    let name = args.files[0].file_name().unwrap_or_default().to_string_lossy();
    write_trace_as(trace, &name, format, Target { path: target, is_quiet: args.quiet })
}

fn show(args: &DecodeArgs, trace: &Trace) -> anyhow::Result<()> {
    let facts = Facts::new(trace);
    let top = args.top.rows();
    let file = args.files[0].display().to_string();
    let source = Source { file: &file, info: trace.info(), window: trace.window() };
    let mut document = Document::default();
    document.sections.push(spanwise_write::trace_section(&source));
    match &args.function {
        None => {
            let rows = spanwise_analyze::calls(&facts);
            let wall_ns = facts.window_ns();
            document.sections.push(spanwise_write::calls_section(&rows, wall_ns, top));
        }
        Some(name) => {
            let slowest = match top {
                Top::All => usize::MAX,
                Top::First(rows) => rows,
            };
            let pattern = NamePattern::new(name);
            let Some(latency) = spanwise_analyze::latency(&facts, &pattern, slowest) else {
                bail!("{file}: no call of {name}; spanwise decode --top 0 lists all functions");
            };
            document.sections.push(spanwise_write::latency_section(&latency));
            let has_bars = args.show.format() == Format::Text;
            document.sections.push(spanwise_write::histogram_section(&latency, has_bars));
            document.sections.push(spanwise_write::slowest_section(&latency));
        }
    }
    if !args.quiet {
        document.hints.extend(spanwise_answer::notices_hint(trace.notices(), &file));
    }
    let mut out = stdout();
    document.write(args.show.format(), args.show.style(), &mut out)?;
    io::Write::flush(&mut out)?;
    Ok(())
}
