//! What holds whatever comes in: calls nest, time never goes back, everything ends; and a
//! program whose calls are known comes out as it ran.

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_callstack::compat::{Machine, Scope};
use spanwise_callstack::{
    Branch, BranchKind, Call, Flow, FlowOptions, FunctionId, Location, Names, SampleReach,
    ThreadCalls, ThreadKey, TraceEdge, Traps,
};
use spanwise_model::Nanos;

const THREAD: ThreadKey = ThreadKey { pid: 1, tid: 1 };

/// Names that the rules know, and some that they do not.
const FUNCTIONS: [&str; 9] = [
    "main",
    "f",
    "g",
    "f.cold",
    "gogo",
    "runtime.mcall",
    "caml_raise_exn",
    "caml_next_frame_descriptor",
    "h",
];

/// The numbers of [`FUNCTIONS`], and of what is not known.
fn functions(names: &mut Names) -> Vec<FunctionId> {
    let mut ids: Vec<FunctionId> =
        FUNCTIONS.iter().map(|name| names.function(name, "app")).collect();
    ids.push(names.unknown("lib.so"));
    ids.push(FunctionId::UNKNOWN);
    ids
}

#[derive(Debug, Clone)]
enum Event {
    Branch { kind: BranchKind, edge: TraceEdge, is_in_transaction: bool, from: Spot, to: Spot },
    Sample(Vec<Spot>, Option<Nanos>),
    Switch(bool),
    Error,
    Snapshot,
}

/// A function by its place in the list, an offset, and whether it is in the kernel.
type Spot = (usize, u64, bool);

fn spot() -> impl Strategy<Value = Spot> {
    (0..FUNCTIONS.len() + 2, 0..4_u64, prop::bool::weighted(0.2))
}

fn event() -> impl Strategy<Value = Event> {
    use {BranchKind as Kind, TraceEdge as Edge};
    let kinds = vec![
        Kind::Call,
        Kind::Call,
        Kind::Return,
        Kind::Return,
        Kind::Jump,
        Kind::Interrupt,
        Kind::HardwareInterrupt,
        Kind::Syscall,
        Kind::SyscallReturn,
        Kind::InterruptReturn,
        Kind::TransactionAbort,
        Kind::Asynchronous,
        Kind::None,
        Kind::Unsaid,
    ];
    let edges = vec![Edge::Within, Edge::Within, Edge::Within, Edge::Start, Edge::End, Edge::Blink];
    let kind = prop::sample::select(kinds);
    let edge = prop::sample::select(edges);
    let branch = (kind, edge, prop::bool::weighted(0.1), spot(), spot()).prop_map(
        |(kind, edge, is_in_transaction, from, to)| Event::Branch {
            kind,
            edge,
            is_in_transaction,
            from,
            to,
        },
    );
    prop_oneof![
        20 => branch,
        2 => (vec(spot(), 0..5), prop::option::of(0..20_i64)).prop_map(|(frames, period)| {
            Event::Sample(frames, period)
        }),
        1 => any::<bool>().prop_map(Event::Switch),
        1 => Just(Event::Error),
        1 => Just(Event::Snapshot),
    ]
}

fn place(ids: &[FunctionId], spot: Spot) -> Location {
    let (function, offset, is_kernel) = spot;
    let base = if is_kernel { 1 << 63 } else { 0 };
    let ip = base + 0x1000 * (1 + function as u64) + offset;
    // The last of the list is nowhere at all.
    let ip = if function == FUNCTIONS.len() + 1 { 0 } else { ip };
    Location {
        ip,
        function: ids[function],
        is_entry: offset == 0,
        is_inlined: false,
        ..Location::NOWHERE
    }
}

/// All times, sorted and not; `None` where an event does not say.
fn timed(events: Vec<Event>) -> impl Strategy<Value = Vec<(Option<Nanos>, bool, Event)>> {
    let len = events.len();
    let time = prop::option::weighted(0.95, 0..60_i64);
    vec((time, any::<bool>()), len).prop_map(move |mut times| {
        if times.len() % 2 == 0 {
            times.sort();
        }
        let events = times.into_iter().zip(events.clone());
        events.map(|((time, is_other), event)| (time, is_other, event)).collect()
    })
}

fn traps() -> Traps {
    Traps { enter: vec![0x2002, 0x3003], push: vec![0x2001], pop: vec![0x2003] }
}

fn run(events: &[(Option<Nanos>, bool, Event)], traps: Traps) -> Vec<ThreadCalls> {
    let mut flow = Flow::new(FlowOptions { traps });
    let ids = functions(&mut flow.names);
    let message = flow.names.string("lost");
    for (time, is_other, event) in events {
        let thread = ThreadKey { pid: 1, tid: 1 + i64::from(*is_other) };
        match event {
            &Event::Branch { kind, edge, is_in_transaction, from, to } => {
                let (from, to) = (place(&ids, from), place(&ids, to));
                let branch = Branch { kind, edge, is_in_transaction, from, to };
                flow.branch(thread, *time, &branch);
            }
            Event::Sample(frames, period) => {
                let frames: Vec<Location> = frames.iter().map(|&spot| place(&ids, spot)).collect();
                let reach = SampleReach { speaks_for: *period, not_before: None };
                flow.sample(thread, *time, &frames, reach);
            }
            Event::Switch(is_out) => flow.switch(thread, *time, *is_out),
            Event::Error => flow.error(thread, *time, message),
            Event::Snapshot => flow.new_snapshot(),
        }
    }
    flow.finish().1
}

/// Callers stand before callees and last as long; siblings follow one another.
fn check_nesting(calls: &[Call]) -> Result<(), TestCaseError> {
    let mut last_end = vec![Nanos::MIN; calls.len() + 1];
    for (row, call) in calls.iter().enumerate() {
        prop_assert!(call.start <= call.end, "call {row} ends before it begins");
        let slot = match call.caller {
            None => calls.len(),
            Some(caller) => {
                prop_assert!((caller as usize) < row, "call {row} stands before its caller");
                let caller = &calls[caller as usize];
                prop_assert!(caller.start <= call.start, "call {row} before its caller");
                prop_assert!(call.end <= caller.end, "call {row} outlives its caller");
                call.caller.map_or(0, |caller| caller as usize)
            }
        };
        prop_assert!(last_end[slot] <= call.start, "call {row} begins before its sibling ends");
        last_end[slot] = call.end;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn calls_nest_whatever_comes(
        events in vec(event(), 0..80).prop_flat_map(timed),
        has_traps: bool,
    ) {
        let traps = if has_traps { traps() } else { Traps::default() };
        for thread in run(&events, traps) {
            check_nesting(&thread.calls)?;
        }
    }

    #[test]
    fn magic_traces_lines_balance(events in vec(event(), 0..60).prop_flat_map(timed)) {
        let mut machine = Machine::new(Scope::Both, Traps::default());
        let ids = functions(&mut machine.names);
        for (time, _, event) in &events {
            match event {
                &Event::Branch { kind, edge, is_in_transaction, from, to } => {
                    let (from, to) = (place(&ids, from), place(&ids, to));
                    let branch = Branch { kind, edge, is_in_transaction, from, to };
                    machine.branch(THREAD, *time, &branch);
                }
                Event::Sample(frames, _) => {
                    let frames: Vec<Location> = frames.iter().map(|&s| place(&ids, s)).collect();
                    machine.sample(THREAD, *time, &frames);
                }
                Event::Switch(_) => machine.other(THREAD, *time),
                Event::Error => machine.error(THREAD, *time, "lost", 0),
                Event::Snapshot => machine.new_snapshot(),
            }
        }
        machine.finish();
        let mut begins = std::collections::BTreeMap::new();
        for line in machine.take_lines() {
            *begins.entry(line.name).or_insert(0) += if line.is_begin { 1 } else { -1 };
        }
        // A begin at time 0 may be lost, as magic-trace loses it: never an end.
        prop_assert!(begins.values().all(|&open: &i32| open <= 0), "{begins:?}");
    }

    #[test]
    fn a_program_comes_out_as_it_ran(steps in vec((any::<bool>(), 0..4_usize, 1..9_i64), 1..200)) {
        check_program(&steps)?;
    }
}

/// Runs a program that calls and returns at times of its own, from a root that is not
/// recorded, and compares with what it really did.
fn check_program(steps: &[(bool, usize, Nanos)]) -> Result<(), TestCaseError> {
    let mut flow = Flow::default();
    let ids = functions(&mut flow.names);
    let spot = |function: usize, offset| place(&ids, (function, offset, false));
    // The root is the function `h`, the rest are never it.
    let root = FUNCTIONS.len() - 1;
    let mut expected = vec![(root, 0, 0, None)];
    let mut open = vec![0_usize];
    let mut time = 0;
    let branch = |kind, from, to| Branch {
        kind,
        edge: TraceEdge::Within,
        is_in_transaction: false,
        from,
        to,
    };
    flow.branch(THREAD, Some(0), &branch(BranchKind::Jump, spot(root, 1), spot(root, 2)));
    for &(is_call, function, pause) in steps {
        time += pause;
        let here = expected[open[open.len() - 1]].0;
        if is_call {
            let kind = BranchKind::Call;
            flow.branch(THREAD, Some(time), &branch(kind, spot(here, 2), spot(function, 0)));
            expected.push((function, time, 0, Some(open[open.len() - 1])));
            open.push(expected.len() - 1);
        } else if open.len() > 1 {
            let done = open.pop().expect("more than one");
            expected[done].2 = time;
            let caller = expected[open[open.len() - 1]].0;
            let kind = BranchKind::Return;
            flow.branch(THREAD, Some(time), &branch(kind, spot(here, 3), spot(caller, 3)));
        }
    }
    // The last event is the end of all that is open.
    let end = expected.iter().map(|call| call.1.max(call.2)).max().unwrap_or(0);
    open.iter().for_each(|&call| expected[call].2 = end);
    let threads = flow.finish().1;
    let found: Vec<_> = threads[0]
        .calls
        .iter()
        .map(|call| (call.function, call.start, call.end, call.caller.map(|row| row as usize)))
        .collect();
    // `f.cold` is a part of `f`.
    let whole = |function: usize| ids[if function == 3 { 1 } else { function }];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(function, start, end, caller)| (whole(function), start, end, caller))
        .collect();
    prop_assert_eq!(found, expected);
    Ok(())
}
