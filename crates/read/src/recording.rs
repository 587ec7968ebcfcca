//! Folders that hold a recording of our own: the records lie in a `perf.data` inside.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use spanwise_model::{BOOT_PROPERTY, SourceInfo};

const RECORDS_FILE: &str = "perf.data";
const ABOUT_FILE: &str = "recording.json";
const PERF_RECORDS_FILE: &str = "data";
pub(crate) const KERNEL_FOLDER: &str = "kcore_dir";
const FOLDER_ENDING: &str = ".spanwise-recording";

/// True for the folder of a recording, of ours or of `perf record --kcore`. One of ours whose
/// recorder was killed lacks the description.
pub fn is_recording(path: &Path) -> bool {
    let is_named = || path.as_os_str().as_encoded_bytes().ends_with(FOLDER_ENDING.as_bytes());
    let is_ours =
        || path.join(RECORDS_FILE).is_file() && (path.join(ABOUT_FILE).is_file() || is_named());
    path.is_dir() && (is_ours() || is_of_perf(path))
}

/// The file to read: of a recording its records, and otherwise what was named.
pub(crate) fn file_of(path: &Path) -> Cow<'_, Path> {
    match is_recording(path) {
        true if is_of_perf(path) => Cow::Owned(path.join(PERF_RECORDS_FILE)),
        true => Cow::Owned(path.join(RECORDS_FILE)),
        false => Cow::Borrowed(path),
    }
}

/// A folder that `perf record --kcore` has made.
fn is_of_perf(path: &Path) -> bool {
    path.join(PERF_RECORDS_FILE).is_file() && path.join(KERNEL_FOLDER).is_dir()
}

/// Descriptions have some hundred bytes.
const ABOUT_BYTES_MAX: u64 = 16 << 20;

/// What the description in the folder of a recording says; nothing where there is none.
pub(crate) fn about(folder: &Path) -> io::Result<Option<serde_json::Value>> {
    match spanwise_files::read_regular(&folder.join(ABOUT_FILE), ABOUT_BYTES_MAX) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds what the description beside the records of our own recording says of their clock; gives
/// what is wrong with it.
pub(crate) fn add_clock(records: &Path, info: &mut SourceInfo) -> Option<String> {
    let folder = records.parent().filter(|_| records.file_name() == Some(RECORDS_FILE.as_ref()))?;
    match about(folder) {
        Ok(about) => add_clock_of(&about?, info),
        Err(error) => return Some(format!("{ABOUT_FILE}: {error}")),
    }
    None
}

fn add_clock_of(about: &serde_json::Value, info: &mut SourceInfo) {
    if about["clock"] != "CLOCK_MONOTONIC" {
        return;
    }
    let ns = |key: &str| about[key].as_i64();
    if let (Some(since_1970), Some(start)) = (ns("start_since_1970_ns"), ns("start_ns")) {
        info.base_time_ns = since_1970.checked_sub(start);
    }
    if let Some(boot) = about["boot"].as_str().filter(|boot| !boot.is_empty()) {
        info.properties.insert(BOOT_PROPERTY.to_owned(), boot.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_clock_of_a_recording_is_in_its_description() {
        let root = tempfile::tempdir().expect("a folder");
        let check = |about: &str, base: Option<i64>, boot: Option<&str>| {
            fs::write(root.path().join(ABOUT_FILE), about).expect("writable");
            let mut info = SourceInfo::default();
            add_clock(&root.path().join(RECORDS_FILE), &mut info);
            let found = info.properties.get(BOOT_PROPERTY).map(String::as_str);
            assert_eq!((info.base_time_ns, found), (base, boot), "{about}");
        };
        let clock = r#""clock": "CLOCK_MONOTONIC""#;
        let times = r#""start_ns": 5, "start_since_1970_ns": 105"#;
        check(&format!(r#"{{{clock}, {times}, "boot": "b"}}"#), Some(100), Some("b"));
        check(&format!(r#"{{{clock}, {times}, "boot": ""}}"#), Some(100), None);
        check(&format!(r#"{{{clock}, "boot": "b"}}"#), None, Some("b"));
        check(&format!(r#"{{"clock": "TSC", {times}, "boot": "b"}}"#), None, None);
        check("{", None, None);
        let mut info = SourceInfo::default();
        add_clock(&root.path().join("other.data"), &mut info);
        assert_eq!(info, SourceInfo::default());
    }

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
