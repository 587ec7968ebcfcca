//! `spanwise compare`: what changed between two sets of traces.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::{Allowance, ClassRules, CompareBy, CompareSeries, Facts};

use crate::args::{CompareArgs, CompareByArg};
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (base, other) = match (args.traces.as_slice(), args.others.as_slice()) {
        ([base, other], []) => (std::slice::from_ref(base), std::slice::from_ref(other)),
        (base, other) if !base.is_empty() && !other.is_empty() => (base, other),
        _ => bail!("give two traces, or several a side: spanwise compare A1 A2 -- B1 B2"),
    };
    let (base, other) = (read(args, base)?, read(args, other)?);
    let comparison = spanwise_analyze::compare(&base, &other, &Allowance::default());
    let mut document = spanwise_write::compare_document(&comparison, args.top.rows());
    if args.quiet {
        document.hints.clear();
    }
    let mut out = stdout();
    document.write(args.output.format(), args.output.style(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One trace at a time: only what is compared is kept.
fn read(args: &CompareArgs, paths: &[PathBuf]) -> anyhow::Result<Vec<CompareSeries>> {
    let by = match args.by {
        CompareByArg::Op => CompareBy::Operator,
        CompareByArg::Class => CompareBy::Class,
        CompareByArg::Kernel => CompareBy::Kernel,
        CompareByArg::Phase => CompareBy::Phase,
        CompareByArg::Function => CompareBy::Function,
    };
    let rules = ClassRules::standard();
    let mut sides = Vec::with_capacity(paths.len());
    for path in paths {
        let trace = args.read.open(path, &Progress::new(args.quiet))?;
        sides.push(spanwise_analyze::compare_series(&Facts::new(&trace), &rules, by));
    }
    Ok(sides)
}
