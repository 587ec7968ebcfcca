//! What makes a snapshot be taken: a function that is called, that takes too long or comes too
//! late, or a signal that the program sends itself.
//!
//! The kernel only notes each call; whether that is a reason is decided here, when the rings
//! are emptied.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::system::processes;

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
    /// A signal that the program sends to itself, or to another process.
    pub signal: Option<SignalTrigger>,
    /// A thread waited at least so long; decided when it goes on.
    pub off_cpu: Option<Duration>,
    /// So long after the beginning.
    pub after: Option<Duration>,
    /// Again and again.
    pub every: Option<Duration>,
}

/// A signal to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalTrigger {
    pub number: i32,
    /// Nobody has asked for it: that it cannot be watched is no error.
    pub is_optional: bool,
}

impl SignalTrigger {
    /// The signal, if it is one that programs use for purposes of their own. It ends a program
    /// that does not handle it, so one that is started here ignores it instead; other signals
    /// mean what they always mean.
    pub(crate) fn harmless_if_ignored(self) -> Option<libc::c_int> {
        [libc::SIGUSR1, libc::SIGUSR2].into_iter().find(|&signal| signal == self.number)
    }

    /// True where the signal would end a process that runs already: it neither handles nor
    /// ignores it, and only its own code could change that.
    pub fn would_end(self, pid: i32) -> bool {
        self.harmless_if_ignored().is_some_and(|signal| processes::has_default_action(pid, signal))
    }
}

/// A function to watch.
#[derive(Clone, Copy)]
pub struct FunctionTrigger<'a> {
    /// As for [`spanwise_symbols::SiteName`]: a function, a line or an address.
    pub name: &'a str,
    pub when: When,
    /// It is the one that programs call to ask for a snapshot: its arguments are when the
    /// thread began what it does, and a number.
    pub is_companion: bool,
    /// Nobody has asked for it: that it is nowhere, or cannot be watched, is no error.
    pub is_optional: bool,
}

/// The name of the function that programs call to ask for a snapshot.
pub const COMPANION: &str = "spanwise_snapshot";

/// What an event of the kernel stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meaning {
    Call,
    Return,
    Signal,
    /// A thread leaves its processor, to wait.
    Out,
    /// A thread comes to a processor.
    In,
}

/// Something that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub(crate) time: u64,
    pub(crate) thread: i32,
    pub(crate) meaning: Meaning,
    /// The first two arguments of a call, where they are asked for.
    pub(crate) arguments: Option<[u64; 2]>,
    /// By which a call and its return are known to belong together.
    pub(crate) frame: Option<CallFrame>,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallFrame {
    /// Where on the stack its return address is.
    Slot(u64),
    /// Of Go: the goroutine, whose stack may move.
    Goroutine(u64),
}

/// A reason to take a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) what: String,
    pub(crate) thread: i32,
    pub(crate) time: u64,
    /// What the program said with it.
    pub(crate) argument: Option<u64>,
}

/// Decides which hits are reasons.
#[derive(Debug)]
pub(crate) struct Judge {
    function: String,
    when: When,
    signal: i32,
    off_cpu: Option<Duration>,
    /// Since when threads wait.
    waiting_since: BTreeMap<i32, u64>,
    /// Hits that earlier ones may still come for, from the ring of another processor.
    waiting: Vec<Hit>,
    /// Of delays, the latest call of each thread.
    calls: BTreeMap<i32, Vec<u64>>,
    open: OpenCalls,
}

/// Calls that have not returned.
#[derive(Debug, Default)]
struct OpenCalls {
    /// Of each thread: slot and time, the innermost last.
    by_thread: BTreeMap<i32, Vec<(u64, u64)>>,
    by_goroutine: BTreeMap<u64, Vec<u64>>,
}

impl OpenCalls {
    fn called(&mut self, thread: i32, frame: CallFrame, time: u64) {
        match frame {
            CallFrame::Goroutine(goroutine) => {
                self.by_goroutine.entry(goroutine).or_default().push(time);
            }
            CallFrame::Slot(slot) => {
                // A stack that is used anew: what was there was left without a return, by an
                // exception or a jump.
                let calls = self.by_thread.entry(thread).or_default();
                calls.retain(|&(other, _)| other != slot);
                calls.push((slot, time));
                if calls.len() > OPEN_MAX {
                    calls.remove(0);
                }
            }
        }
    }

    /// When the call began that returns.
    fn returned(&mut self, thread: i32, frame: CallFrame) -> Option<u64> {
        match frame {
            CallFrame::Goroutine(goroutine) => self.by_goroutine.get_mut(&goroutine)?.pop(),
            CallFrame::Slot(slot) => {
                let own = self.by_thread.get_mut(&thread);
                let own = own.and_then(|calls| take_slot(calls, slot));
                // Coroutines go on in other threads.
                own.or_else(|| self.by_thread.values_mut().find_map(|one| take_slot(one, slot)))
            }
        }
    }
}

/// More open calls of one thread are those of stacks that were left for good.
const OPEN_MAX: usize = 4096;

fn take_slot(calls: &mut Vec<(u64, u64)>, slot: u64) -> Option<u64> {
    let at = calls.iter().rposition(|&(other, _)| other == slot)?;
    Some(calls.remove(at).1)
}

impl Judge {
    pub(crate) fn new(triggers: &Triggers<'_>) -> Judge {
        let function = triggers.function;
        Judge {
            function: function.map_or(String::new(), |function| function.name.to_owned()),
            when: function.map_or(When::Called, |function| function.when),
            signal: triggers.signal.map_or(0, |signal| signal.number),
            off_cpu: triggers.off_cpu,
            waiting_since: BTreeMap::new(),
            waiting: Vec::new(),
            calls: BTreeMap::new(),
            open: OpenCalls::default(),
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

    fn judge(&mut self, hit: Hit) -> Option<Reason> {
        let Hit { time, thread, meaning, arguments, frame } = hit;
        if let (Meaning::Call, Some(arguments)) = (meaning, arguments) {
            return self.judge_companion(hit, arguments);
        }
        if matches!(meaning, Meaning::Out | Meaning::In) {
            return self.judge_switch(hit);
        }
        let calls = self.calls.entry(thread).or_default();
        let name = &self.function;
        let what = match (meaning, self.when) {
            (Meaning::Signal, _) => format!("signal {}", self.signal),
            (Meaning::Call, When::Called) => format!("call of {name}"),
            (Meaning::Call, When::Lasted(_)) => {
                self.open.called(thread, frame?, time);
                return None;
            }
            (Meaning::Return, When::Lasted(most)) => {
                let began = self.open.returned(thread, frame?)?;
                let lasted = Duration::from_nanos(time.saturating_sub(began));
                (lasted >= most).then(|| format!("call of {name} that took {lasted:?}"))?
            }
            (Meaning::Call, When::Delayed(most)) => {
                let last = std::mem::replace(calls, vec![time]).pop()?;
                let delay = Duration::from_nanos(time.saturating_sub(last));
                (delay >= most).then(|| format!("call of {name} after {delay:?}"))?
            }
            (Meaning::Return | Meaning::Out | Meaning::In, _) => return None,
        };
        Some(Reason { what, thread, time, argument: None })
    }

    fn judge_switch(&mut self, Hit { time, thread, meaning, .. }: Hit) -> Option<Reason> {
        if meaning == Meaning::Out {
            self.waiting_since.insert(thread, time);
            return None;
        }
        let since = self.waiting_since.remove(&thread)?;
        let waited = Duration::from_nanos(time.saturating_sub(since));
        let what = (waited >= self.off_cpu?).then(|| format!("a thread waited {waited:?}"))?;
        Some(Reason { what, thread, time, argument: None })
    }

    /// True where switches of threads are to be noted.
    pub(crate) fn wants_switches(&self) -> bool {
        self.off_cpu.is_some()
    }

    /// The program itself asks, and may have said when it began.
    fn judge_companion(&mut self, hit: Hit, [started, argument]: [u64; 2]) -> Option<Reason> {
        let Hit { time, thread, .. } = hit;
        let lasted = (started != 0).then(|| Duration::from_nanos(time.saturating_sub(started)));
        let calls = self.calls.entry(thread).or_default();
        let last = std::mem::replace(calls, vec![time]).pop();
        let is_reason = match self.when {
            When::Called => true,
            When::Lasted(most) => lasted.is_some_and(|lasted| lasted >= most),
            When::Delayed(most) => {
                last.is_some_and(|last| Duration::from_nanos(time.saturating_sub(last)) >= most)
            }
        };
        let after = lasted.map_or(String::new(), |lasted| format!(" after {lasted:?}"));
        let what = format!("the program asked for it{after}, with {argument}");
        is_reason.then_some(Reason { what, thread, time, argument: Some(argument) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn judge(when: When) -> Judge {
        let (is_companion, is_optional, name) = (false, false, "f");
        let function = FunctionTrigger { name, when, is_companion, is_optional };
        let function = Some(function);
        let off_cpu = Some(Duration::from_millis(50));
        let signal = Some(SignalTrigger { number: 10, is_optional: false });
        Judge::new(&Triggers { function, signal, off_cpu, ..Triggers::default() })
    }

    /// Hits are a time in milliseconds, a thread, and what it is.
    #[track_caller]
    fn check(when: When, hits: &[(u64, i32, Meaning)], expected: Option<(&str, i32, u64)>) {
        let hits = hits.iter().map(|&(time, thread, meaning)| (time, thread, meaning, 1000));
        check_frames(when, &hits.collect::<Vec<_>>(), expected);
    }

    /// The same, with where on the stack the call is.
    #[track_caller]
    fn check_frames(
        when: When,
        hits: &[(u64, i32, Meaning, u64)],
        expected: Option<(&str, i32, u64)>,
    ) {
        let mut judge = judge(when);
        for &(time, thread, meaning, slot) in hits {
            let frame = Some(CallFrame::Slot(slot));
            judge.note(Hit { time: time * MS, thread, meaning, arguments: None, frame });
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
        // The inner call of a recursion returns first.
        check_frames(
            most,
            &[(1, 1, Call, 80), (3, 1, Call, 40), (4, 1, Return, 40), (9, 1, Return, 80)],
            Some(("call of f that took 8ms", 1, 9)),
        );
        // Left by an exception, and called again where it was.
        check(most, &[(1, 1, Call), (8, 1, Call), (9, 1, Return)], None);
        // A coroutine goes on in another thread; another stack is another call.
        let other = Some(("call of f that took 4ms", 2, 5));
        check_frames(most, &[(1, 1, Call, 80), (5, 2, Return, 80)], other);
        check_frames(most, &[(1, 1, Call, 80), (5, 2, Return, 40)], None);
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
    fn threads_that_wait_long_are_a_reason() {
        use Meaning::{In, Out};
        let when = When::Called;
        check(when, &[(10, 1, Out), (60, 1, In)], Some(("a thread waited 50ms", 1, 60)));
        check(when, &[(10, 1, Out), (59, 1, In), (80, 2, In)], None);
        // Who is taken off although it would go on, does not wait.
        check(when, &[(10, 1, Out), (20, 1, In), (80, 1, In)], None);
    }

    #[test]
    fn a_program_that_asks_says_since_when_and_what() {
        let check = |when, hits: &[(u64, [u64; 2])], expected: Option<(&str, u64)>| {
            let mut judge = judge(when);
            for &(time, [started, argument]) in hits {
                let (meaning, arguments) = (Meaning::Call, Some([started * MS, argument]));
                let (time, thread, frame) = (time * MS, 1, None);
                judge.note(Hit { time, thread, meaning, arguments, frame });
            }
            let found = judge.reason(u64::MAX);
            let found = found.as_ref().map(|why| (why.what.as_str(), why.argument.unwrap_or(0)));
            assert_eq!(found, expected);
        };
        let most = Duration::from_millis(3);
        check(When::Called, &[(9, [0, 7])], Some(("the program asked for it, with 7", 7)));
        let after = "the program asked for it after 3ms, with 8";
        check(When::Lasted(most), &[(5, [0, 7]), (5, [3, 7]), (9, [6, 8])], Some((after, 8)));
        check(When::Lasted(most), &[(5, [3, 7])], None);
        let late = "the program asked for it, with 3";
        check(When::Delayed(most), &[(1, [0, 1]), (3, [0, 2]), (6, [0, 3])], Some((late, 3)));
    }

    #[test]
    fn what_may_be_incomplete_waits() {
        let mut judge = judge(When::Called);
        let (meaning, arguments, frame) = (Meaning::Call, None, None);
        judge.note(Hit { time: 10, thread: 1, meaning, arguments, frame });
        assert_eq!(judge.reason(9), None);
        assert!(judge.reason(10).is_some());
        assert_eq!(judge.reason(u64::MAX), None);
    }
}
