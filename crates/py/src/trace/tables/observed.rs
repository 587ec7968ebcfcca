//! Samples, stacks and thread states as Arrow arrays.
//!
//! Values are those of the trace, nothing copied. Which of them are unknown is a bitmap, made
//! where there are such values: of these tables nobody needs to know what stands for "none".
//! Row 0 of the stacks is the empty one; where others would refer to it, they are null.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::types::{UInt16Type, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int64Array, PrimitiveArray, StringArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use spanwise_analyze::{Facts, cpu_by_stack};
use spanwise_model::{
    FrameId, NO_CPU, NO_LOCK, NO_ROW, NO_TIME, StackId, StateRow, StrId, ThreadState, Trace,
};

use super::resolved;
use crate::trace::tables::columns::{Columns, integers, rows, strings};

/// The tables that a trace hands over, by name.
pub(in crate::trace) fn table(facts: &Facts, name: &str) -> Option<Columns> {
    let trace = facts.trace();
    Some(match name {
        "sample_events" => sample_events(trace),
        "frames" => frames(trace),
        "stacks" => stacks(facts),
        "samples" => samples(facts),
        "thread_states" => thread_states(trace),
        "resolved_samples" => resolved::samples(facts),
        "resolved_thread_states" => resolved::thread_states(trace),
        _ => return None,
    })
}

/// Which values are known; nothing where all are.
fn known<T: ArrowNativeType>(values: &ScalarBuffer<T>, unknown: T) -> Option<NullBuffer> {
    let is_known = || values.iter().map(|&value| value != unknown);
    let bitmap = || NullBuffer::new(is_known().collect::<BooleanBuffer>());
    (!is_known().all(|known| known)).then(bitmap)
}

fn row_numbers(values: &ScalarBuffer<u32>, unknown: u32) -> ArrayRef {
    Arc::new(UInt32Array::new(values.clone(), known(values, unknown)))
}

fn cpus(values: &ScalarBuffer<u16>) -> ArrayRef {
    Arc::new(UInt16Array::new(values.clone(), known(values, NO_CPU)))
}

fn addresses(values: &ScalarBuffer<u64>, unknown: u64) -> ArrayRef {
    Arc::new(UInt64Array::new(values.clone(), known(values, unknown)))
}

/// Texts of the trace by their numbers; unknown where they are empty.
fn texts(trace: &Trace, keys: &ScalarBuffer<u32>) -> ArrayRef {
    let nulls = known(keys, StrId::EMPTY.0);
    let keys = PrimitiveArray::<UInt32Type>::new(keys.clone(), nulls);
    let values = Arc::new(strings(trace));
    // SAFETY: a finished trace has no row number without a row (I2, checked where it is made), and
    // its columns do not change after that.
    Arc::new(unsafe { DictionaryArray::<UInt32Type>::new_unchecked(keys, values) })
}

pub(in crate::trace) fn words<'w>(words: impl Iterator<Item = Option<&'w str>>) -> ArrayRef {
    Arc::new(words.collect::<DictionaryArray<UInt16Type>>())
}

pub(in crate::trace) fn flags(flags: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(flags.collect::<BooleanArray>())
}

/// A dictionary column of what keys stand for, each looked up once.
pub(in crate::trace) fn looked_up<K: Eq + Hash>(
    keys: impl Iterator<Item = Option<K>>,
    text: impl Fn(&K) -> String,
) -> ArrayRef {
    let mut numbers: HashMap<K, u32> = HashMap::new();
    let mut values: Vec<String> = Vec::new();
    let mut by_text: HashMap<String, u32> = HashMap::new();
    let mut number = |key: K| {
        *numbers.entry(key).or_insert_with_key(|key| {
            // pandas wants texts to be different from each other.
            *by_text.entry(text(key)).or_insert_with_key(|text| {
                values.push(text.clone());
                values.len() as u32 - 1
            })
        })
    };
    let keys: UInt32Array = keys.map(|key| key.map(&mut number)).collect();
    let values = Arc::new(StringArray::from(values));
    // SAFETY: the keys are numbers of values, which were counted above.
    Arc::new(unsafe { DictionaryArray::<UInt32Type>::new_unchecked(keys, values) })
}

fn sample_events(trace: &Trace) -> Columns {
    let events = trace.sample_events().rows();
    let mut counts = vec![0_i64; events.len()];
    for &event in trace.samples().event.iter() {
        counts[usize::from(event)] += 1;
    }
    let intervals = events.iter().map(|row| row.interval_ns);
    let text = |id: StrId| Some(trace.strings().get(id)).filter(|text| !text.is_empty());
    vec![
        ("event", Arc::new(UInt16Array::from_iter_values(0..events.len() as u16))),
        ("name", words(events.iter().map(|row| text(row.name)))),
        ("unit", words(events.iter().map(|row| text(row.unit)))),
        ("interval_ns", Arc::new(intervals.collect::<Int64Array>())),
        ("samples", Arc::new(Int64Array::from(counts))),
    ]
}

fn frames(trace: &Trace) -> Columns {
    let frames = trace.frames();
    let kinds = (0..frames.len() as u32).map(|row| frames.kind(FrameId(row)));
    vec![
        ("function", texts(trace, &frames.function)),
        ("file", texts(trace, &frames.file)),
        ("line", row_numbers(&frames.line, 0)),
        ("mapping", texts(trace, &frames.mapping)),
        ("address", addresses(&frames.address, 0)),
        ("kind", words(kinds.map(|kind| Some(kind.text())))),
        ("inlined", flags(frames.inlined.iter().map(|&flag| Some(flag != 0)))),
    ]
}

fn stacks(facts: &Facts) -> Columns {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let stacks = trace.stacks();
    let ids = || (0..stacks.len() as u32).map(StackId);
    let mut depths = vec![0_u32; stacks.len()];
    for stack in ids().skip(1) {
        depths[stack.index()] = depths[stacks.parent(stack).index()] + 1;
    }
    let by_stack = time.event.map(|_| cpu_by_stack(trace, time));
    let by_stack = by_stack.as_ref();
    let number = |of: &dyn Fn(StackId) -> Option<i64>| -> ArrayRef {
        Arc::new(ids().map(of).collect::<Int64Array>())
    };
    let frame = |stack| stacks.frame(stack).map(|frame| frame.0);
    vec![
        ("parent", row_numbers(&stacks.parent, StackId::EMPTY.0)),
        ("frame", Arc::new(ids().map(frame).collect::<UInt32Array>())),
        ("depth", Arc::new(UInt32Array::from(depths))),
        ("function", functions(trace, ids())),
        ("recursive", flags(ids().map(|at| Some(by_stack?.is_recursive[at.index()])))),
        ("samples", number(&|at| i64::try_from(by_stack?.samples.as_ref()?[at.index()]).ok())),
        ("self_cpu_ns", number(&|at| Some(by_stack?.own_ns[at.index()]))),
        ("total_cpu_ns", number(&|at| Some(by_stack?.total_ns[at.index()]))),
    ]
}

/// The innermost function of each stack.
pub(in crate::trace) fn functions(
    trace: &Trace,
    stacks: impl Iterator<Item = StackId>,
) -> ArrayRef {
    let function = |stack| {
        let frame = trace.stacks().frame(stack)?;
        let function = trace.frames().get(frame).function;
        (function != StrId::EMPTY).then_some(function.0)
    };
    let keys: UInt32Array = stacks.map(function).collect();
    let values = Arc::new(strings(trace));
    // SAFETY: keys are numbers of strings of the trace.
    Arc::new(unsafe { DictionaryArray::<UInt32Type>::new_unchecked(keys, values) })
}

fn samples(facts: &Facts) -> Columns {
    let trace = facts.trace();
    let samples = trace.samples();
    let time = Int64Array::new(samples.time.clone(), known(&samples.time, NO_TIME));
    vec![
        ("time_ns", Arc::new(time)),
        ("track", rows(&samples.track)),
        ("cpu", cpus(&samples.cpu)),
        ("stack", row_numbers(&samples.stack, StackId::EMPTY.0)),
        ("event", Arc::new(UInt16Array::new(samples.event.clone(), None))),
        ("weight", integers(&samples.weight)),
        ("cpu_ns", sample_cpu_ns(facts)),
        ("function", functions(trace, samples.stack.iter().map(|&stack| StackId(stack)))),
    ]
}

/// The CPU time that each sample stands for; null of events that do not stand for any.
pub(in crate::trace) fn sample_cpu_ns(facts: &Facts) -> ArrayRef {
    let (samples, time) = (facts.trace().samples(), facts.cpu_time());
    let cpu_ns = (0..samples.len())
        .map(|row| (Some(samples.event[row]) == time.event).then(|| time.sample_ns[row]));
    Arc::new(cpu_ns.collect::<Int64Array>())
}

fn thread_states(trace: &Trace) -> Columns {
    let states = trace.thread_states();
    let has_stand_ins = states.stand_in.iter().any(|&distance| distance != 0);
    let stack = match has_stand_ins {
        false => row_numbers(&states.stack, StackId::EMPTY.0),
        true => {
            let of_row = |row: StateRow| (row.stack != StackId::EMPTY).then_some(row.stack.0);
            Arc::new(states.iter_counted().map(of_row).collect::<UInt32Array>())
        }
    };
    let from = states.stand_in.iter().enumerate().map(|(row, &distance)| {
        (distance != 0).then(|| row.wrapping_add_signed(distance as isize) as u32)
    });
    let mut columns = vec![
        ("start_ns", integers(&states.start)),
        ("dur_ns", integers(&states.dur)),
        ("track", rows(&states.track)),
        ("cpu", cpus(&states.cpu)),
    ];
    columns.extend(state_words(trace));
    columns.extend([
        ("stack", stack),
        ("stack_from", Arc::new(from.collect::<UInt32Array>()) as ArrayRef),
        ("waker", row_numbers(&states.waker, NO_ROW)),
        ("waker_stack", row_numbers(&states.waker_stack, StackId::EMPTY.0)),
        ("lock", addresses(&states.lock, NO_LOCK)),
    ]);
    columns
}

/// States as sums count them, in words.
pub(in crate::trace) fn state_words(trace: &Trace) -> Columns {
    let states = || trace.thread_states().iter_counted().map(|row| row.state);
    let is_idle = |state| matches!(state, ThreadState::Blocked(on) if on.is_idle());
    vec![
        ("state", words(states().map(|state| Some(state.text())))),
        ("wait_reason", words(states().map(ThreadState::reason))),
        ("idle", flags(states().map(|state| Some(is_idle(state))))),
    ]
}
