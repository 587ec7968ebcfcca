//! Calls of chosen functions that were recorded one by one, beside the kernel's records.

use std::collections::HashMap;
use std::path::Path;

use spanwise_flow::{FunctionId, Names, ThreadKey};
use spanwise_model::Nanos;

use super::side_file::{self, number, word};

/// The file beside the records.
const FILE: &str = "calls.hits";

const HEAD: &[u8] = b"spanwise--calls\n";

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const HITS: u32 = 2;
    pub(super) const LOST: u32 = 3;
}

const HIT_BYTES: usize = 24;

/// The beginning of a call, or its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) time: Nanos,
    pub(super) thread: ThreadKey,
    function: u32,
    pub(super) is_return: bool,
}

/// All that was recorded, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// Name and file, by number.
    functions: HashMap<u32, (String, String)>,
    ids: HashMap<u32, FunctionId>,
    hits: Vec<Hit>,
    next: usize,
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
        let is_cut = side_file::each_record(bytes, HEAD, |kind, body| match kind {
            kind::FUNCTION => all.function(body),
            kind::HITS => all.hits.extend(body.chunks_exact(HIT_BYTES).filter_map(hit)),
            kind::LOST => all.lost = all.lost.saturating_add(word(body, 0).unwrap_or(0)),
            _ => {}
        });
        all.is_cut = is_cut;
        // Those of one thread are in order; rings of several processors are nearly so.
        all.hits.sort_by_key(|hit| hit.time);
        all
    }

    fn function(&mut self, body: &[u8]) {
        let (Some(id), Some(len)) = (number(body, 0), number(body, 4)) else { return };
        let Some((name, path)) = body[8..].split_at_checked(len as usize) else { return };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.functions.insert(id, (text(name), text(path)));
    }

    /// The next, if it is not after a time.
    pub(super) fn next_until(&mut self, time: Nanos) -> Option<Hit> {
        let hit = self.hits.get(self.next).copied().filter(|hit| hit.time <= time)?;
        self.next += 1;
        Some(hit)
    }

    pub(super) fn function_of(&mut self, hit: &Hit, names: &mut Names) -> FunctionId {
        let Hits { functions, ids, .. } = self;
        *ids.entry(hit.function).or_insert_with(|| match functions.get(&hit.function) {
            Some((name, path)) => names.function(name, path),
            None => FunctionId::UNKNOWN,
        })
    }
}

fn hit(bytes: &[u8]) -> Option<Hit> {
    let (time, of, place) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 16)?);
    Some(Hit {
        time: Nanos::try_from(time).ok()?,
        thread: ThreadKey { pid: (of >> 32) as i64, tid: i64::from(of as u32) },
        function: u32::try_from(place >> 1).ok()?,
        is_return: place & 1 == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::side_file::record;
    use super::*;

    fn hits(hits: &[(u64, u64)]) -> Vec<u8> {
        let words = hits.iter().flat_map(|&(time, place)| [time, 7 << 32 | 8, place]);
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        record(kind::HITS, &body)
    }

    fn file() -> Vec<u8> {
        let function = [1_u32.to_le_bytes().as_slice(), &1_u32.to_le_bytes(), b"f/x"].concat();
        [HEAD, &record(kind::FUNCTION, &function), &hits(&[(10, 2), (30, 3)]), &hits(&[(20, 8)])]
            .concat()
    }

    #[test]
    fn hits_come_in_order_of_time() {
        let mut all = Hits::read(&[file(), record(kind::LOST, &5_u64.to_le_bytes())].concat());
        let mut names = Names::default();
        assert_eq!((all.lost, all.is_cut), (5, false));
        assert_eq!(all.next_until(9), None);
        let mut found = Vec::new();
        while let Some(hit) = all.next_until(30) {
            let function = all.function_of(&hit, &mut names);
            found.push((hit.time, names.name_text(function).to_owned(), hit.is_return));
            assert_eq!(hit.thread, ThreadKey { pid: 7, tid: 8 });
        }
        let expected = [(10, "f", false), (20, "[unknown]", false), (30, "f", true)];
        let expected = expected.map(|(time, name, is_return)| (time, name.to_owned(), is_return));
        assert_eq!(found, expected);
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
