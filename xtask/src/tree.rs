//! The texts of the project that people write.
//!
//! Walks the folder instead of asking git: a file is checked before it is added,
//! and in an unpacked archive too. Recorded data is left out, for it says what its
//! producer said.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// A text file, its path relative to the root, with `/` between folders.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Folders that hold what was recorded or built, at any depth.
const NOT_OURS: [&str; 6] =
    ["target", "testdata", "corpus", "node_modules", "__pycache__", "artifacts"];

/// Every text file under `root`, in order of path.
pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    visit(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn visit(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if is_ours(&name) && entry.file_type()?.is_dir() {
            visit(&entry.path(), &format!("{path}/"), files)?;
        } else if is_ours(&name) && entry.file_type()?.is_file() {
            // What is not UTF-8 is no text of ours.
            files.extend(fs::read_to_string(entry.path()).map(|text| SourceFile { path, text }));
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    let is_hidden = name.starts_with('.') && name != ".ci" && name != ".gitignore";
    !is_hidden && !NOT_OURS.contains(&name) && !name.ends_with(".spanwise") && name != "Cargo.lock"
}
