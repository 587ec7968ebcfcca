//! `spanwise report`: where the time went.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use spanwise_analyze::{ClassRules, DevicePeaks, Facts, Thresholds, metrics};
use spanwise_model::Trace;
use spanwise_report::{
    ALL, LimitRule, ReportRequest, TraceOrProfile, check_limits, is_section, parse_limits, report,
};
use spanwise_write::{Document, Top};

use crate::args::{OutputArgs, ReportArgs};
use crate::failure;
use crate::output::stdout;

mod calls;
pub(crate) mod compat;
mod profile;
mod ranks;
pub(crate) mod sections;

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let recording_option = match (&args.print, &args.function) {
        (Some(_), _) => Some("--print"),
        (None, Some(_)) => Some("--function"),
        (None, None) => args.calls.first_given(),
    };
    match args.traces.as_slice() {
        paths if args.print.is_some() && (paths.len() == 1 || args.calls.snapshots) => {
            calls::print_timeline(args)
        }
        paths if args.calls.snapshots => run_one(args, paths),
        paths @ [path] if !path.is_dir() || spanwise_read::is_recording(path) => {
            run_one(args, paths)
        }
        _ if let Some(option) = recording_option => {
            bail!("{option} needs a single recording; --snapshots makes one of several files")
        }
        _ if args.value.is_some() => bail!("--value needs a single profile"),
        _ if args.classes.is_some() => bail!("--classes needs a single trace"),
        _ if args.compat.is_some() => bail!("--compat takes the trace of one rank"),
        paths => ranks::run(args, paths),
    }
}

fn run_one(args: &ReportArgs, files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let path = files[0].as_path();
    if let Some(name) = args.section.iter().find(|name| ranks::is_section(name)) {
        bail!("the section {name} needs the traces of several ranks, or a folder of them");
    }
    let (classes, devices) = tables(args.classes.as_deref())?;
    let gate = args.check.as_deref().map(rules_of).transpose()?;
    let thresholds = thresholds(&args.threshold)?;
    let trace = match args.calls.open(files, &args.read, args.quiet)? {
        TraceOrProfile::Profile(profile) => return profile::run(args, path, &profile),
        TraceOrProfile::Trace(trace) => Arc::from(trace),
    };
    refuse_options_of_profiles(args, path)?;
    let file = path.display().to_string();
    let facts = Facts::with_rules(&trace, classes);
    if let Some(name) = &args.function {
        return calls::show_function(args, &facts, &file, name);
    }
    let request = ReportRequest {
        thresholds,
        devices,
        ..ReportRequest::new(&facts, &file, args.top.rows(), &args.section)
    };
    let mut document = match args.compat {
        Some(compat) => {
            Document { sections: compat::sections(compat, &facts, args)?, ..Document::default() }
        }
        None => own_report(&request)?,
    };
    if args.quiet {
        document.hints.clear();
    }
    let rows = match &gate {
        Some(rules) => check_limits(rules, &metrics(&facts), &request.findings())?,
        None => Vec::new(),
    };
    if gate.is_some() {
        document.sections.push(spanwise_report::gate_section(&rows));
    }
    show(&document, &args.output)?;
    let is_passed = rows.iter().all(|row| row.holds);
    Ok(if is_passed { ExitCode::SUCCESS } else { ExitCode::from(failure::NO) })
}

/// The rules of a file.
fn rules_of(path: &Path) -> anyhow::Result<Vec<LimitRule>> {
    let text = crate::input::text_of(path)
        .with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(parse_limits(&text, path)?)
}

/// The sections that are named, or the usual ones where none is.
pub(super) fn named(trace: Trace, file: &str, top: Top, sections: &[String]) -> Document {
    report(&ReportRequest::new(&Facts::new(&trace.into()), file, top, sections))
}

/// What only a profile can answer is an error, not an empty answer.
fn refuse_options_of_profiles(args: &ReportArgs, path: &Path) -> anyhow::Result<()> {
    if args.value.is_some() {
        bail!("{}: a trace; --value is for profiles", path.display());
    }
    let is_unknown = |name: &&String| profile::is_section(name) && !is_section(name);
    if let Some(name) = args.section.iter().find(is_unknown) {
        bail!("{}: a trace; the section {name} is about profiles", path.display());
    }
    Ok(())
}

/// The thresholds, with those that were given as `NAME=VALUE` put into place.
fn thresholds(given: &[String]) -> anyhow::Result<Thresholds> {
    let mut thresholds = Thresholds::default();
    for text in given {
        let Some((name, value)) = text.split_once('=') else {
            bail!("--threshold {text}: write NAME=VALUE");
        };
        thresholds.set(name, value).map_err(|error| anyhow!("--threshold {error}"))?;
    }
    Ok(thresholds)
}

/// A section alone has nothing around it.
fn show(document: &Document, output: &OutputArgs) -> anyhow::Result<()> {
    let (format, style) = (output.format, output.style());
    let mut out = stdout();
    match document.sections.as_slice() {
        [section] => section.write(format, style, &mut out)?,
        _ => document.write(format, style, &mut out)?,
    }
    Ok(out.flush()?)
}

/// What is known of kernels and devices, the user's own before the project's.
fn tables(own: Option<&Path>) -> anyhow::Result<(ClassRules, DevicePeaks)> {
    let Some(path) = own else { return Ok((ClassRules::standard(), DevicePeaks::standard())) };
    let text = crate::input::text_of(path).with_context(|| path.display().to_string())?;
    let classes = ClassRules::with_own(&text).with_context(|| path.display().to_string())?;
    let devices = DevicePeaks::with_own(&text).with_context(|| path.display().to_string())?;
    Ok((classes, devices))
}

fn own_report(request: &ReportRequest<'_>) -> anyhow::Result<Document> {
    let is_own = |name: &&String| *name == ALL || is_section(name);
    if let Some(other) = request.sections.iter().find(|name| !is_own(name)) {
        bail!("the section {other} is another tool's: see --compat");
    }
    Ok(report(request))
}
