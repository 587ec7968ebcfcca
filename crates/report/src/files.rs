//! Names of files: which traces a folder holds, which rank a name speaks of; and files that
//! results are written to.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use spanwise_files::OutputSummary;

use crate::ReportError;

/// How traces in a folder are known.
const ENDINGS: &[&str] = &[
    ".json",
    ".json.gz",
    ".json.zst",
    ".json.xz",
    ".perfetto-trace",
    ".pftrace",
    ".fxt",
    ".fxt.gz",
];

/// The files that were named, and the traces in the folders that were.
pub fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReportError> {
    let mut files = Vec::new();
    for path in paths {
        // A recording is a folder too, and one thing.
        if !path.is_dir() || spanwise_read::is_recording(path) {
            files.push(path.clone());
            continue;
        }
        let cannot = |error| ReportError::file(path, "cannot be listed", error);
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            if file.is_file() && is_trace(&file) {
                found.push(file);
            }
        }
        if found.is_empty() {
            let (folder, endings) = (path.display(), ENDINGS.join(", "));
            let what = format!("{folder}: no trace in this folder ({endings})");
            return Err(ReportError::Request(what));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

fn is_trace(path: &Path) -> bool {
    let name = path.to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The number behind "rank" in a file's name.
pub fn rank_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let (_, after) = name.rsplit_once("rank")?;
    let after = after.trim_start_matches(['_', '-', '.']);
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    after[..digits].parse().ok()
}

/// Writes what was asked for to the file, pipe or device of that name; a file appears whole or
/// not at all.
pub fn write_output(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<OutputSummary, ReportError> {
    spanwise_files::write_output(target, write)
        .map_err(|error| ReportError::file(target, "cannot be written", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_in_file_names() {
        let check = |name: &str, expected| assert_eq!(rank_of(Path::new(name)), expected, "{name}");
        check("ddp_rank3.json.gz", Some(3));
        check("a/rank-12/rank_07.pt.trace.json", Some(7));
        check("ranking.json", None);
        check("trace.json", None);
    }
}
