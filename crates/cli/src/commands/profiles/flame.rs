//! `spanwise flame`: a flame graph in one file.

use std::process::ExitCode;

use anyhow::bail;
use spanwise_write::FlameOptions;

use crate::args::FlameArgs;
use crate::commands::profiles::write_file;

pub(in crate::commands) fn run(args: &FlameArgs) -> anyhow::Result<ExitCode> {
    let ending = args.output.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_html = match &*ending {
        "svg" => false,
        "html" | "htm" => true,
        _ => bail!("{}: the ending must be .svg or .html", args.output.display()),
    };
    let read = |path| args.profile.read(path, &args.read, args.quiet);
    let profile = read(&args.trace)?;
    let base = args.diff.as_deref().map(read).transpose()?;
    let value = args.profile.column(&profile)?;
    if let Some(base) = base.as_ref().filter(|base| base.value_types != profile.value_types) {
        let count = base.value_types.len();
        bail!("the profiles to compare have other columns: {count} of them in the base");
    }
    let name = |path: &std::path::Path| {
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let title = match &args.diff {
        None => name(&args.trace),
        Some(base) => format!("{} since {}", name(&args.trace), name(base)),
    };
    let (is_icicle, base) = (args.icicle, base.as_ref());
    let options = FlameOptions { title: &title, value, is_icicle, is_html, base };
    write_file(&args.output, (profile.samples.len(), "samples"), args.quiet, |out| {
        spanwise_write::write_flame(&profile, &options, out)
    })?;
    Ok(ExitCode::SUCCESS)
}
