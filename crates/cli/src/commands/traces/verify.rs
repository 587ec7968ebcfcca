//! `spanwise info --verify`: is each trace sound?

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use spanwise_analyze::{Check, CheckStatus};
use spanwise_write::Format;

use crate::args::InfoArgs;
use crate::failure;
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &InfoArgs, traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut files: Vec<(String, Vec<Check>)> = Vec::new();
    let mut code = 0;
    for path in traces {
        match args.read.open(path, &Progress::new(args.quiet)) {
            Ok(trace) => {
                let mut checks = spanwise_analyze::quality(&trace);
                let is_violated = |check: &Check| check.status == CheckStatus::Violated;
                if checks.iter().any(is_violated) {
                    code = code.max(failure::NO);
                }
                if args.quiet {
                    checks.retain(is_violated);
                }
                files.push((path.display().to_string(), checks));
            }
            // One bad file is no reason to leave out the others.
            Err(error) => {
                failure::report(&error.into());
                code = failure::ERROR;
            }
        }
    }
    if args.quiet {
        files.retain(|(_, checks)| !checks.is_empty());
    }
    let style = args.output.style();
    let mut out = stdout();
    match args.output.format {
        Format::Text => {
            let document = spanwise_write::verify_document(&files);
            document.write(Format::Text, style, &mut out)?;
        }
        Format::Csv => spanwise_write::verify_table(&files).write_csv(&mut out)?,
        Format::Json => {
            spanwise_write::verify_table(&files).write_json(0, &mut out)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::from(code))
}
