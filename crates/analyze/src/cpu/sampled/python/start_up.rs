//! The start-up of Python programs, apart from what they do then, and the modules that it imports.
//!
//! A program has started when the first function of its own runs and imports nothing. A threshold
//! of time would be simpler, and wrong for every program that starts faster or slower.

use std::collections::BTreeMap;

use spanwise_model::{FrameId, FrameKind, NO_TIME, Nanos, StackId, StrId, Trace, TrackId};

use crate::cpu::python::{from_package, is_entry_script, is_library_file};
use crate::cpu::sampled::main_observed;
use crate::cpu::sampled::spending::spending_of_stacks;
use crate::{Facts, SpentOn, TotalNanos};

/// How long a program took until its own code ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartUp {
    /// From the start of the recording to the first sample of own code.
    pub until_ns: TotalNanos,
    /// CPU time of the process until then.
    pub cpu_ns: TotalNanos,
}

/// When each process that runs Python of its own had started.
#[derive(Debug, Default)]
pub(in crate::cpu::sampled) struct StartUps {
    until: BTreeMap<StrId, Nanos>,
    process_of_track: Vec<StrId>,
}

impl StartUps {
    pub(in crate::cpu::sampled) fn new(facts: &Facts) -> Self {
        let (trace, time) = (facts.trace(), facts.cpu_time());
        let is_own_work = own_work(trace);
        let process_of_track = trace.tracks().iter().map(|(_, track)| track.process).collect();
        let mut found = StartUps { until: BTreeMap::new(), process_of_track };
        for row in trace.samples().iter().filter(|row| Some(row.event) == time.event) {
            if row.time == NO_TIME || !is_own_work[row.stack.index()] {
                continue;
            }
            let process = found.process_of_track[row.track.index()];
            let until = found.until.entry(process).or_insert(row.time);
            *until = row.time.min(*until);
        }
        found
    }

    /// Whether the process of this thread was still starting then. A process whose own code was
    /// never seen is not known to have started.
    pub(in crate::cpu::sampled) fn contains(&self, track: TrackId, time: Nanos) -> bool {
        let until = self.until.get(&self.process_of_track[track.index()]);
        until.is_some_and(|&until| time < until)
    }
}

/// The start-up of the process that the recording is about; nothing where that is no Python, or
/// its own code was never seen.
pub fn start_up(facts: &Facts) -> Option<StartUp> {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let starts = StartUps::new(facts);
    let process = trace.tracks().get(main_observed(facts)?).process;
    let &until = starts.until.get(&process)?;
    let samples = trace.samples().iter().enumerate();
    let early = samples.filter(|(_, row)| {
        let is_of_it = Some(row.event) == time.event && row.time < until;
        is_of_it && starts.process_of_track[row.track.index()] == process
    });
    let cpu_ns = early.map(|(at, _)| i128::from(time.sample_ns[at])).sum();
    Some(StartUp { until_ns: facts.since_start(until), cpu_ns })
}

/// For every stack whether a Python function of the program's own is at work, and imports nothing.
/// What it calls is its work, too; what the code of a module calls may be a part of importing that
/// stands outside of what is known as that.
fn own_work(trace: &Trace) -> Vec<bool> {
    let spending = spending_of_stacks(trace);
    let stacks = trace.stacks();
    let text = |id| trace.strings().get(id);
    let mut in_function = vec![false; stacks.len()];
    let mut is_own = vec![false; stacks.len()];
    for stack in (1..stacks.len()).map(|stack| StackId(stack as u32)) {
        let (at, parent) = (stack.index(), stacks.parent(stack).index());
        (in_function[at], is_own[at]) = (in_function[parent], is_own[parent]);
        let Some(frame) = stacks.frame(stack).map(|frame| trace.frames().get(frame)) else {
            continue;
        };
        if frame.kind != FrameKind::Python {
            continue;
        }
        let file = text(frame.file);
        let is_of_program = !is_library_file(file) && !is_entry_script(file);
        let is_module = text(frame.function).split(' ').next() == Some(MODULE);
        in_function[at] |= is_of_program && !is_module;
        is_own[at] = is_of_program || in_function[at];
    }
    let imports = SpentOn::Import.bit();
    is_own.iter().zip(spending).map(|(&is_own, bits)| is_own && bits & imports == 0).collect()
}

/// Names by which the code of a whole module goes.
const MODULE: &str = "<module>";

/// By stack, the module that is being imported: where modules import others, the one that the
/// program asked for.
pub(in crate::cpu::sampled) fn imported_modules(trace: &Trace) -> Vec<Option<FrameId>> {
    let frames = trace.frames();
    let text = |id| trace.strings().get(id);
    let is_python = |frame| frames.kind(frame) == FrameKind::Python;
    let is_module = |frame| {
        let name = text(frames.get(frame).function);
        is_python(frame) && name.split(' ').next() == Some(MODULE)
    };
    let is_import = |frame| {
        let frame = frames.get(frame);
        let name = text(frame.function);
        let file = from_package(text(frame.file));
        let is_machinery =
            file == "<frozen importlib._bootstrap>" || file.starts_with("importlib/");
        is_machinery && name.split(' ').next() == Some("_find_and_load")
    };
    let stacks = trace.stacks();
    let mut found: Vec<(bool, Option<FrameId>)> = vec![(false, None); stacks.len()];
    for stack in (1..stacks.len()).map(|stack| StackId(stack as u32)) {
        let (is_importing, module) = found[stacks.parent(stack).index()];
        let frame = stacks.frame(stack);
        let begins = frame.is_some_and(|frame| is_python(frame) && is_import(frame));
        let own = frame.filter(|&frame| is_importing && is_module(frame));
        found[stack.index()] = (is_importing || begins, module.or(own));
    }
    found.into_iter().map(|(_, module)| module).collect()
}

/// What a program calls the module whose code is in this file.
pub(in crate::cpu::sampled) fn module_name(file: &str) -> String {
    let inside = from_package(file);
    let inside = match (inside == file, file.rsplit_once('/')) {
        // Only the last folder may be a package that is not installed.
        (true, Some((folder, "__init__.py"))) => folder.rsplit('/').next().unwrap_or(folder),
        (true, Some((_, name))) => name,
        _ => inside.strip_suffix("/__init__.py").unwrap_or(inside),
    };
    let inside = inside.trim_start_matches("<frozen ").trim_end_matches('>');
    inside.strip_suffix(".py").unwrap_or(inside).replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;
    use crate::{FunctionBy, python_functions};

    const MS: i64 = 1_000_000;
    const MAIN: &str = "<module>@/home/me/main.py:3";
    const LOAD: &str = "_find_and_load@<frozen importlib._bootstrap>:5";

    #[test]
    fn a_program_has_started_when_its_own_code_imports_nothing() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        let stacks: [&[&str]; 7] = [
            &["pymain_init"],
            &[MAIN, "_handle_fromlist@<frozen importlib._bootstrap>:2"],
            &[MAIN, LOAD, "<module>@/home/me/slow.py:1", "build@/home/me/slow.py:9"],
            &[MAIN, LOAD, "<module>@/home/me/slow.py:1", "build@/home/me/slow.py:9"],
            // What own functions call is work.
            &[MAIN, "work@/home/me/main.py:7", "dumps@/usr/lib/python3.11/json/__init__.py:9"],
            &[MAIN, "work@/home/me/main.py:7", "build@/home/me/slow.py:9"],
            &[MAIN, LOAD, "<module>@/home/me/late.py:1"],
        ];
        for (time, stack) in (0..).zip(stacks) {
            sample.taken("1", "1", clock, MS, time * MS, stack);
        }
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let ms = i128::from(MS);
        let expected = StartUp { until_ns: 4 * ms, cpu_ns: 4 * ms };
        assert_eq!(start_up(&facts), Some(expected));
        let python = python_functions(&facts, FunctionBy::Function);
        let rows: Vec<_> = python
            .functions
            .rows
            .iter()
            .zip(&python.start_up)
            .filter(|(row, _)| row.own > 0)
            .map(|(row, ns)| (&*row.name, row.own / ms, ns / ms))
            .collect();
        let expected =
            [("build", 3, 2), ("<module>", 1, 0), ("_handle_fromlist", 1, 1), ("dumps", 1, 0)];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_program_whose_own_code_is_never_seen_is_not_known_to_have_started() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        sample.taken("1", "1", clock, MS, 0, &["run@/usr/lib/python3.11/runpy.py:3"]);
        assert_eq!(start_up(&Facts::new(&sample.finish())), None);
    }

    #[test]
    fn the_module_that_was_asked_for_is_the_outermost() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        let outer = "<module>@/v/site-packages/pandas/__init__.py:1";
        let stack = [MAIN, LOAD, outer, LOAD, "<module>@/v/site-packages/numpy/__init__.py:1"];
        sample.taken("1", "1", clock, MS, 0, &stack);
        let trace = sample.finish();
        let found = imported_modules(&trace);
        let stack = trace.samples().stack[0] as usize;
        let file = trace.frames().get(found[stack].expect("an import")).file;
        assert_eq!(module_name(trace.strings().get(file)), "pandas");
    }

    #[test]
    fn modules_are_called_as_programs_import_them() {
        let check = |file: &str, expected: &str| assert_eq!(module_name(file), expected, "{file}");
        check("/home/me/slow.py", "slow");
        check("/home/me/tools/__init__.py", "tools");
        check("/usr/lib/python3.11/email/parser.py", "email.parser");
        check("/v/lib/python3.11/site-packages/pandas/__init__.py", "pandas");
        check("<frozen os>", "os");
    }
}
