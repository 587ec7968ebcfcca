//! Calls that were recorded one by one: when each began, and when it returned.
//!
//! A return names its function, and ends what that function called, too: those returns may be
//! missing. Begins and ends that only nest are paired by `model`.

use spanwise_model::Nanos;

use crate::flow::Flow;
use crate::{FunctionId, ThreadKey};

impl Flow {
    /// Calls of a thread are recorded one by one from now on: stacks of samples say nothing new
    /// about it, whoever has made the calls.
    pub fn exact_from(&mut self, key: ThreadKey, time: Nanos) {
        self.exact_thread(key, time);
    }

    /// A function of a thread is called. From now on stacks of samples say nothing new about
    /// this thread.
    pub fn enter(&mut self, key: ThreadKey, time: Nanos, function: FunctionId) {
        let (thread, time) = self.exact_thread(key, time);
        thread.stack.push_found(function, time);
    }

    /// A function of a thread returns, and with it all that it has called: where one of those
    /// was left by a jump, or its return was lost. False where its call was not seen.
    pub fn leave(&mut self, key: ThreadKey, time: Nanos, function: FunctionId) -> bool {
        let (thread, time) = self.exact_thread(key, time);
        match thread.stack.find(0, |node| node.function == function, |_| false) {
            Some(above) => {
                thread.stack.pop(above + 1, time);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowOptions, Location, SampleReach};

    const THREAD: ThreadKey = ThreadKey { pid: 1, tid: 2 };

    /// Events are a time, a function, and whether it is entered.
    #[track_caller]
    fn check(events: &[(Nanos, &str, bool)], expected: &[(&str, Nanos, Nanos)], unseen: usize) {
        let mut flow = Flow::new(FlowOptions::default());
        let mut missing = 0;
        for &(time, name, is_entered) in events {
            let function = flow.names.function(name, "x");
            match is_entered {
                true => flow.enter(THREAD, time, function),
                false => missing += usize::from(!flow.leave(THREAD, time, function)),
            }
        }
        assert_eq!(missing, unseen);
        let (names, threads, _) = flow.finish();
        let calls = threads.iter().flat_map(|thread| &thread.calls);
        let found: Vec<(&str, Nanos, Nanos)> =
            calls.map(|call| (names.name_text(call.function), call.start, call.end)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_have_their_own_times() {
        check(
            &[
                (10, "f", true),
                (10, "g", true),
                (15, "g", false),
                (15, "g", true),
                (20, "g", false),
                (30, "f", false),
            ],
            &[("f", 10, 30), ("g", 10, 15), ("g", 15, 20)],
            0,
        );
        check(
            &[(1, "f", true), (2, "f", true), (3, "f", false), (4, "f", false)],
            &[("f", 1, 4), ("f", 2, 3)],
            0,
        );
    }

    #[test]
    fn lost_ends_are_made_up() {
        check(&[(1, "f", true), (2, "g", true), (9, "f", false)], &[("f", 1, 9), ("g", 2, 9)], 0);
        check(&[(5, "g", false), (6, "f", true), (7, "f", false)], &[("f", 6, 7)], 1);
    }

    #[test]
    fn samples_of_the_thread_are_left_out() {
        let mut flow = Flow::new(FlowOptions::default());
        let function = flow.names.function("f", "x");
        let other = Location { function: flow.names.function("s", "x"), ..Location::NOWHERE };
        flow.sample(THREAD, Some(1), &[other], SampleReach::default());
        flow.enter(THREAD, 5, function);
        flow.sample(THREAD, Some(6), &[other], SampleReach::default());
        flow.leave(THREAD, 9, function);
        let (_, threads, _) = flow.finish();
        let calls: Vec<(Nanos, Nanos)> =
            threads[0].calls.iter().map(|call| (call.start, call.end)).collect();
        assert_eq!(calls, [(1, 5), (5, 9)]);
    }
}
