//! Calls of chosen functions that were recorded one by one, beside the kernel's records.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use spanwise_callstack::{FunctionId, Names, ThreadKey};
use spanwise_model::{BrakedCalls, BrakedLevel, CountedCalls, Nanos, SourceInfo};
use spanwise_recording::calls::{
    self, CallHit, CallLevel, CallRecord, CallSum, CalledFunction, LevelChange,
};

use super::call_pairing::{CallEvent, Frame, Hit, Lane, Owner, pair};
use crate::perf::script::lanes::Join;
use crate::perf::timeline::Timeline;

/// Lanes that are no threads have numbers that the kernel gives to none.
const LANES_FROM: i64 = 1 << 23;

/// All that was recorded, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    functions: HashMap<u32, CalledFunction>,
    ids: HashMap<u32, FunctionId>,
    hits: Vec<Hit>,
    events: Vec<CallEvent>,
    next: usize,
    /// From when on calls of a thread are recorded; the next at the end.
    threads: Vec<(Nanos, ThreadKey)>,
    /// Numbers of lanes that are no threads.
    lanes: HashMap<Lane, i64>,
    /// What was counted instead of being recorded, and which functions from when on.
    sums: Vec<(u32, CountedCalls)>,
    levels: Vec<(u32, BrakedCalls)>,
    pub(crate) lost: u64,
    /// It ends in the middle of a record.
    pub(crate) is_cut: bool,
}

impl Hits {
    /// What was recorded beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> Hits {
        let bytes = calls::CALLS_FILE.beside(records);
        bytes.map_or_else(Hits::default, |bytes| Hits::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Hits {
        let mut all = Hits::default();
        all.is_cut = calls::read(bytes, |record| match record {
            CallRecord::Function(function) => {
                all.functions.insert(function.number, function);
            }
            CallRecord::Hits(hits) => all.hits.extend(hits.iter().filter_map(hit)),
            CallRecord::Lost(count) => all.lost = all.lost.saturating_add(count),
            CallRecord::Sum(sum) => all.sums.push((sum.function, counted(sum))),
            CallRecord::Level(change) => all.levels.extend(braked(change)),
        });
        for hit in &mut all.hits {
            let is_go = all.functions.get(&hit.function).is_some_and(|function| function.is_go);
            if let (Frame::Slot(goroutine), true) = (hit.frame, is_go) {
                hit.frame = Frame::Goroutine(goroutine);
            }
        }
        // Those of one thread are in order; rings of several processors are nearly so.
        all.hits.sort_by_key(|hit| hit.time);
        all.threads = first_hits(&all.hits);
        all.events = pair(&std::mem::take(&mut all.hits));
        all
    }

    /// Reports calls that are no events.
    pub(crate) fn report_counted(&self, info: &mut SourceInfo) {
        let unknown = CalledFunction::default();
        let of = |function: &u32| self.functions.get(function).unwrap_or(&unknown);
        for (function, counted) in &self.sums {
            let CalledFunction { name, file, .. } = of(function);
            let (function, file) = (name.clone(), file.clone());
            info.counted_calls.push(CountedCalls { function, file, ..counted.clone() });
        }
        for (function, braked) in &self.levels {
            let CalledFunction { name, file, .. } = of(function);
            let (function, file) = (name.clone(), file.clone());
            info.braked_calls.push(BrakedCalls { function, file, ..braked.clone() });
        }
    }

    /// Puts what was recorded up to a time on the timeline.
    pub(crate) fn put_on_timeline_until(&mut self, time: Nanos, timeline: &mut Timeline) {
        while let Some((time, thread)) = self.next_thread_until(time) {
            timeline.exact_from(thread, time);
        }
        while let Some(event) = self.next_until(time) {
            let function = self.function_of(&event, timeline.names());
            let (thread, name) = self.lane(event.lane);
            if let Some(name) = name {
                timeline.name_lane(thread, name);
            }
            timeline.call(thread, event.time, function, event.is_return);
        }
    }

    /// The next thread of which calls are recorded, and from when on, if that is not after a time.
    fn next_thread_until(&mut self, time: Nanos) -> Option<(Nanos, ThreadKey)> {
        self.threads.pop_if(|(from, _)| *from <= time)
    }

    /// The next, if it is not after a time.
    fn next_until(&mut self, time: Nanos) -> Option<CallEvent> {
        let event = self.events.get(self.next).copied().filter(|event| event.time <= time)?;
        self.next += 1;
        Some(event)
    }

    fn function_of(&mut self, event: &CallEvent, names: &mut Names) -> FunctionId {
        let Hits { functions, ids, .. } = self;
        *ids.entry(event.function).or_insert_with(|| match functions.get(&event.function) {
            Some(function) => names.function(&function.name, &function.file),
            None => FunctionId::UNKNOWN,
        })
    }

    /// The thread whose calls these are, or one that stands for a goroutine or a coroutine, and
    /// what that is called when it is new.
    fn lane(&mut self, lane: Lane) -> (ThreadKey, Option<&'static str>) {
        let (pid, name) = match lane.owner {
            Owner::Thread(thread) if lane.number == 0 => return (thread, None),
            Owner::Thread(thread) => (thread.pid, "coroutine"),
            Owner::Goroutine { pid, .. } => (pid, "goroutine"),
        };
        let next = LANES_FROM + self.lanes.len() as i64;
        let mut new_name = None;
        let tid = *self.lanes.entry(lane).or_insert_with(|| {
            new_name = Some(name);
            next
        });
        (ThreadKey { pid, tid }, new_name)
    }
}

/// A sample may be taken while the first call of a thread is just being noted, of the function
/// that it calls: this long before that call.
const NOTING_NS: Nanos = 1_000_000;

/// Of each thread shortly before its first hit, the latest first.
fn first_hits(hits: &[Hit]) -> Vec<(Nanos, ThreadKey)> {
    let mut seen = HashSet::new();
    let first = hits.iter().filter(|hit| seen.insert(hit.thread));
    let mut first: Vec<(Nanos, ThreadKey)> =
        first.map(|hit| (hit.time.saturating_sub(NOTING_NS), hit.thread)).collect();
    first.reverse();
    first
}

fn counted(sum: CallSum) -> CountedCalls {
    CountedCalls {
        process: sum.pid.into(),
        thread: sum.tid.into(),
        calls: sum.calls,
        timed: sum.by_length.iter().fold(0, |sum, &count| sum.saturating_add(count)),
        total_ns: sum.total_ns,
        by_length: sum.by_length,
        ..CountedCalls::default()
    }
}

fn braked(change: LevelChange) -> Option<(u32, BrakedCalls)> {
    let level = match change.level {
        CallLevel::Recorded => return None,
        CallLevel::Counted => BrakedLevel::Counted,
        CallLevel::CountedWithoutEnds => BrakedLevel::CountedWithoutEnds,
        CallLevel::Detached => BrakedLevel::Detached,
    };
    let (time_ns, calls) = (Nanos::try_from(change.time).ok()?, change.calls);
    Some((change.function, BrakedCalls { time_ns, level, calls, ..BrakedCalls::default() }))
}

fn hit(hit: CallHit) -> Option<Hit> {
    Some(Hit {
        time: Nanos::try_from(hit.time).ok()?,
        thread: ThreadKey { pid: hit.pid.into(), tid: hit.tid.into() },
        function: hit.function,
        is_return: hit.is_return,
        frame: hit.slot.map_or(Frame::Unknown, Frame::Slot),
    })
}

#[cfg(test)]
mod tests {
    use spanwise_recording::calls::CallHits;

    use super::*;

    /// Hits are a time, a function and whether it returns, and a slot.
    fn hits(hits: &[(u64, (u32, bool), u64)]) -> Vec<u8> {
        let hits = hits.iter().map(|&(time, (function, is_return), slot)| {
            CallHit { time, pid: 7, tid: 8, function, is_return, slot: Some(slot) }.to_words()
        });
        let bytes: Vec<u8> = hits.flatten().flat_map(u64::to_le_bytes).collect();
        CallRecord::Hits(CallHits::new(&bytes)).to_bytes()
    }

    fn function(is_go: bool) -> Vec<u8> {
        let (name, file) = ("f".to_owned(), "/x".to_owned());
        CallRecord::Function(CalledFunction { number: 1, is_go, name, file }).to_bytes()
    }

    fn file() -> Vec<u8> {
        let hits = [hits(&[(10, CALL, 80), (30, RETURN, 80)]), hits(&[(20, (4, false), 40)])];
        [HEAD, &function(false), &hits.concat()].concat()
    }

    const HEAD: &[u8] = calls::CALLS_FILE.head;
    const CALL: (u32, bool) = (1, false);
    const RETURN: (u32, bool) = (1, true);

    #[track_caller]
    fn check(bytes: &[u8], expected: &[(Nanos, &str, i64, bool)]) {
        let mut all = Hits::read(bytes);
        let mut names = Names::default();
        let mut found = Vec::new();
        while let Some(event) = all.next_until(Nanos::MAX) {
            let function = all.function_of(&event, &mut names);
            let (thread, _) = all.lane(event.lane);
            assert_eq!(thread.pid, 7);
            let name = names.name_text(function).to_owned();
            found.push((event.time, name, thread.tid, event.is_return));
        }
        let expected = expected
            .iter()
            .map(|&(time, name, tid, is_return)| (time, name.to_owned(), tid, is_return));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn hits_become_calls_in_order_of_time() {
        let bytes = [file(), CallRecord::Lost(5).to_bytes()].concat();
        let mut all = Hits::read(&bytes);
        assert_eq!((all.lost, all.is_cut), (5, false));
        assert_eq!(all.next_until(9), None);
        let inner = "[unknown]";
        check(
            &bytes,
            &[(10, "f", 8, false), (20, inner, 8, false), (30, inner, 8, true), (30, "f", 8, true)],
        );
    }

    #[test]
    fn goroutines_have_lanes_of_their_own() {
        let hits = hits(&[(10, CALL, 0xc000), (20, CALL, 0xd000), (30, RETURN, 0xc000)]);
        let lane = LANES_FROM;
        check(
            &[HEAD, &function(true), &hits].concat(),
            &[(10, "f", lane, false), (20, "f", lane + 1, false), (30, "f", lane, true)],
        );
    }

    #[test]
    fn counted_calls_are_reported_beside_the_trace() {
        let sum = CallSum {
            function: 1,
            pid: 7,
            tid: 8,
            calls: 100,
            returns: 90,
            total_ns: 5000,
            by_length: vec![0, 0, 60, 30],
        };
        let level = CallLevel::Detached;
        let change = LevelChange { function: 1, level, time: 12, calls: 40 };
        let records = [CallRecord::Sum(sum), CallRecord::Level(change)].map(|one| one.to_bytes());
        let all = Hits::read(&[HEAD, &function(false), &records.concat()].concat());
        let mut info = SourceInfo::default();
        all.report_counted(&mut info);
        let counted = &info.counted_calls[0];
        assert_eq!((&*counted.function, &*counted.file, counted.process), ("f", "/x", 7));
        assert_eq!((counted.calls, counted.timed, counted.total_ns), (100, 90, 5000));
        assert_eq!(counted.by_length, [0, 0, 60, 30]);
        let braked = &info.braked_calls[0];
        assert_eq!((braked.level, braked.time_ns, braked.calls), (BrakedLevel::Detached, 12, 40));
    }

    #[test]
    fn what_is_cut_off_or_no_such_file_is_no_harm() {
        let whole = file();
        for len in 0..whole.len() {
            let _ = Hits::read(&whole[..len]);
        }
        assert!(Hits::read(&whole[..whole.len() - 1]).is_cut);
        assert!(Hits::read(&[0xff; 100]).is_cut);
    }
}
