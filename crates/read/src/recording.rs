//! Folders that hold a recording of our own: the records lie in a `perf.data` inside.

use std::borrow::Cow;
use std::path::Path;

use object::Object;

use crate::source::Bytes;

const RECORDS_FILE: &str = "perf.data";
const ABOUT_FILE: &str = "recording.json";
const FOLDER_ENDING: &str = ".spanwise-recording";

/// True for the folder of a recording. One whose recorder was killed lacks the description.
pub fn is_recording(path: &Path) -> bool {
    let is_named = || path.as_os_str().as_encoded_bytes().ends_with(FOLDER_ENDING.as_bytes());
    path.is_dir()
        && path.join(RECORDS_FILE).is_file()
        && (path.join(ABOUT_FILE).is_file() || is_named())
}

/// The file to read: of a recording its records, and otherwise what was named.
pub(crate) fn file_of(path: &Path) -> Cow<'_, Path> {
    match is_recording(path) {
        true => Cow::Owned(path.join(RECORDS_FILE)),
        false => Cow::Borrowed(path),
    }
}

/// Which build an executable or a library is of, where it says so.
pub fn build_id(path: &Path) -> Option<Vec<u8>> {
    // Nothing but files is opened: a pipe would wait for somebody to write.
    if !path.is_file() {
        return None;
    }
    let bytes = Bytes::open(path).ok()?;
    let file = object::File::parse(bytes.as_ref()).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_a_recording_by_what_is_in_it() {
        let root = tempfile::tempdir().expect("a folder");
        let check = |name: &str, files: &[&str], expected: bool| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).expect("writable");
            files.iter().for_each(|file| fs::write(folder.join(file), "").expect("writable"));
            assert_eq!(is_recording(&folder), expected, "{name} {files:?}");
            let file = file_of(&folder);
            assert_eq!(file.ends_with(RECORDS_FILE), expected);
        };
        check("a", &[], false);
        check("b", &["perf.data"], false);
        check("c", &["perf.data", "recording.json"], true);
        check("d.spanwise-recording", &["perf.data"], true);
        check("e.spanwise-recording", &["recording.json"], false);
    }
}
