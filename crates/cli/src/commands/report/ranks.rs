//! Reports on many ranks: files are read one by one on each core and only digests kept,
//! so that memory does not grow with their number.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use spanwise_analyze::{Facts, RankDigest, RankDigester};
use spanwise_model::{map_indices, threads_available};
use spanwise_read::{IndexUse, OpenOptions, ReadError};
use spanwise_report::{
    ALL, RANK_SECTIONS, RanksRequest, UnreadFile, files_of, rank_of, ranks_report,
};

use super::show;
use crate::args::ReportArgs;
use crate::failure::{self, note};
use crate::progress::Progress;

pub(super) fn run(args: &ReportArgs, paths: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let is_known = |name: &str| is_section(name) || name == ALL;
    if let Some(name) = args.section.iter().find(|name| !is_known(name)) {
        bail!("the section {name} is about one file, and there are several");
    }
    if args.check.is_some() || !args.threshold.is_empty() {
        bail!("--check and --threshold are about one trace, and there are several");
    }
    let files = files_of(paths)?;
    let mut digests = Vec::new();
    let mut unread = Vec::new();
    for (file, digest) in files.iter().zip(read_all(args, &files)) {
        match digest {
            Ok(digest) => digests.push(digest),
            Err(error) => {
                let (file, reason) = (file.display().to_string(), error.to_string());
                unread.push(UnreadFile { file, reason });
                failure::report(&error.into());
            }
        }
    }
    let mut document = ranks_report(&RanksRequest {
        ranks: &spanwise_analyze::ranks(digests),
        unread: &unread,
        top: args.top.rows(),
        sections: &args.section,
    });
    if args.quiet {
        document.hints.clear();
    }
    show(&document, &args.output)?;
    Ok(if unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(failure::ERROR) })
}

/// Whether a report on many ranks has it.
pub(super) fn is_section(name: &str) -> bool {
    RANK_SECTIONS.iter().any(|def| def.key == name)
}

/// Each file on a thread of its own, as many at once as there are cores.
fn read_all(args: &ReportArgs, files: &[PathBuf]) -> Vec<Result<RankDigest, ReadError>> {
    let progress = Progress::new(args.quiet);
    let length = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let total: u64 = files.iter().map(length).sum();
    let done = AtomicU64::new(0);
    let threads = match args.read.begin() {
        0 => threads_available(),
        threads => threads,
    };
    let options = OpenOptions {
        index: if args.read.no_index { IndexUse::Ignore } else { IndexUse::ReadOrWrite },
        // One file a thread; where there are fewer files, each may have several.
        threads: (threads / files.len().max(1)).max(1),
        progress: None,
        has_python_lines: args.read.python_lines,
        notes: Some(&note),
    };
    let digester = RankDigester::default();
    map_indices(files.len(), threads, |at| {
        let file = &files[at];
        let digest = spanwise_read::open(file, &options).map(|trace| {
            let name = file.display().to_string();
            digester.digest(&Facts::new(&trace.into()), &name, rank_of(file))
        });
        let read = done.fetch_add(length(file), Ordering::Relaxed) + length(file);
        progress.update(read, total);
        digest
    })
}
