//! `spanwise info`: what a trace or a profile is.

use std::io::Write;
use std::process::ExitCode;

use spanwise_read::{ReadError, ReadErrorKind};
use spanwise_write::Document;

use crate::args::InfoArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let file = args.trace.display().to_string();
    let document = match args.read.summary(&args.trace, &Progress::new(args.quiet)) {
        Ok(summary) => spanwise_write::info_document(&file, &summary, args.top.rows()),
        Err(error) => profile_document(args, &file, error)?,
    };
    let mut out = stdout();
    document.write(args.output.format(), args.output.style(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What is no trace may be a profile; if it is neither, that it is no trace says more.
fn profile_document(args: &InfoArgs, file: &str, error: ReadError) -> Result<Document, ReadError> {
    if !matches!(error.kind, ReadErrorKind::NotATrace { .. }) {
        return Err(error);
    }
    let profile = spanwise_read::open_profile_file(&args.trace).map_err(|of_profile| {
        let is_too_large = matches!(of_profile.kind, ReadErrorKind::TooLarge { .. });
        if is_too_large { of_profile } else { error }
    })?;
    Ok(spanwise_write::profile_info_document(file, &profile.info, &profile.profile))
}
