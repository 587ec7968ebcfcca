//! `spanwise report --function` and `--print`: one function of a recording of calls, and its
//! timeline as another tool prints it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::{Facts, NamePattern};
use spanwise_callstack::compat::Machine;
use spanwise_report::notices_hint;
use spanwise_write::{Document, Format, Source, Top};

use super::show;
use crate::args::ReportArgs;
use crate::output::stdout;
use crate::progress::Progress;

/// The timeline, line by line.
pub(super) fn print_timeline(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let perf = args.calls.perf_options()?;
    let mut machine = Machine::new(args.scope.unwrap_or_default(), perf.traps.clone());
    let mut out = stdout();
    let mut write = |line: &str| writeln!(out, "{line}");
    let progress = Progress::new(args.quiet);
    args.read.with_options(&progress, |options| {
        spanwise_read::replay_perf(&args.traces, options, &perf, &mut machine, &mut write)
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// How long the calls of a function take, and what the slowest spent it on.
pub(super) fn show_function(
    args: &ReportArgs,
    facts: &Facts,
    file: &str,
    name: &str,
) -> anyhow::Result<ExitCode> {
    let slowest = match args.top.rows() {
        Top::All => usize::MAX,
        Top::First(rows) => rows,
    };
    let trace = facts.trace();
    let Some(latency) = spanwise_analyze::latency(facts, &NamePattern::new(name), slowest) else {
        bail!("{file}: no call of {name}; --section calls --top 0 lists all functions");
    };
    let has_bars = args.output.format == Format::Text;
    let source = Source { file, info: trace.info(), window: trace.window() };
    let sections = vec![
        spanwise_report::trace_section(&source),
        spanwise_report::latency_section(&latency),
        spanwise_report::histogram_section(&latency, has_bars),
        spanwise_report::slowest_section(&latency),
    ];
    let hints = notices_hint(trace.notices(), file).filter(|_| !args.quiet);
    show(&Document { sections, hints: hints.into_iter().collect() }, &args.output)?;
    Ok(ExitCode::SUCCESS)
}
