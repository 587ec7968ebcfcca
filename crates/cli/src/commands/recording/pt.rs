//! What `run` and `attach` do about the processor's own trace.

use std::path::PathBuf;

use anyhow::bail;
use spanwise_capture::{CodeRange, PtOptions, Recorded, Snapshot, TraceRecorded};

use crate::args::{PtArgs, ResultArgs};
use crate::failure::note;

/// Code that alone is traced, and code where tracing ends.
pub(in crate::commands) struct Ranges {
    only: Vec<CodeRange>,
    until: Vec<CodeRange>,
}

/// Finds functions in files that are mapped, or will be.
pub(in crate::commands) fn ranges(args: &PtArgs, files: &[PathBuf]) -> anyhow::Result<Ranges> {
    let find = |(option, names): (&str, &[String])| {
        let mut found = Vec::new();
        for name in names {
            let before = found.len();
            for file in files {
                let ranges = spanwise_symbols::function_ranges(file, name);
                let range = |(offset, bytes)| CodeRange { file: file.clone(), offset, bytes };
                found.extend(ranges.into_iter().map(range));
            }
            if found.len() == before {
                bail!(
                    "{option} {name}: no function of this name, with a length, is in the program"
                );
            }
        }
        Ok(found)
    };
    let only = find(("--pt-filter", &args.pt_filter))?;
    let until = find(("--pt-stop", &args.pt_stop))?;
    Ok(Ranges { only, until })
}

pub(in crate::commands) fn options<'a>(
    args: &'a PtArgs,
    ranges: &'a Ranges,
) -> Option<PtOptions<'a>> {
    args.backend?;
    let Ranges { only, until } = ranges;
    let scope = args.pt_scope;
    Some(PtOptions { settings: &args.pt_config, scope, only, until })
}

pub(in crate::commands) fn report(recorded: &Recorded, args: &ResultArgs) {
    let Some(trace) = recorded.trace else { return };
    let TraceRecorded { bytes, rings, ring_bytes, cuts, gaps, overwritten } = trace;
    let count = |number: u64| spanwise_write::count_text(number.into());
    let size = |bytes: u64| spanwise_write::bytes_text(bytes.into());
    if cuts > 0 {
        note(&format!(
            "the trace is cut in {} places: there was no room for it; --trigger keeps the last \
             moments, whole",
            count(cuts)
        ));
    }
    if gaps > 0 {
        note(&format!("parts of the trace are missing in {} places", count(gaps)));
    }
    if args.quiet {
        return;
    }
    if overwritten > 0 {
        let (rings, each) = (count(rings), size(ring_bytes));
        note(&format!(
            "kept are the last {each} of the trace of each of {rings} processors; \
             --snapshot-size keeps more"
        ));
    }
    for Snapshot { folder, why, .. } in &recorded.snapshots {
        note(&format!("{why}: saved in {}", folder.display()));
    }
    note(&format!("{} of Intel PT in all", size(bytes)));
    if bytes == 0 {
        note("the processor has written nothing: the program ran too briefly, or not at all");
    }
}
