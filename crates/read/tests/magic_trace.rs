//! The recordings that magic-trace is tested with give the timelines that it prints, line
//! for line. They are not ours to ship: where they are absent, the test says so.

use std::path::{Path, PathBuf};

use spanwise_callstack::Traps;
use spanwise_callstack::compat::{Machine, STREAM_ENDED, Scope};
use spanwise_read::{IndexUse, OpenOptions, PerfOptions, replay_perf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/magic-trace")
}

/// The lines of the timeline, without the events that they stand between.
fn timeline(text: &str) -> Vec<&str> {
    let is_line = |line: &&str| line.starts_with("->") || *line == STREAM_ENDED;
    text.lines().map(str::trim_end).filter(is_line).collect()
}

fn replayed(recording: &Path, perf: &PerfOptions) -> String {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let mut machine = Machine::new(Scope::User, perf.traps.clone());
    let mut text = String::new();
    let mut write = |line: &str| {
        text.push_str(line);
        text.push('\n');
        Ok(())
    };
    replay_perf(&[recording.to_owned()], &options, perf, &mut machine, &mut write)
        .expect("it is text of perf");
    text
}

#[test]
fn the_timelines_of_magic_trace_come_out() {
    let Ok(files) = std::fs::read_dir(folder()) else {
        #[expect(clippy::print_stderr, reason = "a test that did nothing has to say so")]
        return eprintln!("no recordings of magic-trace: skipped");
    };
    let files = files.map(|file| file.expect("a readable folder").path());
    let mut expected: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "expected")).collect();
    expected.sort();
    assert!(!expected.is_empty());
    let mut lines = 0;
    for path in expected {
        let file = path.file_name().expect("files have names").to_string_lossy().into_owned();
        let name = file.split('.').next().unwrap_or_default();
        let mut perf = PerfOptions::default();
        if name == "ocaml_exceptions" {
            perf.traps = Traps { enter: vec![0x411030], push: vec![0x41100b], pop: vec![0x411026] };
        }
        let found = replayed(&folder().join(format!("{name}.perf")), &perf);
        let text = std::fs::read_to_string(&path).expect("the timeline is text");
        let (found, wanted) = (timeline(&found), timeline(&text));
        for (number, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert_eq!(found, wanted, "{name}, line {number}");
        }
        assert_eq!(found.len(), wanted.len(), "{name}");
        lines += found.len();
    }
    assert!(lines > 11_000, "{lines} lines");
}
