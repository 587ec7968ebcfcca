//! Recordings of perf say the same as the text that perf makes of them, and damage never
//! does harm. They are not ours to ship: where they are absent, the test says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use spanwise_model::{Nanos, Trace};
use spanwise_read::{IndexUse, OpenOptions, PerfOptions};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/perf")
}

fn open(path: &Path) -> Trace {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(path, &options).expect("a recording")
}

#[expect(clippy::print_stderr, reason = "a test that did nothing has to say so")]
fn recordings() -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(folder()) else {
        eprintln!("no recordings of perf: skipped");
        return Vec::new();
    };
    let files = files.map(|file| file.expect("a readable folder").path());
    let mut found: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "data")).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Process, number, name; instants; when something was on the stack.
type Thread = ([String; 3], usize, Vec<(Nanos, Nanos)>);

fn threads(trace: &Trace) -> Vec<Thread> {
    let text = |id| trace.strings().get(id).to_owned();
    let spans = trace.spans();
    let mut rows = Vec::new();
    for (id, track) in trace.tracks().iter() {
        let instants = trace.instants();
        let instants = (0..instants.len()).filter(|&row| instants.track[row] == id.0).count();
        // Whether an interrupt woke somebody is known by names of the kernel alone.
        let is_wake = |span| text(spans.name(span)) == "[wakes]";
        let roots = track.span_ids().filter(|&span| spans.parent(span).is_none() && !is_wake(span));
        // One stack after another without a pause is one interval, whatever its outermost
        // frame is called.
        let mut intervals: Vec<(Nanos, Nanos)> = Vec::new();
        for span in roots {
            match intervals.last_mut() {
                Some(last) if last.1 == spans.start(span) => last.1 = spans.end(span),
                _ => intervals.push((spans.start(span), spans.end(span))),
            }
        }
        let names = [track.process, track.thread, track.thread_name].map(text);
        rows.push((names, instants, intervals));
    }
    rows.sort();
    rows
}

#[test]
fn a_recording_and_its_text_say_the_same() {
    for path in recordings() {
        let text = PathBuf::from(path.to_string_lossy().replace(".perf.data", ".script.txt.gz"));
        let (recording, text) = (open(&path), open(&text));
        assert_eq!(recording.info().format, "perf.data");
        assert_eq!(threads(&recording), threads(&text), "{}", path.display());
        assert_eq!(recording.check(), Ok(()));
    }
}

#[test]
fn damage_does_no_harm() {
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below.max(1)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("perf.data");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    for path in recordings() {
        let whole = std::fs::read(&path).expect("readable");
        for round in 0..24 {
            let mut bytes = whole.clone();
            if round % 3 == 0 {
                bytes.truncate(random(bytes.len()));
            }
            for _ in 0..random(20) {
                // Sizes and numbers of things stand at the beginning.
                let reach = if random(2) == 0 { 512 } else { bytes.len() };
                let at = random(reach.min(bytes.len()));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random(256) as u8;
                }
            }
            std::fs::write(&damaged, &bytes).expect("writable");
            if let Ok(trace) = spanwise_read::open(&damaged, &options) {
                assert_eq!(trace.check(), Ok(()), "{} round {round}", path.display());
            }
        }
    }
}

/// A recording of `testdata/perf/inlines.c`, made here and now; `None` where it cannot be.
#[expect(clippy::print_stderr, reason = "a test that did nothing has to say so")]
fn fresh(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perf/inlines.c");
    let (program, data) = (folder.join("inlines"), folder.join("perf.data"));
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-g", "-o"]).arg(&program).arg(&source);
    let mut record = Command::new("perf");
    record.args("record -q -g -F 999 -e cpu-clock -o".split(' ')).arg(&data);
    record.arg("--").arg(&program).arg("2000000");
    for command in [&mut compile, &mut record] {
        match command.output() {
            Ok(done) if done.status.success() => {}
            other => {
                eprintln!("skipped: {command:?}: {other:?}");
                return None;
            }
        }
    }
    Some(data)
}

/// The stacks of the thread, each a line from the outermost function on.
fn stacks(trace: &Trace) -> BTreeSet<String> {
    let spans = trace.spans();
    let mut lines = BTreeSet::new();
    for span in spans.ids() {
        let mut names = Vec::new();
        let mut at = Some(span);
        while let Some(span) = at {
            names.push(trace.strings().get(spans.name(span)));
            at = spans.parent(span);
        }
        names.reverse();
        lines.insert(names.join(";"));
    }
    lines
}

#[test]
fn functions_that_were_inlined_stand_on_the_stack_unless_unwanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(data) = fresh(folder.path()) else { return };
    let trace = open(&data);
    let ends_in = |trace: &Trace, end: &str| stacks(trace).iter().any(|line| line.ends_with(end));
    assert!(ends_in(&trace, "work;outermost;middle;innermost"), "{:#?}", stacks(&trace));
    let inlined = trace.spans().ids().filter(|&span| {
        let category = trace.categories().get(trace.spans().category(span));
        trace.strings().get(category.name) == "sampled_inlined"
    });
    let names: BTreeSet<&str> =
        inlined.map(|span| trace.strings().get(trace.spans().name(span))).collect();
    // Libraries may have inlined functions, too; those of ours that were called are none.
    assert!(names.contains("innermost") && !names.contains("work"), "{names:?}");
    assert!(!names.contains("main"), "{names:?}");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let perf = PerfOptions { is_without_inlines: true, ..PerfOptions::default() };
    let plain = spanwise_read::open_perf(&[data], &options, &perf).expect("the same recording");
    assert!(ends_in(&plain, "work") && !ends_in(&plain, "innermost"), "{:#?}", stacks(&plain));
}
