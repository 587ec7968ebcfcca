//! Stacks of Python that were read beside the kernel's samples, and how the two become one.
//!
//! A sample of the kernel shows the C function that interprets where Python runs; a reading of
//! Python's own stack says which functions of Python that is. [`readings`] chooses the reading,
//! [`joined`] makes one stack of both. Where the thread ran between the reading and the sample,
//! functions that run shorter than readings are apart are right in sum, not each time: such a
//! sample has the frame [`UNCERTAIN`] around them, and how many there are is reported.

mod joined;
mod readings;

use std::collections::HashMap;
use std::path::Path;

use spanwise_callstack::{FunctionId, Location, Names};
use spanwise_model::Nanos;
use spanwise_recording::perf::event_name;
use spanwise_recording::python::{
    self, HowRead, PYTHON_FILE, PythonFrame, PythonFrames, PythonFunction, PythonRecord,
    PythonStack,
};

use joined::{Call, PythonPlace, joined};
pub(crate) use readings::When;
use readings::{Chosen, CopyOrder, ReadingQuery, ThreadReadings};

use crate::perf::data::Reader;
use crate::perf::data::file::header::Header;
use crate::perf::data::file::records;

/// The event of our recorder at whose samples frames are copied.
const CLOCK: &str = event_name::CPU_CLOCK;

/// The frame around functions of Python that a sample has from a reading of another moment. A frame
/// of its own keeps functions in one row of every table, and shows in each sample, graph and
/// profile which part that is.
const UNCERTAIN: &str = "[uncertain Python]";

/// What functions of Python have before the path of their file, among all files.
pub(crate) const FILE_MARK: &str = "python:";

/// What identifies a frame: its function, and its line where lines are wanted.
type FrameKey = (u32, Option<i32>);

/// A stack at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) time: Nanos,
    pub(crate) pid: i32,
    /// It lacks its outermost frames.
    is_cut: bool,
    /// Calls of the C function that interprets; not known where frames are lacking.
    entries: Option<u32>,
    frames: std::ops::Range<usize>,
}

/// All that was read.
#[derive(Debug, Default)]
pub(crate) struct PythonStacks {
    /// By number.
    functions: HashMap<u32, PythonFunction>,
    ids: HashMap<FrameKey, FunctionId>,
    frames: Vec<PythonFrame>,
    /// By thread.
    threads: HashMap<i32, ThreadReadings>,
    /// Frames are identified by their current line, not by the first of their function.
    pub(crate) has_lines: bool,
    /// How far apart readings are.
    period: Nanos,
    /// It ends in the middle of a record.
    pub(crate) is_cut: bool,
    /// Samples that have the functions of another time, the nearest that was read.
    pub(crate) from_nearby: u64,
}

impl PythonStacks {
    /// What was read beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> PythonStacks {
        let bytes = PYTHON_FILE.beside(records);
        bytes.map_or_else(PythonStacks::default, |bytes| PythonStacks::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> PythonStacks {
        let mut stacks = PythonStacks { period: 10_000_000, ..PythonStacks::default() };
        stacks.is_cut = python::read(bytes, |record| match record {
            PythonRecord::Function(function) => {
                stacks.functions.insert(function.number, function);
            }
            PythonRecord::Stack(stack, frames) => stacks.add(stack, frames),
            PythonRecord::Process(process) => {
                let period = Nanos::try_from(process.period_ns).ok();
                stacks.period = period.unwrap_or(stacks.period).clamp(1, 10_000_000_000);
            }
        });
        stacks.threads.values_mut().for_each(ThreadReadings::sort);
        stacks
    }

    fn add(&mut self, read: PythonStack, frames: PythonFrames<'_>) {
        let Ok(time) = Nanos::try_from(read.time) else { return };
        if read.is_torn {
            return;
        }
        let from = self.frames.len();
        self.frames.extend(frames.iter());
        let frames = from..self.frames.len();
        // What is cut off may have had more.
        let entries = self.frames[frames.clone()].iter().skip(1).filter(|frame| frame.is_entry);
        let entries = (!read.is_cut && !frames.is_empty()).then(|| entries.count() as u32 + 1);
        let stack = Stack { time, pid: read.pid, is_cut: read.is_cut, entries, frames };
        let readings = self.threads.entry(read.tid).or_default();
        let of = match read.how {
            HowRead::OfSample => &mut readings.of_samples,
            HowRead::OfWait => &mut readings.of_waits,
            HowRead::Beside => &mut readings.beside,
        };
        of.push(stack);
    }

    /// A thread came to a processor or left it; called in order of time.
    pub(crate) fn switched(&mut self, tid: i32, time: u64, is_out: bool) {
        if let (Some(readings), Ok(time)) = (self.threads.get_mut(&tid), Nanos::try_from(time)) {
            if is_out { readings.left(time) } else { readings.came(time) }
        }
    }

    /// The process of a thread became another program; called in order of time.
    pub(super) fn became_another(&mut self, tid: i32, time: u64) {
        if let (Some(readings), Ok(time)) = (self.threads.get_mut(&tid), Nanos::try_from(time)) {
            readings.became_another(time);
        }
    }

    /// A sample of a thread was taken; called in order of time.
    pub(crate) fn sampled(&mut self, tid: i32, time: u64) {
        if let (Some(readings), Ok(time)) = (self.threads.get_mut(&tid), Nanos::try_from(time)) {
            readings.samples.push(time);
        }
    }

    /// All samples are known.
    fn pair_copies(&mut self) {
        let order = CopyOrder::of(self.threads.values());
        self.threads.values_mut().for_each(|readings| readings.pair(order));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// All threads, by number.
    pub(crate) fn threads(&self) -> Vec<i32> {
        let mut tids: Vec<i32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        tids
    }

    /// The first stack of a thread that was read from outside.
    pub(crate) fn first_stack(&self, tid: i32) -> Option<&Stack> {
        self.threads.get(&tid)?.beside.first()
    }

    /// When a thread's stack was last read.
    pub(crate) fn last_time(&self, tid: i32) -> Option<Nanos> {
        self.threads.get(&tid)?.beside.last().map(|stack| stack.time)
    }

    /// The kernel's stack, outermost first, with functions of Python in it.
    pub(crate) fn join(
        &mut self,
        tid: i32,
        time: Nanos,
        when: When,
        native: Vec<Location>,
        names: &mut Names,
    ) -> Vec<Location> {
        let most = self.period / 2 * 3;
        let calls: Vec<Call> =
            native.iter().map(|place| Call::of(names.name_text(place.function))).collect();
        let asked = ReadingQuery { time, when, interpreting: joined::interpreting(&calls), most };
        let chosen = self.threads.get(&tid).and_then(|readings| readings.choose(asked));
        let Some(Chosen { stack, is_exact }) = chosen else { return native };
        let (frames, is_cut) = (self.frames[stack.frames.clone()].to_vec(), stack.is_cut);
        let python = frames.iter().map(|frame| PythonPlace {
            place: self.place(*frame, names),
            is_entry: frame.is_entry,
        });
        let mut python: Vec<PythonPlace> = python.collect();
        let uncertain = Location { function: names.function(UNCERTAIN, ""), ..Location::NOWHERE };
        if let Some(outermost) = python.first_mut()
            && when == When::Sampled
            && !is_exact
        {
            // Both stand in one call of the interpreter.
            let is_entry = std::mem::replace(&mut outermost.is_entry, false);
            python.insert(0, PythonPlace { place: uncertain, is_entry });
        }
        let stack = joined(&native, &calls, &python, is_cut);
        self.from_nearby += u64::from(stack.contains(&uncertain));
        stack
    }

    /// The functions of a stack alone.
    pub(crate) fn places(&mut self, stack: &Stack, names: &mut Names) -> Vec<Location> {
        let frames = self.frames[stack.frames.clone()].to_vec();
        frames.into_iter().map(|frame| self.place(frame, names)).collect()
    }

    fn place(&mut self, frame: PythonFrame, names: &mut Names) -> Location {
        let PythonStacks { functions, ids, .. } = self;
        let line = self.has_lines.then_some(frame.line);
        let function = *ids.entry((frame.function, line)).or_insert_with(|| {
            let Some(function) = functions.get(&frame.function) else {
                return names.function("[unknown Python]", FILE_MARK);
            };
            let PythonFunction { name, file, first_line, .. } = function;
            let name = format!("{name} ({}:{})", short(file), line.unwrap_or(*first_line));
            names.function(&name, &format!("{FILE_MARK}{file}"))
        });
        let file = functions.get(&frame.function).map_or("", |function| &function.file);
        let source = names.string(file);
        let line = u32::try_from(frame.line).unwrap_or(0);
        Location { function, source, line, ..Location::NOWHERE }
    }
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
    /// Passes on when threads came to a processor, left it and were sampled.
    pub(crate) fn pass_threads_to_python(&mut self, header: &Header<'_>) {
        if self.python.is_empty() {
            return;
        }
        records::each_record(header, |record| {
            let Some(time) = record.common.time else { return };
            match record.what {
                records::Body::Switch { is_out, .. } => {
                    self.python.switched(record.common.tid, time, is_out);
                }
                records::Body::Sample { event, .. } if event.name == CLOCK => {
                    self.python.sampled(record.common.tid, time);
                }
                records::Body::Named { tid, is_exec: true, .. } => {
                    self.python.became_another(tid, time);
                }
                _ => {}
            }
        });
        self.python.pair_copies();
    }
}

#[cfg(test)]
mod tests {
    use spanwise_recording::python::PythonProcess;
    use spanwise_recording::record;

    use super::*;

    const HEAD: &[u8] = PYTHON_FILE.head;

    /// Frames are the number of a function, and whether a call of the interpreter starts there.
    type Frames<'a> = &'a [(u32, bool)];

    fn function(number: u32, name: &str, file: &str) -> Vec<u8> {
        let (name, file) = (name.to_owned(), file.to_owned());
        PythonFunction { number, first_line: 7, name, file }.to_bytes()
    }

    fn sample(time: u64, tid: i32, frames: Frames<'_>) -> Vec<u8> {
        sample_of(time, tid, HowRead::Beside, frames)
    }

    fn sample_of(time: u64, tid: i32, how: HowRead, frames: Frames<'_>) -> Vec<u8> {
        let (has_gil, is_cut, is_torn) = (false, false, false);
        let frame = |&(function, is_entry)| PythonFrame { function, is_entry, line: 9 };
        let frames: Vec<PythonFrame> = frames.iter().map(frame).collect();
        PythonStack { time, pid: 1, tid, has_gil, how, is_cut, is_torn }.to_bytes(&frames)
    }

    fn stacks() -> PythonStacks {
        let parts = [
            HEAD.to_vec(),
            PythonProcess { pid: 1, minor: 12, period_ns: 1000 }.to_bytes(),
            function(0, "main", "/a/x.py"),
            function(1, "work", "/a/pack/__init__.py"),
            record(77, &[b"of another time"]),
            sample(10_000, 5, &[(0, true), (1, false)]),
            sample(11_000, 5, &[(0, true)]),
            sample(12_000, 5, &[(0, true), (1, true), (2, true)]),
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
        let place =
            |name: &&str| Location { function: names.function(name, "x"), ..Location::NOWHERE };
        let native: Vec<Location> = native.iter().map(place).collect();
        let joined = stacks.join(at.0, at.1, at.2, native, &mut names);
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
    fn samples_with_functions_of_another_time_are_counted() {
        let mut stacks = PythonStacks::read(
            &[HEAD, &sample_of(10, 5, HowRead::OfSample, &[(0, true)])].concat(),
        );
        let mut names = Names::default();
        stacks.sampled(5, 11);
        stacks.pair_copies();
        let mut at = |time| stacks.join(5, time, When::Sampled, Vec::new(), &mut names).len();
        assert_eq!((at(11), at(12)), (1, 0));
        assert_eq!(stacks.from_nearby, 0);
        let mut stacks = PythonStacks::read(&[HEAD, &sample(10, 5, &[(0, true)])].concat());
        let found = stacks.join(5, 11, When::Sampled, Vec::new(), &mut names);
        assert_eq!((found.len(), stacks.from_nearby), (2, 1));
    }

    #[test]
    fn a_sample_with_functions_of_another_moment_says_so_itself() {
        let native = ["_start", "main", EVAL, "list_sort"];
        let uncertain = ["_start", "main", UNCERTAIN, MAIN, WORK, "list_sort"];
        check((5, 10_100, When::Sampled), &native, &uncertain);
        check((5, 10_000, When::Sampled), &native, &["_start", "main", MAIN, WORK, "list_sort"]);
        // It did not run since it was read.
        let mut stacks = stacks();
        stacks.switched(5, 9_000, false);
        stacks.switched(5, 9_500, true);
        stacks.switched(5, 10_300, false);
        let known = ["_start", "main", MAIN, WORK, "list_sort"];
        check_in(stacks, (5, 10_300, When::Sampled), &native, &known);
    }

    #[test]
    fn a_sample_has_the_reading_with_as_many_calls_of_the_interpreter() {
        let deep = ["_start", "main", EVAL, "call", EVAL, "call", EVAL, "x"];
        let unknown = "[unknown Python]";
        let expected = ["_start", "main", UNCERTAIN, MAIN, "call", WORK, "call", unknown, "x"];
        check((5, 11_100, When::Sampled), &deep, &expected);
        let flat = ["_start", "main", EVAL, "x"];
        check((5, 11_900, When::Sampled), &flat, &["_start", "main", UNCERTAIN, MAIN, "x"]);
    }

    #[test]
    fn who_waits_is_in_what_any_reading_of_the_wait_shows() {
        let native = ["_start", "main", EVAL, "nap"];
        let with = |comings: &[u64]| {
            let mut stacks = stacks();
            comings.iter().for_each(|&time| stacks.switched(5, time, false));
            stacks
        };
        let leaving = (5, 7_000, When::Leaving);
        let known = ["_start", "main", MAIN, WORK, "nap"];
        check_in(with(&[6_000, 20_000]), leaving, &native, &known);
        check_in(with(&[6_000]), leaving, &native, &known);
        // Threads that were not read have no comings either.
        let mut stacks = with(&[]);
        stacks.switched(6, 1, false);
        check_in(stacks, leaving, &native, &native);
    }

    #[test]
    fn frames_are_identified_by_their_line_where_that_is_wanted() {
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
        let whole = [HEAD.to_vec(), sample(1, 5, &[(0, true)])].concat();
        for len in 0..=whole.len() {
            let stacks = PythonStacks::read(&whole[..len]);
            assert_eq!(stacks.is_empty(), len < whole.len());
            assert_eq!(stacks.is_cut, ![0, HEAD.len(), whole.len()].contains(&len), "{len}");
        }
        assert!(PythonStacks::read(&[0xff; 100]).is_empty());
    }
}
