//! What a recording shows of programs from outside, while it is read: samples with their
//! stacks, and the stacks of waits.
//!
//! Stacks are kept as a tree from the start, each once: millions of samples have thousands of
//! stacks. Numbers are the timeline's own until the trace is finished.

use std::collections::BTreeMap;

use spanwise_callstack::{FunctionId, Location, StackRef, ThreadKey};
use spanwise_model::{
    Frame, FrameId, FrameKind, NO_CPU, NO_LOCK, NO_TIME, Nanos, QuickMap, SampleEvent, SampleRow,
    SampleRows, StackId, StateRow, StrId, TrackId, TrackKind,
};

use super::Output;
use crate::perf::event_names::{EventRate, unit_of};

/// A frame, in the timeline's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FrameKey {
    function: FunctionId,
    source: StrId,
    line: u32,
    /// Of code without a name, so that two places of it stay two.
    address: u64,
    is_inlined: bool,
    is_kernel: bool,
}

/// Whose sample it is, when it was taken, and on which processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampledAt {
    pub(crate) thread: ThreadKey,
    pub(crate) time: Option<Nanos>,
    pub(crate) cpu: Option<u32>,
}

/// An event that took samples.
#[derive(Debug, Clone, Copy)]
struct Event {
    name: StrId,
    rate: EventRate,
    /// Some sample of it says how much it stands for.
    has_weights: bool,
}

/// Samples and stacks so far.
#[derive(Debug)]
pub(crate) struct Observations {
    frames: Vec<FrameKey>,
    frame_ids: QuickMap<FrameKey, u32>,
    /// Row 0 is the empty stack.
    stacks: Vec<(StackRef, u32)>,
    stack_ids: QuickMap<(u32, u32), StackRef>,
    events: Vec<Event>,
    threads: Vec<ThreadKey>,
    thread_ids: QuickMap<ThreadKey, TrackId>,
    /// Under our own numbers of threads and stacks, until the trace's are known.
    samples: SampleRows,
}

impl Default for Observations {
    fn default() -> Self {
        Observations {
            frames: Vec::new(),
            frame_ids: QuickMap::default(),
            stacks: vec![(StackRef::NONE, 0)],
            stack_ids: QuickMap::default(),
            events: Vec::new(),
            threads: Vec::new(),
            thread_ids: QuickMap::default(),
            samples: SampleRows::default(),
        }
    }
}

impl Observations {
    /// The number of a stack: that of its callers, and further frames, outermost first. Code
    /// without a name is identified by its address, where `is_unknown` says that it is such.
    pub(crate) fn stack(
        &mut self,
        callers: StackRef,
        places: &[Location],
        is_unknown: impl Fn(FunctionId) -> bool,
    ) -> StackRef {
        places.iter().fold(callers, |caller, place| {
            let frame = self.frame(FrameKey {
                function: place.function,
                source: place.source,
                line: place.line,
                address: if is_unknown(place.function) { place.ip } else { 0 },
                is_inlined: place.is_inlined,
                is_kernel: place.is_kernel(),
            });
            *self.stack_ids.entry((caller.0, frame)).or_insert_with(|| {
                self.stacks.push((caller, frame));
                StackRef(self.stacks.len() as u32 - 1)
            })
        })
    }

    fn frame(&mut self, key: FrameKey) -> u32 {
        *self.frame_ids.entry(key).or_insert_with(|| {
            self.frames.push(key);
            self.frames.len() as u32 - 1
        })
    }

    /// One sample. A weight of 0 was not recorded: such a sample counts as one.
    pub(crate) fn sample(
        &mut self,
        at: SampledAt,
        name: StrId,
        rate: impl FnOnce() -> EventRate,
        weight: u64,
        stack: StackRef,
    ) {
        let SampledAt { thread, time, cpu } = at;
        let known = self.events.iter().position(|event| event.name == name);
        let event = known.unwrap_or_else(|| {
            self.events.push(Event { name, rate: rate(), has_weights: false });
            self.events.len() - 1
        });
        if let Some(known) = self.events.get_mut(event) {
            known.has_weights |= weight > 0;
        }
        let track = *self.thread_ids.entry(thread).or_insert_with(|| {
            self.threads.push(thread);
            TrackId(self.threads.len() as u32 - 1)
        });
        self.samples.push(SampleRow {
            time: time.unwrap_or(NO_TIME),
            track,
            cpu: cpu_number(cpu),
            stack: StackId(stack.0),
            event: u16::try_from(event).unwrap_or(u16::MAX),
            weight: i64::try_from(weight).unwrap_or(i64::MAX).max(1),
        });
    }

    /// The numbers of threads that have samples.
    pub(crate) fn threads(&self) -> impl Iterator<Item = i64> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// The time that passes between two samples of a thread that runs, as the samples show it:
    /// the distance that is most common, since idle threads only make distances longer.
    fn usual_distance(&self, event: u16) -> Option<Nanos> {
        let mut last: Vec<Option<Nanos>> = vec![None; self.threads.len()];
        let mut by_size: BTreeMap<u32, Vec<Nanos>> = BTreeMap::new();
        for (track, time) in self.samples.times(event).filter(|&(_, time)| time != NO_TIME) {
            let before = last[track.index()].replace(time);
            let distance = before.map_or(0, |before| time.saturating_sub(before));
            if distance > 0 {
                by_size.entry(size_class(distance)).or_default().push(distance);
            }
        }
        let (_, usual) = by_size.iter_mut().max_by_key(|(class, all)| (all.len(), **class))?;
        usual.sort_unstable();
        Some(usual[usual.len() / 2])
    }

    fn interval(&self, number: usize) -> Option<Nanos> {
        match self.events[number].rate {
            EventRate::NotSteady => None,
            EventRate::Every(interval) => Some(interval),
            EventRate::Steady => self.usual_distance(number as u16),
        }
    }
}

/// Distances that are alike within some 15 %.
fn size_class(distance: Nanos) -> u32 {
    let bits = 63 - distance.leading_zeros();
    let part = (distance >> bits.saturating_sub(2)) & 3;
    bits * 4 + part as u32
}

impl Output<'_> {
    /// Adds samples and their stacks to the trace; returns what stacks are called there.
    pub(crate) fn observations(&mut self, seen: &mut Observations) -> Vec<StackId> {
        let frames: Vec<FrameId> = seen.frames.iter().map(|key| self.frame(key)).collect();
        let mut stacks = vec![StackId::EMPTY];
        for &(caller, frame) in &seen.stacks[1..] {
            let caller = stacks[caller.0 as usize];
            stacks.push(self.batch.observed.stack(caller, frames[frame as usize]));
        }
        let event = |(number, event): (usize, &Event)| {
            let text = self.names.text(event.name).to_owned();
            let unit = if event.has_weights { unit_of(&text) } else { "samples" };
            let (name, unit) = (self.batch.string(&text), self.batch.string(unit));
            let interval_ns = seen.interval(number);
            self.batch.observed.event(SampleEvent { name, unit, interval_ns })
        };
        let events: Vec<u16> = seen.events.iter().enumerate().map(event).collect();
        let tracks: Vec<TrackId> = seen
            .threads
            .iter()
            .map(|&thread| self.track(TrackKind::Thread, thread, StrId::EMPTY))
            .collect();
        let mut samples = std::mem::take(&mut seen.samples);
        samples.renumber(
            |thread| tracks[thread.index()],
            |stack| stacks[stack.index()],
            |event| events[usize::from(event)],
        );
        self.batch.observed.samples.append(samples);
        stacks
    }

    fn frame(&mut self, key: &FrameKey) -> FrameId {
        let kind = self.frame_kind(key);
        let text = self.names.file_text(key.function);
        let mapping = if kind == FrameKind::Python { "" } else { text };
        // Of one without a symbol and without a place in a file nothing but the address is known.
        let function = match self.names.name_text(key.function) {
            text if self.names.is_unknown(key.function) && text.starts_with("[unknown]") => "",
            text => text,
        };
        let frame = Frame {
            function: self.batch.string(function),
            file: self.batch.string(self.names.text(key.source)),
            line: key.line,
            mapping: self.batch.string(mapping),
            address: key.address,
            kind,
            is_inlined: key.is_inlined,
        };
        self.batch.observed.frame(frame)
    }

    fn frame_kind(&self, key: &FrameKey) -> FrameKind {
        let file = self.names.file_text(key.function);
        match file {
            _ if file.starts_with(crate::perf::data::PYTHON_FILE_MARK) => FrameKind::Python,
            _ if key.is_kernel || super::is_kernel_file(file) => FrameKind::Kernel,
            _ if is_runtime_map(file) => FrameKind::Jit,
            _ => FrameKind::Native,
        }
    }

    /// Adds the states of a thread.
    pub(crate) fn states(
        &mut self,
        key: ThreadKey,
        states: &[spanwise_callstack::StateInterval],
        stacks: &[StackId],
        key_of: impl Fn(i64) -> Option<ThreadKey>,
    ) {
        let track = self.track(TrackKind::Thread, key, StrId::EMPTY);
        for state in states {
            let waker = state.waker.and_then(&key_of);
            let waker = waker.map(|waker| self.track(TrackKind::Thread, waker, StrId::EMPTY));
            self.batch.observed.states.push(StateRow {
                start: state.start,
                dur: state.end - state.start,
                track,
                cpu: cpu_number(state.cpu),
                state: state.state,
                stack: stacks[state.stack.0 as usize],
                waker,
                waker_stack: match waker {
                    Some(_) => stacks[state.waker_stack.0 as usize],
                    None => StackId::EMPTY,
                },
                lock: state.lock.unwrap_or(NO_LOCK),
                stand_in: state.stand_in,
            });
        }
    }
}

fn cpu_number(cpu: Option<u32>) -> u16 {
    cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(NO_CPU)
}

/// Code that a runtime made: in no file, or in the map that the runtime wrote of it.
fn is_runtime_map(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    file.starts_with("//anon")
        || file.starts_with("[anon")
        || file == "[JIT]"
        || (name.starts_with("perf-") && name.ends_with(".map"))
        || name.starts_with("jitted-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distances(distances: &[Nanos]) -> Option<Nanos> {
        let mut seen = Observations::default();
        let mut time = 0;
        for distance in [&[0], distances].concat() {
            time += distance;
            let thread = ThreadKey { pid: 1, tid: 1 };
            let at = SampledAt { thread, time: Some(time), cpu: None };
            seen.sample(at, StrId::EMPTY, || EventRate::Steady, 1, StackRef::NONE);
        }
        seen.interval(0)
    }

    #[test]
    fn the_usual_distance_is_not_that_of_idle_threads() {
        let naps = [10_100_000, 10_102_000, 10_099_000, 900_000_000, 50_000_000, 10_101_000];
        assert_eq!(distances(&naps), Some(10_101_000));
        // The kernel begins with short periods until it has found the rate.
        assert_eq!(distances(&[1000, 1500, 4000, 20_000, 1_000_000, 1_000_100]), Some(1_000_100));
        assert_eq!(distances(&[]), None);
    }
}
