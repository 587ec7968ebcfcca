//! `calls.hits`: calls of chosen functions, one by one or counted.

use crate::SideFile;
use crate::side_file::{each_record, number, record, two_texts, word, words};

pub const CALLS_FILE: SideFile = SideFile { name: "calls.hits", head: b"spanwise-calls2\n" };

/// Of versions that did not record where on the stack a call was.
const OLD_HEAD: &[u8] = b"spanwise--calls\n";

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const HITS: u32 = 2;
    pub(super) const LOST: u32 = 3;
    pub(super) const SUM: u32 = 4;
    pub(super) const LEVEL: u32 = 5;
}

/// Bytes of a [`CallHit`].
pub const HIT_BYTES: usize = 32;
const OLD_HIT_BYTES: usize = 24;

/// One record of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRecord<'a> {
    Function(CalledFunction),
    Hits(CallHits<'a>),
    /// How many hits there was no room for.
    Lost(u64),
    Sum(CallSum),
    Level(LevelChange),
}

/// A function that hits name by its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CalledFunction {
    pub number: u32,
    /// Its calls belong to goroutines.
    pub is_go: bool,
    pub name: String,
    pub file: String,
}

/// The start or the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHit {
    pub time: u64,
    pub pid: u32,
    pub tid: u32,
    pub function: u32,
    pub is_return: bool,
    /// Where on the stack its return address is; of Go, the goroutine.
    pub slot: Option<u64>,
}

/// Hits as the kernel's programs write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHits<'a> {
    bytes: &'a [u8],
    hit_bytes: usize,
}

/// What was counted of a function in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSum {
    pub function: u32,
    pub pid: u32,
    pub tid: u32,
    pub calls: u64,
    pub returns: u64,
    /// Of those returns whose calls were counted as well.
    pub total_ns: u64,
    /// How many were of each length, by its highest bit.
    pub by_length: Vec<u64>,
}

/// A function was recorded less closely from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelChange {
    pub function: u32,
    pub level: CallLevel,
    pub time: u64,
    /// How often it was called until then.
    pub calls: u64,
}

/// How closely calls of a function are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallLevel {
    /// Each start and end.
    Recorded,
    /// Counted in the kernel, with how long they took.
    Counted,
    /// The same without how long they took.
    CountedWithoutEnds,
    /// Not watched any more.
    Detached,
}

impl CallLevel {
    const ALL: [CallLevel; 4] = [
        CallLevel::Recorded,
        CallLevel::Counted,
        CallLevel::CountedWithoutEnds,
        CallLevel::Detached,
    ];

    /// Its number in the file, and in the maps of the kernel's programs.
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl CallHit {
    /// As the kernel's programs write it; nothing where it is too short.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<CallHit> {
        let (time, thread, place) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 16)?);
        Some(CallHit {
            time,
            pid: (thread >> 32) as u32,
            tid: thread as u32,
            function: u32::try_from(place >> 1).ok()?,
            is_return: place & 1 == 1,
            slot: word(bytes, 24),
        })
    }

    pub fn to_words(self) -> [u64; HIT_BYTES / 8] {
        let thread = u64::from(self.pid) << 32 | u64::from(self.tid);
        let place = u64::from(self.function) << 1 | u64::from(self.is_return);
        [self.time, thread, place, self.slot.unwrap_or(0)]
    }
}

impl<'a> CallHits<'a> {
    pub fn new(bytes: &'a [u8]) -> CallHits<'a> {
        CallHits { bytes, hit_bytes: HIT_BYTES }
    }

    pub fn iter(self) -> impl Iterator<Item = CallHit> + use<'a> {
        self.bytes.chunks_exact(self.hit_bytes).filter_map(CallHit::read)
    }

    pub fn count(self) -> usize {
        self.bytes.len() / self.hit_bytes
    }
}

impl CallRecord<'_> {
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            CallRecord::Function(CalledFunction { number, is_go, name, file }) => {
                let head = [*number, u32::from(*is_go), name.len() as u32];
                let head: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
                record(kind::FUNCTION, &[&head, name.as_bytes(), file.as_bytes()])
            }
            CallRecord::Hits(hits) => record(kind::HITS, &[hits.bytes]),
            CallRecord::Lost(count) => record(kind::LOST, &[&count.to_le_bytes()]),
            CallRecord::Sum(sum) => {
                let thread = u64::from(sum.pid) << 32 | u64::from(sum.tid);
                let head = [sum.function.into(), thread, sum.calls, sum.returns, sum.total_ns];
                record(kind::SUM, &[&words(&head), &words(&sum.by_length)])
            }
            CallRecord::Level(LevelChange { function, level, time, calls }) => {
                let head = u64::from(level.number()) << 32 | u64::from(*function);
                record(kind::LEVEL, &[&words(&[head, *time, *calls])])
            }
        }
    }
}

/// Hands over each record; true where something of the file is missing, or it is another one.
pub fn read(bytes: &[u8], mut take: impl FnMut(CallRecord<'_>)) -> bool {
    let is_old = bytes.starts_with(OLD_HEAD);
    let head = if is_old { OLD_HEAD } else { CALLS_FILE.head };
    let hit_bytes = if is_old { OLD_HIT_BYTES } else { HIT_BYTES };
    each_record(bytes, head, |kind, body| {
        let record = match kind {
            kind::FUNCTION => function(body, is_old).map(CallRecord::Function),
            kind::HITS => Some(CallRecord::Hits(CallHits { bytes: body, hit_bytes })),
            kind::LOST => word(body, 0).map(CallRecord::Lost),
            kind::SUM => sum(body).map(CallRecord::Sum),
            kind::LEVEL => level(body).map(CallRecord::Level),
            _ => None,
        };
        record.into_iter().for_each(&mut take);
    })
}

fn function(body: &[u8], is_old: bool) -> Option<CalledFunction> {
    let flags = if is_old { 0 } else { number(body, 4)? };
    let (name, file) = two_texts(body, if is_old { 4 } else { 8 })?;
    Some(CalledFunction { number: number(body, 0)?, is_go: flags & 1 == 1, name, file })
}

fn sum(body: &[u8]) -> Option<CallSum> {
    let thread = word(body, 8)?;
    Some(CallSum {
        function: number(body, 0)?,
        pid: (thread >> 32) as u32,
        tid: thread as u32,
        calls: word(body, 16)?,
        returns: word(body, 24)?,
        total_ns: word(body, 32)?,
        by_length: (40..body.len()).step_by(8).filter_map(|at| word(body, at)).collect(),
    })
}

fn level(body: &[u8]) -> Option<LevelChange> {
    let level = CallLevel::ALL.get(number(body, 4)? as usize).copied()?;
    let (time, calls) = (word(body, 8)?, word(body, 16)?);
    Some(LevelChange { function: number(body, 0)?, level, time, calls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(time: u64, is_return: bool) -> CallHit {
        CallHit { time, pid: 7, tid: 8, function: 1, is_return, slot: Some(0xc000) }
    }

    fn hits() -> Vec<u8> {
        words(&[hit(5, false).to_words(), hit(9, true).to_words()].concat())
    }

    fn records(hits: &[u8]) -> Vec<CallRecord<'_>> {
        let (name, file) = ("f".to_owned(), "/x é".to_owned());
        let by_length = vec![0, 3];
        vec![
            CallRecord::Function(CalledFunction { number: 1, is_go: true, name, file }),
            CallRecord::Hits(CallHits::new(hits)),
            CallRecord::Lost(u64::MAX),
            CallRecord::Sum(CallSum {
                function: 1,
                pid: 7,
                tid: 8,
                calls: 4,
                returns: 3,
                total_ns: 99,
                by_length,
            }),
            CallRecord::Level(LevelChange {
                function: 1,
                level: CallLevel::Detached,
                time: 12,
                calls: 40,
            }),
        ]
    }

    fn file(records: &[CallRecord<'_>]) -> Vec<u8> {
        let mut bytes = CALLS_FILE.head.to_vec();
        records.iter().for_each(|record| bytes.extend(record.to_bytes()));
        bytes
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let hits = hits();
        let written = records(&hits);
        let mut left = written.iter();
        let is_cut = read(&file(&written), |record| assert_eq!(Some(&record), left.next()));
        assert!(!is_cut && left.next().is_none());
        let found: Vec<CallHit> = CallHits::new(&hits).iter().collect();
        assert_eq!(found, [hit(5, false), hit(9, true)]);
    }

    #[test]
    fn every_level_is_read_as_it_was_written() {
        for level in CallLevel::ALL {
            let change = CallRecord::Level(LevelChange { function: 0, level, time: 0, calls: 0 });
            read(&file(std::slice::from_ref(&change)), |record| assert_eq!(record, change));
        }
    }

    #[test]
    fn older_versions_are_read() {
        let head = [1_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        let function = record(kind::FUNCTION, &[&head, b"f/x"]);
        let hits = record(kind::HITS, &[&words(&[10, 7 << 32 | 8, 2]), &words(&[30, 0, 3])]);
        let mut found = Vec::new();
        let is_cut = read(&[OLD_HEAD, &function, &hits].concat(), |record| match record {
            CallRecord::Function(function) => {
                assert_eq!((&*function.name, &*function.file), ("f", "/x"))
            }
            CallRecord::Hits(hits) => found.extend(hits.iter()),
            other => panic!("{other:?}"),
        });
        let first = CallHit { time: 10, pid: 7, tid: 8, function: 1, is_return: false, slot: None };
        assert_eq!((found[0], found.len(), is_cut), (first, 2, false));
    }

    #[test]
    fn a_file_that_is_cut_off_gives_what_is_whole() {
        let hits = hits();
        let whole = file(&records(&hits));
        for len in 0..whole.len() {
            let mut count = 0;
            let is_cut = read(&whole[..len], |_| count += 1);
            assert!(count < 5 && (is_cut || count > 0 || len == 0 || len == 16), "{len}");
        }
        assert!(read(&[0xff; 100], |_| panic!("nothing")));
    }
}
