//! `jit-PID.dump`: code that a runtime made, with its bytes, as it writes them down for perf.

use std::rc::Rc;

use spanwise_pt::TickScale;
use spanwise_symbols::Mapping;

use crate::perf::data::file::bytes::Bytes;

/// A function that was made: since when, where its bytes are in the dump, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JitFunction {
    pub(super) pid: i32,
    pub(super) since: u64,
    pub(super) mapping: Mapping,
    pub(super) name: String,
}

const MAGIC: u32 = 0x4a69_5444;
/// Times are those of the processor's counter.
const HAS_TICKS: u64 = 1;

const LOAD: u32 = 0;
const MOVE: u32 = 1;
const CLOSE: u32 = 3;

/// What a dump holds, as far as it was written; none of anything else. Times that are not the
/// counter's are taken as they are where `has_same_clock`; otherwise all was there from the
/// beginning, of two at one place the later.
pub(super) fn read(
    path: &Rc<str>,
    bytes: &[u8],
    scale: TickScale,
    has_same_clock: bool,
) -> Vec<JitFunction> {
    let mut found = Vec::new();
    let is_big_endian = bytes.starts_with(&MAGIC.to_be_bytes());
    let mut rest = Bytes::new(bytes, is_big_endian);
    let Some((len, flags)) = head(&mut rest) else { return found };
    let time = |stamp: u64| match (flags & HAS_TICKS != 0, has_same_clock) {
        (true, _) => scale.nanos(stamp),
        (false, true) => stamp,
        (false, false) => 0,
    };
    let mut at = len as usize;
    while let Some((kind, size, stamp)) = prefix(bytes, at, is_big_endian) {
        let body = Bytes::new(&bytes[at + PREFIX..at + size], is_big_endian);
        let made = match kind {
            LOAD => load(body, path, at + size, time(stamp)),
            MOVE => moved(body, &found, time(stamp)),
            CLOSE => break,
            _ => None,
        };
        found.extend(made);
        at += size;
    }
    found
}

fn head(bytes: &mut Bytes<'_>) -> Option<(u32, u64)> {
    let (magic, _version, len) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    // The machine, nothing, the process; when it was begun.
    bytes.skip(4 * 3 + 8)?;
    (magic == MAGIC).then_some((len, bytes.u64()?))
}

const PREFIX: usize = 16;

/// The sort, size and time of the record at a place; `None` where it is cut off.
fn prefix(bytes: &[u8], at: usize, is_big_endian: bool) -> Option<(u32, usize, u64)> {
    let rest = bytes.get(at..)?;
    let mut head = Bytes::new(rest, is_big_endian);
    let (kind, size, time) = (head.u32()?, head.u32()?, head.u64()?);
    let size = usize::try_from(size).ok()?;
    (PREFIX..=rest.len()).contains(&size).then_some((kind, size, time))
}

fn load(mut body: Bytes<'_>, path: &Rc<str>, end: usize, since: u64) -> Option<JitFunction> {
    let (pid, _tid, _vma) = (body.i32()?, body.i32()?, body.u64()?);
    let (start, len, _index) = (body.u64()?, body.u64()?, body.u64()?);
    let name = body.text();
    // The code is what the record ends with.
    let file_offset = (end as u64).checked_sub(len).filter(|_| len <= body.len() as u64)?;
    let mapping =
        Mapping { start, end: start.checked_add(len)?, file_offset, path: Rc::clone(path) };
    Some(JitFunction { pid, since, mapping, name })
}

fn moved(mut body: Bytes<'_>, made: &[JitFunction], since: u64) -> Option<JitFunction> {
    let (pid, _tid, _vma) = (body.i32()?, body.i32()?, body.u64()?);
    let (old, new, _len) = (body.u64()?, body.u64()?, body.u64()?);
    let is_it = |made: &&JitFunction| made.pid == pid && made.mapping.start == old;
    let mut made = made.iter().rev().find(is_it)?.clone();
    let len = made.mapping.end - made.mapping.start;
    (made.mapping.start, made.mapping.end) = (new, new.checked_add(len)?);
    Some(JitFunction { since, ..made })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
        let size = (PREFIX + body.len()) as u32;
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &time.to_le_bytes(), body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn dump(flags: u64) -> Vec<u8> {
        let head = words(&[u64::from(MAGIC) | 1 << 32, 40 | 62 << 32, 7 << 32, 5, flags]);
        let first = [words(&[7 | 8 << 32, 0, 0x1000, 3, 1]), b"first\0abc".to_vec()].concat();
        [
            head,
            record(LOAD, 100, &first),
            record(2, 150, b"lines"),
            record(MOVE, 200, &words(&[7 | 8 << 32, 0, 0x1000, 0x2000, 3, 1])),
            record(CLOSE, 300, b""),
            record(LOAD, 400, &first),
        ]
        .concat()
    }

    #[test]
    fn functions_have_their_bytes_and_names() {
        let (bytes, path) = (dump(0), Rc::from("/tmp/jit-7.dump"));
        let found = read(&path, &bytes, TickScale::default(), true);
        let read: Vec<(u64, u64, u64, &str)> = found
            .iter()
            .map(|made| (made.since, made.mapping.start, made.mapping.end, &*made.name))
            .collect();
        assert_eq!(read, [(100, 0x1000, 0x1003, "first"), (200, 0x2000, 0x2003, "first")]);
        for made in &found {
            let at = made.mapping.file_offset as usize;
            assert_eq!((made.pid, &bytes[at..at + 3]), (7, &b"abc"[..]));
        }
    }

    #[test]
    fn times_are_ticks_or_the_clocks_or_not_known() {
        let path = Rc::from("x");
        let scale = TickScale { shift: 0, factor: 2, zero: 1000 };
        let check = |flags, has_same_clock, expected| {
            assert_eq!(read(&path, &dump(flags), scale, has_same_clock)[0].since, expected);
        };
        check(HAS_TICKS, false, 1200);
        check(0, true, 100);
        check(0, false, 0);
    }

    #[test]
    fn a_dump_that_is_cut_off_gives_what_is_whole() {
        let (whole, path) = (dump(0), Rc::from("x"));
        for len in 0..whole.len() {
            let found = read(&path, &whole[..len], TickScale::default(), true);
            assert!(found.len() <= 2 && (len < 120 || !found.is_empty()), "{len} bytes");
        }
    }
}
