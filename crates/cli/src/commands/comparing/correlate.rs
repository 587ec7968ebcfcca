//! `spanwise correlate`: what in the traces moves with metrics of an experiment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use spanwise_analyze::{
    Facts, MatchError, Matching, Observation, correlate, has_steps, match_runs, match_steps,
    observe_run, observe_steps, outcomes,
};
use spanwise_model::Measurements;
use spanwise_report::files_of;
use spanwise_write::{Format, Top};

use crate::args::CorrelateArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &CorrelateArgs) -> anyhow::Result<ExitCode> {
    let table = spanwise_read::open_measurements(&args.metrics)?;
    let files = files_of(&args.traces)?;
    let at_table = |error: MatchError| anyhow!("{}:{error}", args.metrics.display());
    let is_of_steps = has_steps(&table);
    let MatchedRows { matching, observations } = match files.as_slice() {
        [file] if is_of_steps => of_steps(args, &table, file)?,
        _ if is_of_steps => {
            let what = "a column step needs a single trace; rename it where rows are runs";
            bail!("{}: {what}", args.metrics.display());
        }
        files => of_runs(args, &table, files)?,
    };
    let outcomes = outcomes(&table, &matching, &args.metric).map_err(at_table)?;
    let rows_max = match args.top.rows() {
        Top::All => None,
        Top::First(rows) => Some(rows),
    };
    let found = correlate(&observations, &outcomes, rows_max);
    let style = args.output.style();
    let mut out = stdout();
    match args.output.format {
        Format::Text => {
            let mut document = spanwise_write::correlate_document(&found, &matching);
            if args.quiet {
                document.hints.clear();
            }
            document.write(Format::Text, style, &mut out)?;
        }
        Format::Json => {
            let document = spanwise_write::correlate_json(&found, &matching);
            document.write(Format::Json, style, &mut out)?;
        }
        Format::Csv => spanwise_write::correlate_table(&found).write_csv(&mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The rows of the metrics that match steps or traces, and what was observed of those.
struct MatchedRows {
    matching: Matching,
    observations: Vec<Observation>,
}

fn of_steps(
    args: &CorrelateArgs,
    table: &Measurements,
    file: &Path,
) -> anyhow::Result<MatchedRows> {
    let trace = args.read.open(file, &Progress::new(args.quiet))?;
    let mut seen = observe_steps(&Facts::new(&trace.into()));
    if seen.is_empty() {
        bail!("{}: the trace marks no steps: call profiler.step() after each", file.display());
    }
    let steps: Vec<i64> = seen.iter().filter_map(|seen| seen.step).collect();
    let matching = match_steps(table, &steps)
        .map_err(|error| anyhow!("{}:{error}", args.metrics.display()))?;
    keep_matched(&mut seen, &matching);
    Ok(MatchedRows { matching, observations: seen })
}

/// Matched before anything is read, so that a wrong name is reported at once.
fn of_runs(
    args: &CorrelateArgs,
    table: &Measurements,
    files: &[PathBuf],
) -> anyhow::Result<MatchedRows> {
    let paths: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let matching =
        match_runs(table, &paths).map_err(|error| anyhow!("{}:{error}", args.metrics.display()))?;
    let mut seen = Vec::new();
    for &(file, _) in &matching.pairs {
        let trace = args.read.open(&files[file], &Progress::new(args.quiet))?;
        seen.push(observe_run(&Facts::new(&trace.into())));
    }
    Ok(MatchedRows { matching, observations: seen })
}

fn keep_matched(seen: &mut Vec<Observation>, matching: &Matching) {
    let mut at = 0;
    seen.retain(|_| {
        at += 1;
        matching.pairs.iter().any(|&(sample, _)| sample == at - 1)
    });
}
