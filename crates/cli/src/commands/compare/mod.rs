//! `spanwise compare`: what changed between two sets of traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::{
    Allowance, ClassRules, CompareBy, CompareOptions, CompareSeries, Comparison, Facts,
};
use spanwise_model::{Trace, both};
use spanwise_serve::Viewed;
use spanwise_write::{CompareView, Document, Format, Top};

use super::profiles::write_file;
use crate::args::{CompareArgs, CompareByArg};
use crate::output::stdout;
use crate::progress::Progress;
use rules::Rule;

mod rules;

/// More is no baseline.
const BASELINE_BYTES_MAX: u64 = 64 << 20;

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let rules: Vec<Rule> =
        args.fail_if.iter().map(|text| Rule::parse(text)).collect::<anyhow::Result<_>>()?;
    let target = args.output.as_deref().map(|path| anyhow::Ok((path, ending(path)?)));
    let target: Option<(&Path, Ending)> = target.transpose()?;
    if let Some(path) = &args.save_baseline {
        return save_baseline(args, path);
    }
    let (base, other, options) = sides(args)?;
    let mut comparison =
        spanwise_analyze::compare(&base.series, &other.series, options.by, &Allowance::default());
    let unsaid = name_replaced(&mut comparison, [&base, &other], &options);
    let view =
        CompareView { top: args.top.rows(), shows_same: args.all, shows_stacks: args.stacks };
    let mut document = spanwise_write::compare_document(&comparison, view);
    document.hints.extend(unsaid.map(str::to_owned));
    let gate = rules::check(&rules, &comparison)?;
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

/// What changed between two traces that are open: for the viewer.
pub(super) fn for_view(base: &Viewed, other: &Viewed) -> Document {
    let options = CompareOptions::by(CompareBy::Operator);
    let (base, other) = (Facts::new(base.trace()), Facts::new(other.trace()));
    let rules = ClassRules::standard();
    let series = |facts| [spanwise_analyze::compare_series(facts, &rules, &options)];
    let (base, other) = both(|| series(&base), || series(&other));
    let by = options.by;
    let comparison = spanwise_analyze::compare(&base, &other, by, &Allowance::default());
    let view = CompareView { top: Top::First(100), shows_same: false, shows_stacks: false };
    spanwise_write::compare_document(&comparison, view)
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

/// Where kernels differ, says which do the work of which; gives what a reader of that has to
/// know.
fn name_replaced(
    comparison: &mut Comparison,
    sides: [&Side; 2],
    options: &CompareOptions,
) -> Option<&'static str> {
    if !comparison.has_other_kernels() {
        return None;
    }
    let [Some(base), Some(other)] = sides.map(|side| side.first.as_ref()) else {
        return Some(
            "a baseline does not hold where kernels stand: which became which is told where the \
             traces themselves are compared",
        );
    };
    let (base, other) = (Facts::new(base), Facts::new(other));
    let fusion = spanwise_analyze::fusion(&base, &other, &ClassRules::standard());
    let steps = [&base, &other].map(|facts| spanwise_analyze::steps_of(facts, options.phase));
    comparison.name_replaced(&fusion, options.phase, steps);
    options.steps.map(|_| {
        "which kernels became which, and how long they take, is told of all steps, not of \
         those of --steps alone"
    })
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
    let rules = ClassRules::standard();
    let mut side = Side { series: Vec::with_capacity(paths.len()), first: None };
    for path in paths {
        let trace = args.read.open(path, &Progress::new(is_quiet))?;
        let series = spanwise_analyze::compare_series(&Facts::new(&trace), &rules, options);
        if series.step_count() == 0 {
            bail!("{}: {}", path.display(), nothing_left(args, &series));
        }
        side.series.push(series);
        side.first.get_or_insert(trace);
    }
    Ok(side)
}

/// Why nothing of a trace is left to compare.
fn nothing_left(args: &CompareArgs, series: &CompareSeries) -> String {
    let names: Vec<&str> = series.phases().iter().map(|phase| phase.text()).collect();
    match (args.phase, names.as_slice()) {
        (Some(asked), []) => format!("no {} in it: it has no phases", asked.text()),
        (Some(asked), names) if !names.contains(&asked.text()) => {
            format!("no {} in it; it has {}", asked.text(), names.join(", "))
        }
        _ => "no step in it that was asked for".to_owned(),
    }
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

fn read_baseline(path: &Path) -> anyhow::Result<(Vec<CompareSeries>, CompareOptions)> {
    let cannot = || format!("{}: cannot be read", path.display());
    let size = std::fs::metadata(path).with_context(cannot)?.len();
    if size > BASELINE_BYTES_MAX {
        bail!("{}: not a baseline: it has {size} bytes", path.display());
    }
    let bytes = std::fs::read(path).with_context(cannot)?;
    let text = String::from_utf8(bytes)
        .ok()
        .with_context(|| format!("{}: not a baseline: it is not text", path.display()))?;
    spanwise_analyze::parse_baseline(&text).with_context(|| path.display().to_string())
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
