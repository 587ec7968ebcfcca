//! Fuzzing with files on a disk: those that are changed while they are mapped, and those that
//! lie beside others.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::Once;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use spanwise_files::TemporaryFolder;
use spanwise_model::{SpanId, Trace};
use spanwise_recording::calls::CALLS_FILE;
use spanwise_recording::python::PYTHON_FILE;
use spanwise_recording::single_steps::SINGLE_STEPS_FILE;

use super::{image, walk, walk_columns};
use crate::{IndexUse, OpenOptions};

/// Enough spans that their table is mapped, not copied.
const SPANS: usize = 5000;

/// How the folders are called that this leaves while it runs.
const FOLDER_BEGINNING: &str = "spanwise-fuzz-";

/// A folder that is taken away again; those of fuzzers that were killed go as well.
fn in_folder(work: impl FnOnce(&Path)) {
    static BEFORE: Once = Once::new();
    BEFORE.call_once(|| TemporaryFolder::remove_abandoned(FOLDER_BEGINNING));
    let folder = TemporaryFolder::create(FOLDER_BEGINNING).expect("a folder");
    work(folder.path());
}

/// Opens an index, changes its files and its source as `input` says while they are mapped, and
/// asks for everything: the columns are what they were, and arguments are those or an error.
pub fn index_mapped(input: &[u8]) {
    in_folder(|folder| {
        let source = folder.join("trace.json");
        fs::write(&source, sample()).expect("writable");
        let open = || crate::open(&source, &OpenOptions::default()).expect("a trace");
        let whole = image(&open());
        let trace = open();
        let args = |trace: &Trace, row: usize| trace.args(SpanId(row as u32));
        let before: Vec<_> = (0..SPANS).step_by(700).map(|row| args(&trace, row)).collect();
        change_files(folder, input);
        assert_eq!(image(&trace), whole, "columns");
        walk_columns(&trace);
        for (at, before) in before.into_iter().enumerate() {
            let now = args(&trace, at * 700);
            assert!(now == before || now.is_err(), "{before:?} became {now:?}");
        }
        // What is left on the disk is an index, or is not used.
        if let Ok(trace) = crate::open(&source, &OpenOptions::default()) {
            walk_columns(&trace);
        }
    });
}

fn sample() -> String {
    let event = |at: usize| {
        let head = format!(r#""ph":"X","name":"n{}","pid":1,"tid":{}"#, at % 97, at % 3);
        format!(r#"{{{head},"ts":{at},"dur":2,"args":{{"at":{at}}}}}"#)
    };
    let events: Vec<String> = (0..SPANS).map(event).collect();
    format!("[{}]", events.join(",\n"))
}

/// Each edit: which file, what to do, where, and with which bytes.
fn change_files(folder: &Path, mut input: &[u8]) {
    let index = folder.join("trace.json.spanwise");
    let names = ["spans", "strings", "tracks", "categories", "instants", "counters", "links"];
    while let [which, what, high, low, rest @ ..] = input {
        let path = match usize::from(*which) % 9 {
            7 => index.join("manifest.json"),
            8 => folder.join("trace.json"),
            table => index.join(format!("{}.arrow", names[table])),
        };
        let Ok(file) = File::options().write(true).open(&path) else { return };
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let at = len * u64::from(u16::from_be_bytes([*high, *low])) / (1 << 16);
        let (bytes, rest) = rest.split_at(rest.len().min(1 + usize::from(*what) / 4));
        let changed = match what % 4 {
            0 => file.set_len(at),
            1 => file.write_all_at(&bytes.repeat(512), at),
            2 => fs::remove_file(&path),
            _ => file.write_all_at(bytes, at),
        };
        changed.expect("writable");
        input = rest;
    }
}

/// Reads the recording that `records` are, with a file beside them that `input` describes: which
/// one, what it is, and what it holds.
pub fn side_files(records: &[u8], input: &[u8]) {
    let [which, what, content @ ..] = input else { return };
    let names = [
        "recording.json",
        PYTHON_FILE.name,
        CALLS_FILE.name,
        SINGLE_STEPS_FILE.name,
        "perf-1.map",
        "torch-1-1.json",
        "kcore_dir/kcore",
        "kcore_dir/kallsyms",
    ];
    in_folder(|folder| {
        let folder = folder.join("a.spanwise-recording");
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join("perf.data"), records).expect("writable");
        let path = folder.join(names[usize::from(*which) % names.len()]);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        match what % 8 {
            0 => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made"),
            1 => symlink("/dev/zero", &path).expect("made"),
            2 => fs::create_dir(&path).expect("made"),
            3 => symlink(&path, &path).expect("made"),
            _ => fs::write(&path, content).expect("writable"),
        }
        let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
        for path in [folder.clone(), folder.join("perf.data")] {
            if let Ok(trace) = crate::open(&path, &options) {
                walk(&trace);
            }
        }
    });
}
