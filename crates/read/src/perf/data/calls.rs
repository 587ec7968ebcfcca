//! Calls of chosen functions that were recorded one by one, beside the kernel's records.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use spanwise_callstack::{FunctionId, Names, ThreadKey};
use spanwise_model::{BrakedCalls, BrakedLevel, CountedCalls, Nanos, SourceInfo};

use super::pairing::{CallEvent, Frame, Hit, Lane, Owner, pair};
use super::side_file::{self, number, word};
use crate::perf::lanes::Join;
use crate::perf::trace::Timeline;

/// The file beside the records.
const FILE: &str = "calls.hits";

const HEAD: &[u8] = b"spanwise-calls2\n";

/// Of versions that did not record where on the stack a call was.
const OLD_HEAD: &[u8] = b"spanwise--calls\n";

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const HITS: u32 = 2;
    pub(super) const LOST: u32 = 3;
    pub(super) const SUM: u32 = 4;
    pub(super) const LEVEL: u32 = 5;
}

const HIT_BYTES: usize = 32;
const OLD_HIT_BYTES: usize = 24;

/// Lanes that are no threads have numbers that the kernel gives to none.
const LANES_FROM: i64 = 1 << 23;

/// A function that hits name by its number.
#[derive(Debug, Default)]
struct RecordedFunction {
    name: String,
    path: String,
    is_go: bool,
}

/// All that was recorded, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    functions: HashMap<u32, RecordedFunction>,
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
    pub(super) lost: u64,
    /// It ends in the middle of a record.
    pub(super) is_cut: bool,
}

impl Hits {
    /// What was recorded beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> Hits {
        let bytes = side_file::beside(records, FILE);
        bytes.map_or_else(Hits::default, |bytes| Hits::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Hits {
        let mut all = Hits::default();
        let is_old = bytes.starts_with(OLD_HEAD);
        let head = if is_old { OLD_HEAD } else { HEAD };
        let is_cut = side_file::each_record(bytes, head, |kind, body| match kind {
            kind::FUNCTION => all.function(body, is_old),
            kind::HITS if is_old => {
                all.hits.extend(body.chunks_exact(OLD_HIT_BYTES).filter_map(hit));
            }
            kind::HITS => all.hits.extend(body.chunks_exact(HIT_BYTES).filter_map(hit)),
            kind::SUM => all.sums.extend(sum(body)),
            kind::LEVEL => all.levels.extend(level(body)),
            kind::LOST => all.lost = all.lost.saturating_add(word(body, 0).unwrap_or(0)),
            _ => {}
        });
        all.is_cut = is_cut;
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

    fn function(&mut self, body: &[u8], is_old: bool) {
        let flags = if is_old { Some(0) } else { number(body, 4) };
        let name_at = if is_old { 8 } else { 12 };
        let (Some(id), Some(flags), Some(len)) =
            (number(body, 0), flags, number(body, name_at - 4))
        else {
            return;
        };
        let Some((name, path)) = body[name_at..].split_at_checked(len as usize) else { return };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (name, path, is_go) = (text(name), text(path), flags & 1 == 1);
        self.functions.insert(id, RecordedFunction { name, path, is_go });
    }

    /// Tells of calls that are no events.
    pub(super) fn tell_counted(&self, info: &mut SourceInfo) {
        let unknown = RecordedFunction::default();
        let of = |function: &u32| self.functions.get(function).unwrap_or(&unknown);
        for (function, counted) in &self.sums {
            let RecordedFunction { name, path, .. } = of(function);
            let (function, file) = (name.clone(), path.clone());
            info.counted_calls.push(CountedCalls { function, file, ..counted.clone() });
        }
        for (function, braked) in &self.levels {
            let RecordedFunction { name, path, .. } = of(function);
            let (function, file) = (name.clone(), path.clone());
            info.braked_calls.push(BrakedCalls { function, file, ..braked.clone() });
        }
    }

    /// Puts what was recorded up to a time on the timeline.
    pub(super) fn tell_until(&mut self, time: Nanos, timeline: &mut Timeline) {
        while let Some((time, thread)) = self.next_thread_until(time) {
            timeline.exact_from(thread, time);
        }
        while let Some(event) = self.next_until(time) {
            let function = self.function_of(&event, timeline.names());
            let (thread, name) = self.lane(event.lane);
            if let Some(name) = name {
                timeline.name_lane(thread, name);
            }
            timeline.call((thread, event.time), function, event.is_return);
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
            Some(function) => names.function(&function.name, &function.path),
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

fn sum(body: &[u8]) -> Option<(u32, CountedCalls)> {
    let (function, thread) = (number(body, 0)?, word(body, 8)?);
    let by_length: Vec<u64> = (40..body.len()).step_by(8).filter_map(|at| word(body, at)).collect();
    let counted = CountedCalls {
        process: (thread >> 32) as i64,
        thread: i64::from(thread as u32),
        calls: word(body, 16)?,
        timed: by_length.iter().fold(0, |sum, &count| sum.saturating_add(count)),
        total_ns: word(body, 32)?,
        by_length,
        ..CountedCalls::default()
    };
    Some((function, counted))
}

fn level(body: &[u8]) -> Option<(u32, BrakedCalls)> {
    let (function, level) = (number(body, 0)?, number(body, 4)?);
    let level = match level {
        1 => BrakedLevel::Counted,
        2 => BrakedLevel::CountedWithoutEnds,
        3 => BrakedLevel::Detached,
        _ => return None,
    };
    let (time_ns, calls) = (i64::try_from(word(body, 8)?).ok()?, word(body, 16)?);
    Some((function, BrakedCalls { time_ns, level, calls, ..BrakedCalls::default() }))
}

fn hit(bytes: &[u8]) -> Option<Hit> {
    let (time, of, place) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 16)?);
    Some(Hit {
        time: Nanos::try_from(time).ok()?,
        thread: ThreadKey { pid: (of >> 32) as i64, tid: i64::from(of as u32) },
        function: u32::try_from(place >> 1).ok()?,
        is_return: place & 1 == 1,
        frame: word(bytes, 24).map_or(Frame::Unknown, Frame::Slot),
    })
}

#[cfg(test)]
mod tests {
    use super::side_file::record;
    use super::*;

    /// Hits are a time, a place and a slot.
    fn hits(hits: &[(u64, u64, u64)]) -> Vec<u8> {
        let words = hits.iter().flat_map(|&(time, place, slot)| [time, 7 << 32 | 8, place, slot]);
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        record(kind::HITS, &body)
    }

    fn function(id: u32, is_go: bool, text: &[u8]) -> Vec<u8> {
        let numbers = [id, u32::from(is_go), 1];
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        record(kind::FUNCTION, &[&body, text].concat())
    }

    fn file() -> Vec<u8> {
        let hits = [hits(&[(10, 2, 80), (30, 3, 80)]), hits(&[(20, 8, 40)])].concat();
        [HEAD, &function(1, false, b"f/x"), &hits].concat()
    }

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
        let bytes = [file(), record(kind::LOST, &5_u64.to_le_bytes())].concat();
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
        let hits = hits(&[(10, 2, 0xc000), (20, 2, 0xd000), (30, 3, 0xc000)]);
        let lane = LANES_FROM;
        check(
            &[HEAD, &function(1, true, b"f/x"), &hits].concat(),
            &[(10, "f", lane, false), (20, "f", lane + 1, false), (30, "f", lane, true)],
        );
    }

    #[test]
    fn recordings_of_older_versions_are_read() {
        let body = [1_u32.to_le_bytes().as_slice(), &1_u32.to_le_bytes(), b"f/x"].concat();
        let words = [[10, 7 << 32 | 8, 2], [30, 7 << 32 | 8, 3]];
        let hits: Vec<u8> =
            words.iter().flatten().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let records = [record(kind::FUNCTION, &body), record(kind::HITS, &hits)].concat();
        check(&[OLD_HEAD, &records].concat(), &[(10, "f", 8, false), (30, "f", 8, true)]);
    }

    #[test]
    fn counted_calls_are_told_beside_the_trace() {
        let words = [1, 7 << 32 | 8, 100, 90, 5000, 0, 0, 60, 30_u64];
        let sum: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let level: Vec<u8> =
            [3 << 32 | 1, 12, 40_u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        let records = [record(kind::SUM, &sum), record(kind::LEVEL, &level)].concat();
        let all = Hits::read(&[HEAD, &function(1, false, b"f/x"), &records].concat());
        let mut info = SourceInfo::default();
        all.tell_counted(&mut info);
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
