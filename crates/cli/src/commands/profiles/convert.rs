//! `spanwise convert`: traces and profiles become files for other tools and other people.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::{FrameBy, FunctionBy, ProfileOptions};
use spanwise_model::{MergedClock, Profile, ProfileBuilder, Trace};
use spanwise_report::{ConvertFormat, TraceOrProfile, merge_traces, write_whole};
use spanwise_write::ProfileView;

use super::flame::FlameGraph;
use super::{Target, page, write_file};
use crate::args::{ConvertArgs, FileFormat, PageArgs};
use crate::failure::note;

pub(in crate::commands) fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.output, args.to)?;
    refuse_unused(args, format)?;
    let target = Target { path: &args.output, is_quiet: args.quiet };
    match format {
        FileFormat::Of(format) if format.of_traces().is_some() => {
            write_trace_as(open_all(args)?, "", FileFormat::Of(format), target)?;
        }
        FileFormat::Of(format) => {
            let profile = read_all(args, format.frames(args.by))?;
            let value = args.profile.column(&profile)?;
            let view = ProfileView { name: &program_name(&args.traces), value };
            write_profile_as(&profile, &view, format, target)?;
        }
        FileFormat::FlameGraph => {
            let by = match args.by {
                None | Some(FunctionBy::Function) => FrameBy::Function,
                Some(FunctionBy::Line) => FrameBy::NamedLine,
            };
            let profile = read_all(args, by)?;
            let (title, value) = (program_name(&args.traces), args.profile.column(&profile)?);
            let is_icicle = args.icicle;
            let graph =
                FlameGraph { profile: &profile, value, title: &title, is_icicle, base: None };
            graph.write(target)?;
        }
        FileFormat::Page => write_page(args, target)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The format that is named, or that the ending of the file says.
pub(in crate::commands) fn format_of(
    path: &Path,
    named: Option<FileFormat>,
) -> anyhow::Result<FileFormat> {
    let Some(format) = named.or_else(|| FileFormat::of_path(path)) else {
        let names = ConvertFormat::names().collect::<Vec<_>>().join(", ");
        bail!("{}: the ending names no format; say --to {names}, flame or html", path.display());
    };
    Ok(format)
}

/// What changes nothing in this format is an error, so that no option is ignored.
fn refuse_unused(args: &ConvertArgs, format: FileFormat) -> anyhow::Result<()> {
    let of_profiles = args.profile.first_given().or(args.by.map(|_| "--by"));
    if let Some(option) = of_profiles.filter(|_| !format.is_of_profiles()) {
        bail!("{option} is for profiles and flame graphs; other formats have the whole trace");
    }
    if args.icicle && format != FileFormat::FlameGraph {
        bail!("--icicle is for flame graphs");
    }
    if let Some(option) = args.page.first_given().filter(|_| format != FileFormat::Page) {
        bail!("{option} is for pages: -o FILE.html");
    }
    Ok(())
}

fn write_page(args: &ConvertArgs, target: Target<'_>) -> anyhow::Result<()> {
    let mut recordings = args.calls.recordings(&args.traces);
    let (Some(files), None) = (recordings.next(), recordings.next()) else {
        bail!(
            "a page is about one trace; spanwise compare BASE OTHER -o FILE.html shows what \
             changed between two"
        );
    };
    let trace = open_trace(args, files)?;
    page::write_report(trace, &args.page.shown_name(&files[0]), &args.page, target)
}

/// A recording that is more than a profile.
fn open_trace(args: &ConvertArgs, files: &[PathBuf]) -> anyhow::Result<Trace> {
    match args.calls.open(files, &args.read, args.quiet)? {
        TraceOrProfile::Trace(trace) => Ok(*trace),
        TraceOrProfile::Profile(_) => bail!(
            "{}: a profile, which has no timeline; try: spanwise convert {0} -o flame.svg",
            files[0].display()
        ),
    }
}

/// Writes a trace in any format, under a name.
pub(in crate::commands) fn write_trace_as(
    trace: Trace,
    name: &str,
    format: FileFormat,
    target: Target<'_>,
) -> anyhow::Result<()> {
    if let FileFormat::Of(format) = format
        && let Some(format) = format.of_traces()
    {
        let write = |out: &mut dyn Write| write_whole(&trace, target.path, format, out);
        return write_file(target, trace.spans().len(), "spans", write);
    }
    if format == FileFormat::Page {
        let options = PageArgs { max_size: None, with_metadata: false };
        return page::write_report(trace, name, &options, target);
    }
    let by = match format {
        FileFormat::Of(format) => format.frames(None),
        FileFormat::FlameGraph | FileFormat::Page => FrameBy::Function,
    };
    let options = ProfileOptions { by, ..ProfileOptions::default() };
    let profile = &spanwise_analyze::profile(&trace, &options);
    let value = profile.default_value;
    match format {
        FileFormat::Of(format) => {
            write_profile_as(profile, &ProfileView { name, value }, format, target)
        }
        FileFormat::FlameGraph | FileFormat::Page => {
            FlameGraph { profile, value, title: name, is_icicle: false, base: None }.write(target)
        }
    }
}

fn write_profile_as(
    profile: &Profile,
    view: &ProfileView<'_>,
    format: ConvertFormat,
    target: Target<'_>,
) -> anyhow::Result<()> {
    write_file(target, profile.samples.len(), "samples", |out: &mut dyn Write| {
        spanwise_report::write_profile(profile, view, target.path, format, out)
    })
}

/// The trace, or all of them on one timeline.
fn open_all(args: &ConvertArgs) -> anyhow::Result<Trace> {
    let recordings = args.calls.recordings(&args.traces);
    let traces: Vec<Trace> =
        recordings.map(|files| open_trace(args, files)).collect::<Result<_, _>>()?;
    let merged = merge_traces(&args.traces, traces)?;
    if merged.clock == MergedClock::StartsAligned && !args.quiet {
        note("not every trace says when it was recorded: all are set to begin at the same time");
    }
    Ok(merged.trace)
}

/// Reads all inputs, one in memory at a time, into one profile.
fn read_all(args: &ConvertArgs, by: FrameBy) -> anyhow::Result<Profile> {
    let read = |files: &[PathBuf]| {
        let opened = args.calls.open(files, &args.read, args.quiet)?;
        args.profile.profile_of(opened, &files[0], by)
    };
    let mut recordings = args.calls.recordings(&args.traces);
    let first = read(recordings.next().context("no input")?)?;
    let mut others = recordings.peekable();
    if others.peek().is_none() {
        return Ok(first);
    }
    let value_types: Vec<(&str, &str)> =
        first.value_types.iter().map(|value| (&*value.name, &*value.unit)).collect();
    let mut builder = ProfileBuilder::new(&value_types, first.default_value);
    builder.time_ns = first.time_ns;
    builder.duration_ns = first.duration_ns;
    builder.comments.clone_from(&first.comments);
    builder.add_profile(&first);
    for files in others {
        let profile = read(files)?;
        if profile.value_types != first.value_types {
            bail!(
                "{}: its columns differ from those of {}",
                files[0].display(),
                args.traces[0].display()
            );
        }
        builder.time_ns = builder.time_ns.min(profile.time_ns);
        builder.duration_ns = builder.duration_ns.max(profile.duration_ns);
        for comment in &profile.comments {
            if !builder.comments.contains(comment) {
                builder.comments.push(comment.clone());
            }
        }
        builder.add_profile(&profile);
    }
    Ok(builder.finish())
}

fn program_name(traces: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match traces {
        [] => String::new(),
        [one] => name(one),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}
