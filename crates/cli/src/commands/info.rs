//! `spanwise info`: what a trace is.

use std::io::Write;
use std::process::ExitCode;

use crate::args::InfoArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let summary = args.read.summary(&args.trace, &Progress::new(args.quiet))?;
    let file = args.trace.display().to_string();
    let document = spanwise_write::info_document(&file, &summary, args.top.rows());
    let mut out = stdout();
    document.write(args.output.format(), args.output.style(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
