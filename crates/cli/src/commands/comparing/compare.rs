//! `spanwise compare`: what changed between two sets of traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use spanwise_analyze::{CompareBy, CompareOptions, CompareSeries, Facts};
use spanwise_answer::{AnswerError, Rule, check_rules, compare_sides, read_baseline};
use spanwise_model::{Trace, both};
use spanwise_write::{CompareView, Document, Format};

use crate::args::{CompareArgs, CompareByArg};
use crate::commands::profiles::write_file;
use crate::output::stdout;
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let rules: Vec<Rule> = args
        .fail_if
        .iter()
        .map(|text| Rule::parse(text))
        .collect::<Result<_, _>>()
        .map_err(of_rule)?;
    let target = args.output.as_deref().map(|path| anyhow::Ok((path, ending(path)?)));
    let target: Option<(&Path, Ending)> = target.transpose()?;
    if let Some(path) = &args.save_baseline {
        return save_baseline(args, path);
    }
    let (base, other, options) = sides(args)?;
    let facts = [&base, &other].map(|side| side.first.as_ref().map(Facts::new));
    let firsts = facts.each_ref().map(Option::as_ref);
    let (comparison, unsaid) = compare_sides([&base.series, &other.series], firsts, &options);
    let view =
        CompareView { top: args.top.rows(), shows_same: args.all, shows_stacks: args.stacks };
    let mut document = spanwise_write::compare_document(&comparison, view);
    document.hints.extend(unsaid.map(str::to_owned));
    let gate = check_rules(&rules, &comparison).map_err(of_rule)?;
    let holds = gate.iter().all(|row| row.holds);
    if !gate.is_empty() {
        document.sections.insert(0, spanwise_write::gate_section(&gate));
    }
    if args.quiet {
        document.hints.clear();
    }
    match target {
        Some((path, ending)) => write_document(args, &document, path, ending)?,
        None => {
            let mut out = stdout();
            document.write(args.show.format(), args.show.style(), &mut out)?;
            out.flush()?;
        }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn of_rule(error: AnswerError) -> anyhow::Error {
    anyhow!("--fail-if {error}")
}

/// What a file is written as.
#[derive(Clone, Copy)]
enum Ending {
    Page,
    Tables(Format),
}

fn ending(path: &Path) -> anyhow::Result<Ending> {
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("html" | "htm") => Ending::Page,
        Some("json") => Ending::Tables(Format::Json),
        Some("csv") => Ending::Tables(Format::Csv),
        Some("txt") => Ending::Tables(Format::Text),
        _ => bail!("{}: the ending must be .html, .json, .csv or .txt", path.display()),
    })
}

fn write_document(
    args: &CompareArgs,
    document: &Document,
    path: &Path,
    ending: Ending,
) -> anyhow::Result<()> {
    let rows = document.sections.iter().map(|section| section.row_count()).sum();
    let style = spanwise_write::Style { color: false, ..args.show.style() };
    write_file(path, (rows, "rows"), args.quiet, |out: &mut dyn io::Write| match ending {
        Ending::Page => document.write_html("Comparison", out),
        Ending::Tables(format) => document.write(format, style, out),
    })
}

/// What is compared of one side, and its first trace; a baseline has none.
struct Side {
    series: Vec<CompareSeries>,
    first: Option<Trace>,
}

fn sides(args: &CompareArgs) -> anyhow::Result<(Side, Side, CompareOptions)> {
    if let Some(path) = &args.baseline {
        let (series, options) = read_baseline(path)?;
        let options = matching(args, path, &options)?;
        let base = Side { series, first: None };
        return Ok((base, read(args, &args.traces, &options, args.quiet)?, options));
    }
    let (base, other) = match (args.traces.as_slice(), args.others.as_slice()) {
        ([base, other], []) => (std::slice::from_ref(base), std::slice::from_ref(other)),
        (base, other) if !base.is_empty() && !other.is_empty() => (base, other),
        _ => bail!("give two traces, or several a side: spanwise compare A1 A2 -- B1 B2"),
    };
    let options = options(args);
    // Much of what is asked of a trace keeps one core busy: the sides go at once. Each is
    // about as long as the other, so that one of them shows how far it is.
    let read = |paths: &[PathBuf], quiet: bool| read(args, paths, &options, quiet);
    let (base, other) = both(|| read(base, true), || read(other, args.quiet));
    Ok((base?, other?, options))
}

fn options(args: &CompareArgs) -> CompareOptions {
    CompareOptions {
        by: args.by.map_or(CompareBy::Operator, grouping),
        phase: args.phase,
        steps: args.steps,
        with_stacks: args.stacks,
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
        CompareByArg::Function => CompareBy::Function,
    }
}

/// One trace at a time: of all but the first only what is compared is kept.
fn read(
    args: &CompareArgs,
    paths: &[PathBuf],
    options: &CompareOptions,
    is_quiet: bool,
) -> anyhow::Result<Side> {
    let mut side = Side { series: Vec::with_capacity(paths.len()), first: None };
    for path in paths {
        let trace = args.read.open(path, &Progress::new(is_quiet))?;
        let file = path.display().to_string();
        let series = spanwise_answer::side(&Facts::new(&trace), &file, options)?;
        side.series.push(series);
        side.first.get_or_insert(trace);
    }
    Ok(side)
}

fn save_baseline(args: &CompareArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let options = CompareOptions { with_stacks: false, ..options(args) };
    let series = read(args, &args.traces, &options, args.quiet)?.series;
    let text = spanwise_analyze::baseline_text(&series, &options);
    let steps = series.iter().map(CompareSeries::step_count).sum();
    write_file(path, (steps, "steps"), args.quiet, |out: &mut dyn io::Write| {
        out.write_all(text.as_bytes())
    })?;
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
    Ok(CompareOptions { with_stacks: args.stacks, ..*saved })
}
