//! The folder that holds a recording: `perf.data`, and `recording.json` about how it was made.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::CaptureError;

/// How the folder of a recording is called.
pub const FOLDER_ENDING: &str = ".spanwise-recording";

pub(crate) const RECORDS_FILE: &str = "perf.data";
const ABOUT_FILE: &str = "recording.json";

/// A folder beside the others, of a name that nobody has yet: `NAME`, `NAME-2`, `NAME-3` …
pub(crate) fn create_folder(beside: &Path, name: &str) -> Result<PathBuf, CaptureError> {
    let names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
    for name in names {
        let folder = beside.join(name + FOLDER_ENDING);
        match private_folder(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let what = format!("{}: cannot be made", folder.display());
                return Err(CaptureError::io(what, error));
            }
            Ok(()) => return Ok(folder),
        }
    }
    unreachable!("names do not come to an end")
}

/// Copies of stacks may hold anything: the folder is for whom it was recorded.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Facts about a recording, as a JSON object whose keys stand in the given order.
#[derive(Debug, Default)]
pub(crate) struct About {
    rows: Vec<(&'static str, String)>,
}

impl About {
    pub(crate) fn text(&mut self, key: &'static str, value: &str) {
        self.rows.push((key, json_text(value)));
    }

    pub(crate) fn number(&mut self, key: &'static str, value: impl Into<i128>) {
        self.rows.push((key, value.into().to_string()));
    }

    pub(crate) fn flag(&mut self, key: &'static str, value: bool) {
        self.rows.push((key, value.to_string()));
    }

    pub(crate) fn list(&mut self, key: &'static str, values: impl Iterator<Item = String>) {
        let values: Vec<String> = values.collect();
        self.rows.push((key, format!("[{}]", values.join(", "))));
    }

    pub(crate) fn texts(&mut self, key: &'static str, values: &[String]) {
        self.list(key, values.iter().map(|value| json_text(value)));
    }

    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let rows: Vec<String> =
            self.rows.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
        fs::write(folder.join(ABOUT_FILE), format!("{{\n{}\n}}\n", rows.join(",\n")))
    }
}

fn json_text(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json += &format!("\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_taken_twice() {
        let beside = tempfile::tempdir().expect("a folder");
        let names = || {
            let folder = create_folder(beside.path(), "server").expect("writable");
            folder.file_name().expect("a name").to_string_lossy().into_owned()
        };
        assert_eq!(names(), "server.spanwise-recording");
        assert_eq!(names(), "server-2.spanwise-recording");
    }

    #[test]
    fn texts_are_json_whatever_they_hold() {
        let check = |text, json| assert_eq!(json_text(text), json);
        check("a b", r#""a b""#);
        check("a\"b\\c\n", r#""a\"b\\c\u000a""#);
    }
}
