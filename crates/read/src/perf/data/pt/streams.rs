//! Pieces of the hardware's trace become streams: what was written without a break.

use std::borrow::Cow;
use std::collections::BTreeMap;

use spanwise_pt::find_psb;

use super::aux::Piece;

/// There was no room in the ring: what comes behind this place of it follows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingCut {
    pub(super) tid: i32,
    pub(super) cpu: Option<u32>,
    /// Where the ring stood, in bytes since the recording began.
    pub(super) at: u64,
}

/// What one ring held.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queue<'a> {
    /// Whose it is; negative where it is of whatever ran on the processor.
    pub(super) tid: i32,
    pub(super) cpu: i32,
    pub(super) streams: Vec<Cow<'a, [u8]>>,
}

/// perf fills a piece up with up to this many zeros, less one, which are packets without a meaning.
const ALIGNMENT: usize = 8;

/// The rings, by their numbers.
pub(super) fn queues<'a>(
    pieces: &[Piece<'a>],
    are_snapshots: bool,
    cuts: &[RingCut],
) -> Vec<Queue<'a>> {
    let mut found: BTreeMap<u32, JoinedQueue<'a>> = BTreeMap::new();
    for piece in pieces {
        let joined = found.entry(piece.queue).or_insert_with(|| JoinedQueue::new(piece));
        match are_snapshots {
            true => joined.add_copy(piece.bytes),
            false => joined.add(piece, cuts),
        }
    }
    found.into_values().map(|joined| joined.queue).collect()
}

struct JoinedQueue<'a> {
    queue: Queue<'a>,
    /// Where in the ring the last piece ended.
    end: u64,
    /// The last piece.
    before: &'a [u8],
}

impl<'a> JoinedQueue<'a> {
    fn new(piece: &Piece<'a>) -> JoinedQueue<'a> {
        let queue = Queue { tid: piece.tid, cpu: piece.cpu, streams: Vec::new() };
        JoinedQueue { queue, end: piece.offset, before: &[] }
    }

    /// A piece of a ring that is emptied: it goes on where the one before ended, if nothing
    /// was lost.
    fn add(&mut self, piece: &Piece<'a>, cuts: &[RingCut]) {
        let filling = self.end.wrapping_sub(piece.offset);
        let follows = filling < ALIGNMENT as u64 && !self.queue.streams.is_empty();
        if follows && let Some(stream) = self.queue.streams.last_mut() {
            let kept = stream.len().saturating_sub(filling as usize);
            match stream {
                Cow::Borrowed(bytes) => *bytes = &bytes[..kept],
                Cow::Owned(bytes) => bytes.truncate(kept),
            }
        }
        let mut places: Vec<usize> =
            cuts.iter().filter_map(|cut| cut.inside(&self.queue, piece)).collect();
        places.sort_unstable();
        places.dedup();
        let mut is_new = !follows;
        let mut from = 0;
        for at in places.into_iter().chain([piece.bytes.len()]) {
            self.extend(&piece.bytes[from..at], is_new || at == 0);
            (from, is_new) = (at, true);
        }
        self.end = piece.offset.wrapping_add(piece.bytes.len() as u64);
    }

    /// A copy of a ring, which may hold what the copy before held, too.
    fn add_copy(&mut self, bytes: &'a [u8]) {
        let known = repeated(self.before, bytes);
        self.extend(&bytes[known.unwrap_or(0)..], known.is_none());
        self.before = bytes;
    }

    fn extend(&mut self, bytes: &'a [u8], is_new: bool) {
        match self.queue.streams.last_mut().filter(|_| !is_new) {
            Some(stream) => stream.to_mut().extend_from_slice(bytes),
            None if bytes.is_empty() => {}
            None => self.queue.streams.push(Cow::Borrowed(bytes)),
        }
    }
}

impl RingCut {
    /// Where in a piece it is, if there.
    fn inside(&self, queue: &Queue<'_>, piece: &Piece<'_>) -> Option<usize> {
        let is_of = match u32::try_from(queue.cpu) {
            Ok(cpu) => self.cpu == Some(cpu),
            Err(_) => self.tid == queue.tid,
        };
        let at = usize::try_from(self.at.checked_sub(piece.offset)?).ok()?;
        (is_of && at < piece.bytes.len()).then_some(at)
    }
}

/// How many bytes at the beginning of a copy are the last of the one before. Without a place to
/// begin in them they might be alike by chance, as loops are, and count as new: they would not
/// be read, for decoding starts at such a place.
fn repeated(before: &[u8], now: &[u8]) -> Option<usize> {
    const PROBE: usize = 64;
    let zeros = before.iter().rev().take(ALIGNMENT - 1).take_while(|&&byte| byte == 0).count();
    let before = &before[..before.len() - zeros];
    let probe = now.get(..PROBE)?;
    let starts = memchr::memmem::find_iter(before, probe);
    starts
        .map(|at| &before[at..])
        .find(|last| now.starts_with(last) && find_psb(last, 0).is_some())
        .map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_pt::{Packet, Writer};

    fn piece(offset: u64, bytes: &[u8]) -> Piece<'_> {
        Piece { queue: 0, tid: -1, cpu: 1, offset, bytes, reference: 0 }
    }

    #[track_caller]
    fn check(pieces: &[(u64, &[u8])], cuts: &[u64], expected: &[&[u8]]) {
        let pieces: Vec<Piece<'_>> = pieces.iter().map(|&(at, bytes)| piece(at, bytes)).collect();
        let cuts: Vec<RingCut> =
            cuts.iter().map(|&at| RingCut { tid: 5, cpu: Some(1), at }).collect();
        let found = queues(&pieces, false, &cuts);
        assert_eq!(found.len(), 1);
        let streams: Vec<&[u8]> = found[0].streams.iter().map(AsRef::as_ref).collect();
        assert_eq!(streams, expected);
    }

    #[test]
    fn pieces_that_follow_one_another_are_one() {
        check(&[(0, b"abcdefgh"), (8, b"ijklmnop")], &[], &[b"abcdefghijklmnop"]);
        check(&[(0, b"abcde\0\0\0"), (5, b"fghijklm")], &[], &[b"abcdefghijklm"]);
        check(&[(0, b"abcdefgh"), (9, b"ijklmnop")], &[], &[b"abcdefgh", b"ijklmnop"]);
        check(&[(90, b"abcdefgh"), (8, b"ijklmnop")], &[], &[b"abcdefgh", b"ijklmnop"]);
    }

    #[test]
    fn where_there_was_no_room_a_stream_ends() {
        check(&[(0, b"abcdefgh"), (8, b"ijklmnop")], &[8], &[b"abcdefgh", b"ijklmnop"]);
        check(&[(0, b"abcdefgh"), (8, b"ijklmnop")], &[3, 3, 11], &[b"abc", b"defghijk", b"lmnop"]);
        check(&[(0, b"abcdefgh")], &[0, 8, 99], &[b"abcdefgh"]);
    }

    #[test]
    fn a_thread_has_cuts_of_its_own() {
        let of_thread = Piece { tid: 7, cpu: -1, ..piece(0, b"abcdefgh") };
        let cuts = [6, 7].map(|tid| RingCut { tid, cpu: Some(1), at: tid as u64 - 4 });
        let found = queues(&[of_thread], false, &cuts);
        assert_eq!(found[0].streams, [&b"abc"[..], b"defgh"]);
    }

    /// A ring of all sizes that is copied now and then: joined, nothing is twice.
    #[test]
    fn copies_of_a_ring_overlap() {
        let mut writer = Writer::default();
        for at in 0..400 {
            if at % 20 == 0 {
                writer.packet(Packet::Psb);
            }
            writer.packet(Packet::Tsc(at));
        }
        let whole = writer.into_bytes();
        for ring in [200, 700, 1500, 6000] {
            let ends: Vec<usize> = (1..12).map(|at| at * whole.len() / 12).collect();
            let copies: Vec<Vec<u8>> = ends
                .iter()
                .map(|&end| {
                    let mut copy = whole[end.saturating_sub(ring)..end].to_vec();
                    copy.resize(copy.len().next_multiple_of(ALIGNMENT), 0);
                    copy
                })
                .collect();
            let pieces: Vec<Piece<'_>> = copies.iter().map(|copy| piece(0, copy)).collect();
            let found = queues(&pieces, true, &[]);
            let len: usize = found[0].streams.iter().map(|stream| stream.len()).sum();
            let end = ends.last().copied().unwrap_or(0);
            let kept: usize = ends
                .iter()
                .scan(0, |last, &end| {
                    let new = end - *last;
                    *last = end;
                    Some(new.min(ring))
                })
                .sum();
            let filling = ALIGNMENT * copies.len();
            assert!((kept..kept + filling).contains(&len), "{ring}: {len} of {end}, not {kept}");
        }
    }
}
