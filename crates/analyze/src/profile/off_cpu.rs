//! Profiles of threads that run and wait: on and off the processor, locks, states.
//!
//! Each has columns of its own, those that other tools use for the same. The sums are
//! those of the report: [`crate::off_cpu`] and [`crate::locks`].

use spanwise_model::{
    Label, LabelValue, Profile, ProfileBuilder, RunnableSince, SpanId, StackId, ThreadState, Trace,
};

use super::frames::{FrameTable, made_up};
use super::{ProfileOptions, profile, value};
use crate::locks::{ancestors, lock_waits, woken_by};
use crate::off_cpu::{States, off_cpu, off_periods, thread_name};
use crate::{Facts, Names, WaitForLock};

/// What a profile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadProfile {
    /// Time that threads ran, by stack.
    Cpu,
    /// Time that they did not, by the stack that they left their processor with.
    OffCpu,
    /// Waits for locks, by the stack that asked for the lock.
    Locks,
    /// How long each thread was in which state.
    States,
}

const CPU: [(&str, &str); 2] = [("samples", "count"), ("cpu", "nanoseconds")];

const OFF_CPU: [(&str, &str); 4] = [
    ("switches", "count"),
    ("offcpu", "nanoseconds"),
    ("blocked", "nanoseconds"),
    ("runnable", "nanoseconds"),
];

const LOCKS: [(&str, &str); 3] =
    [("contentions", "count"), ("delay", "nanoseconds"), ("holder_delay", "nanoseconds")];

const STATES: [(&str, &str); 1] = [("time", "nanoseconds")];

/// A profile of one of these sorts.
pub fn thread_profile(trace: &Trace, what: ThreadProfile, options: &ProfileOptions) -> Profile {
    match what {
        ThreadProfile::Cpu => cpu(trace, options),
        ThreadProfile::OffCpu => off_cpu_profile(trace, options),
        ThreadProfile::Locks => locks_profile(trace, options),
        ThreadProfile::States => states_profile(trace),
    }
}

fn builder(trace: &Trace, types: &[(&str, &str)], default_value: usize) -> ProfileBuilder {
    let mut builder = ProfileBuilder::new(types, default_value);
    let window = trace.window().unwrap_or((0, 0));
    let info = trace.info();
    builder.time_ns = info.base_time_ns.and_then(|base| base.checked_add(window.0));
    builder.duration_ns = window.1.saturating_sub(window.0);
    builder.comments = vec![format!("made by spanwise from {}", info.format)];
    builder
}

/// What of the usual profile is running.
fn cpu(trace: &Trace, options: &ProfileOptions) -> Profile {
    let whole = profile(trace, options);
    let mut builder = builder(trace, &CPU, 1);
    let stacks = builder.copied_stacks(&whole, |builder, frame| {
        let frame = whole.frames[frame as usize];
        let mut text = |id| builder.string(whole.text(id));
        let (name, group, file) = (text(frame.name), text(frame.group), text(frame.file));
        builder.frame(spanwise_model::ProfileFrame { name, group, file, line: frame.line })
    });
    for (row, sample) in whole.samples.iter().enumerate() {
        let labels = &whole.label_sets[sample.labels as usize];
        let is_running = |label: &Label| match label.value {
            LabelValue::Text(value) => {
                whole.text(label.key) == "state" && whole.text(value) == "running"
            }
            LabelValue::Number { .. } => false,
        };
        let values = whole.values_of(row);
        if !labels.iter().any(is_running) || values[value::WALL] == 0 {
            continue;
        }
        let labels = labels.iter().map(|&label| builder.copied_label(&whole, label)).collect();
        let labels = builder.labels(labels);
        let stack = stacks[sample.stack.index()];
        builder.add(stack, labels, 0, values[value::SAMPLES]);
        builder.add(stack, labels, 1, values[value::WALL]);
    }
    builder.finish()
}

/// Stacks and labels of spans.
struct Making<'a> {
    trace: &'a Trace,
    frames: FrameTable<'a>,
    builder: ProfileBuilder,
}

impl<'a> Making<'a> {
    fn new(
        trace: &'a Trace,
        names: &'a Names<'a>,
        options: &'a ProfileOptions,
        types: &[(&str, &str)],
    ) -> Self {
        let builder = builder(trace, types, 1);
        Making { trace, frames: FrameTable::new(trace, names, options), builder }
    }

    /// Everything around a span; the span itself where there is nothing.
    fn stack_around(&mut self, span: SpanId) -> StackId {
        let mut around: Vec<SpanId> = ancestors(self.trace, span).skip(1).collect();
        if around.is_empty() {
            around.push(span);
        }
        let mut stack = StackId::EMPTY;
        for span in around.into_iter().rev() {
            if let Some(frame) = self.frames.of(&mut self.builder, span) {
                stack = self.builder.push(stack, frame);
            }
        }
        stack
    }

    fn thread_of(&self, span: SpanId) -> String {
        let track = self.trace.spans().track(span);
        thread_name(self.trace, self.trace.tracks().get(track))
    }

    fn labels(&mut self, texts: &[(&str, &str)]) -> u32 {
        let known = texts.iter().filter(|(_, value)| !value.is_empty());
        let label = |&(key, value): &(&str, &str)| {
            let (key, value) = (self.builder.string(key), self.builder.string(value));
            Label { key, value: LabelValue::Text(value) }
        };
        let labels = known.map(label).collect();
        self.builder.labels(labels)
    }
}

fn off_cpu_profile(trace: &Trace, options: &ProfileOptions) -> Profile {
    let states = States::new(trace);
    let wakers = woken_by(trace);
    let names = Names::new(trace);
    let mut making = Making::new(trace, &names, options, &OFF_CPU);
    for (_, track) in trace.tracks().iter() {
        let thread = thread_name(trace, track);
        for period in off_periods(trace, track, &states) {
            let stack = making.stack_around(period[0].0);
            let waker = period.iter().find_map(|(span, _)| wakers.get(span));
            let waker = waker.map(|&waker| making.thread_of(waker)).unwrap_or_default();
            let labels = [("thread", &*thread), ("why", why(period[0].1)), ("waker", &*waker)];
            let labels = making.labels(&labels);
            making.builder.add(stack, labels, 0, 1);
            for (span, state) in period {
                let dur = trace.spans().dur(span);
                making.builder.add(stack, labels, 1, dur);
                match state {
                    ThreadState::Blocked(_) => making.builder.add(stack, labels, 2, dur),
                    ThreadState::Runnable(_) => making.builder.add(stack, labels, 3, dur),
                    ThreadState::Running | ThreadState::Unrecorded => {}
                }
            }
        }
    }
    making.builder.finish()
}

/// Why a thread left its processor.
fn why(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Blocked(on) => on.text(),
        ThreadState::Runnable(RunnableSince::Preempted) => "preempt",
        ThreadState::Runnable(RunnableSince::Created) => "new",
        ThreadState::Runnable(RunnableSince::Woken) => "woken",
        ThreadState::Running | ThreadState::Unrecorded => "not recorded",
    }
}

fn locks_profile(trace: &Trace, options: &ProfileOptions) -> Profile {
    let names = Names::new(trace);
    let mut making = Making::new(trace, &names, options, &LOCKS);
    for wait in lock_waits(trace) {
        let WaitForLock { span, lock, delay_ns, waker, .. } = wait;
        let thread = making.thread_of(span);
        let by = waker.map(|waker| making.thread_of(waker)).unwrap_or_default();
        let address = lock.address.map(|address| format!("{address:#x}")).unwrap_or_default();
        let why = lock.on.text();
        let stack = making.stack_around(span);
        let labels = [("thread", &*thread), ("why", why), ("lock", &*address), ("waker", &*by)];
        let labels = making.labels(&labels);
        making.builder.add(stack, labels, 0, 1);
        making.builder.add(stack, labels, 1, delay_ns);
        if let Some(waker) = waker {
            let stack = making.stack_around(waker);
            let labels = making.labels(&[("thread", &*by), ("why", why), ("lock", &*address)]);
            making.builder.add(stack, labels, 2, delay_ns);
        }
    }
    making.builder.finish()
}

/// A frame a thread, and one a state.
fn states_profile(trace: &Trace) -> Profile {
    let mut builder = builder(trace, &STATES, 0);
    let facts = Facts::new(trace);
    for row in off_cpu(&facts) {
        let frame = made_up(&mut builder, &row.thread);
        let thread = builder.push(StackId::EMPTY, frame);
        let labels = builder.labels(Vec::new());
        let blocked = row.blocked_ns.iter().map(|(&on, &ns)| (ThreadState::Blocked(on), ns));
        let states = [
            (ThreadState::Running, row.running_ns),
            (ThreadState::Runnable(RunnableSince::Woken), row.runnable_ns),
            (ThreadState::Unrecorded, row.unrecorded_ns),
        ];
        for (state, ns) in blocked.chain(states).filter(|&(_, ns)| ns > 0) {
            let frame = made_up(&mut builder, &state.span_name());
            let stack = builder.push(thread, frame);
            builder.add(stack, labels, 0, i64::try_from(ns).unwrap_or(i64::MAX));
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::sample::Sample;
    use crate::{TotalNanos, locks};

    #[test]
    fn sums_are_those_of_the_report() {
        let mut sample = Sample::default();
        let mut span = |kind, name: &str, start, dur| {
            sample.span("7", kind, name, start, dur);
        };
        span(SpanKind::Other, "main", 0, 60);
        span(SpanKind::LockWait, "[mutex 0x40]", 10, 20);
        span(SpanKind::OffCpu, "[blocked: mutex]", 12, 8);
        span(SpanKind::OffCpu, "[waiting for a CPU]", 20, 6);
        span(SpanKind::OffCpu, "[waiting for a CPU: preempted]", 40, 10);
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let totals = |what| thread_profile(&trace, what, &ProfileOptions::default()).totals();
        let rows = off_cpu(&facts);
        let row = &rows[0];
        let (blocked, runnable) = (row.blocked_total_ns(), row.runnable_ns);
        assert_eq!(totals(ThreadProfile::OffCpu), [2, blocked + runnable, blocked, runnable]);
        assert_eq!(totals(ThreadProfile::States), [row.known_ns()]);
        let delay: TotalNanos = locks(&facts).iter().map(|row| row.delay_ns).sum();
        assert_eq!(totals(ThreadProfile::Locks), [1, delay, 0]);
        // In the call for a lock a thread waits, also while it still runs.
        let in_call = 20 - 8 - 6;
        assert_eq!(totals(ThreadProfile::Cpu)[1], row.running_ns - in_call);
    }
}
