//! Samples and thread states with everything that their rows refer to in place: for datasets
//! whose readers have one file at a time.

use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt16Array, UInt32Array};
use spanwise_analyze::{Facts, frame_name};
use spanwise_model::{Frame, NO_CPU, NO_LOCK, NO_TIME, StackId, StrId, Trace, Track, TrackId};

use crate::trace::tables::columns::{Columns, integers};
use crate::trace::tables::observed::{functions, looked_up, sample_cpu_ns, state_words, words};

/// A stack is at most this long as a text, or deep recursion would take the square of a trace.
/// Outer frames are left out.
const STACK_BYTES_MAX: usize = 16 << 10;

/// All stacks of a table together; those beyond that are left out.
const STACKS_BYTES_MAX: usize = 1 << 30;

/// Stands for the frames that are left out.
const LEFT_OUT: &str = "…";

pub(in crate::trace) fn samples(facts: &Facts) -> Columns {
    let trace = facts.trace();
    let samples = trace.samples();
    let events = trace.sample_events().rows();
    let text = |id: StrId| Some(trace.strings().get(id)).filter(|text| !text.is_empty());
    let stacks = || samples.stack.iter().map(|&stack| StackId(stack));
    let times = samples.time.iter().map(|&time| (time != NO_TIME).then_some(time));
    let event = || samples.event.iter().map(|&event| events[usize::from(event)]);
    let mut columns = vec![("time_ns", Arc::new(times.collect::<Int64Array>()) as ArrayRef)];
    columns.extend(threads(trace, &samples.track));
    columns.extend([
        ("cpu", cpus(&samples.cpu)),
        ("event", words(event().map(|event| text(event.name)))),
        ("unit", words(event().map(|event| text(event.unit)))),
        ("weight", integers(&samples.weight)),
        ("cpu_ns", sample_cpu_ns(facts)),
        ("function", functions(trace, stacks())),
        ("file", frame_texts(trace, stacks(), |frame| frame.file)),
        ("line", lines(trace, stacks())),
        ("mapping", frame_texts(trace, stacks(), |frame| frame.mapping)),
        ("stack", stack_texts(trace, stacks())),
    ]);
    columns
}

pub(in crate::trace) fn thread_states(trace: &Trace) -> Columns {
    let states = trace.thread_states();
    let mut columns =
        vec![("start_ns", integers(&states.start)), ("dur_ns", integers(&states.dur))];
    columns.extend(threads(trace, &states.track));
    columns.push(("cpu", cpus(&states.cpu)));
    columns.extend(state_words(trace));
    let wakers = states.iter().map(|row| row.waker);
    let name = |track: &TrackId| thread_text(trace, trace.tracks().get(*track));
    let locks = states.lock.iter().map(|&lock| (lock != NO_LOCK).then_some(lock as i64));
    columns.extend([
        ("stack", stack_texts(trace, states.iter_counted().map(|row| row.stack))),
        ("waker", looked_up(wakers, name)),
        ("waker_stack", stack_texts(trace, states.iter().map(|row| row.waker_stack))),
        ("lock", Arc::new(locks.collect::<Int64Array>()) as ArrayRef),
    ]);
    columns
}

fn cpus(cpus: &[u16]) -> ArrayRef {
    Arc::new(cpus.iter().map(|&cpu| (cpu != NO_CPU).then_some(cpu)).collect::<UInt16Array>())
}

/// The process and the thread of each row.
fn threads(trace: &Trace, tracks: &[u32]) -> Columns {
    let column = |of: fn(&Track) -> StrId| {
        let id = |track: &u32| of(trace.tracks().get(TrackId(*track)));
        strings(trace, tracks.iter().map(id))
    };
    vec![
        ("process", column(|track| track.process)),
        ("process_name", column(|track| track.process_name)),
        ("thread", column(|track| track.thread)),
        ("thread_name", column(|track| track.thread_name)),
    ]
}

/// The name of a thread, or its number where it has none.
fn thread_text(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    match text(track.thread_name) {
        "" => text(track.thread).to_owned(),
        name => name.to_owned(),
    }
}

fn strings(trace: &Trace, ids: impl Iterator<Item = StrId>) -> ArrayRef {
    let known = ids.map(|id| (id != StrId::EMPTY).then_some(id));
    looked_up(known, |&id| trace.strings().get(id).to_owned())
}

fn innermost(trace: &Trace, stack: StackId) -> Option<Frame> {
    trace.stacks().frame(stack).map(|frame| trace.frames().get(frame))
}

fn frame_texts(
    trace: &Trace,
    stacks: impl Iterator<Item = StackId>,
    of: fn(&Frame) -> StrId,
) -> ArrayRef {
    let id = |stack| innermost(trace, stack).map_or(StrId::EMPTY, |frame| of(&frame));
    strings(trace, stacks.map(id))
}

fn lines(trace: &Trace, stacks: impl Iterator<Item = StackId>) -> ArrayRef {
    let line = |stack| Some(innermost(trace, stack)?.line).filter(|&line| line != 0);
    Arc::new(stacks.map(line).collect::<UInt32Array>())
}

/// The functions of each stack, outermost first, by `;`.
fn stack_texts(trace: &Trace, stacks: impl Iterator<Item = StackId>) -> ArrayRef {
    let known = stacks.map(|stack| (stack != StackId::EMPTY).then_some(stack));
    let bytes = Cell::new(0_usize);
    looked_up(known, |&stack| {
        if bytes.get() > STACKS_BYTES_MAX {
            return LEFT_OUT.to_owned();
        }
        let text = stack_text(trace, stack);
        bytes.set(bytes.get() + text.len());
        text
    })
}

fn stack_text(trace: &Trace, stack: StackId) -> String {
    let (mut names, mut bytes) = (Vec::new(), 0);
    for frame in trace.stacks().frames(stack) {
        let name = frame_name(trace, &trace.frames().get(frame));
        bytes += name.len() + 1;
        if bytes > STACK_BYTES_MAX {
            names.push(LEFT_OUT.to_owned());
            break;
        }
        names.push(name);
    }
    names.reverse();
    names.join(";")
}
