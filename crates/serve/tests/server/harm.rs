//! What happens to an open trace when its files are changed or cut: every request is answered,
//! rightly or by an error, and the process lives.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanwise_read::OpenOptions;

use crate::running::{Running, start};

/// Enough that tables are mapped, not copied.
const SPANS: usize = 30_000;

/// A trace that is shown from its index, and the folder of both.
struct ShownTrace {
    folder: tempfile::TempDir,
    running: Running,
}

impl ShownTrace {
    fn new() -> ShownTrace {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("trace.json");
        let event = |at: usize| {
            let head = format!(r#""ph":"X","name":"function {}","pid":1,"tid":1"#, at % 4000);
            format!(r#"{{{head},"ts":{at},"dur":1,"args":{{"at":{at}}}}}"#)
        };
        let events: Vec<String> = (0..SPANS).map(event).collect();
        fs::write(&source, format!("[{}]", events.join(","))).expect("room");
        let open = || spanwise_read::open(&source, &OpenOptions::default()).expect("a trace");
        drop(open());
        let running = start(vec![open()]);
        ShownTrace { folder, running }
    }

    fn table(&self, name: &str) -> PathBuf {
        self.folder.path().join("trace.json.spanwise").join(name)
    }

    /// Answers that need every column.
    fn answers(&self) -> Vec<Value> {
        let paths = [
            "api/traces",
            "api/search?trace=0&text=function",
            "api/flame?trace=0&value=wall",
            "api/report?trace=0",
            "api/range?trace=0&from=0&to=9000000",
        ];
        paths.iter().map(|path| self.running.json(path)).collect()
    }

    fn span(&self, span: usize) -> Value {
        self.running.json(&format!("api/span?trace=0&span={span}"))
    }
}

fn overwrite(path: &Path, byte: u8) {
    let file = File::options().write(true).open(path).expect("ours");
    let len = file.metadata().expect("there").len() as usize;
    file.write_all_at(&vec![byte; len], 0).expect("writable");
}

fn cut(path: &Path, len: u64) {
    File::options().write(true).open(path).expect("ours").set_len(len).expect("cut");
}

#[test]
fn an_index_that_is_changed_or_cut_changes_no_answer() {
    let tables = ["spans.arrow", "strings.arrow", "tracks.arrow", "categories.arrow"];
    let harms: [&dyn Fn(&Path); 4] = [
        &|path| overwrite(path, 0xf4),
        &|path| overwrite(path, 0xff),
        &|path| overwrite(path, 0),
        &|path| cut(path, 0),
    ];
    let expected = ShownTrace::new().answers();
    for harm in harms {
        let shown = ShownTrace::new();
        tables.iter().for_each(|table| harm(&shown.table(table)));
        assert!(shown.answers() == expected, "another answer");
    }
}

#[test]
fn a_trace_that_is_cut_or_changed_costs_only_the_arguments() {
    let harms: [&dyn Fn(&Path); 3] =
        [&|path| cut(path, 5000), &|path| overwrite(path, b'"'), &|path| cut(path, 0)];
    for harm in harms {
        let shown = ShownTrace::new();
        let args = &shown.span(SPANS - 1)["args"];
        assert!(args.to_string().contains(&(SPANS - 1).to_string()), "{args}");
        harm(&shown.folder.path().join("trace.json"));
        for span in [0, SPANS / 2, SPANS - 1] {
            let about = shown.span(span);
            assert!(about["args"].to_string().contains("has changed"), "{about}");
            assert!(about["name"].as_str().is_some_and(|name| name.starts_with("function")));
        }
    }
}

#[test]
fn another_trace_in_the_place_of_one_is_not_taken_for_it() {
    let shown = ShownTrace::new();
    let source = shown.folder.path().join("trace.json");
    fs::rename(&source, shown.folder.path().join("old")).expect("ours");
    fs::write(&source, "[]").expect("writable");
    let args = shown.span(0)["args"].to_string();
    assert!(args.contains("has changed"), "{args}");
}
