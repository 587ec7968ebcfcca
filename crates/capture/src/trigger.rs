//! What makes a snapshot be taken: a function that is called, that takes too long or comes too
//! late, or a signal that the program sends itself.
//!
//! The kernel only notes each call; whether that is a reason is decided here, when the rings
//! are emptied.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// When a call of a function is a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Called,
    /// It has taken at least so long.
    Lasted(Duration),
    /// The same thread called it last at least so long ago.
    Delayed(Duration),
}

/// What to watch for.
#[derive(Clone, Copy, Default)]
pub struct Triggers<'a> {
    pub function: Option<FunctionTrigger<'a>>,
    /// The number of a signal that the program sends to itself, or to another process.
    pub signal: Option<i32>,
}

/// A function to watch.
#[derive(Clone, Copy)]
pub struct FunctionTrigger<'a> {
    pub name: &'a str,
    pub when: When,
    /// Where in a file the function begins; empty where it is not in this file.
    pub sites_in: &'a dyn Fn(&Path) -> Vec<u64>,
}

/// What an event of the kernel stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meaning {
    Call,
    Return,
    Signal,
}

/// Something that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub(crate) time: u64,
    pub(crate) thread: i32,
    pub(crate) meaning: Meaning,
}

/// A reason to take a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) what: String,
    pub(crate) thread: i32,
    pub(crate) time: u64,
}

/// Decides which hits are reasons.
#[derive(Debug)]
pub(crate) struct Judge {
    function: String,
    when: When,
    signal: i32,
    /// Hits that earlier ones may still come for, from the ring of another processor.
    waiting: Vec<Hit>,
    /// Calls of each thread that have not returned; of delays, the latest alone.
    calls: BTreeMap<i32, Vec<u64>>,
}

impl Judge {
    pub(crate) fn new(triggers: &Triggers<'_>) -> Judge {
        let function = triggers.function;
        Judge {
            function: function.map_or(String::new(), |function| function.name.to_owned()),
            when: function.map_or(When::Called, |function| function.when),
            signal: triggers.signal.unwrap_or(0),
            waiting: Vec::new(),
            calls: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, hit: Hit) {
        self.waiting.push(hit);
    }

    /// The first reason among hits up to a time, before which none is missing.
    pub(crate) fn reason(&mut self, until: u64) -> Option<Reason> {
        self.waiting.sort_unstable();
        let ready = self.waiting.partition_point(|hit| hit.time <= until);
        let ready: Vec<Hit> = self.waiting.drain(..ready).collect();
        // All are looked at, so that no call is left open.
        let reasons: Vec<Reason> = ready.into_iter().filter_map(|hit| self.judge(hit)).collect();
        reasons.into_iter().next()
    }

    fn judge(&mut self, Hit { time, thread, meaning }: Hit) -> Option<Reason> {
        let calls = self.calls.entry(thread).or_default();
        let name = &self.function;
        let what = match (meaning, self.when) {
            (Meaning::Signal, _) => format!("signal {}", self.signal),
            (Meaning::Call, When::Called) => format!("call of {name}"),
            (Meaning::Call, When::Lasted(_)) => {
                calls.push(time);
                return None;
            }
            (Meaning::Return, When::Lasted(most)) => {
                let lasted = Duration::from_nanos(time.saturating_sub(calls.pop()?));
                (lasted >= most).then(|| format!("call of {name} that took {lasted:?}"))?
            }
            (Meaning::Call, When::Delayed(most)) => {
                let last = std::mem::replace(calls, vec![time]).pop()?;
                let delay = Duration::from_nanos(time.saturating_sub(last));
                (delay >= most).then(|| format!("call of {name} after {delay:?}"))?
            }
            (Meaning::Return, _) => return None,
        };
        Some(Reason { what, thread, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn judge(when: When) -> Judge {
        let sites_in: &dyn Fn(&Path) -> Vec<u64> = &|_| Vec::new();
        let function = Some(FunctionTrigger { name: "f", when, sites_in });
        Judge::new(&Triggers { function, signal: Some(10) })
    }

    /// Hits are a time in milliseconds, a thread, and what it is.
    #[track_caller]
    fn check(when: When, hits: &[(u64, i32, Meaning)], expected: Option<(&str, i32, u64)>) {
        let mut judge = judge(when);
        for &(time, thread, meaning) in hits {
            judge.note(Hit { time: time * MS, thread, meaning });
        }
        let found = judge.reason(u64::MAX);
        let found = found.as_ref().map(|why| (why.what.as_str(), why.thread, why.time / MS));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_call_is_a_reason_in_any_thread() {
        check(When::Called, &[(5, 2, Meaning::Call)], Some(("call of f", 2, 5)));
        check(When::Called, &[(5, 2, Meaning::Signal)], Some(("signal 10", 2, 5)));
        check(When::Called, &[], None);
    }

    #[test]
    fn calls_that_take_long_are_a_reason() {
        use Meaning::{Call, Return};
        let most = When::Lasted(Duration::from_millis(3));
        check(most, &[(1, 1, Call), (3, 1, Return)], None);
        check(most, &[(1, 1, Call), (4, 1, Return)], Some(("call of f that took 3ms", 1, 4)));
        // Each thread has its own, and the inner call of a recursion returns first.
        check(most, &[(1, 1, Call), (5, 2, Return)], None);
        check(
            most,
            &[(1, 1, Call), (3, 1, Call), (4, 1, Return), (9, 1, Return)],
            Some(("call of f that took 8ms", 1, 9)),
        );
        // Rings of several processors come one after the other.
        check(most, &[(9, 1, Return), (1, 1, Call)], Some(("call of f that took 8ms", 1, 9)));
    }

    #[test]
    fn calls_that_come_late_are_a_reason() {
        use Meaning::Call;
        let most = When::Delayed(Duration::from_millis(3));
        check(most, &[(1, 1, Call), (3, 1, Call), (5, 2, Call)], None);
        check(most, &[(1, 1, Call), (4, 1, Call)], Some(("call of f after 3ms", 1, 4)));
    }

    #[test]
    fn what_may_be_incomplete_waits() {
        let mut judge = judge(When::Called);
        judge.note(Hit { time: 10, thread: 1, meaning: Meaning::Call });
        assert_eq!(judge.reason(9), None);
        assert!(judge.reason(10).is_some());
        assert_eq!(judge.reason(u64::MAX), None);
    }
}
