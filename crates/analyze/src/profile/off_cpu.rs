//! Profiles of threads that run and wait: on and off the processor, locks, states.
//!
//! Each has columns of its own, those that other tools use for the same. The sums are
//! those of the report: [`crate::off_cpu`] and [`crate::locks`].

use spanwise_model::{
    Label, LabelValue, Profile, ProfileBuilder, RunnableSince, StackId, StateRow, ThreadState,
    Trace, TrackKind,
};

use super::{ProfileOptions, made_up, profile, value};
use crate::cpu::off_cpu::locks::lock_waits;
use crate::cpu::off_cpu::threads::thread_name;
use crate::cpu::sampled::{ObservedStacks, cpu_profile, text_labels};
use crate::{CpuTime, WaitForLock};

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

impl ThreadProfile {
    /// What options call each; the last name is Python's.
    pub const NAMES: [(&'static str, ThreadProfile); 5] = [
        ("cpu", ThreadProfile::Cpu),
        ("offcpu", ThreadProfile::OffCpu),
        ("locks", ThreadProfile::Locks),
        ("sched", ThreadProfile::States),
        ("off_cpu", ThreadProfile::OffCpu),
    ];
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

/// A profile of one of these kinds.
pub fn thread_profile(trace: &Trace, what: ThreadProfile, options: &ProfileOptions) -> Profile {
    match what {
        ThreadProfile::Cpu => cpu(trace, options),
        ThreadProfile::OffCpu => off_cpu_profile(trace, options),
        ThreadProfile::Locks => locks_profile(trace, options),
        ThreadProfile::States => states_profile(trace),
    }
}

/// Samples of an event by stack: how many, and what they count. `None` where the trace has no
/// event of this name.
pub fn event_profile(trace: &Trace, event: &str, options: &ProfileOptions) -> Option<Profile> {
    let rows = trace.sample_events().rows();
    let number = rows.iter().position(|row| trace.strings().get(row.name) == event)?;
    let unit = match trace.strings().get(rows[number].unit) {
        "ns" => "nanoseconds",
        "samples" => "count",
        unit => unit,
    };
    let builder = builder(trace, &[("samples", "count"), (event, unit)], 1);
    let number = u16::try_from(number).ok()?;
    Some(crate::cpu::sampled::event_profile(trace, number, options, builder))
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

/// Time that threads ran: by samples where there are some, else what of the usual profile is
/// running.
fn cpu(trace: &Trace, options: &ProfileOptions) -> Profile {
    let time = CpuTime::new(trace);
    if time.is_recorded() {
        return cpu_profile(trace, &time, options, builder(trace, &CPU, 1));
    }
    let whole = profile(trace, options);
    let mut builder = builder(trace, &CPU, 1);
    let stacks = builder.copied_stacks(&whole, |builder, frame| {
        builder.copied_frame(&whole, whole.frames[frame as usize])
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

/// Waits of all threads by stack, with their state as the innermost frame.
pub(super) fn add_waits(trace: &Trace, stacks: &ObservedStacks<'_>, builder: &mut ProfileBuilder) {
    let mut waits = WaitLabels::new(trace, stacks);
    for state in trace.thread_states().iter_counted() {
        if state.state == ThreadState::Running {
            continue;
        }
        let frame = made_up(builder, &state.state.span_name());
        let stack = builder.push(stacks.stack(state.stack.0), frame);
        let labels = waits.labels(builder, &state, &[("state", "waiting")]);
        builder.add(stack, labels, value::WALL, state.dur);
    }
}

/// Labels of states.
struct WaitLabels<'a> {
    trace: &'a Trace,
    stacks: &'a ObservedStacks<'a>,
    threads: Vec<Option<String>>,
}

impl<'a> WaitLabels<'a> {
    fn new(trace: &'a Trace, stacks: &'a ObservedStacks<'a>) -> Self {
        WaitLabels { trace, stacks, threads: vec![None; trace.tracks().len()] }
    }

    fn labels(
        &mut self,
        builder: &mut ProfileBuilder,
        state: &StateRow,
        others: &[(&str, &str)],
    ) -> u32 {
        let thread = self.threads[state.track.index()]
            .get_or_insert_with(|| self.stacks.thread(state.track));
        let labels = [&[("thread", &**thread)], others].concat();
        text_labels(builder, &labels)
    }

    fn waker(&self, state: &StateRow) -> String {
        let thread = |track| thread_name(self.trace, self.trace.tracks().get(track));
        state.waker.map(thread).unwrap_or_default()
    }
}

fn off_cpu_profile(trace: &Trace, options: &ProfileOptions) -> Profile {
    let mut builder = builder(trace, &OFF_CPU, 1);
    let stacks = ObservedStacks::new(trace, options, &mut builder);
    let mut waits = WaitLabels::new(trace, &stacks);
    // A wait for a processor belongs to the wait before it.
    let mut period: Option<(StateRow, StackId, u32)> = None;
    for state in trace.thread_states().iter_counted() {
        if state.state == ThreadState::Running {
            continue;
        }
        let goes_on = period.is_some_and(|(before, ..)| {
            before.track == state.track
                && before.start + before.dur == state.start
                && matches!(before.state, ThreadState::Blocked(_))
                && state.state == ThreadState::Runnable(RunnableSince::Woken)
        });
        let (stack, labels) = match period.filter(|_| goes_on) {
            Some((_, stack, labels)) => (stack, labels),
            None => {
                let waker = waits.waker(&state);
                let others = [("why", why(state.state)), ("waker", &*waker)];
                let labels = waits.labels(&mut builder, &state, &others);
                let stack = match stacks.stack(state.stack.0) {
                    StackId::EMPTY => {
                        let frame = made_up(&mut builder, &state.state.span_name());
                        builder.push(StackId::EMPTY, frame)
                    }
                    stack => stack,
                };
                builder.add(stack, labels, 0, 1);
                (stack, labels)
            }
        };
        builder.add(stack, labels, 1, state.dur);
        match state.state {
            ThreadState::Blocked(_) => builder.add(stack, labels, 2, state.dur),
            ThreadState::Runnable(_) => builder.add(stack, labels, 3, state.dur),
            ThreadState::Running | ThreadState::Unrecorded => {}
        }
        period = Some((state, stack, labels));
    }
    builder.finish()
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
    let mut builder = builder(trace, &LOCKS, 1);
    let stacks = ObservedStacks::new(trace, options, &mut builder);
    for wait in lock_waits(trace) {
        let WaitForLock { lock, delay_ns, waker, .. } = wait;
        let thread = stacks.thread(wait.track);
        let by = waker.map(|waker| stacks.thread(waker)).unwrap_or_default();
        let address = lock.address.map(|address| format!("{address:#x}")).unwrap_or_default();
        let why = lock.on.text();
        let or_lock = |builder: &mut ProfileBuilder, stack: StackId| match stack {
            StackId::EMPTY => {
                let frame = made_up(builder, &lock.to_string());
                builder.push(StackId::EMPTY, frame)
            }
            stack => stack,
        };
        let stack = or_lock(&mut builder, stacks.stack(wait.stack.0));
        let labels = [("thread", &*thread), ("why", why), ("lock", &*address), ("waker", &*by)];
        let labels = text_labels(&mut builder, &labels);
        builder.add(stack, labels, 0, 1);
        builder.add(stack, labels, 1, delay_ns);
        if waker.is_some() {
            let stack = or_lock(&mut builder, stacks.stack(wait.waker_stack.0));
            let labels = [("thread", &*by), ("why", why), ("lock", &*address)];
            let labels = text_labels(&mut builder, &labels);
            builder.add(stack, labels, 2, delay_ns);
        }
    }
    builder.finish()
}

/// A frame for each thread, and one for each state.
fn states_profile(trace: &Trace) -> Profile {
    let mut builder = builder(trace, &STATES, 0);
    let threads = trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread);
    let states = trace.thread_states();
    for (id, track) in threads.filter(|&(id, _)| !states.of_track(id).is_empty()) {
        let frame = made_up(&mut builder, &thread_name(trace, track));
        let thread = builder.push(StackId::EMPTY, frame);
        let labels = builder.labels(Vec::new());
        for row in states.of_track(id) {
            let frame = made_up(&mut builder, &states.counted(row).state.span_name());
            let stack = builder.push(thread, frame);
            builder.add(stack, labels, 0, states.dur[row]);
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use spanwise_model::BlockedOn;

    use super::*;
    use crate::base::sample::Sample;
    use crate::cpu::off_cpu::threads::off_cpu;
    use crate::{Facts, TotalNanos, locks};

    #[test]
    fn sums_are_those_of_the_report() {
        let mut sample = Sample::default();
        sample.state("7", ThreadState::Running, 0, 12);
        sample.wait("7", BlockedOn::Mutex, 12, 8, &["main", "lock"]);
        sample.state("7", ThreadState::Runnable(RunnableSince::Woken), 20, 6);
        sample.state("7", ThreadState::Running, 26, 14);
        sample.state("7", ThreadState::Runnable(RunnableSince::Preempted), 40, 10);
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let totals = |what| thread_profile(&trace, what, &ProfileOptions::default()).totals();
        let rows = off_cpu(&facts);
        let row = &rows[0];
        let (blocked, runnable) = (row.blocked_total_ns(), row.runnable_ns.unwrap_or(0));
        assert_eq!(totals(ThreadProfile::OffCpu), [2, blocked + runnable, blocked, runnable]);
        assert_eq!(totals(ThreadProfile::States), [row.known_ns()]);
        let delay: TotalNanos = locks(&facts).iter().map(|row| row.delay_ns).sum();
        assert_eq!(totals(ThreadProfile::Locks), [1, delay, 0]);
        assert_eq!(totals(ThreadProfile::Cpu)[1], row.running_ns);
        let wall = profile(&trace, &ProfileOptions::default()).totals()[value::WALL];
        assert_eq!(wall, row.known_ns());
    }
}
