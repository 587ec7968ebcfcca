//! The samples of texts of `perf script`, folded by the published rules of
//! `stackcollapse-perf.pl`, must be what that script makes of the same files: every stack,
//! every count.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::BTreeMap;
use std::path::Path;

use spanwise_model::{Frame, SampleRow, Trace};
use traces::{at_root, files_below, read};

const FOLDER: &str = "../shared/corpora/producers/FlameGraph";

/// The options that results were made with.
const OPTIONS: [&str; 6] = ["pid", "tid", "kernel", "jit", "all", "addrs"];

/// How samples are folded.
#[derive(Clone, Copy)]
struct Folding<'a> {
    option: &'a str,
    /// The text says which process a thread is of.
    has_processes: bool,
    /// The text ends behind a frame: the script leaves out the last sample then.
    is_last_open: bool,
}

impl Folding<'_> {
    fn of(text: &str, option: &'static str) -> Folding<'static> {
        let is_pair = |word: &str| {
            let numbers = word.split_once('/');
            numbers.is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
        };
        let headers = text.lines().filter(|line| !line.starts_with(['#', '\t']));
        let has_processes = headers.take(9).any(|line| line.split_whitespace().any(is_pair));
        Folding { option, has_processes, is_last_open: !text.ends_with("\n\n") }
    }

    fn fold(self, trace: &Trace) -> BTreeMap<String, i64> {
        // In the order of the text; that of a text without times has one event only.
        let mut rows: Vec<SampleRow> = trace.samples().iter().collect();
        rows.sort_by_key(|row| row.time);
        let first_event = rows.first().map(|row| row.event);
        if self.is_last_open {
            rows.pop();
        }
        let mut counts = BTreeMap::new();
        for row in rows.iter().filter(|row| Some(row.event) == first_event) {
            *counts.entry(self.stack(trace, row)).or_insert(0) += row.weight;
        }
        counts
    }

    fn stack(self, trace: &Trace, row: &SampleRow) -> String {
        let strings = trace.strings();
        let track = trace.tracks().get(row.track);
        let [process, thread, comm] = [track.process, track.thread, track.thread_name];
        let [process, thread, comm] = [process, thread, comm].map(|text| strings.get(text));
        // Idle loops are one thread each here.
        let (comm, thread) = match thread.starts_with("swapper/") {
            true => ("swapper", "0"),
            false => (comm, thread),
        };
        let process = if self.has_processes { process } else { "?" };
        let program = match self.option {
            "pid" => format!("{comm}-{process}"),
            "tid" => format!("{comm}-{process}/{thread}"),
            _ => comm.to_owned(),
        };
        let mut names = vec![program.replace(' ', "_")];
        let frames: Vec<Frame> =
            trace.stacks().frames(row.stack).map(|frame| trace.frames().get(frame)).collect();
        for frame in frames.iter().rev() {
            self.frame(trace, frame, &mut names);
        }
        names.join(";")
    }

    /// The names of a frame: several where a runtime has put functions into one name.
    fn frame(self, trace: &Trace, frame: &Frame, names: &mut Vec<String>) {
        let strings = trace.strings();
        let file = strings.get(frame.mapping);
        let name = strings.get(frame.function);
        let is_unknown = frame.address != 0 || name.is_empty() || name.starts_with("[unknown]");
        let name = if is_unknown { "[unknown]" } else { name };
        if name.starts_with('(') {
            return;
        }
        for (number, part) in name.split("->").enumerate() {
            let part = match part {
                "[unknown]" => {
                    let base = file.rsplit('/').next().filter(|base| !base.is_empty());
                    let base = base.unwrap_or("unknown");
                    match self.option {
                        "addrs" => format!("[{base} <{:x}>]", frame.address),
                        _ => format!("[{base}]"),
                    }
                }
                part => part.to_owned(),
            };
            let mut part = tidied(&part);
            // The script that made the results saw the name with the process's number.
            if names[0] == "java" && part.contains('/') {
                part = part.strip_prefix('L').unwrap_or(&part).to_owned();
            }
            let is_kernel = file.starts_with('[') || file.ends_with("vmlinux");
            let is_jit = file.starts_with("/tmp/perf-") && file.ends_with(".map");
            let mark = match self.option {
                _ if number > 0 => "_[i]",
                "kernel" | "all" if is_kernel => "_[k]",
                "jit" | "all" if is_jit => "_[j]",
                _ => "",
            };
            names.push(format!("{part}{mark}"));
        }
    }
}

/// Without arguments and quotes.
fn tidied(name: &str) -> String {
    let name = name.replace(';', ":");
    let is_go = name.find(".(").is_some_and(|at| name[at..].contains(")."));
    let starts = name.match_indices('(').map(|(at, _)| at);
    let mut starts = starts.filter(|&at| !name[at..].starts_with("(anonymous namespace)"));
    let end = starts.next().filter(|_| !is_go).unwrap_or(name.len());
    name[..end].replace(['"', '\''], "")
}

fn expected(path: &Path) -> Option<BTreeMap<String, i64>> {
    let text = std::fs::read_to_string(path).ok()?;
    let entry = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        (stack.to_owned(), count.parse().expect("a count"))
    };
    Some(text.lines().map(entry).collect())
}

/// True where a thread becomes another program: here it has the last name from the start on.
fn renames_threads(text: &str) -> bool {
    let mut names = BTreeMap::new();
    let headers = text.lines().filter(|line| line.contains(": ") && !line.starts_with(['#', '\t']));
    let words = headers.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut pairs = words.filter(|words| words.len() > 2);
    pairs.any(|words| {
        let (name, thread) = (words[0].to_owned(), words[1].to_owned());
        *names.entry(thread).or_insert_with(|| name.clone()) != name
    })
}

fn without_programs(folded: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for (stack, count) in folded {
        let frames = stack.split_once(';').map_or("", |(_, frames)| frames);
        *counts.entry(frames.to_owned()).or_insert(0) += count;
    }
    counts
}

#[test]
fn samples_fold_as_the_published_script_folds_them() {
    let folder = at_root(FOLDER).join("test");
    if !folder.exists() {
        return eprintln!("skipped: {FOLDER} is not there");
    }
    let mut compared = 0;
    for path in files_below(&folder).iter().filter(|path| path.parent() == Some(&folder)) {
        let text = std::fs::read_to_string(path).expect("text");
        let trace = read(path).expect("text of perf script");
        assert!(!trace.samples().is_empty(), "{}", path.display());
        let name = path.file_stem().expect("a name").to_string_lossy();
        for option in OPTIONS {
            let result = format!("results/{name}-collapsed-{option}.txt");
            let Some(expected) = expected(&folder.join(&result)) else { continue };
            let folded = Folding::of(&text, option).fold(&trace);
            match renames_threads(&text) {
                true => assert_eq!(without_programs(&folded), without_programs(&expected)),
                false => assert_eq!(folded, expected, "{result}"),
            }
            compared += 1;
        }
    }
    assert!(compared >= 40, "{compared} results");
}
