//! Stacks that exceptions leave.

use spanwise_callstack::{Branch, BranchKind, Flow, FlowOptions, Location, ThreadKey, TraceEdge};

const THREAD: ThreadKey = ThreadKey { pid: 1, tid: 2 };

/// A place in a function, by its number in the list of names: `0` is its first instruction.
type Spot = (usize, u64);

const NAMES: [&str; 5] = ["main", "dive", "_Unwind_RaiseException", "_Unwind_Resume", "clean"];

/// Branches are a kind, where they come from and where they lead to; the calls that they make are
/// identified by depth and name.
#[track_caller]
fn check(branches: &[(BranchKind, Spot, Spot)], expected: &[(usize, &str)]) {
    let mut flow = Flow::new(FlowOptions::default());
    let functions = NAMES.map(|name| flow.names.function(name, "x"));
    let place = |(function, offset): Spot| Location {
        ip: 0x1000 * (function as u64 + 1) + offset,
        function: functions[function],
        is_entry: offset == 0,
        ..Location::NOWHERE
    };
    for (at, &(kind, from, to)) in branches.iter().enumerate() {
        let (from, to) = (place(from), place(to));
        let (edge, is_in_transaction) = (TraceEdge::Within, false);
        let branch = Branch { kind, edge, is_in_transaction, from, to };
        flow.branch(THREAD, Some(10 * (at as i64 + 1)), &branch);
    }
    let (names, threads, _) = flow.finish();
    let calls = &threads[0].calls;
    let depth = |at: usize| {
        std::iter::successors(calls[at].caller, |&caller| calls[caller as usize].caller).count()
    };
    let found: Vec<(usize, &str)> =
        (0..calls.len()).map(|at| (depth(at), names.name_text(calls[at].function))).collect();
    assert_eq!(found, expected);
}

/// The unwinder goes to the cleaning up of each frame by a return or by a jump, as it was built.
#[test]
fn each_cleaning_up_is_one_frame_further_out() {
    use BranchKind::{Call, Jump, Return};
    let [main, dive, raise, resume, clean] = [0, 1, 2, 3, 4];
    for back in [Jump, Return] {
        check(
            &[
                (Call, (main, 5), (dive, 0)),
                (Call, (dive, 5), (dive, 0)),
                (Call, (dive, 5), (raise, 0)),
                // The inner one cleans up, then the outer one, then main goes on.
                (back, (raise, 9), (dive, 20)),
                (Call, (dive, 22), (clean, 0)),
                (Return, (clean, 3), (dive, 24)),
                (Call, (dive, 28), (resume, 0)),
                (back, (resume, 9), (dive, 20)),
                (Call, (dive, 22), (clean, 0)),
                (Return, (clean, 3), (dive, 24)),
                (Call, (dive, 28), (resume, 0)),
                (back, (resume, 9), (main, 40)),
                (Call, (main, 45), (clean, 0)),
                (Return, (clean, 3), (main, 50)),
            ],
            &[
                (0, "main"),
                (1, "dive"),
                (2, "dive"),
                (3, "_Unwind_RaiseException"),
                (3, "clean"),
                (3, "_Unwind_Resume"),
                (2, "clean"),
                (2, "_Unwind_Resume"),
                (1, "clean"),
            ],
        );
    }
}
