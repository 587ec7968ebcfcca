//! Stacks of Python that were read beside the kernel's samples, and how the two become one.
//!
//! A sample of the kernel shows the C function that interprets where Python runs; the reading
//! nearest to it in time says which functions of Python that is. Each call of the C function
//! stands for one or more frames of Python, so the two stacks are joined from the outermost
//! call on. Readings are some milliseconds apart: functions that run shorter than that are
//! right in sum, not each time.

use std::collections::HashMap;
use std::path::Path;

use spanwise_flow::{FunctionId, Names, Place};
use spanwise_model::Nanos;

use super::header::Header;
use super::side_file::{self, number, word};
use super::{Reader, records};

/// The file beside the records.
const FILE: &str = "python.samples";

const HEAD: &[u8] = b"spanwise-python\n";

/// What functions of Python have before the path of their file, among all files.
pub(crate) const FILE_MARK: &str = "python:";

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
}

const ENTRY: u32 = 1 << 31;
const NOT_STILL: u32 = 2;

/// One frame, outermost first in its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    function: u32,
    /// A call of the C function that interprets begins with it.
    is_entry: bool,
    /// Where in the function it is.
    line: i32,
}

/// What a frame is told by: its function, and its line where lines are told.
type FrameKey = (u32, Option<i32>);

/// A function, as it is told of.
#[derive(Debug)]
struct Function {
    name: String,
    file: String,
    first_line: i32,
}

/// A stack at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stack {
    pub(super) time: Nanos,
    pub(super) pid: i32,
    frames: std::ops::Range<usize>,
}

/// All that was read.
#[derive(Debug, Default)]
pub(crate) struct PythonStacks {
    /// By number.
    functions: HashMap<u32, Function>,
    ids: HashMap<FrameKey, FunctionId>,
    frames: Vec<Frame>,
    /// By thread, in order of time.
    threads: HashMap<i32, Vec<Stack>>,
    /// When each thread came to a processor, in order of time.
    comings: HashMap<i32, Vec<Nanos>>,
    /// Frames are told by the line that they are on, not by the first of their function.
    pub(super) has_lines: bool,
    /// How far apart readings are.
    period: Nanos,
    /// It ends in the middle of a record.
    pub(super) is_cut: bool,
}

/// When a thread's stack is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Running,
    /// It is about to wait, and will be in the same functions all the while.
    Leaving,
}

impl PythonStacks {
    /// What was read beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> PythonStacks {
        let bytes = side_file::beside(records, FILE);
        bytes.map_or_else(PythonStacks::default, |bytes| PythonStacks::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> PythonStacks {
        let mut stacks = PythonStacks { period: 10_000_000, ..PythonStacks::default() };
        let is_cut = side_file::each_record(bytes, HEAD, |kind, body| match kind {
            kind::FUNCTION => stacks.function(body),
            kind::SAMPLE => stacks.sample(body),
            kind::PROCESS => {
                let period = word(body, 8).and_then(|period| Nanos::try_from(period).ok());
                stacks.period = period.unwrap_or(stacks.period).clamp(1, 10_000_000_000);
            }
            _ => {}
        });
        stacks.is_cut = is_cut;
        stacks.threads.values_mut().for_each(|of_thread| of_thread.sort_by_key(|s| s.time));
        stacks
    }

    fn function(&mut self, body: &[u8]) {
        let (Some(id), Some(line), Some(len)) = (number(body, 0), number(body, 4), number(body, 8))
        else {
            return;
        };
        let Some((name, file)) = body[12..].split_at_checked(len as usize) else { return };
        let file = String::from_utf8_lossy(file);
        let name = String::from_utf8_lossy(name);
        let (name, file) = (name.into_owned(), file.into_owned());
        self.functions.insert(id, Function { name, file, first_line: line as i32 });
    }

    fn sample(&mut self, body: &[u8]) {
        let (Some(time), Some(pid), Some(tid), Some(flags)) =
            (word(body, 0), number(body, 8), number(body, 12), number(body, 16))
        else {
            return;
        };
        let Ok(time) = Nanos::try_from(time) else { return };
        if flags & NOT_STILL != 0 {
            return;
        }
        let from = self.frames.len();
        let rows = body[20..].chunks_exact(8);
        self.frames.extend(rows.filter_map(|row| {
            let (function, line) = (number(row, 0)?, number(row, 4)? as i32);
            Some(Frame { function: function & !ENTRY, is_entry: function & ENTRY != 0, line })
        }));
        let frames = from..self.frames.len();
        self.threads.entry(tid as i32).or_default().push(Stack { time, pid: pid as i32, frames });
    }

    /// A thread came to a processor; told in order of time.
    pub(super) fn came(&mut self, tid: i32, time: u64) {
        if self.threads.contains_key(&tid)
            && let Ok(time) = Nanos::try_from(time)
        {
            self.comings.entry(tid).or_default().push(time);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// All threads, by number.
    pub(super) fn threads(&self) -> Vec<i32> {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        tids
    }

    /// The first stack of a thread.
    pub(super) fn first_stack(&self, tid: i32) -> Option<&Stack> {
        self.threads.get(&tid)?.first()
    }

    /// When a thread was last looked at.
    pub(super) fn last_time(&self, tid: i32) -> Option<Nanos> {
        self.threads.get(&tid)?.last().map(|stack| stack.time)
    }

    /// The reading that says most about a time.
    fn nearest(&self, tid: i32, time: Nanos, when: When) -> Option<&Stack> {
        let stacks = self.threads.get(&tid)?;
        let after = stacks.partition_point(|stack| stack.time < time);
        // While a thread waits its stack stays, however late it was read.
        if when == When::Leaving
            && let Some(inside) = stacks.get(after).filter(|stack| self.is_away(tid, time, stack))
        {
            return Some(inside);
        }
        let distance = |stack: &&Stack| stack.time.abs_diff(time);
        let most = self.period.unsigned_abs() / 2 * 3;
        let around = [after.checked_sub(1).and_then(|at| stacks.get(at)), stacks.get(after)];
        let near = |stack: &&Stack| distance(stack) <= most;
        let [before, after] = around.map(|stack| stack.filter(near));
        let nearest = [before, after].into_iter().flatten().min_by_key(distance);
        // Where it is not known when a thread came back, a reading soon after it left is likely
        // to be of the wait.
        let is_near =
            nearest.is_some_and(|stack| distance(&stack) * 5 <= self.period.unsigned_abs());
        if when == When::Leaving && !is_near { after.or(nearest) } else { nearest }
    }

    /// True where a thread that left at a time has not come back when the stack was read.
    fn is_away(&self, tid: i32, time: Nanos, stack: &Stack) -> bool {
        let Some(comings) = self.comings.get(&tid) else { return false };
        let next = comings.partition_point(|&came| came <= time);
        comings.get(next).is_none_or(|&came| stack.time < came)
    }

    /// The kernel's stack, outermost first, with functions of Python in it.
    pub(super) fn join(
        &mut self,
        (tid, time): (i32, Nanos),
        when: When,
        native: Vec<Place>,
        names: &mut Names,
    ) -> Vec<Place> {
        let Some(stack) = self.nearest(tid, time, when) else { return native };
        let frames = self.frames[stack.frames.clone()].to_vec();
        let python: Vec<(Place, bool)> =
            frames.iter().map(|frame| (self.place(*frame, names), frame.is_entry)).collect();
        let calls: Vec<Call> =
            native.iter().map(|place| call(names.name_text(place.function))).collect();
        joined(&native, &calls, &python)
    }

    /// The functions of a stack alone.
    pub(super) fn places(&mut self, stack: &Stack, names: &mut Names) -> Vec<Place> {
        let frames = self.frames[stack.frames.clone()].to_vec();
        frames.into_iter().map(|frame| self.place(frame, names)).collect()
    }

    fn place(&mut self, frame: Frame, names: &mut Names) -> Place {
        let PythonStacks { functions, ids, .. } = self;
        let line = self.has_lines.then_some(frame.line);
        let function = *ids.entry((frame.function, line)).or_insert_with(|| {
            let Some(function) = functions.get(&frame.function) else {
                return names.function("[unknown Python]", FILE_MARK);
            };
            let Function { name, file, first_line } = function;
            let name = format!("{name} ({}:{})", short(file), line.unwrap_or(*first_line));
            names.function(&name, &format!("{FILE_MARK}{file}"))
        });
        let file = functions.get(&frame.function).map_or("", |function| &function.file);
        let source = names.string(file);
        let line = u32::try_from(frame.line).unwrap_or(0);
        Place { function, source, line, ..Place::NOWHERE }
    }
}

/// What a function of C means for the join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// It interprets.
    Interprets,
    /// A stack that begins with it is whole.
    Begins,
    Other,
}

fn call(name: &str) -> Call {
    let name = name.split('@').next().unwrap_or(name);
    match name.trim_start_matches('_') {
        "PyEval_EvalFrameDefault" | "PyEval_EvalFrameDefault.cold" => Call::Interprets,
        "start" | "clone" | "clone3" | "start_thread" => Call::Begins,
        name if name.starts_with("libc_start") => Call::Begins,
        _ => Call::Other,
    }
}

fn joined(native: &[Place], calls: &[Call], python: &[(Place, bool)]) -> Vec<Place> {
    let mut groups: Vec<&[(Place, bool)]> = Vec::new();
    let mut from = 0;
    for at in 1..=python.len() {
        if at == python.len() || python[at].1 {
            groups.push(&python[from..at]);
            from = at;
        }
    }
    let interpreting = calls.iter().filter(|&&call| call == Call::Interprets).count();
    // The outermost frames of deep stacks are not copied, and code without frame pointers
    // hides them.
    let is_whole = calls.iter().take(3).any(|&call| call == Call::Begins);
    if interpreting == 0 && is_whole {
        return native.to_vec();
    }
    let unseen = if is_whole { 0 } else { groups.len().saturating_sub(interpreting) };
    let mut stack: Vec<Place> =
        groups[..unseen].iter().copied().flatten().map(|(place, _)| *place).collect();
    let mut groups = groups[unseen..].iter();
    for (place, call) in native.iter().zip(calls) {
        let group = if *call == Call::Interprets { groups.next() } else { None };
        match group {
            Some(group) => stack.extend(group.iter().map(|(place, _)| *place)),
            None => stack.push(*place),
        }
    }
    stack
}

/// The last part of a path; with the folder of a package where that alone says which it is.
fn short(file: &str) -> &str {
    let mut parts = file.rmatch_indices('/').map(|(at, _)| at + 1);
    let last = parts.next().unwrap_or(0);
    let is_package = matches!(&file[last..], "__init__.py" | "__main__.py");
    let from = if is_package { parts.next().unwrap_or(0) } else { last };
    &file[from..]
}

impl Reader {
    /// Tells the readings of Python when threads came to a processor.
    pub(super) fn tell_python_of_switches(&mut self, header: &Header<'_>) {
        if self.python.is_empty() {
            return;
        }
        records::each_record(header, |record| {
            if let (records::What::Switch { is_out: false, .. }, Some(time)) =
                (record.what, record.common.time)
            {
                self.python.came(record.common.tid, time);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::side_file::record;
    use super::*;

    fn function(number: u32, name: &str, file: &str) -> Vec<u8> {
        let mut body = Vec::from(number.to_le_bytes());
        body.extend(7_u32.to_le_bytes());
        body.extend((name.len() as u32).to_le_bytes());
        body.extend(name.as_bytes());
        body.extend(file.as_bytes());
        record(kind::FUNCTION, &body)
    }

    fn sample(time: u64, tid: u32, frames: &[u32]) -> Vec<u8> {
        let mut body = Vec::from(time.to_le_bytes());
        [1, tid, 0].iter().for_each(|number: &u32| body.extend(number.to_le_bytes()));
        for frame in frames {
            body.extend(frame.to_le_bytes());
            body.extend(9_u32.to_le_bytes());
        }
        record(kind::SAMPLE, &body)
    }

    fn stacks() -> PythonStacks {
        let mut process = vec![1, 0, 0, 0, 12, 0, 0, 0];
        process.extend(1000_u64.to_le_bytes());
        let parts = [
            HEAD.to_vec(),
            record(kind::PROCESS, &process),
            function(0, "main", "/a/x.py"),
            function(1, "work", "/a/pack/__init__.py"),
            record(77, b"of another time"),
            sample(10_000, 5, &[ENTRY, 1]),
            sample(11_000, 5, &[ENTRY]),
            sample(12_000, 5, &[ENTRY, ENTRY | 1, ENTRY | 2]),
        ];
        PythonStacks::read(&parts.concat())
    }

    #[track_caller]
    fn check(at: (i32, Nanos, When), native: &[&str], expected: &[&str]) {
        check_in(stacks(), at, native, expected);
    }

    #[track_caller]
    fn check_in(
        mut stacks: PythonStacks,
        at: (i32, Nanos, When),
        native: &[&str],
        expected: &[&str],
    ) {
        let mut names = Names::default();
        let place = |name: &&str| Place { function: names.function(name, "x"), ..Place::NOWHERE };
        let native: Vec<Place> = native.iter().map(place).collect();
        let joined = stacks.join((at.0, at.1), at.2, native, &mut names);
        let found: Vec<&str> = joined.iter().map(|place| names.name_text(place.function)).collect();
        assert_eq!(found, expected);
    }

    const EVAL: &str = "_PyEval_EvalFrameDefault";
    const MAIN: &str = "main (x.py:7)";
    const WORK: &str = "work (pack/__init__.py:7)";

    #[test]
    fn the_nearest_reading_says_what_is_interpreted() {
        let native = ["_start", "main", EVAL, "list_sort"];
        check((5, 10_100, When::Running), &native, &["_start", "main", MAIN, WORK, "list_sort"]);
        check((5, 10_900, When::Running), &native, &["_start", "main", MAIN, "list_sort"]);
        check((5, 8_000, When::Running), &native, &native);
        check((6, 10_000, When::Running), &native, &native);
        // One that waits is in what the next reading shows.
        check((5, 10_300, When::Leaving), &native, &["_start", "main", MAIN, "list_sort"]);
        check((5, 13_000, When::Leaving), &native, &["_start", "main", MAIN, "list_sort"]);
    }

    #[test]
    fn who_waits_is_in_what_any_reading_of_the_wait_shows() {
        let native = ["_start", "main", EVAL, "nap"];
        let with = |comings: &[u64]| {
            let mut stacks = stacks();
            comings.iter().for_each(|&time| stacks.came(5, time));
            stacks
        };
        let leaving = (5, 7_000, When::Leaving);
        let known = ["_start", "main", MAIN, WORK, "nap"];
        check_in(with(&[6_000, 20_000]), leaving, &native, &known);
        check_in(with(&[6_000]), leaving, &native, &known);
        check_in(with(&[9_000]), leaving, &native, &native);
        // Threads that were not read have no comings either.
        let mut stacks = with(&[]);
        stacks.came(6, 1);
        check_in(stacks, leaving, &native, &native);
    }

    #[test]
    fn frames_are_told_by_their_line_where_that_is_wanted() {
        let stacks = PythonStacks { has_lines: true, ..stacks() };
        let expected = ["main (x.py:9)", "work (pack/__init__.py:9)"];
        check_in(stacks, (5, 10_000, When::Running), &[EVAL], &expected);
    }

    #[test]
    fn stacks_are_joined_call_by_call() {
        let at = (5, 12_000, When::Running);
        let unknown = "[unknown Python]";
        check(
            at,
            &["clone3", EVAL, "call", EVAL, "call", "_PyEval_EvalFrameDefault.cold", "x"],
            &["clone3", MAIN, "call", WORK, "call", unknown, "x"],
        );
        // The reading was a call further, or not as far.
        check(at, &["clone3", EVAL, "call", EVAL, "x"], &["clone3", MAIN, "call", WORK, "x"]);
        check(at, &["clone3", EVAL, EVAL, EVAL, EVAL], &["clone3", MAIN, WORK, unknown, EVAL]);
        // What lacks its outermost frames is joined from the innermost on.
        check(at, &["call", EVAL, "x"], &[MAIN, WORK, "call", unknown, "x"]);
        check(at, &["x"], &[MAIN, WORK, unknown, "x"]);
        // A thread that begins, or ends, and interprets nothing.
        check(at, &["clone3", "start_thread"], &["clone3", "start_thread"]);
    }

    #[test]
    fn what_is_cut_off_or_no_such_file_is_no_harm() {
        let whole = [HEAD.to_vec(), sample(1, 5, &[ENTRY])].concat();
        for len in 0..=whole.len() {
            let stacks = PythonStacks::read(&whole[..len]);
            assert_eq!(stacks.is_empty(), len < whole.len());
            assert_eq!(stacks.is_cut, ![0, HEAD.len(), whole.len()].contains(&len), "{len}");
        }
        assert!(PythonStacks::read(&[0xff; 100]).is_empty());
    }
}
