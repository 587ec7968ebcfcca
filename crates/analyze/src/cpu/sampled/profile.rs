//! Profiles of what was seen from outside: samples by stack, waits by stack.

use spanwise_model::{
    FrameId, FrameKind, Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId, Trace,
    TrackId,
};

use super::CpuTime;
use super::functions::frame_name;
use crate::cpu::off_cpu::threads::thread_name;
use crate::profile::made_up;
use crate::{FrameBy, ProfileOptions, StackMode};

/// Stacks and labels of a trace in the numbers of a profile that is being made.
pub(crate) struct ObservedStacks<'a> {
    trace: &'a Trace,
    options: &'a ProfileOptions,
    /// By frame: `None` where the mode leaves it out of stacks.
    frames: Vec<Option<u32>>,
    stacks: Vec<StackId>,
}

impl<'a> ObservedStacks<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        options: &'a ProfileOptions,
        builder: &mut ProfileBuilder,
    ) -> Self {
        let mut found = ObservedStacks { trace, options, frames: Vec::new(), stacks: Vec::new() };
        found.frames = (0..trace.frames().len() as u32)
            .map(|frame| found.frame(builder, FrameId(frame)))
            .collect();
        let stacks = trace.stacks();
        found.stacks = vec![StackId::EMPTY; stacks.len()];
        for stack in 1..stacks.len() {
            let id = StackId(stack as u32);
            let caller = found.stacks[stacks.parent(id).index()];
            let frame = stacks.frame(id).and_then(|frame| found.frames[frame.index()]);
            found.stacks[stack] = frame.map_or(caller, |frame| builder.push(caller, frame));
        }
        found
    }

    fn frame(&self, builder: &mut ProfileBuilder, frame: FrameId) -> Option<u32> {
        let frame = self.trace.frames().get(frame);
        let is_python = frame.kind == FrameKind::Python;
        let is_kept = match self.options.stack {
            StackMode::Mixed => true,
            StackMode::Python => is_python,
            StackMode::Operators => !is_python,
            StackMode::Modules => false,
        };
        if !is_kept {
            return None;
        }
        let text = |id| self.trace.strings().get(id);
        let group = match frame.kind {
            FrameKind::Python => "[python]",
            FrameKind::Kernel => "[kernel]",
            FrameKind::Jit => "[jit]",
            FrameKind::Gpu => "[gpu]",
            FrameKind::Script => "[script]",
            FrameKind::Native if frame.is_inlined => "[inlined]",
            FrameKind::Native => text(frame.mapping),
        };
        let prefix = &*self.options.strip_prefix;
        let without = |text: &str| text.strip_prefix(prefix).unwrap_or(text).to_owned();
        let name = frame_name(self.trace, &frame);
        let (name, line) = match self.options.by {
            FrameBy::Function => (name, 0),
            FrameBy::Line => (name, i64::from(frame.line)),
            FrameBy::NamedLine => {
                (with_line(&name, text(frame.file), frame.line), frame.line.into())
            }
        };
        let frame = ProfileFrame {
            name: builder.string(&without(&name)),
            group: builder.string(group),
            file: builder.string(&without(text(frame.file))),
            line,
        };
        Some(builder.frame(frame))
    }

    pub(crate) fn stack(&self, stack: u32) -> StackId {
        self.stacks[stack as usize]
    }

    pub(crate) fn thread(&self, track: TrackId) -> String {
        thread_name(self.trace, self.trace.tracks().get(track))
    }
}

/// The name with the line that was executed, instead of the one where a function begins.
fn with_line(name: &str, file: &str, line: u32) -> String {
    if line == 0 {
        return name.to_owned();
    }
    let file = file.rsplit('/').next().unwrap_or(file);
    let is_place = |place: &&str| {
        let first = place.strip_suffix(')').and_then(|place| place.rsplit_once(':'));
        first.is_some_and(|(_, line)| line.parse::<u32>().is_ok())
    };
    let plain = name.rsplit_once(" (").filter(|(_, place)| is_place(place));
    format!("{} ({file}:{line})", plain.map_or(name, |(plain, _)| plain))
}

pub(crate) fn text_labels(builder: &mut ProfileBuilder, texts: &[(&str, &str)]) -> u32 {
    let known = texts.iter().filter(|(_, value)| !value.is_empty());
    let label = |&(key, value): &(&str, &str)| {
        let (key, value) = (builder.string(key), builder.string(value));
        Label { key, value: LabelValue::Text(value) }
    };
    let labels = known.map(label).collect();
    builder.labels(labels)
}

/// Columns of a profile: how many samples, and their weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WeightColumns {
    pub(crate) samples: usize,
    pub(crate) weight: usize,
}

/// Adds CPU time by stack and thread, and what no sample speaks for.
pub(crate) fn add_cpu_time(
    trace: &Trace,
    time: &CpuTime,
    stacks: &ObservedStacks<'_>,
    builder: &mut ProfileBuilder,
    columns: WeightColumns,
) {
    let samples = trace.samples();
    let mut labels = ThreadLabels::new(stacks, "running");
    for row in 0..samples.len() {
        if Some(samples.event[row]) != time.event {
            continue;
        }
        let labels = labels.of(builder, TrackId(samples.track[row]));
        let row_of = builder.row(stacks.stack(samples.stack[row]), labels);
        builder.add_to(row_of, columns.samples, 1);
        builder.add_to(row_of, columns.weight, time.sample_ns[row]);
    }
    for (name, times) in [(NO_SAMPLE, &time.no_sample), (SWITCHING, &time.switching)] {
        if times.is_empty() {
            continue;
        }
        let frame = made_up(builder, name);
        let stack = builder.push(StackId::EMPTY, frame);
        for &(track, ns) in times {
            let labels = labels.of(builder, track);
            builder.add(stack, labels, columns.weight, ns);
        }
    }
}

/// The frame of CPU time that no sample speaks for.
pub const NO_SAMPLE: &str = "[no sample]";
/// The frame of CPU time in which the kernel switches threads.
pub const SWITCHING: &str = "[context switch]";

/// Numbers of label sets by thread.
struct ThreadLabels<'a> {
    stacks: &'a ObservedStacks<'a>,
    state: &'a str,
    known: Vec<Option<u32>>,
}

impl<'a> ThreadLabels<'a> {
    fn new(stacks: &'a ObservedStacks<'a>, state: &'a str) -> Self {
        ThreadLabels { stacks, state, known: vec![None; stacks.trace.tracks().len()] }
    }

    fn of(&mut self, builder: &mut ProfileBuilder, track: TrackId) -> u32 {
        let ThreadLabels { stacks, state, known } = self;
        *known[track.index()].get_or_insert_with(|| {
            let thread = stacks.thread(track);
            text_labels(builder, &[("thread", &*thread), ("state", *state)])
        })
    }
}

/// Samples by stack, with the CPU time that they stand for.
pub(crate) fn cpu_profile(
    trace: &Trace,
    time: &CpuTime,
    options: &ProfileOptions,
    mut builder: ProfileBuilder,
) -> Profile {
    let stacks = ObservedStacks::new(trace, options, &mut builder);
    let columns = WeightColumns { samples: 0, weight: 1 };
    add_cpu_time(trace, time, &stacks, &mut builder, columns);
    builder.finish()
}

/// Samples of an event by stack, with what they count.
pub(crate) fn event_profile(
    trace: &Trace,
    event: u16,
    options: &ProfileOptions,
    mut builder: ProfileBuilder,
) -> Profile {
    let stacks = ObservedStacks::new(trace, options, &mut builder);
    let mut labels = ThreadLabels::new(&stacks, "");
    let samples = trace.samples();
    for row in (0..samples.len()).filter(|&row| samples.event[row] == event) {
        let labels = labels.of(&mut builder, TrackId(samples.track[row]));
        let of = builder.row(stacks.stack(samples.stack[row]), labels);
        builder.add_to(of, 0, 1);
        builder.add_to(of, 1, samples.weight[row]);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_executed_takes_the_place_of_the_first() {
        let check = |name: &str, file: &str, line: u32, expected: &str| {
            assert_eq!(with_line(name, file, line), expected);
        };
        check("work", "/src/work.c", 12, "work (work.c:12)");
        check("nap (nap.py:2)", "/home/nap.py", 4, "nap (nap.py:4)");
        check("call(void (*)(int))", "call.cpp", 7, "call(void (*)(int)) (call.cpp:7)");
        check("work", "/src/work.c", 0, "work");
        check("nap (nap.py:2)", "", 0, "nap (nap.py:2)");
    }
}
