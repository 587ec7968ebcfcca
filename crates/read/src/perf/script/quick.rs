//! Lines like the ones before them, read by comparing instead of taking apart.
//!
//! A recording of control flow repeats itself: the same threads, the same event, the same
//! instructions over and over. What a line was found to say is kept with its bytes, and a
//! later line of the same bytes says the same. Only what is certain is kept: a line that
//! is not recognized in full is taken apart as if this were not here.

use spanwise_callstack::{Branch, BranchKind, Location, ThreadKey, TraceEdge};
use spanwise_model::{Nanos, StrId};

use super::branch_text::BranchText;
use super::place_text::PlaceText;

/// What was learned from earlier lines.
#[derive(Debug, Default)]
pub(crate) struct Quick {
    leads: Vec<Lead>,
    latest: usize,
    /// From behind the time to the flags: `:   1   branches:uH:   `.
    between: Vec<u8>,
    pub(crate) places: Places,
}

/// The beginning of a line up to the whole seconds of its time, with the point.
#[derive(Debug)]
struct Lead {
    text: Vec<u8>,
    thread: ThreadKey,
    comm: StrId,
    cpu: Option<u32>,
    second_ns: Nanos,
}

/// Threads take turns, mostly few of them.
const LEADS_MAX: usize = 4;

/// A line that was recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuickLine {
    pub(crate) thread: ThreadKey,
    pub(crate) comm: StrId,
    pub(crate) time: Nanos,
    pub(crate) cpu: Option<u32>,
    pub(crate) branch: Branch,
    /// Its bytes, with the line's end.
    pub(crate) len: usize,
}

/// A line that was taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LearnedLine<'a> {
    pub(crate) line: &'a [u8],
    /// Where the colon behind the time stands, and where the flags begin.
    pub(crate) colon: usize,
    pub(crate) flags: usize,
    pub(crate) thread: ThreadKey,
    pub(crate) comm: StrId,
    pub(crate) time: Nanos,
    pub(crate) cpu: Option<u32>,
}

impl Quick {
    /// The branch that the text begins with, where its line is like earlier ones.
    #[inline]
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<QuickLine> {
        let lead = self.lead(text)?;
        let Lead { thread, comm, cpu, second_ns, .. } = *lead;
        let at = lead.text.len();
        let (fraction_ns, digits) = fraction(&text[at..])?;
        let at = at + digits;
        let at = at + starts_with(&text[at..], &self.between)?;
        let (kind, edge, word) = flags(&text[at..])?;
        let at = skip_spaces(text, at + word);
        let (from, len) = self.places.find(&text[at..])?;
        let at = at + len + starts_with(&text[at + len..], b" => ")?;
        let at = skip_spaces(text, at);
        let (to, len) = self.places.find(&text[at..])?;
        let end = at + len;
        if text.get(end) != Some(&b'\n') {
            return None;
        }
        let time = second_ns.checked_add(fraction_ns)?;
        let branch = Branch { kind, edge, is_in_transaction: false, from, to };
        Some(QuickLine { thread, comm, time, cpu, branch, len: end + 1 })
    }

    #[inline]
    fn lead(&mut self, text: &[u8]) -> Option<&Lead> {
        let is_it = |lead: &Lead| starts_with(text, &lead.text).is_some();
        if !self.leads.get(self.latest).is_some_and(is_it) {
            self.latest = self.leads.iter().position(is_it)?;
        }
        self.leads.get(self.latest)
    }

    /// Keeps what the line of a branch says.
    pub(crate) fn learn(
        &mut self,
        learned: LearnedLine<'_>,
        text: &BranchText<'_>,
        branch: &Branch,
    ) {
        self.places.learn(&text.from, branch.from);
        self.places.learn(&text.to, branch.to);
        let LearnedLine { line, colon, flags, thread, comm, time, cpu } = learned;
        let Some(point) = memchr::memrchr(b'.', &line[..colon]) else { return };
        if self.between != line[colon..flags] {
            self.between.clear();
            self.between.extend_from_slice(&line[colon..flags]);
        }
        let text = &line[..=point];
        if self.leads.iter().any(|lead| lead.text == text) {
            return;
        }
        let second_ns = time - time.rem_euclid(1_000_000_000);
        let lead = Lead { text: text.to_vec(), thread, comm, cpu, second_ns };
        match self.leads.len() {
            LEADS_MAX => {
                self.latest = (self.latest + 1) % LEADS_MAX;
                self.leads[self.latest] = lead;
            }
            count => {
                self.latest = count;
                self.leads.push(lead);
            }
        }
    }
}

/// The length of a prefix, where the text begins with it.
#[inline]
fn starts_with(text: &[u8], prefix: &[u8]) -> Option<usize> {
    text.starts_with(prefix).then_some(prefix.len())
}

#[inline]
fn skip_spaces(text: &[u8], mut at: usize) -> usize {
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// The nanoseconds of nine digits before a colon, or of six, and how many they are.
#[inline]
fn fraction(text: &[u8]) -> Option<(Nanos, usize)> {
    let count = match (text.get(9), text.get(6)) {
        (Some(b':'), _) => 9,
        (_, Some(b':')) => 6,
        _ => return None,
    };
    let mut value: u32 = 0;
    for byte in &text[..count] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    let nanos = if count == 6 { value * 1000 } else { value };
    Some((Nanos::from(nanos), count))
}

/// The usual sorts of branches, and the length of their words. What may follow those of an
/// edge is no place, so that it is not recognized here.
#[inline]
fn flags(text: &[u8]) -> Option<(BranchKind, TraceEdge, usize)> {
    let kinds: [(&[u8], BranchKind, TraceEdge); 6] = [
        (b"jcc ", BranchKind::Jump, TraceEdge::Within),
        (b"call ", BranchKind::Call, TraceEdge::Within),
        (b"return ", BranchKind::Return, TraceEdge::Within),
        (b"jmp ", BranchKind::Jump, TraceEdge::Within),
        (b"tr strt ", BranchKind::None, TraceEdge::Start),
        (b"tr end ", BranchKind::None, TraceEdge::End),
    ];
    let (words, kind, edge) = kinds.into_iter().find(|(words, ..)| text.starts_with(words))?;
    Some((kind, edge, words.len()))
}

/// Places by their text, from the address on.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Two for each value of the hash; the latest stay.
    entries: Vec<Entry>,
    texts: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    len: u32,
    place: Location,
}

const ENTRIES_BITS: u32 = 14;

/// When the texts take more than this, all is forgotten: it is not known which of them
/// are still in use.
const TEXTS_BYTES_MAX: usize = 8 << 20;

/// The bytes that an entry is found by: the address and the beginning of the name.
const KEY_BYTES: usize = 16;

impl Places {
    /// The place that the text begins with, and the length of its text.
    #[inline]
    pub(crate) fn find(&self, text: &[u8]) -> Option<(Location, usize)> {
        let slot = slot(text)?;
        self.find_in(slot, text).or_else(|| self.find_in(slot ^ 1, text))
    }

    #[inline]
    fn find_in(&self, slot: usize, text: &[u8]) -> Option<(Location, usize)> {
        let entry = self.entries.get(slot)?;
        let known = &self.texts[entry.start as usize..][..entry.len as usize];
        (!known.is_empty() && text.starts_with(known)).then_some((entry.place, known.len()))
    }

    /// Keeps a place, unless its text alone does not say all.
    pub(crate) fn learn(&mut self, text: &PlaceText<'_>, place: Location) {
        let whole = text.whole;
        let Some(slot) = slot(whole) else { return };
        if self.find(whole).is_some() {
            return;
        }
        // Whether an arrow inside is the branch's own depends on what follows it, and code
        // without a name is taken for that of its neighbor.
        let is_clear = !text.name.is_empty() && memchr::memmem::find(whole, b" => ").is_none();
        if !is_clear || whole.len() > TEXTS_BYTES_MAX / 8 {
            return;
        }
        if self.entries.is_empty() || self.texts.len() + whole.len() > TEXTS_BYTES_MAX {
            let nothing = Entry { start: 0, len: 0, place: Location::NOWHERE };
            self.entries.clear();
            self.entries.resize(1 << ENTRIES_BITS, nothing);
            self.texts.clear();
        }
        let start = self.texts.len() as u32;
        self.texts.extend_from_slice(whole);
        self.entries[slot ^ 1] = self.entries[slot];
        self.entries[slot] = Entry { start, len: whole.len() as u32, place };
    }
}

/// Where the entry of a place is, found by its first bytes.
#[inline]
fn slot(text: &[u8]) -> Option<usize> {
    let key: &[u8; KEY_BYTES] = text.first_chunk()?;
    let (low, high) = key.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("8 bytes"));
    let mixed = (word(low) ^ word(high).rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Only the upper bits depend on all of the bytes.
    Some((mixed >> (64 - ENTRIES_BITS)) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::perf::record::{Record, RecordContent};
    use crate::perf::script::form::Form;
    use crate::perf::script::lanes::Lane;
    use crate::perf::script::parser::{ParseOptions, parse};
    use spanwise_symbols::JitMap;

    /// Who, when and what of each record, with names instead of numbers.
    fn described(lane: &Lane, records: &[Record]) -> Vec<String> {
        let names = &lane.names;
        let text = |record: &Record| {
            let RecordContent::Branch(branch) = &record.what else {
                return format!("{:?}", record.what);
            };
            let place = |place: spanwise_callstack::Location| {
                let function = place.function;
                let (name, file) = (names.name_text(function), names.file_text(function));
                (place.ip, name, file, place.is_entry, place.is_inlined)
            };
            let (from, to) = (place(branch.from), place(branch.to));
            let comm = names.text(record.comm);
            let who = (comm, record.thread, record.time, record.cpu, record.offset);
            format!("{who:?} {:?} {:?} {from:?} {to:?}", branch.kind, branch.edge)
        };
        records.iter().map(text).collect()
    }

    /// Lines that profit from the ones before them must say what they say alone.
    fn check(lines: &[String]) {
        let map = JitMap::read(b"40 10 made_up\n50 10 made_up_too\n");
        let options = ParseOptions { map: &map, form: &Form::default(), keeps_all: true };
        let mut lane = Lane::default();
        let text = lines.concat();
        let together = parse(text.as_bytes(), 0, options, &mut lane);
        let together = described(&lane, &together.records);
        let mut alone = Vec::new();
        let mut offset = 0;
        for line in lines {
            let mut lane = Lane::default();
            let block = parse(line.as_bytes(), offset, options, &mut lane);
            alone.extend(described(&lane, &block.records));
            offset += line.len() as u64;
        }
        assert_eq!(together, alone, "{text}");
    }

    fn any_place() -> impl Strategy<Value = String> {
        let ip = prop::sample::select(vec!["40", "50", "7ffff7ddc140", "7ffff7ddc143", "0"]);
        let symbols = vec![
            " f+0x0",
            " f+0x3",
            " g+0x0",
            " a => 40 b+0x1",
            " operator+(int)+0x7",
            "",
            " f",
            " [unknown]",
            " =>+0x1",
            " f => 7",
        ];
        let files = vec![" (a.so)", " (/usr/lib64/ld-2.17.so)", " ([unknown])", "", " (inlined)"];
        (ip, prop::sample::select(symbols), prop::sample::select(files))
            .prop_map(|(ip, symbol, file)| format!("{ip}{symbol}{file}"))
    }

    fn any_line() -> impl Strategy<Value = String> {
        let who = vec!["1/1 7.", "1/2 7.", "a: b 3/4 [001] 8.", "  9 7.", "1/1 7", "x 5 99."];
        let fraction = vec!["000000001", "000002", "1", "0000000012", "00x000001", ""];
        let between = vec![":   1  branches:uH:   ", ": branches: ", ":  2  branches:uH:   ", ": "];
        let flags = vec![
            "jcc ",
            "call  ",
            "return ",
            "jmp",
            "tr strt ",
            "tr end   ",
            "tr end  call ",
            "leap ",
            "jcc (x) ",
            "",
        ];
        let end = vec!["\n", "\r\n", " \n"];
        let select = |choices: Vec<&'static str>| prop::sample::select(choices);
        let head = (select(who), select(fraction), select(between), select(flags));
        (head, any_place(), any_place(), select(end)).prop_map(|(head, from, to, end)| {
            let (who, fraction, between, flags) = head;
            format!("{who}{fraction}{between}{flags}  {from} =>  {to}{end}")
        })
    }

    proptest! {
        #[test]
        fn a_line_says_the_same_after_others_and_alone(
            lines in prop::collection::vec(any_line(), 1..40)
        ) {
            check(&lines);
        }
    }

    #[test]
    fn lines_that_repeat_are_recognized() {
        let line = |time: u32, flag: &str| {
            let places = "7ffff7ddc140 f+0x1 (a.so) =>     7ffff7ddc150 g+0x0 (a.so)";
            format!("1/1 7.{time:09}:    1    branches:uH:   {flag}        {places}\n")
        };
        let (map, form) = (&JitMap::default(), &Form::default());
        let options = ParseOptions { map, form, keeps_all: true };
        let mut lane = Lane::default();
        let mut is_known = |text: &str| lane.quick.read(text.as_bytes()).is_some();
        assert!(!is_known(&line(1, "jcc")));
        parse(line(1, "jcc").as_bytes(), 0, options, &mut lane);
        let mut is_known = |text: &str| lane.quick.read(text.as_bytes()).is_some();
        assert!(is_known(&line(1, "jcc")));
        assert!(is_known(&line(2, "call")));
        assert!(is_known(&line(2, "tr strt")));
        assert!(!is_known(&line(2, "tr end  call")));
        assert!(!is_known(&line(2, "syscall")));
        assert!(!is_known(line(2, "call").trim_end()));
    }
}
