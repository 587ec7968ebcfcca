//! `spanwise report`: where the time went.

use std::io::Write;
use std::process::ExitCode;

use spanwise_analyze::Thresholds;
use spanwise_model::{Notice, Notices};
use spanwise_write::Source;

use crate::args::ReportArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let trace = args.read.open(&args.trace, &Progress::new(args.quiet))?;
    let report = spanwise_analyze::report(&trace, &Thresholds::default());
    let file = args.trace.display().to_string();
    let source = Source { file: &file, info: trace.info(), window: trace.window() };
    let mut document = spanwise_write::report_document(&source, &report, args.top.rows());
    document.hints.extend(notices_hint(trace.notices(), &file));
    if args.quiet {
        document.hints.clear();
    }
    let (format, style) = (args.output.format(), args.output.style());
    let mut out = stdout();
    match &args.section {
        None => document.write(format, style, &mut out)?,
        Some(key) => {
            let section = document.sections.iter().find(|section| section.key == key);
            let section = section.ok_or_else(|| anyhow::anyhow!("no section named {key}"))?;
            section.write(format, style, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One line for those who would believe the numbers without knowing.
fn notices_hint(notices: &Notices, file: &str) -> Option<String> {
    if notices.is_empty() {
        return None;
    }
    let sum = |count: fn(&&Notice) -> bool| -> u64 {
        notices.iter().filter(count).map(|notice| notice.count).sum()
    };
    let (all, lost) = (sum(|_| true), sum(|notice| notice.kind.is_loss()));
    let number = |count: u64| spanwise_write::count_text(count.into());
    let loss = match lost {
        0 => "nothing was lost".to_owned(),
        lost => format!("{} lost", number(lost)),
    };
    let notices = if all == 1 { "notice" } else { "notices" };
    Some(format!("{} {notices} about the data, {loss}: spanwise info {file}", number(all)))
}
