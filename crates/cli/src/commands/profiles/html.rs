//! `spanwise html`: a report in one file.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::{ClassRules, Facts, ProfileOptions, StepClasses, step_classes};
use spanwise_answer::{Opened, compare_traces};
use spanwise_model::{Profile, Trace};
use spanwise_write::{CHART_CLASSES_MAX, ReportPage, Top, write_report_page};

use crate::args::HtmlArgs;
use crate::commands::profiles::{self, write_file};
use crate::commands::report;
use crate::commands::viewing::view::name_of;

/// Rows of each table.
const ROWS: usize = 30;

pub(in crate::commands) fn run(args: &HtmlArgs) -> anyhow::Result<ExitCode> {
    match (args.traces.as_slice(), args.compare) {
        ([path], false) => one(args, path)?,
        ([base, other], true) => changes(args, base, other)?,
        ([_], true) => bail!("--compare needs two traces"),
        _ => bail!("one trace makes a report; --compare says what changed between two"),
    }
    Ok(ExitCode::SUCCESS)
}

fn one(args: &HtmlArgs, path: &Path) -> anyhow::Result<()> {
    let trace = open(args, path)?;
    let file = shown_name(args, path);
    let mut document = report::named(&trace, &file, Top::First(ROWS), &[]);
    if args.with_metadata {
        document.sections.push(spanwise_write::properties_section(trace.info()));
    }
    let profile = profile_of(&trace);
    let steps = steps_of(&trace);
    let page = ReportPage {
        title: &file,
        document: &document,
        steps: Some(&steps),
        trace: Some(&trace),
        profile: Some((&profile, profile.default_value)),
        base: None,
        bytes_max: args.max_size,
    };
    write(args, &page)
}

fn changes(args: &HtmlArgs, base: &Path, other: &Path) -> anyhow::Result<()> {
    let title = format!("{} compared with {}", shown_name(args, other), shown_name(args, base));
    let (base, other) = (open(args, base)?, open(args, other)?);
    let (document, _) = compare_traces(&base, &other);
    let profiles = [&base, &other].map(profile_of);
    let steps = steps_of(&other);
    let page = ReportPage {
        title: &title,
        document: &document,
        steps: Some(&steps),
        trace: Some(&other),
        profile: Some((&profiles[1], profiles[1].default_value)),
        base: Some(&profiles[0]),
        bytes_max: args.max_size,
    };
    write(args, &page)
}

fn write(args: &HtmlArgs, page: &ReportPage<'_>) -> anyhow::Result<()> {
    let sections = page.document.sections.len();
    write_file(&args.output, (sections, "sections"), args.quiet, |out| write_report_page(page, out))
}

fn open(args: &HtmlArgs, path: &Path) -> anyhow::Result<Trace> {
    match profiles::open(path, &args.read, args.quiet)? {
        Opened::Trace(trace) => Ok(*trace),
        Opened::Profile(_) => bail!(
            "{}: a profile, which has no timeline; try: spanwise flame {0} -o flame.html",
            path.display()
        ),
    }
}

/// What the page calls a trace: where a file lies is nobody else's business.
fn shown_name(args: &HtmlArgs, path: &Path) -> String {
    if args.with_metadata { path.display().to_string() } else { name_of(path) }
}

fn steps_of(trace: &Trace) -> StepClasses {
    step_classes(&Facts::new(trace), &ClassRules::standard(), CHART_CLASSES_MAX)
}

fn profile_of(trace: &Trace) -> Profile {
    spanwise_analyze::profile(trace, &ProfileOptions::default())
}
