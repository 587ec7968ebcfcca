//! States of threads against an oracle that asks, for every instant by itself, what the
//! events around it say.

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_callstack::{
    EventStack, EventTime, LeftAs, Names, Sched, SchedEvent, StackRef, StateInterval, ThreadKey,
    ThreadSched,
};
use spanwise_model::{BlockedOn, Nanos, RunnableSince, ThreadState};

const THREAD: i64 = 7;
const OTHER: i64 = 8;

/// What is reported of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    Out {
        is_preempted: bool,
    },
    In,
    /// Another thread woke it.
    Woken,
    /// It raised some event.
    Seen,
    /// A record of bookkeeping says that it ran.
    Mentioned,
}

fn reports() -> impl Strategy<Value = Reported> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_preempted| Reported::Out { is_preempted }),
        3 => Just(Reported::In),
        1 => Just(Reported::Woken),
        1 => Just(Reported::Seen),
        1 => Just(Reported::Mentioned),
    ]
}

/// Events at times that ascend; no two at once, so that the oracle needs no ties.
fn events() -> impl Strategy<Value = Vec<(Nanos, Reported)>> {
    vec((1..6_i64, reports()), 0..40).prop_map(|steps| {
        let ascend = |time: &mut i64, (step, report)| {
            *time += step;
            Some((*time, report))
        };
        steps.into_iter().scan(0, ascend).collect()
    })
}

/// The thread's events as the scheduler's tracepoint would report them, or the recorder.
fn feed(sched: &mut Sched, time: Nanos, report: Reported, by_tracepoint: bool) {
    let names = Names::default();
    let key = |tid| ThreadKey { pid: 1, tid };
    let at = EventTime { time, cpu: None };
    let mut raise = |tid, event| {
        let stack = EventStack { frames: &[], number: StackRef::NONE, names: &names };
        sched.event(key(tid), at, event, stack);
    };
    match report {
        Reported::Out { is_preempted } if by_tracepoint => {
            let left = if is_preempted { LeftAs::Preempted } else { LeftAs::Waiting };
            raise(THREAD, SchedEvent::Switch { prev: THREAD, left, next: 0 });
        }
        Reported::In if by_tracepoint => {
            raise(0, SchedEvent::Switch { prev: 0, left: LeftAs::Preempted, next: THREAD });
        }
        Reported::Out { is_preempted } => raise(THREAD, SchedEvent::Out { is_preempted }),
        Reported::In => raise(THREAD, SchedEvent::In),
        Reported::Woken => raise(OTHER, SchedEvent::Wake { woken: THREAD }),
        Reported::Seen => sched.seen(THREAD, at),
        Reported::Mentioned => sched.mentioned(THREAD, at),
    }
}

fn intervals(sched: Sched) -> Vec<StateInterval> {
    let (threads, _) = sched.finish();
    let this = threads.into_iter().find(|thread: &ThreadSched| thread.tid == THREAD);
    this.map(|thread| thread.intervals).unwrap_or_default()
}

fn first_switch(events: &[(Nanos, Reported)]) -> Option<Nanos> {
    let is_switch = |report: &Reported| matches!(report, Reported::Out { .. } | Reported::In);
    events.iter().find(|(_, report)| is_switch(report)).map(|first| first.0)
}

/// When anything but bookkeeping was recorded first.
fn began(events: &[(Nanos, Reported)]) -> Option<Nanos> {
    events.iter().find(|(_, report)| *report != Reported::Mentioned).map(|first| first.0)
}

/// The state in `[time, time + 1)`, from the events alone.
fn oracle(events: &[(Nanos, Reported)], time: Nanos) -> Option<ThreadState> {
    let state = state_between(events, time)?;
    // Before the first switch of all, nothing is missing: switches were not yet reported.
    let is_too_early = match state {
        ThreadState::Unrecorded => Some(time) < first_switch(events),
        // Bookkeeping comes first: before anything else, nothing was recorded.
        ThreadState::Running => Some(time) < began(events),
        _ => false,
    };
    (!is_too_early).then_some(state)
}

fn state_between(events: &[(Nanos, Reported)], time: Nanos) -> Option<ThreadState> {
    let own = |report: &Reported| *report != Reported::Woken;
    let before = events.iter().rfind(|(at, report)| *at <= time && own(report))?;
    let after = events.iter().find(|(at, report)| *at > time && own(report))?;
    let first_woken = events
        .iter()
        .find(|(at, report)| *at > before.0 && *at < after.0 && *report == Reported::Woken)
        .map(|woken| woken.0);
    let is_woken = first_woken.is_some_and(|at| at <= time);
    let blocked = ThreadState::Blocked(BlockedOn::Unknown);
    Some(match (before.1, after.1) {
        (Reported::Out { is_preempted: true }, Reported::In) => {
            ThreadState::Runnable(RunnableSince::Preempted)
        }
        (Reported::Out { is_preempted: false }, Reported::In) if is_woken => {
            ThreadState::Runnable(RunnableSince::Woken)
        }
        (Reported::Out { is_preempted: false }, Reported::In) => blocked,
        // It ran before the second event, and nobody knows since when.
        (Reported::Out { is_preempted: false }, _) if first_woken.is_some() && !is_woken => blocked,
        (Reported::Out { .. }, _) => ThreadState::Unrecorded,
        // It left before the second coming, and nobody knows when.
        (Reported::In | Reported::Seen | Reported::Mentioned, Reported::In) => {
            ThreadState::Unrecorded
        }
        (Reported::In | Reported::Seen | Reported::Mentioned, _) => ThreadState::Running,
        (Reported::Woken, _) => unreachable!("left out above"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512, failure_persistence: None, ..Default::default()
    })]

    /// Whatever is lost between them, events make exactly the states that they show, and
    /// every instant between the first and the last has one.
    #[test]
    fn states_are_what_the_events_around_each_instant_say(
        events in events(), by_tracepoint: bool,
    ) {
        let mut sched = Sched::default();
        events.iter().for_each(|&(time, report)| feed(&mut sched, time, report, by_tracepoint));
        let found = intervals(sched);
        let first_switch = first_switch(&events);
        let is_recorded = !by_tracepoint
            || events.iter().any(|(_, report)| {
                matches!(report, Reported::Out { .. } | Reported::Seen | Reported::Mentioned)
            });
        for pair in found.windows(2) {
            let (end, start) = (pair[0].end, pair[1].start);
            let is_beginning = Some(start) == first_switch && end < start;
            prop_assert!(end == start || is_beginning, "no gap, nothing twice");
        }
        let last = events.last().map_or(0, |event| event.0);
        for time in 0..=last {
            let mut here = found.iter().filter(|s| s.start <= time && time < s.end);
            let expected = oracle(&events, time).filter(|_| first_switch.is_some() && is_recorded);
            prop_assert_eq!(here.next().map(|interval| interval.state), expected, "at {}", time);
        }
    }

    /// A second source that reports the same switches changes nothing.
    #[test]
    fn what_two_sources_report_counts_once(events in events()) {
        let mut one = Sched::default();
        let mut both = Sched::default();
        // A tracepoint's mention alone does not make a thread a recorded one.
        one.seen(THREAD, EventTime { time: 0, cpu: None });
        both.seen(THREAD, EventTime { time: 0, cpu: None });
        for &(time, report) in &events {
            feed(&mut one, 10 * time, report, true);
            feed(&mut both, 10 * time, report, true);
            if matches!(report, Reported::Out { .. } | Reported::In) {
                feed(&mut both, 10 * time + 4, report, false);
            }
        }
        prop_assert_eq!(intervals(both), intervals(one));
    }
}

/// A processor that idles takes a thread as soon as that is woken, reported or not.
#[test]
fn a_thread_comes_to_an_idle_processor_when_it_is_woken() {
    let check = |idle_at: Nanos, woken: Option<Nanos>, expected: &[(ThreadState, Nanos, Nanos)]| {
        let (mut sched, names) = (Sched::default(), Names::default());
        let mut raise = |tid, (time, cpu), event| {
            let (key, at) = (ThreadKey { pid: 1, tid }, EventTime { time, cpu: Some(cpu) });
            let stack = EventStack { frames: &[], number: StackRef::NONE, names: &names };
            sched.event(key, at, event, stack);
        };
        let switch = |prev, next| SchedEvent::Switch { prev, left: LeftAs::Waiting, next };
        raise(THREAD, (10, 0), switch(THREAD, OTHER));
        raise(9, (idle_at, 1), switch(9, 0));
        if let Some(time) = woken {
            raise(OTHER, (time, 0), SchedEvent::Wake { woken: THREAD });
        }
        // Its coming was not reported, but it leaves.
        raise(THREAD, (50, 1), switch(THREAD, 0));
        let found = intervals(sched);
        let found: Vec<_> = found.iter().map(|s| (s.state, s.start, s.end)).collect();
        assert_eq!(found, expected, "idle at {idle_at}, woken at {woken:?}");
    };
    let blocked = ThreadState::Blocked(BlockedOn::Unknown);
    check(20, Some(30), &[(blocked, 10, 30), (ThreadState::Running, 30, 50)]);
    // It had something else to do when the thread was woken.
    check(40, Some(30), &[(blocked, 10, 30), (ThreadState::Unrecorded, 30, 50)]);
    check(20, None, &[(ThreadState::Unrecorded, 10, 50)]);
}

/// While no switches are reported, neither running nor waiting is invented.
#[test]
fn nothing_is_known_of_times_in_which_switches_are_not_recorded() {
    use Reported::{In, Seen};
    let out = Reported::Out { is_preempted: false };
    let check = |before: &[(Nanos, Reported)],
                 pause: Nanos,
                 during: &[(Nanos, Reported)],
                 after: &[(Nanos, Reported)],
                 expected: &[(ThreadState, Nanos, Nanos)]| {
        let mut sched = Sched::default();
        before.iter().for_each(|&(time, report)| feed(&mut sched, time, report, false));
        sched.pause(pause);
        during.iter().for_each(|&(time, report)| feed(&mut sched, time, report, false));
        sched.resume();
        after.iter().for_each(|&(time, report)| feed(&mut sched, time, report, false));
        let found = intervals(sched);
        let found: Vec<_> = found.iter().map(|s| (s.state, s.start, s.end)).collect();
        assert_eq!(found, expected, "{before:?}, {during:?}, {after:?}");
    };
    let (running, unknown) = (ThreadState::Running, ThreadState::Unrecorded);
    let blocked = ThreadState::Blocked(BlockedOn::Unknown);
    // It ran, was seen, and is reported again.
    check(
        &[(10, In)],
        20,
        &[(25, Seen), (30, Seen)],
        &[(40, In), (50, out), (60, In)],
        &[(running, 10, 20), (unknown, 20, 40), (running, 40, 50), (blocked, 50, 60)],
    );
    // It waited, and nobody knows until when.
    check(
        &[(5, In), (10, out)],
        20,
        &[(25, Seen)],
        &[(40, out), (45, In)],
        &[(running, 5, 10), (unknown, 10, 40), (blocked, 40, 45)],
    );
    // Nothing is reported any more: up to where it was last seen.
    check(&[(10, In)], 20, &[(30, Seen)], &[], &[(running, 10, 20), (unknown, 20, 30)]);
    // One that was never seen before, and one that is seen again before its next switch.
    check(&[], 20, &[(30, Seen)], &[(40, out)], &[]);
    check(
        &[(10, In)],
        20,
        &[],
        &[(30, Seen), (40, out)],
        &[(running, 10, 20), (unknown, 20, 30), (running, 30, 40)],
    );
}
