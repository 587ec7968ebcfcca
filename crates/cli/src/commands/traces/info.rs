//! `spanwise info`: what a trace or a profile is, whether traces are sound, their index.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_read::{ReadError, ReadErrorKind};
use spanwise_write::Document;

use super::{index, verify};
use crate::args::InfoArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    match args.traces.as_slice() {
        traces if args.verify => verify::run(args, traces),
        traces if args.index => index::run(args, traces),
        [path] => show(args, path),
        _ => bail!("info shows one trace; --verify checks several, --index indexes several"),
    }
}

fn show(args: &InfoArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let file = path.display().to_string();
    let document = match args.read.summary(path, &Progress::new(args.quiet)) {
        Ok(summary) => spanwise_write::info_document(&file, &summary, args.top.rows()),
        Err(error) => profile_document(path, &file, error)?,
    };
    let mut out = stdout();
    document.write(args.output.format, args.output.style(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What is no trace may be a profile; if it is neither, that it is no trace says more.
fn profile_document(path: &Path, file: &str, error: ReadError) -> Result<Document, ReadError> {
    if !matches!(error.kind, ReadErrorKind::NotATrace { .. }) {
        return Err(error);
    }
    let profile = spanwise_read::open_profile_file(path).map_err(|of_profile| {
        let is_too_large = matches!(of_profile.kind, ReadErrorKind::TooLarge { .. });
        if is_too_large { of_profile } else { error }
    })?;
    Ok(spanwise_write::profile_info_document(file, &profile.info, &profile.profile))
}
