//! `spanwise convert` to a format of whole traces.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::ProfileOptions;
use spanwise_answer::{ConvertFormat, merge_traces, write_whole};
use spanwise_model::{MergedClock, Trace};
use spanwise_write::TraceFormat;

use crate::args::{BackwardArg, ConvertArgs, ConvertFormatArg, ProfileArgs, StackArg};
use crate::commands::profiles::convert::write_profile_as;
use crate::commands::profiles::write_file;
use crate::failure::note;
use crate::output::stdout;
use crate::progress::Progress;

/// The format of traces that was asked for; `None` where it is one of profiles.
pub(in crate::commands) fn format_of(format: ConvertFormatArg) -> Option<TraceFormat> {
    ConvertFormat::from(format).of_traces()
}

pub(in crate::commands) fn run(
    args: &ConvertArgs,
    format: ConvertFormatArg,
) -> anyhow::Result<ExitCode> {
    if let Some(option) = first_for_profiles(&args.profile) {
        bail!("{option} is for profiles; a trace is written whole");
    }
    let trace = open_all(args)?;
    write_as(&trace, "", (&args.output, format), args.quiet)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a trace as it is, or as the profile that its calls make, under a name.
pub(in crate::commands) fn write_as(
    trace: &Trace,
    name: &str,
    (target, format): (&Path, ConvertFormatArg),
    quiet: bool,
) -> anyhow::Result<()> {
    let Some(trace_format) = format_of(format) else {
        let options = ProfileOptions::default();
        let profile = spanwise_analyze::profile(trace, &options);
        let shown = (profile.default_value, name);
        return write_profile_as(&profile, shown, (target, format), quiet);
    };
    let form = (target, trace_format);
    let write = |out: &mut dyn Write| write_whole(trace, form, out);
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
    let traces: Vec<Trace> = args.traces.iter().map(open).collect::<Result<_, _>>()?;
    let merged = merge_traces(&args.traces, traces)?;
    if merged.clock == MergedClock::StartsAligned && !args.quiet {
        note("not every trace says when it was recorded: all are set to begin at the same time");
    }
    Ok(merged.trace)
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
