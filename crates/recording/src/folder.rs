//! What a folder of a recording is called, and the files in it.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use crate::about::ABOUT_FILE;

/// How the folder of a recording is called.
pub const FOLDER_ENDING: &str = ".spanwise-recording";

/// The records of the kernel.
pub const RECORDS_FILE: &str = "perf.data";

/// The kernel's code, as `perf record --kcore` keeps it.
pub const KERNEL_FOLDER: &str = "kcore_dir";

/// The records in a folder that `perf record --kcore` has made.
const PERF_RECORDS_FILE: &str = "data";

/// True for the folder of a recording, of ours or of `perf record --kcore`. One of ours whose
/// recorder was killed lacks the description.
pub fn is_recording(path: &Path) -> bool {
    let is_named = || path.as_os_str().as_encoded_bytes().ends_with(FOLDER_ENDING.as_bytes());
    let is_ours =
        || path.join(RECORDS_FILE).is_file() && (path.join(ABOUT_FILE).is_file() || is_named());
    path.is_dir() && (is_ours() || is_of_perf(path))
}

/// The file to read: of a recording its records, and otherwise the path itself.
pub fn records_file(path: &Path) -> Cow<'_, Path> {
    match is_recording(path) {
        true if is_of_perf(path) => Cow::Owned(path.join(PERF_RECORDS_FILE)),
        true => Cow::Owned(path.join(RECORDS_FILE)),
        false => Cow::Borrowed(path),
    }
}

fn is_of_perf(path: &Path) -> bool {
    path.join(PERF_RECORDS_FILE).is_file() && path.join(KERNEL_FOLDER).is_dir()
}

/// Traces of PyTorch in the folder of a recording, by name; none in any other folder.
pub fn torch_traces(path: &Path) -> Vec<PathBuf> {
    if !is_recording(path) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let traces = names.filter(|name| is_torch_trace(name)).map(|name| path.join(name));
    let mut traces: Vec<PathBuf> = traces.collect();
    traces.sort();
    traces
}

/// True for the name of a trace of PyTorch's profiler.
pub fn is_torch_trace(name: &str) -> bool {
    name.starts_with("torch-") && name.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_recording_by_what_is_in_it() {
        let root = tempfile::tempdir().expect("a folder");
        let check = |name: &str, files: &[&str], expected: bool| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).expect("writable");
            files.iter().for_each(|file| fs::write(folder.join(file), "").expect("writable"));
            assert_eq!(is_recording(&folder), expected, "{name} {files:?}");
            let file = records_file(&folder);
            assert_eq!(file.ends_with(RECORDS_FILE), expected);
        };
        check("a", &[], false);
        check("b", &["perf.data"], false);
        check("c", &["perf.data", "recording.json"], true);
        check("d.spanwise-recording", &["perf.data"], true);
        check("e.spanwise-recording", &["recording.json"], false);
    }

    #[test]
    fn traces_of_pytorch_are_known_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.spanwise-recording");
        fs::create_dir(&path).expect("writable");
        let all = ["perf.data", "torch-7-2.json", "torch-7-1.json", ".torch-7-3.json", "torch-7"];
        all.iter().for_each(|name| fs::write(path.join(name), "").expect("writable"));
        let expected = ["torch-7-1.json", "torch-7-2.json"].map(|name| path.join(name));
        assert_eq!(torch_traces(&path), expected);
        assert!(torch_traces(folder.path()).is_empty());
    }
}
