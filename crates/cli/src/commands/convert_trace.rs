//! `spanwise convert` to a format of whole traces.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::{Backward, ProfileOptions, StackMode};
use spanwise_model::{MergePart, MergedClock, Trace};
use spanwise_write::{TraceFormat, write_trace};

use super::convert::write_profile_as;
use super::profiles::{rank_of, write_file};
use crate::args::{BackwardArg, ConvertArgs, ConvertFormatArg, ProfileArgs, StackArg};
use crate::failure::note;
use crate::output::stdout;
use crate::progress::Progress;

/// The format of traces that was asked for; `None` where it is one of profiles.
pub(super) fn format_of(format: ConvertFormatArg) -> Option<TraceFormat> {
    match format {
        ConvertFormatArg::Chrome => Some(TraceFormat::Chrome),
        ConvertFormatArg::Perfetto => Some(TraceFormat::Perfetto),
        ConvertFormatArg::Fxt => Some(TraceFormat::Fxt),
        _ => None,
    }
}

pub(super) fn run(args: &ConvertArgs, format: ConvertFormatArg) -> anyhow::Result<ExitCode> {
    if let Some(option) = first_for_profiles(&args.profile) {
        bail!("{option} is for profiles; a trace is written whole");
    }
    let trace = open_all(args)?;
    write_as(&trace, "", (&args.output, format), args.quiet)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a trace as it is, or as the profile that its calls make, under a name.
pub(super) fn write_as(
    trace: &Trace,
    name: &str,
    (target, format): (&Path, ConvertFormatArg),
    quiet: bool,
) -> anyhow::Result<()> {
    let Some(trace_format) = format_of(format) else {
        let options = ProfileOptions {
            stack: StackMode::Mixed,
            backward: Backward::Own,
            rank: None,
            strip_prefix: String::new(),
        };
        let profile = spanwise_analyze::profile(trace, &options);
        let shown = (profile.default_value, name);
        return write_profile_as(&profile, shown, (target, format), quiet);
    };
    let is_compressed = target.extension().is_some_and(|ending| ending == "gz");
    let write = |out: &mut dyn Write| write_trace(trace, trace_format, is_compressed, out);
    if target == Path::new("-") {
        let mut out = stdout();
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    write_file(target, (trace.spans().len(), "spans"), quiet, write)
}

/// The trace, or all of them on one timeline.
fn open_all(args: &ConvertArgs) -> anyhow::Result<Trace> {
    let open = |path: &PathBuf| args.read.open(path, &Progress::new(args.quiet));
    if let [path] = &args.traces[..] {
        return Ok(open(path)?);
    }
    let traces: Vec<Trace> = args.traces.iter().map(open).collect::<Result<_, _>>()?;
    let names = part_names(&args.traces, &traces);
    let parts = names.into_iter().zip(traces).map(|(name, trace)| MergePart { name, trace });
    let merged = spanwise_model::merge(parts.collect()).context("cannot be merged")?;
    if merged.clock == MergedClock::StartsAligned && !args.quiet {
        note("not every trace says when it was recorded: all are set to begin at the same time");
    }
    Ok(merged.trace)
}

/// What tells the traces apart: the rank, or else the name of the file, or else its path.
fn part_names(paths: &[PathBuf], traces: &[Trace]) -> Vec<String> {
    let of = |name: fn(&Path, &Trace) -> Option<String>| {
        let names = paths.iter().zip(traces).map(|(path, trace)| name(path, trace));
        let names: Vec<String> = names.collect::<Option<_>>()?;
        let different: BTreeSet<&String> = names.iter().collect();
        (different.len() == names.len()).then_some(names)
    };
    let rank = |path: &Path, trace: &Trace| {
        let rank = trace.info().rank.or_else(|| rank_of(path))?;
        Some(format!("rank {rank}"))
    };
    let file = |path: &Path, _: &Trace| Some(path.file_name()?.to_string_lossy().into_owned());
    let paths_whole = || paths.iter().map(|path| path.display().to_string()).collect();
    of(rank).or_else(|| of(file)).unwrap_or_else(paths_whole)
}

/// The first option that says how a profile is made, so that none is ignored.
fn first_for_profiles(args: &ProfileArgs) -> Option<&'static str> {
    let options = [
        (args.profile.is_some(), "--profile"),
        (args.value.is_some(), "--value"),
        (args.stack != StackArg::Mixed, "--stack"),
        (args.backward != BackwardArg::Own, "--backward"),
        (!args.strip_prefix.is_empty(), "--strip-prefix"),
    ];
    options.iter().find(|(is_given, _)| *is_given).map(|&(_, option)| option)
}
