//! What threads of perf's recordings are called, and which track they have.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};
use traces::{at_root, files_below};

fn open(path: &Path) -> Trace {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(path, &options).expect("a recording of perf");
    assert_eq!(trace.check(), Ok(()));
    trace
}

/// Samples by the track of an idle loop.
fn idle_samples(trace: &Trace) -> BTreeMap<String, u64> {
    let strings = trace.strings();
    let mut counts = BTreeMap::new();
    for sample in trace.samples().iter() {
        let track = trace.tracks().get(sample.track);
        let thread = strings.get(track.thread);
        if thread.starts_with("swapper/") {
            assert_eq!(thread, format!("swapper/{}", sample.cpu), "one CPU on each");
            *counts.entry(thread.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The same from the text: `swapper 0 [002] 5.1: cycles:`, with or without the process.
fn idle_headers(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("swapper ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(["0", "0/0"].contains(&words[1]), "{line}");
        let cpu = words[2].trim_matches(['[', ']']).parse::<u32>().expect("a CPU");
        *counts.entry(format!("swapper/{cpu}")).or_default() += 1;
    }
    counts
}

#[test]
fn idle_loops_have_a_track_for_each_cpu() {
    let folder = at_root("../shared/corpora/producers/FlameGraph");
    if !folder.exists() {
        return eprintln!("skipped: {} is not there", folder.display());
    }
    let mut compared = 0;
    for path in files_below(&folder) {
        let is_result = path.to_string_lossy().contains("/results/");
        let name = path.file_name().expect("a name").to_string_lossy();
        if is_result || !name.contains("perf-") {
            continue;
        }
        let mut text = String::new();
        let file = std::fs::File::open(&path).expect("a file");
        match name.ends_with(".gz") {
            true => flate2::read::GzDecoder::new(file).read_to_string(&mut text),
            false => { file }.read_to_string(&mut text),
        }
        .expect("text");
        let expected = idle_headers(&text);
        if expected.is_empty() {
            continue;
        }
        assert_eq!(idle_samples(&open(&path)), expected, "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 3, "{compared} texts with idle loops");
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(0_u16.to_le_bytes());
    bytes.extend((body.len() as u16 + 8).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn comm(thread: u32, name: &str) -> Vec<u8> {
    let mut body = words(&[thread, thread]);
    body.extend(name.as_bytes());
    body.resize((body.len() + 8) & !7, 0);
    record(3, &body)
}

fn fork(child: u32, parent: u32, time: u64) -> Vec<u8> {
    let body = [words(&[child, parent, child, parent]), time.to_le_bytes().to_vec()].concat();
    record(7, &body)
}

fn sample(thread: u32, time: u64) -> Vec<u8> {
    record(9, &[words(&[thread, thread]), time.to_le_bytes().to_vec()].concat())
}

/// A recording of the processor's clock, whose samples have a thread and a time.
fn recording(records: &[Vec<u8>]) -> Vec<u8> {
    let (head, attr, records) = (104_u64, 128_u64, records.concat());
    let mut bytes = b"PERFILE2".to_vec();
    let data = head + attr + 16;
    for word in [head, attr + 16, head, attr + 16, data, records.len() as u64, 0, 0, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    let mut event = vec![0; attr as usize];
    event[..4].copy_from_slice(&1_u32.to_le_bytes());
    event[4..8].copy_from_slice(&(attr as u32).to_le_bytes());
    event[24..32].copy_from_slice(&6_u64.to_le_bytes());
    bytes.extend(event);
    bytes.extend([0; 16]);
    bytes.extend(records);
    bytes
}

#[test]
fn a_fork_has_the_name_of_its_parent_until_it_has_its_own() {
    let records = [
        comm(10, "parent"),
        fork(20, 10, 1),
        fork(30, 20, 2),
        fork(40, 10, 3),
        comm(40, "own"),
        sample(10, 4),
        sample(20, 5),
        sample(30, 6),
        sample(40, 7),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf.data");
    std::fs::write(&path, recording(&records)).expect("the folder is ours");
    let trace = open(&path);
    let strings = trace.strings();
    let tracks = trace.tracks().rows().iter().filter(|track| !strings.get(track.thread).is_empty());
    let names: BTreeMap<&str, [&str; 2]> = tracks
        .map(|track| {
            let names = [track.process_name, track.thread_name].map(|name| strings.get(name));
            (strings.get(track.thread), names)
        })
        .collect();
    for (thread, name) in [("10", "parent"), ("20", "parent"), ("30", "parent"), ("40", "own")] {
        assert_eq!(names.get(thread), Some(&[name; 2]), "{thread} of {names:?}");
    }
}
