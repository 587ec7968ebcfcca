//! Which return ends which call.
//!
//! A call and its return are noted with the place of the return address on the stack: both are
//! there when the place is the same. Where a stack is used again, what was there was left without
//! a return: by an exception, `longjmp`, the end of a coroutine. Such ends are provisional, since
//! another stack may have been in use meanwhile, as with coroutines and signal handlers: when the
//! return comes after all, it counts. Go moves stacks, and goroutines between threads; there, the
//! order of functions within a goroutine decides. So the order of begins and ends, which pairs the
//! spans of other formats, decides nothing here.
//!
//! Calls that overlap without one being inside the other, as those of coroutines, are put on
//! lanes of their own.

use std::collections::{BTreeMap, HashMap};

use spanwise_callstack::ThreadKey;
use spanwise_model::Nanos;

/// Whose stack a call is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The place of the return address.
    Slot(u64),
    Goroutine(u64),
    /// Not known: as older recordings have it.
    Unknown,
}

/// The beginning of a call, or its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) time: Nanos,
    pub(crate) thread: ThreadKey,
    pub(crate) function: u32,
    pub(crate) is_return: bool,
    pub(crate) frame: Frame,
}

/// A call that begins or ends, in an order in which calls are inside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallEvent {
    pub(crate) time: Nanos,
    pub(crate) lane: Lane,
    pub(crate) function: u32,
    pub(crate) is_return: bool,
}

/// Where a call is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lane {
    pub(crate) owner: Owner,
    /// More than one where calls overlap.
    pub(crate) number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Thread(ThreadKey),
    Goroutine { pid: i64, address: u64 },
}

#[derive(Debug, Clone, Copy)]
struct Call {
    owner: Owner,
    slot: u64,
    function: u32,
    start: Nanos,
    /// That of the return, or when the call was seen to be gone.
    end: Option<Nanos>,
    has_returned: bool,
}

/// What came of the hits, which are in order of time: the calls as events, in order of time.
pub(crate) fn pair(hits: &[Hit]) -> Vec<CallEvent> {
    let mut pairing = Pairing::default();
    for hit in hits {
        match hit.frame {
            Frame::Slot(slot) => pairing.by_slot(hit, slot),
            Frame::Goroutine(address) => {
                let owner = Owner::Goroutine { pid: hit.thread.pid, address };
                pairing.by_order(hit, owner);
            }
            Frame::Unknown => pairing.by_order(hit, Owner::Thread(hit.thread)),
        }
    }
    events(&pairing.calls)
}

#[derive(Default)]
struct Pairing {
    calls: Vec<Call>,
    /// Calls of each owner that may still run, the innermost last.
    open: HashMap<Owner, Vec<usize>>,
    /// By process and slot, the latest call there that has not returned.
    slots: HashMap<(i64, u64), usize>,
}

impl Pairing {
    fn by_slot(&mut self, hit: &Hit, slot: u64) {
        let (owner, key) = (Owner::Thread(hit.thread), (hit.thread.pid, slot));
        if !hit.is_return {
            self.leave(owner, hit.time, |other| other <= slot);
            self.slots.insert(key, self.calls.len());
            self.call(hit, owner, slot);
            return;
        }
        let found = self.slots.get(&key).copied();
        let Some(at) = found.filter(|&at| self.calls[at].function == hit.function) else { return };
        self.slots.remove(&key);
        // Where it was still taken for running in this thread, what it has called is over. If not,
        // another stack is left, and nothing is known about those.
        if self.calls[at].owner == owner && self.calls[at].end.is_none() {
            self.leave(owner, hit.time, |other| other < slot);
            self.open.get_mut(&owner).and_then(Vec::pop);
        }
        self.calls[at].end = Some(hit.time);
        self.calls[at].has_returned = true;
    }

    /// Calls of a thread that are over by where their slots are, for all that is known.
    fn leave(&mut self, owner: Owner, time: Nanos, is_over: impl Fn(u64) -> bool) {
        let Some(open) = self.open.get_mut(&owner) else { return };
        while let Some(&at) = open.last() {
            let call = &mut self.calls[at];
            if !call.has_returned {
                if !is_over(call.slot) {
                    break;
                }
                call.end = Some(time);
            }
            open.pop();
        }
    }

    fn by_order(&mut self, hit: &Hit, owner: Owner) {
        if !hit.is_return {
            self.call(hit, owner, 0);
            return;
        }
        let Some(open) = self.open.get_mut(&owner) else { return };
        let calls = &mut self.calls;
        let found = open.iter().rposition(|&at| calls[at].function == hit.function);
        let Some(found) = found else { return };
        for at in open.drain(found..) {
            calls[at].end = Some(hit.time);
        }
    }

    fn call(&mut self, hit: &Hit, owner: Owner, slot: u64) {
        self.open.entry(owner).or_default().push(self.calls.len());
        self.calls.push(Call {
            owner,
            slot,
            function: hit.function,
            start: hit.time,
            end: None,
            has_returned: false,
        });
    }
}

/// More lanes of one thread than this are drawn in the last.
const LANES_MAX: usize = 256;

/// Puts calls on lanes where each is inside the one below it or beside it, and gives their
/// beginnings and ends in order.
fn events(calls: &[Call]) -> Vec<CallEvent> {
    // Ends of calls that are open on each lane.
    let mut lanes: BTreeMap<Owner, Vec<Vec<Nanos>>> = BTreeMap::new();
    let mut keyed = Vec::with_capacity(calls.len() * 2);
    for (order, call) in calls.iter().enumerate() {
        let own = lanes.entry(call.owner).or_default();
        let end = call.end.unwrap_or(Nanos::MAX);
        let (number, end) = put_on_lane(own, call.start, end);
        let lane = Lane { owner: call.owner, number: number as u32 };
        let event = |time, is_return| CallEvent { time, lane, function: call.function, is_return };
        // At one time ends come first, the innermost first; then beginnings, the outermost first;
        // then ends of calls that took no time.
        keyed.push(((call.start, 1, order), event(call.start, false)));
        if call.end.is_some() {
            let rank = if end == call.start { 2 } else { 0 };
            keyed.push(((end, rank, usize::MAX - order), event(end, true)));
        }
    }
    keyed.sort_unstable_by_key(|&(key, _)| key);
    keyed.into_iter().map(|(_, event)| event).collect()
}

/// The lane, and when the call ends there.
fn put_on_lane(lanes: &mut Vec<Vec<Nanos>>, start: Nanos, end: Nanos) -> (usize, Nanos) {
    for (number, lane) in lanes.iter_mut().enumerate() {
        while lane.last().is_some_and(|&other| other <= start) {
            lane.pop();
        }
        let around = lane.last().copied().unwrap_or(Nanos::MAX);
        if end <= around || number + 1 == LANES_MAX {
            lane.push(end.min(around));
            return (number, end.min(around));
        }
    }
    lanes.push(vec![end]);
    (lanes.len() - 1, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits are a time, a thread, a function, whether it returns, and its slot. Expected are calls:
    /// thread and lane, function, from when to when.
    #[track_caller]
    fn check(
        hits: &[(Nanos, i64, char, bool, u64)],
        expected: &[(i64, u32, char, Nanos, Option<Nanos>)],
    ) {
        check_frames(hits, Frame::Slot, expected);
    }

    #[track_caller]
    fn check_frames(
        hits: &[(Nanos, i64, char, bool, u64)],
        frame: fn(u64) -> Frame,
        expected: &[(i64, u32, char, Nanos, Option<Nanos>)],
    ) {
        let hits: Vec<Hit> = hits
            .iter()
            .map(|&(time, tid, function, is_return, slot)| {
                let (thread, function) = (ThreadKey { pid: 7, tid }, u32::from(function));
                Hit { time, thread, function, is_return, frame: frame(slot) }
            })
            .collect();
        let mut found: Vec<(i64, u32, char, Nanos, Option<Nanos>)> = Vec::new();
        let mut open: HashMap<Lane, Vec<usize>> = HashMap::new();
        for event in pair(&hits) {
            let open = open.entry(event.lane).or_default();
            if event.is_return {
                let at = open.pop().expect("a call");
                assert_eq!(found[at].2 as u32, event.function, "{:?}", found[at]);
                found[at].4 = Some(event.time);
                continue;
            }
            open.push(found.len());
            let whose = match event.lane.owner {
                Owner::Thread(thread) => thread.tid,
                Owner::Goroutine { address, .. } => address as i64,
            };
            let function = char::from_u32(event.function).expect("a letter");
            found.push((whose, event.lane.number, function, event.time, None));
        }
        assert_eq!(found, expected);
    }

    const CALL: bool = false;
    const BACK: bool = true;

    #[test]
    fn calls_end_where_they_return() {
        check(
            &[
                (1, 1, 'f', CALL, 90),
                (2, 1, 'g', CALL, 50),
                (3, 1, 'g', BACK, 50),
                (9, 1, 'f', BACK, 90),
            ],
            &[(1, 0, 'f', 1, Some(9)), (1, 0, 'g', 2, Some(3))],
        );
        // A return whose call was before the recording; a call whose return is after it.
        check(&[(1, 1, 'f', BACK, 90), (2, 1, 'g', CALL, 50)], &[(1, 0, 'g', 2, None)]);
        // A jump to another function ends the one and begins the other.
        check(
            &[
                (1, 1, 'f', CALL, 90),
                (2, 1, 'f', BACK, 90),
                (2, 1, 'g', CALL, 90),
                (4, 1, 'g', BACK, 90),
            ],
            &[(1, 0, 'f', 1, Some(2)), (1, 0, 'g', 2, Some(4))],
        );
    }

    #[test]
    fn what_an_exception_left_ends_where_the_stack_is_used_again() {
        check(
            &[
                (1, 1, 'f', CALL, 90),
                (2, 1, 'g', CALL, 50),
                (3, 1, 'h', CALL, 40),
                (5, 1, 'g', CALL, 50),
                (6, 1, 'g', BACK, 50),
                (9, 1, 'f', BACK, 90),
            ],
            &[
                (1, 0, 'f', 1, Some(9)),
                (1, 0, 'g', 2, Some(5)),
                (1, 0, 'h', 3, Some(5)),
                (1, 0, 'g', 5, Some(6)),
            ],
        );
        // Caught by the outer function, which returns.
        check(
            &[(1, 1, 'f', CALL, 90), (2, 1, 'g', CALL, 50), (9, 1, 'f', BACK, 90)],
            &[(1, 0, 'f', 1, Some(9)), (1, 0, 'g', 2, Some(9))],
        );
    }

    #[test]
    fn ends_are_taken_back_where_another_stack_was_in_use() {
        // A signal's handler on a stack above.
        check(
            &[
                (1, 1, 'f', CALL, 50),
                (2, 1, 's', CALL, 990),
                (3, 1, 's', BACK, 990),
                (9, 1, 'f', BACK, 50),
            ],
            &[(1, 0, 'f', 1, Some(9)), (1, 0, 's', 2, Some(3))],
        );
        // Coroutines by turns: neither is inside the other.
        check(
            &[
                (1, 1, 'a', CALL, 50),
                (2, 1, 'b', CALL, 990),
                (5, 1, 'a', BACK, 50),
                (8, 1, 'b', BACK, 990),
            ],
            &[(1, 0, 'a', 1, Some(5)), (1, 1, 'b', 2, Some(8))],
        );
        // One that goes on in another thread.
        check(&[(1, 1, 'a', CALL, 50), (4, 2, 'a', BACK, 50)], &[(1, 0, 'a', 1, Some(4))]);
    }

    #[test]
    fn goroutines_are_paired_by_the_order_of_functions() {
        // In two threads, on stacks that move.
        check_frames(
            &[
                (1, 1, 'f', CALL, 64),
                (2, 1, 'g', CALL, 64),
                (3, 2, 'g', BACK, 64),
                (4, 1, 'f', CALL, 65),
                (9, 2, 'f', BACK, 64),
            ],
            Frame::Goroutine,
            &[(64, 0, 'f', 1, Some(9)), (64, 0, 'g', 2, Some(3)), (65, 0, 'f', 4, None)],
        );
        // As in recordings of older versions.
        check_frames(
            &[(1, 1, 'f', CALL, 0), (2, 1, 'g', CALL, 0), (9, 1, 'f', BACK, 0)],
            |_| Frame::Unknown,
            &[(1, 0, 'f', 1, Some(9)), (1, 0, 'g', 2, Some(9))],
        );
    }
}
