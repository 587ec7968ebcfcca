//! Texts of `perf script`, folded here by the published rules of `stackcollapse-perf.pl` from the
//! text alone, must be what `convert --event` prints: every event, every stack, every count.
//!
//! The texts lie in `shared` beside the repository; without them the test says so.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Counts = BTreeMap<String, u64>;

/// A frame as the text has it: the symbol without its offset, and the file.
type Frame = (String, String);

/// A sample as the text has it; frames as printed, the innermost first.
#[derive(Debug)]
struct Sample {
    comm: String,
    /// `pid/tid`, or one number.
    thread: String,
    event: String,
    weight: u64,
    frames: Vec<Frame>,
}

/// The samples of a text, and whether an empty line ends the last one.
fn parsed(text: &str) -> (Vec<Sample>, bool) {
    let (mut samples, mut is_open) = (Vec::new(), false);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            is_open = false;
        } else if let Some(sample) = header(line) {
            samples.push(sample);
            is_open = true;
        } else {
            let sample: &mut Sample = samples.last_mut().expect("frames follow a header");
            sample.frames.push(frame(line));
        }
    }
    (samples, !is_open)
}

/// `comm 12/13 [001] 5.000001:  100 cycles:u: `: time and period may be absent.
fn header(line: &str) -> Option<Sample> {
    let is_indented = line.starts_with([' ', '\t']);
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_thread = |word: &&str| word.split('/').all(|part| part.parse::<u32>().is_ok());
    let thread = 1 + words.iter().skip(1).position(is_thread)?;
    let event = words.last()?.strip_suffix(':').filter(|_| !is_indented)?;
    let event = event.split(':').next()?;
    let before = words.len() - 2;
    let is_period = before > thread && words[before - 1].ends_with(':');
    let period = words[before].parse().ok().filter(|_| is_period);
    Some(Sample {
        comm: words[..thread].join(" "),
        thread: words[thread].to_owned(),
        event: event.to_owned(),
        weight: period.unwrap_or(1),
        frames: Vec::new(),
    })
}

/// `7f01 symbol+0x12 (/file)`.
fn frame(line: &str) -> Frame {
    let (_, rest) = line.trim().split_once(' ').expect("an address");
    let at = rest.rfind('(').expect("a file");
    let file = rest[at + 1..].trim_end_matches(')');
    let symbol = rest[..at].trim();
    let symbol = symbol.rsplit_once("+0x").map_or(symbol, |(symbol, _)| symbol);
    (symbol.to_owned(), file.to_owned())
}

/// The frames of a stack by the published rules, the outermost first.
fn published(comm: &str, frames: &[Frame]) -> String {
    let mut names = Vec::new();
    for (symbol, file) in frames.iter().filter(|(symbol, _)| !symbol.starts_with('(')) {
        let symbol = if symbol.is_empty() { "[unknown]" } else { symbol };
        for (at, part) in symbol.split("->").enumerate() {
            let base = file.rsplit('/').next().filter(|base| !base.is_empty());
            let is_unknown = part == "[unknown]";
            let base = base.filter(|&base| base != "[unknown]").unwrap_or("unknown");
            let name = if is_unknown { format!("[{base}]") } else { part.to_owned() };
            let name = tidied(&name);
            let is_java_class = comm == "java" && name.contains('/');
            let name = if is_java_class { name.trim_start_matches('L') } else { &name };
            names.push(format!("{name}{}", if at > 0 { "_[i]" } else { "" }));
        }
    }
    names.insert(0, comm.replace(' ', "_"));
    names.join(";")
}

/// Without arguments and quotes; methods of Go keep their receiver.
fn tidied(name: &str) -> String {
    let name = name.replace(';', ":");
    let is_go = name.split_once(".(").is_some_and(|(_, rest)| rest.contains(")."));
    let mut ends = name.match_indices('(').map(|(at, _)| at);
    let end = ends.find(|&at| !is_go && !name[at..].starts_with("(anonymous namespace)"));
    name[..end.unwrap_or(name.len())].replace(['"', '\''], "")
}

/// All samples of an event, with what each adds.
fn folded(samples: &[Sample], event: &str, value: fn(&Sample) -> u64) -> Counts {
    let mut counts = Counts::new();
    for sample in samples.iter().filter(|sample| sample.event == event) {
        let frames: Vec<Frame> = sample.frames.iter().rev().cloned().collect();
        *counts.entry(published(&sample.comm, &frames)).or_default() += value(sample);
    }
    counts
}

fn converted(file: &Path, event: &str, format: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(["convert", "--quiet", "--no-index", "--to", format, "--event", event]);
    let output = command.arg(file).args(["-o", "-"]).output().expect("the program was built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", file.display());
    String::from_utf8(output.stdout).expect("text")
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for char in line.chars() {
        match char {
            '"' => {
                // Two of them in a quoted cell are one: the second opens it again.
                is_quoted = !is_quoted;
                if is_quoted && !cells.last().expect("one").is_empty() {
                    cells.last_mut().expect("one").push('"');
                }
            }
            ',' if !is_quoted => cells.push(String::new()),
            char => cells.last_mut().expect("one").push(char),
        }
    }
    cells
}

/// A row of a converted profile.
struct Row {
    stack: String,
    comm: String,
    samples: u64,
    weight: u64,
}

fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines().map(cells);
    let head = lines.next().expect("a header");
    assert_eq!(head[..3], ["stack", "thread", "samples_count"]);
    let row = |cells: Vec<String>| Row {
        stack: cells[0].clone(),
        comm: comm(&cells[1]),
        samples: cells[2].parse().expect("a number"),
        weight: cells[3].parse().expect("a number"),
    };
    lines.map(row).collect()
}

/// The program in a thread's label; idle loops are one thread per CPU here, one of all there.
fn comm(label: &str) -> String {
    match label.strip_prefix("swapper/") {
        Some(_) => "swapper".to_owned(),
        None => label.rsplit_once(' ').expect("a name and a number").0.to_owned(),
    }
}

/// A stack of ours by the published rules.
fn republished(row: &Row) -> String {
    let frame = |name: &str| {
        // Separators within names are escaped, and unknown functions have their file.
        let name = name.replace("\\x3b", ";");
        let file = name.strip_prefix("[unknown] (").and_then(|rest| rest.strip_suffix(')'));
        match file {
            Some(file) => ("[unknown]".to_owned(), file.to_owned()),
            None => (name, String::new()),
        }
    };
    let frames: Vec<Frame> = row.stack.split(';').filter(|it| !it.is_empty()).map(frame).collect();
    published(&row.comm, &frames)
}

fn sums<K: Ord>(entries: impl Iterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    entries.for_each(|(key, value)| *sums.entry(key).or_default() += value);
    sums
}

/// Without the programs, where a thread becomes another one: ours has its last name throughout.
fn comparable(counts: Counts, samples: &[Sample]) -> Counts {
    let threads: BTreeSet<_> = samples.iter().map(|sample| &sample.thread).collect();
    let named: BTreeSet<_> = samples.iter().map(|sample| (&sample.thread, &sample.comm)).collect();
    match named.len() == threads.len() {
        true => counts,
        false => sums(counts.into_iter().map(|(stack, count)| {
            (stack.split_once(';').map_or("", |(_, frames)| frames).to_owned(), count)
        })),
    }
}

/// Compares every event of a text; gives their number.
fn check(file: &Path, samples: &[Sample]) -> usize {
    let events: BTreeSet<&str> = samples.iter().map(|sample| &*sample.event).collect();
    for event in &events {
        let what = format!("{} {event}", file.display());
        let rows = rows(&converted(file, event, "csv"));
        let of_rows = |value: fn(&Row) -> u64| {
            comparable(sums(rows.iter().map(|row| (republished(row), value(row)))), samples)
        };
        let of_text = |value| comparable(folded(samples, event, value), samples);
        assert_eq!(of_rows(|row| row.weight), of_text(|sample| sample.weight), "{what}");
        assert_eq!(of_rows(|row| row.samples), of_text(|_| 1), "{what}: samples");
        let line = |line: &str| {
            let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
            (stack.to_owned(), count.parse::<u64>().expect("a count"))
        };
        let collapsed = sums(converted(file, event, "folded").lines().map(line));
        let without_threads = sums(rows.iter().map(|row| (row.stack.clone(), row.weight)));
        assert_eq!(collapsed, without_threads, "{what}: collapsed");
    }
    events.len()
}

/// What the script's authors have folded of the same text, where it is there.
fn check_results(folder: &Path, file: &Path, samples: &mut Vec<Sample>, is_ended: bool) -> bool {
    let name = file.file_stem().expect("a name").to_string_lossy();
    let path = folder.join(format!("results/{name}-collapsed-pid.txt"));
    let Ok(results) = fs::read_to_string(path) else { return false };
    // The script leaves out a sample that no empty line ends, and names processes.
    let last = if is_ended { None } else { samples.pop() };
    let event = samples[0].event.clone();
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        let (program, frames) = stack.split_once(';').unwrap_or((stack, ""));
        let program = program.rsplit_once('-').expect("a process").0;
        (format!("{program};{frames}"), count.parse::<u64>().expect("a count"))
    };
    let expected = sums(results.lines().map(line));
    // It looked for Java by the name with the number, and so did not find it.
    let own = |stack: String| stack.replace(";L", ";");
    let found = folded(samples, &event, |sample| sample.weight);
    let own_sums = |counts: Counts| sums(counts.into_iter().map(|(it, count)| (own(it), count)));
    assert_eq!(own_sums(found), own_sums(expected), "{name}");
    samples.extend(last);
    true
}

#[test]
fn converted_samples_fold_as_the_published_rules_fold_the_text() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/producers/FlameGraph");
    if !folder.exists() {
        return eprintln!("skipped: {} is not there", folder.display());
    }
    let unpacked = tempfile::tempdir().expect("a folder");
    let example = unpacked.path().join("example-perf-stacks.txt");
    let packed = fs::File::open(folder.join("example-perf-stacks.txt.gz")).expect("the example");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("gzip of text");
    fs::write(&example, text).expect("the folder is ours");
    let tests = folder.join("test");
    let in_folder = fs::read_dir(&tests).expect("a folder");
    let mut files: Vec<PathBuf> = in_folder.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    files.push(example);
    let (mut events, mut with_results) = (0, 0);
    for file in &files {
        let (mut samples, is_ended) = parsed(&fs::read_to_string(file).expect("text"));
        with_results += usize::from(check_results(&tests, file, &mut samples, is_ended));
        events += check(file, &samples);
    }
    assert_eq!([files.len(), events, with_results], [12, 13, 7], "files, events, with results");
}
