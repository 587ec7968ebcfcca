//! Traces compared with verdicts: what changed between two sides, and whether that is noise.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use spanwise_analyze::{CompareBy, CompareOptions, CompareSeries, Facts};
use spanwise_model::{Trace, both};
use spanwise_report::{ChangeRule, ReportError, check_changes, compare_sides, read_baseline};
use spanwise_write::{CompareView, Document};

use super::compare::{Output, target, title, write_tables};
use crate::args::{CompareArgs, CompareByArg, PerArg};
use crate::commands::profiles::{Target, page, write_file};
use crate::failure;
use crate::progress::Progress;

/// What is about functions alone is an error, so that no option is ignored.
pub(super) fn check(args: &CompareArgs) -> anyhow::Result<()> {
    let options = [
        (args.by == Some(CompareByArg::Line)).then_some("--by line"),
        (args.per != PerArg::Auto).then_some("--per"),
        args.profile.first_given(),
    ];
    match options.into_iter().flatten().next() {
        Some(option) => bail!("{option} is for functions: add --functions"),
        None => Ok(()),
    }
}

/// Compares the two traces, or all that the arguments name.
pub(super) fn run(
    args: &CompareArgs,
    output: Output,
    traces: Option<[Trace; 2]>,
) -> anyhow::Result<ExitCode> {
    check(args)?;
    let rules: Vec<ChangeRule> = args
        .fail_if
        .iter()
        .map(|text| ChangeRule::parse(text))
        .collect::<Result<_, _>>()
        .map_err(of_rule)?;
    if let Some(path) = &args.save_baseline {
        return save_baseline(args, path);
    }
    let (base, other, options) = match traces {
        Some(traces) => sides_of(args, traces)?,
        None => sides(args)?,
    };
    let firsts = [base.first.as_ref(), other.first.as_ref()];
    let (comparison, unsaid) = compare_sides([&base.series, &other.series], firsts, &options);
    let view =
        CompareView { top: args.top.rows(), shows_same: args.all, shows_stacks: args.with_stacks };
    let mut document = spanwise_write::compare_document(&comparison, view);
    document.hints.extend(unsaid.map(str::to_owned));
    let gate = check_changes(&rules, &comparison).map_err(of_rule)?;
    let holds = gate.iter().all(|row| row.holds);
    if !gate.is_empty() {
        document.sections.insert(0, spanwise_report::gate_section(&gate));
    }
    if args.quiet {
        document.hints.clear();
    }
    match output {
        Output::Tables(format) => write_tables(args, &document, format)?,
        _ => write_page(args, &document, [&base, &other])?,
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(failure::NO) })
}

fn of_rule(error: ReportError) -> anyhow::Error {
    anyhow!("--fail-if {error}")
}

/// The tables, with pictures of what there is a trace of.
fn write_page(args: &CompareArgs, document: &Document, sides: [&Side; 2]) -> anyhow::Result<()> {
    let paths = match (&args.baseline, args.others.first()) {
        (Some(baseline), _) => [baseline, &args.traces[0]],
        (None, Some(other)) => [&args.traces[0], other],
        (None, None) => [&args.traces[0], &args.traces[1]],
    };
    let title = title(args, paths[0], paths[1]);
    let traces = sides.map(|side| side.first.as_ref());
    page::write_traces(&title, document, traces, &args.page, target(args))
}

/// What is compared of one side, and what is known of its first trace; a baseline has none.
struct Side {
    series: Vec<CompareSeries>,
    first: Option<Facts>,
}

impl Side {
    /// Of all traces but the first only what is compared is kept.
    fn add(&mut self, path: &Path, trace: Trace, options: &CompareOptions) -> anyhow::Result<()> {
        let file = path.display().to_string();
        let facts = Facts::new(&trace.into());
        self.series.push(spanwise_report::side(&facts, &file, options)?);
        self.first.get_or_insert(facts);
        Ok(())
    }
}

/// Much of what is asked of a trace keeps one core busy: the sides go at once.
fn sides_of(
    args: &CompareArgs,
    traces: [Trace; 2],
) -> anyhow::Result<(Side, Side, CompareOptions)> {
    let options = options(args);
    let side = |path: &Path, trace: Trace| {
        let mut side = Side { series: Vec::with_capacity(1), first: None };
        side.add(path, trace, &options).map(|()| side)
    };
    let [base, other] = traces;
    let (base, other) = both(|| side(&args.traces[0], base), || side(&args.traces[1], other));
    Ok((base?, other?, options))
}

fn sides(args: &CompareArgs) -> anyhow::Result<(Side, Side, CompareOptions)> {
    if let Some(path) = &args.baseline {
        let (series, options) = read_baseline(path)?;
        let options = matching(args, path, &options)?;
        let base = Side { series, first: None };
        return Ok((base, read(args, &args.traces, &options, args.quiet)?, options));
    }
    if args.others.is_empty() {
        bail!("give two traces, or several per side: spanwise compare A1 A2 -- B1 B2");
    }
    let options = options(args);
    // Much of what is asked of a trace keeps one core busy: the sides go at once. Each is
    // about as long as the other, so that one of them shows how far it is.
    let read = |paths: &[PathBuf], quiet: bool| read(args, paths, &options, quiet);
    let (base, other) = both(|| read(&args.traces, true), || read(&args.others, args.quiet));
    Ok((base?, other?, options))
}

fn options(args: &CompareArgs) -> CompareOptions {
    CompareOptions {
        by: args.by.map_or(CompareBy::Operator, grouping),
        phase: args.phase,
        steps: args.steps,
        with_stacks: args.with_stacks,
    }
}

fn grouping(by: CompareByArg) -> CompareBy {
    match by {
        CompareByArg::Op => CompareBy::Operator,
        CompareByArg::Class => CompareBy::Class,
        CompareByArg::Kernel => CompareBy::Kernel,
        CompareByArg::Module => CompareBy::Module,
        CompareByArg::Layer => CompareBy::Layer,
        CompareByArg::Phase => CompareBy::Phase,
        CompareByArg::Step => CompareBy::Step,
        CompareByArg::Stack => CompareBy::Stack,
        CompareByArg::PythonLine => CompareBy::PythonLine,
        // Lines are of functions, which `check` has seen to.
        CompareByArg::Function | CompareByArg::Line => CompareBy::Function,
    }
}

/// One trace at a time.
fn read(
    args: &CompareArgs,
    paths: &[PathBuf],
    options: &CompareOptions,
    is_quiet: bool,
) -> anyhow::Result<Side> {
    let mut side = Side { series: Vec::with_capacity(paths.len()), first: None };
    for path in paths {
        let trace = args.read.open(path, &Progress::new(is_quiet))?;
        side.add(path, trace, options)?;
    }
    Ok(side)
}

fn save_baseline(args: &CompareArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let options = CompareOptions { with_stacks: false, ..options(args) };
    let series = read(args, &args.traces, &options, args.quiet)?.series;
    let text = spanwise_analyze::baseline_text(&series, &options);
    let steps = series.iter().map(CompareSeries::step_count).sum();
    let target = Target { path, is_quiet: args.quiet };
    write_file(target, steps, "steps", |out: &mut dyn io::Write| out.write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

/// What the traces are gathered for: the same as the baseline was.
fn matching(
    args: &CompareArgs,
    path: &Path,
    saved: &CompareOptions,
) -> anyhow::Result<CompareOptions> {
    let asked = options(args);
    let by = if args.by.is_some() { asked.by } else { saved.by };
    let agrees = by == saved.by
        && (args.phase.is_none() || asked.phase == saved.phase)
        && (args.steps.is_none() || asked.steps == saved.steps);
    if !agrees {
        bail!(
            "{}: the baseline was saved with --by {}, the same --phase and --steps are needed; \
             save one with those that you want",
            path.display(),
            saved.by.text()
        );
    }
    Ok(CompareOptions { with_stacks: args.with_stacks, ..*saved })
}
