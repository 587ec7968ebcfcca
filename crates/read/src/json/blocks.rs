//! The array of events, read on all cores.
//!
//! The text is cut into blocks where an event seems to begin, each block is read
//! by itself, and the results are stitched: a block counts only if the one before
//! it stopped exactly where it begins. A wrong guess (an event-like object inside
//! the arguments of another) costs a second reading of that block, never a wrong
//! trace.

use std::sync::atomic::{AtomicU64, Ordering};

use spanwise_model::{NoticeKind, map_indices};

use super::emit::{Emitter, Part};
use super::syntax::event;
use super::syntax::event::{Event, EventLayout};
use super::syntax::lenient;
use super::syntax::lenient::Walk;
use super::syntax::scan::{CONTAINER_BYTES_MAX, ScanStop, skip_blanks, value_end};
use super::syntax::simd::{Simd, Work, dispatch};
use crate::Progress;

/// A part of the source that is in memory.
#[derive(Clone, Copy)]
pub(crate) struct Region<'t> {
    pub(crate) text: &'t [u8],
    /// Offset of the text in the source.
    pub(crate) base: u64,
    /// Nothing follows.
    pub(crate) is_last: bool,
}

impl Region<'_> {
    /// Whether what is wrong at `at` may be right once more text has come.
    pub(crate) fn may_be_right(&self, at: usize) -> bool {
        !self.is_last && self.text.len() - at < CARRY_BYTES_MAX
    }

    /// Whether it is worth waiting for more text to read what stands at `at`.
    pub(crate) fn may_go_on(&self, at: usize, stop: ScanStop) -> bool {
        (stop == ScanStop::End && !self.is_last) || self.may_be_right(at)
    }
}

/// How reading is to be done, and who wants to know about it.
#[derive(Clone, Copy)]
pub(crate) struct Effort<'a> {
    pub(crate) threads: usize,
    pub(crate) progress: Option<Progress<'a>>,
    /// What the progress counts toward: the length of the source text.
    pub(crate) total: u64,
    /// How much text one thread reads at a time; [`BLOCK_BYTES`] except in tests.
    pub(crate) block_bytes: usize,
}

/// Where reading events came to a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Before an event at or past the end of the block.
    Reached(usize),
    /// After the bracket that closes the array.
    Closed(usize),
    /// The text ended; an event that began here may go on in what follows.
    Open(usize),
}

/// Enough that a block's set-up does not count, little enough that all cores have
/// some until the end.
pub(crate) const BLOCK_BYTES: usize = 8 << 20;

/// How far behind a cut the next event is searched for.
const BOUNDARY_REACH: usize = 64 << 10;

/// Damage this close to the end of a region waits for the next one: how an event
/// is repaired must not depend on where the text happened to be cut.
const CARRY_BYTES_MAX: usize = 4 << 20;

/// A block may be scanned this often in search of the next good event.
const WASTE_FACTOR: usize = 16;

/// Reads the events of `region` from `from` on; the parts come in order.
pub(crate) fn read_events(
    region: Region<'_>,
    from: usize,
    effort: Effort<'_>,
) -> (Vec<Part>, Stop) {
    let starts = block_starts(region.text, from, effort);
    let done = AtomicU64::new(region.base + from as u64);
    let blocks = map_indices(starts.len(), effort.threads, |index| {
        let (from, to) = block_range(&starts, index, region.text.len());
        let block = dispatch(Block { region, from, to });
        if let Some(progress) = effort.progress {
            let bytes = (to - from) as u64;
            progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, effort.total);
        }
        block
    });
    stitch(region, &starts, blocks)
}

fn block_range(starts: &[usize], index: usize, len: usize) -> (usize, usize) {
    (starts[index], starts.get(index + 1).copied().unwrap_or(len))
}

/// Where blocks begin: at `from`, then every [`block_len`] or so at what seems to be the
/// start of an event.
fn block_starts(text: &[u8], from: usize, effort: Effort<'_>) -> Vec<usize> {
    let mut starts = vec![from];
    let mut target = from + block_len(text.len() - from, effort);
    while target < text.len() {
        let reach = text.len().min(target + BOUNDARY_REACH);
        starts.extend(dispatch(Boundary { text, from: target, reach }));
        let next = target + block_len(text.len() - target, effort);
        target = next.max(starts[starts.len() - 1] + 1);
    }
    starts
}

/// How long a block is to be with this much text left: toward the end shorter, so that
/// no thread waits long for the last block of another.
fn block_len(left: usize, effort: Effort<'_>) -> usize {
    let most = effort.block_bytes;
    if effort.threads < 2 {
        return most;
    }
    (left / (2 * effort.threads)).clamp((most / 4).max(1), most)
}

/// Accepts what fits and reads again what does not.
fn stitch(region: Region<'_>, starts: &[usize], blocks: Vec<(Part, Stop)>) -> (Vec<Part>, Stop) {
    let mut parts = Vec::with_capacity(blocks.len());
    let mut at = starts[0];
    for (index, (part, stop)) in blocks.into_iter().enumerate() {
        let (start, to) = block_range(starts, index, region.text.len());
        if at >= to {
            continue;
        }
        let (part, stop) = match at == start {
            true => (part, stop),
            false => dispatch(Block { region, from: at, to }),
        };
        parts.push(part);
        match stop {
            Stop::Reached(next) => at = next,
            Stop::Closed(_) => return (parts, stop),
            // The text ended inside an event: no later block can be a true one,
            // unless it lies beyond damage that this one gave up on.
            Stop::Open(_) => return (parts, stop),
        }
    }
    (parts, Stop::Open(at))
}

/// Finds the first event in a block of text.
struct Boundary<'t> {
    text: &'t [u8],
    from: usize,
    reach: usize,
}

impl Work for Boundary<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Option<usize> {
        let mut at = self.from;
        loop {
            at += memchr::memchr(b'{', self.text.get(at..self.reach)?)?;
            if follows_separator(self.text, at) && is_event::<S>(self.text, at) {
                return Some(at);
            }
            at += 1;
        }
    }
}

fn follows_separator(text: &[u8], at: usize) -> bool {
    let before = text[..at].trim_ascii_end();
    matches!(before.last(), Some(b',' | b'['))
}

fn is_event<S: Simd>(text: &[u8], at: usize) -> bool {
    event_at::<S>(text, at).is_ok()
}

/// A whole event with a phase, and behind it what may follow an event. If there is
/// none, says how far the search went.
#[inline(never)]
fn event_at<S: Simd>(text: &[u8], at: usize) -> Result<(), usize> {
    let mut event = Event::default();
    match event::strict::<S>(text, at, &mut EventLayout::new(), &mut event) {
        Ok(end) => {
            let follows =
                matches!(text.get(skip_blanks(text, end)), Some(b',' | b']' | b'{') | None);
            if event.has_phase && follows { Ok(()) } else { Err(end) }
        }
        Err(ScanStop::Syntax(reached)) => Err(reached),
        Err(ScanStop::End) => Err(text.len().min(at + CONTAINER_BYTES_MAX)),
    }
}

/// Reads the events that begin in `from..to`.
struct Block<'t> {
    region: Region<'t>,
    from: usize,
    to: usize,
}

impl Work for Block<'_> {
    type Output = (Part, Stop);

    #[inline(always)]
    fn run<S: Simd>(self) -> (Part, Stop) {
        let Region { text, base, .. } = self.region;
        let mut reader = BlockReader {
            region: self.region,
            to: self.to,
            emitter: Emitter::new(text, base),
            layout: EventLayout::new(),
            is_first: true,
            waste: 0,
        };
        let stop = reader.read::<S>(self.from);
        (reader.emitter.finish(), stop)
    }
}

struct BlockReader<'t> {
    region: Region<'t>,
    to: usize,
    emitter: Emitter<'t>,
    layout: EventLayout,
    /// What stood before the next element is not ours to judge: it belongs to the
    /// block before, or to what was skipped.
    is_first: bool,
    /// Bytes scanned in vain.
    waste: usize,
}

impl BlockReader<'_> {
    #[inline(always)]
    fn read<S: Simd>(&mut self, from: usize) -> Stop {
        let text = self.region.text;
        let mut at = from;
        let mut event = Event::default();
        loop {
            let Some(element) = self.separators(at) else { return Stop::Open(at) };
            if element >= self.to && element < text.len() {
                return Stop::Reached(element);
            }
            match text.get(element) {
                Some(b'{') => match event::strict::<S>(text, element, &mut self.layout, &mut event)
                {
                    Ok(end) if event.has_control => {
                        at = self.doubtful::<S>(element, end, event);
                    }
                    Ok(end) => {
                        self.emitter.event::<S>(element, end, &event);
                        at = end;
                        continue;
                    }
                    Err(stop) => match self.repair::<S>(element, stop) {
                        Ok(end) => at = end,
                        Err(stop) => return stop,
                    },
                },
                Some(b']') => return Stop::Closed(element + 1),
                Some(_) => match self.not_an_event::<S>(element) {
                    Ok(end) => at = end,
                    Err(stop) => return stop,
                },
                None => return Stop::Open(element),
            }
        }
    }

    /// Passes blanks and commas before an element, which want to be one comma.
    /// `None` when the text ends among them and more is to come.
    #[inline(always)]
    fn separators(&mut self, at: usize) -> Option<usize> {
        let text = self.region.text;
        let is_first = std::mem::replace(&mut self.is_first, false);
        let at = skip_blanks(text, at);
        if text.get(at) == Some(&b',') {
            let next = skip_blanks(text, at + 1);
            if matches!(text.get(next), Some(b'{')) {
                return Some(next);
            }
        }
        self.odd_separators(at, is_first)
    }

    #[inline(never)]
    fn odd_separators(&mut self, mut at: usize, is_first: bool) -> Option<usize> {
        let text = self.region.text;
        let is_separator = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',');
        if !self.region.is_last && text[at..].iter().all(is_separator) {
            return None;
        }
        let mut commas = 0;
        while text.get(at) == Some(&b',') {
            commas += 1;
            if commas > 1 {
                self.emitter.notice(NoticeKind::ExtraComma, at, 1);
            }
            at = skip_blanks(text, at + 1);
        }
        match text.get(at) {
            Some(b']') if commas == 1 => self.emitter.notice(NoticeKind::ExtraComma, at, 1),
            Some(b']') | None => {}
            Some(_) if commas == 0 && !is_first => {
                self.emitter.notice(NoticeKind::MissingComma, at, 1);
            }
            Some(_) => {}
        }
        Some(at)
    }

    /// An event with something odd in a string: what seems to be one may be two, if
    /// each lacks a quote. Then the lenient way finds an end that comes sooner.
    #[cold]
    #[inline(never)]
    fn doubtful<S: Simd>(&mut self, at: usize, end: usize, mut event: Event) -> usize {
        // No further than this, for what follows may not have come yet.
        let mut walk = Walk::new(&self.region.text[..end], at);
        if let Ok((repaired, repaired_end)) = lenient::event(&mut walk, at) {
            if repaired.has_phase && repaired_end < end {
                self.repaired::<S>(at, repaired_end, &repaired, walk.notes);
                return repaired_end;
            }
            event.has_control = repaired.has_control;
            self.repaired::<S>(at, end, &event, walk.notes);
        } else {
            self.emitter.event::<S>(at, end, &event);
        }
        end
    }

    fn repaired<S: Simd>(
        &mut self,
        at: usize,
        end: usize,
        event: &Event,
        notes: Vec<(NoticeKind, usize)>,
    ) {
        for (kind, place) in notes {
            self.emitter.notice(kind, place, 40);
        }
        self.emitter.event::<S>(at, end, event);
    }

    /// An element that is no object: counted and passed over.
    #[cold]
    #[inline(never)]
    fn not_an_event<S: Simd>(&mut self, at: usize) -> Result<usize, Stop> {
        match value_end::<S>(self.region.text, at, &mut false) {
            Ok(end) => {
                self.emitter.event::<S>(at, end, &Event::default());
                Ok(end)
            }
            Err(_) if self.region.may_be_right(at) => Err(Stop::Open(at)),
            Err(_) => self.resynchronize::<S>(at, NoticeKind::EventSkipped),
        }
    }

    /// Reads a damaged event, or goes to the next good one.
    #[cold]
    #[inline(never)]
    fn repair<S: Simd>(&mut self, at: usize, stop: ScanStop) -> Result<usize, Stop> {
        let text = self.region.text;
        if self.region.may_be_right(at) {
            return Err(Stop::Open(at));
        }
        let mut walk = Walk::new(text, at);
        match lenient::event(&mut walk, at) {
            Ok((event, end)) if event.has_phase => {
                self.repaired::<S>(at, end, &event, walk.notes);
                Ok(end)
            }
            Ok(_) => self.resynchronize::<S>(at, NoticeKind::EventSkipped),
            Err(reached) => {
                self.waste += reached - at;
                let is_cut = reached == text.len() && stop == ScanStop::End;
                let kind = if is_cut { NoticeKind::EventCut } else { NoticeKind::EventSkipped };
                self.resynchronize::<S>(at, kind)
            }
        }
    }

    /// Goes on at the next object that reads as an event, or at the array's end.
    fn resynchronize<S: Simd>(&mut self, from: usize, kind: NoticeKind) -> Result<usize, Stop> {
        let Region { text, is_last, .. } = self.region;
        self.emitter.notice(kind, from, 80);
        self.is_first = true;
        let waste_max = WASTE_FACTOR * (self.to - from.min(self.to)) + BLOCK_BYTES;
        let mut at = from + 1;
        while let Some(step) = memchr::memchr(b'{', text.get(at..).unwrap_or(b"")) {
            at += step;
            if at >= self.to && self.to < text.len() {
                return Err(Stop::Reached(self.to));
            }
            if self.waste > waste_max {
                self.emitter.notice(NoticeKind::TooDamaged, at, 80);
                let stop =
                    if self.to < text.len() { Stop::Reached(self.to) } else { Stop::Open(self.to) };
                return Err(stop);
            }
            match event_at::<S>(text, at) {
                Ok(()) => return Ok(at),
                Err(reached) => self.waste += reached - at + 64,
            }
            if self.is_damaged_event(at) {
                return Ok(at);
            }
            at += 1;
        }
        match closing_bracket(text, from) {
            // What the end of the file has cut was not closed; its arguments may be.
            Some(at) if is_last && kind != NoticeKind::EventCut => Ok(at),
            _ => Err(Stop::Open(text.len())),
        }
    }

    /// An object between separators that reads as an event once repaired.
    fn is_damaged_event(&mut self, at: usize) -> bool {
        let text = self.region.text;
        if !follows_separator(text, at) {
            return false;
        }
        match lenient::event(&mut Walk::new(text, at), at) {
            Ok((event, _)) => event.has_phase,
            Err(reached) => {
                self.waste += reached - at;
                false
            }
        }
    }
}

/// The last bracket that could close the array, when no event follows any more.
fn closing_bracket(text: &[u8], from: usize) -> Option<usize> {
    let at = from + memchr::memrchr(b']', &text[from..])?;
    let next = skip_blanks(text, at + 1);
    matches!(text.get(next), Some(b',' | b'}') | None).then_some(at)
}
