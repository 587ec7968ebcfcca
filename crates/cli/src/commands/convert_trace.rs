//! `spanwise convert` to a format of whole traces.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_write::{TraceFormat, write_trace};

use super::profiles::write_file;
use crate::args::{BackwardArg, ConvertArgs, ConvertFormatArg, ProfileArgs, StackArg};
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

pub(super) fn run(args: &ConvertArgs, format: TraceFormat) -> anyhow::Result<ExitCode> {
    if let Some(option) = first_for_profiles(&args.profile) {
        bail!("{option} is for profiles; a trace is written whole");
    }
    let [path] = &args.traces[..] else {
        let count = args.traces.len();
        bail!("{count} traces given; one becomes one file, only profiles are merged");
    };
    let trace = args.read.open(path, &Progress::new(args.quiet))?;
    let is_compressed = args.output.extension().is_some_and(|ending| ending == "gz");
    let write = |out: &mut dyn Write| write_trace(&trace, format, is_compressed, out);
    if args.output == Path::new("-") {
        let mut out = stdout();
        write(&mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    write_file(&args.output, (trace.spans().len(), "spans"), args.quiet, write)?;
    Ok(ExitCode::SUCCESS)
}

/// The first option that says how a profile is made, so that none is ignored.
fn first_for_profiles(args: &ProfileArgs) -> Option<&'static str> {
    let options = [
        (args.value.is_some(), "--value"),
        (args.stack != StackArg::Mixed, "--stack"),
        (args.backward != BackwardArg::Own, "--backward"),
        (!args.strip_prefix.is_empty(), "--strip-prefix"),
    ];
    options.iter().find(|(is_given, _)| *is_given).map(|&(_, option)| option)
}
