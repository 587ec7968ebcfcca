//! What the lines of a text say, which depends on how `perf script` was asked for them.
//!
//! `-F` leaves out times or events, `--deltatime` prints how long ago the event before was,
//! and other programs set frames off by spaces. One line does not show which it is: the first
//! lines of a file do, together.

use spanwise_model::Nanos;

use super::line_head::Header;
use super::place_text::PlaceText;
use crate::perf::words::{decimal, split_last_word, split_word};

/// The first part of a text, by which its form is detected.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// What events of a text that names none are called, unless its comments do.
const UNNAMED: &str = "samples";

/// When the events of a text were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Times {
    /// Times of a clock, or since the first event.
    #[default]
    Said,
    /// Each is the time since the line before (`--deltatime`).
    SinceBefore,
    Unsaid,
}

/// How the lines of a text are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Form {
    pub(crate) times: Times,
    /// The event of all lines, where they name none.
    pub(crate) event: Option<String>,
    /// Between the thread and the event stands a period. Only of interest without times.
    pub(crate) has_period: bool,
    /// Frames are not set off by a tab, so that what is no header is one.
    pub(crate) frames_are_loose: bool,
}

impl Form {
    /// The form of a text that begins like this. Where nothing shows that it is unusual, it is
    /// the usual one.
    pub(crate) fn of(head: &[u8]) -> Form {
        let lines = Lines::of(head);
        let timed = Form { frames_are_loose: true, ..Form::default() };
        if let Some(found) = ParsedLines::with(&lines, &timed) {
            return found.timed(&lines.events);
        }
        let untimed = |has_period| Form { times: Times::Unsaid, has_period, ..timed.clone() };
        let found = ParsedLines::with(&lines, &untimed(false)).filter(|found| found.has_stacks);
        let Some(found) = found else { return Form::default() };
        // A name may end in a number as well, but hardly that of every thread.
        let has_period = ParsedLines::with(&lines, &untimed(true)).is_some_and(|with| {
            with.headers.len() == found.headers.len()
                && with.headers.iter().all(|header| header.period.is_some())
        });
        Form { frames_are_loose: found.is_loose, ..untimed(has_period) }
    }

    /// True where the lines themselves are unlike those that perf prints by itself.
    pub(crate) fn is_unusual(&self) -> bool {
        self.times == Times::Unsaid || self.event.is_some()
    }
}

/// Whole lines without comments.
struct Lines<'a> {
    lines: Vec<&'a [u8]>,
    /// The events that the comments before them name.
    events: Vec<&'a [u8]>,
}

impl<'a> Lines<'a> {
    fn of(head: &'a [u8]) -> Self {
        let is_cut = head.len() >= HEAD_BYTES && !head.ends_with(b"\n");
        let end = match memchr::memrchr(b'\n', head) {
            Some(end) if is_cut => end,
            _ => head.len(),
        };
        let mut all = Lines { lines: Vec::new(), events: Vec::new() };
        for line in head[..end].split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match line.strip_prefix(b"# event : name = ") {
                Some(event) => {
                    all.events.push(&event[..memchr::memchr(b',', event).unwrap_or(event.len())]);
                }
                None if line.starts_with(b"#") => {}
                None => all.lines.push(line),
            }
        }
        all
    }
}

/// How lines are laid out.
struct ParsedLines<'a> {
    headers: Vec<Header<'a>>,
    /// With a header, or behind one, stood a place in the program.
    has_stacks: bool,
    /// A frame was not set off by a tab.
    is_loose: bool,
}

impl<'a> ParsedLines<'a> {
    /// `None` without any header.
    fn with(lines: &Lines<'a>, form: &Form) -> Option<ParsedLines<'a>> {
        let mut found = ParsedLines { headers: Vec::new(), has_stacks: false, is_loose: false };
        let mut is_open = false;
        for line in &lines.lines {
            let is_set_off = line.starts_with(b"\t");
            if !is_set_off && let Some(header) = Header::read(line, form) {
                let (_, behind) = split_word(header.rest);
                found.has_stacks |= is_frame(header.rest) || is_frame(behind);
                found.headers.push(header);
                is_open = true;
            } else if is_open && is_frame(line) {
                found.has_stacks = true;
                found.is_loose |= !is_set_off;
            } else {
                // The lines of the source stand between frames.
                is_open &= line.starts_with(b"  ");
            }
        }
        (!found.headers.is_empty()).then_some(found)
    }

    fn timed(&self, events: &[&[u8]]) -> Form {
        let times = match self.are_times_apart() {
            true => Times::SinceBefore,
            false => Times::Said,
        };
        let names_event = self.headers.iter().any(|header| names_event(header.rest));
        let event = (self.has_stacks && !names_event).then(|| match events {
            [event] => String::from_utf8_lossy(event).into_owned(),
            _ => UNNAMED.to_owned(),
        });
        Form { times, event, has_period: false, frames_are_loose: self.is_loose }
    }

    /// True where the first time is 0 and a later one less than the one before it. perf prints
    /// events in the order of their times, so those are times between events.
    fn are_times_apart(&self) -> bool {
        let times = || self.headers.iter().filter_map(|header| header.time);
        let falls = |(before, after): (Nanos, Nanos)| after < before;
        times().next() == Some(0) && times().zip(times().skip(1)).any(falls)
    }
}

/// True where an event stands behind the time, with or without a period before it.
fn names_event(rest: &[u8]) -> bool {
    let (word, after) = split_word(rest);
    let is_record = word.starts_with(b"PERF_RECORD_");
    let is_behind_period = decimal(word).is_some() && split_word(after).0.ends_with(b":");
    !is_record && (word.ends_with(b":") || is_behind_period)
}

/// What stands behind the time of a line without an event: a period, a place, or both.
pub(crate) fn period_and_place(rest: &[u8]) -> (Option<u64>, &[u8]) {
    let (word, after) = split_word(rest);
    let (period, after) = (decimal(word), after.trim_ascii());
    // An address may be made of decimal digits alone; then a name follows it, not a place.
    let is_place = |text| PlaceText::read(text).is_some_and(|place| !place.name.is_empty());
    match period {
        Some(_) if after.is_empty() || is_place(after) => (period, after),
        _ => (None, rest.trim_ascii()),
    }
}

/// True for an address with a name behind a tab, or with one and a file that programs are in.
fn is_frame(line: &[u8]) -> bool {
    PlaceText::read(line).is_some_and(|place| {
        let is_file = matches!(place.file.first(), Some(b'/' | b'['))
            || place.file == b"inlined"
            || memchr::memmem::find(place.file, b".so").is_some();
        is_file || line.starts_with(b"\t") && !place.name.is_empty()
    })
}

/// The header of a line without a time: `COMM PID/TID [CPU] PERIOD EVENT:`.
pub(crate) fn untimed_header<'a>(line: &'a [u8], form: &Form) -> Option<Header<'a>> {
    if let Some(start) = memchr::memmem::find(line, b"PERF_RECORD_") {
        let header = Header::ending_with(&line[..start])?;
        return Some(Header { rest: &line[start..], ..header });
    }
    for colon in memchr::memchr_iter(b':', line) {
        if !matches!(line.get(colon + 1), None | Some(b' ' | b'\t')) {
            continue;
        }
        let rest = line[colon + 1..].trim_ascii();
        if !rest.is_empty() && PlaceText::read(rest).is_none() {
            continue;
        }
        let (event, before) = split_last_word(&line[..=colon]);
        if event.len() < 2 {
            continue;
        }
        let (period, before) = untimed_period(before, form);
        let Some(mut header) = Header::ending_with(before) else { continue };
        (header.period, header.rest) = (period, &line[colon + 1 - event.len()..]);
        return Some(header);
    }
    None
}

/// Takes the period off the end, if there is one. A number is one behind a processor or behind
/// a process and its thread; a third number is not needed then.
fn untimed_period<'a>(before: &'a [u8], form: &Form) -> (Option<u64>, &'a [u8]) {
    let (word, rest) = split_last_word(before);
    let of_thread = split_last_word(rest).0;
    let is_behind_thread = (of_thread.starts_with(b"[") || of_thread.contains(&b'/'))
        && Header::ending_with(rest).is_some();
    match decimal(word) {
        Some(period) if form.has_period || is_behind_thread => (Some(period), rest),
        _ => (None, before),
    }
}

#[cfg(test)]
mod tests {
    use spanwise_callstack::{NameTranslation, Names};

    use super::*;
    use crate::perf::record::{Record, RecordContent};
    use crate::perf::script::lanes::{Block, Join, Lanes};
    use crate::perf::script::parser::ParseOptions;
    use crate::perf::timeline::renumbered;
    use spanwise_symbols::JitMap;

    #[derive(Default)]
    struct RecordCollector {
        names: Names,
        records: Vec<Record>,
    }

    impl Join for RecordCollector {
        fn names(&mut self) -> &mut Names {
            &mut self.names
        }

        fn block(&mut self, block: Block, numbers: &NameTranslation) {
            let records = block.records.into_iter();
            self.records.extend(records.map(|record| renumbered(record, numbers)));
        }
    }

    /// A line for each sample: who, when, and of what, with the names of its stack.
    fn samples(text: &str, block_bytes: usize) -> Vec<String> {
        let (map, form) = (&JitMap::default(), &Form::of(text.as_bytes()));
        let mut collected = RecordCollector::default();
        let options = ParseOptions { map, form, keeps_all: true };
        Lanes::new(2, block_bytes).read(text.as_bytes(), 0, options, &mut collected);
        let RecordCollector { names, records } = &collected;
        let line = |record: &Record| {
            let RecordContent::Sample(sample) = &record.what else {
                return format!("{:?}", record.what);
            };
            let (comm, event) = (names.text(record.comm), names.text(sample.event));
            let name =
                |place: &spanwise_callstack::Location| names.name_text(place.function).to_owned();
            let frames: Vec<String> = sample.frames.iter().map(name).collect();
            let (tid, time, period) = (record.thread.tid, record.time, sample.period);
            let time = time.map_or("?".to_owned(), |time| time.to_string());
            format!("{comm}/{tid} {time} {period} {event} {}", frames.join(";"))
        };
        records.iter().map(line).collect()
    }

    /// However a text is cut, it holds these samples, and is known for what it is.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for block_bytes in [1 << 20, 1, 40, 90] {
            assert_eq!(samples(text, block_bytes), expected, "blocks of {block_bytes}");
        }
        assert!(crate::perf::script::seems_perf_script(text.as_bytes()));
    }

    #[test]
    fn texts_without_times_are_read() {
        let stack = "\t 400577 f (/a b)\n\t 7f01 main+0x1 (/a b)\n";
        let text =
            format!("java  3244 cpu-clock: \n{stack}\nVM Thread 5  3245 cpu-clock: \n{stack}");
        let expected = ["java/3244 ? 0 cpu-clock main;f", "VM Thread 5/3245 ? 0 cpu-clock main;f"];
        check(&text, &expected);
        let text =
            format!("a 7     1001001 cycles:u: \n{stack}\nb c 8          1 cycles:u: \n{stack}");
        check(&text, &["a/7 ? 1001001 cycles main;f", "b c/8 ? 1 cycles main;f"]);
        let text = format!("a 7/8 [001]   5 cycles: \n{stack}\n:-1 -1/-1 [000] cycles: \n{stack}");
        check(&text, &["a/8 ? 5 cycles main;f", ":-1/-1 ? 0 cycles main;f"]);
        // Each line a sample.
        check(
            "    a 7 cycles:  7f01 f (/a)\n  b 8 faults:  12 g (/a)\n",
            &["a/7 ? 0 cycles f", "b/8 ? 0 faults g"],
        );
    }

    #[test]
    fn frames_may_stand_at_the_start_of_their_lines() {
        let text = "java 19983 cycles:\nffffffff8103d0ca g ([k])\n          10 f (/a)\n\n\
                    java 19984 cycles:\n400577 L: x ([k])\n";
        check(text, &["java/19983 ? 0 cycles f;g", "java/19984 ? 0 cycles L: x"]);
    }

    #[test]
    fn texts_without_events_are_read() {
        let frames = "\t 400577 f (/a)\n\t 7f01 main (/a)\n\n";
        let text = format!("a 7   1.500000: \n{frames}a 7   1.600000:    1001001 \n{frames}");
        let expected = ["a/7 1500000000 0 samples main;f", "a/7 1600000000 1001001 samples main;f"];
        check(&text, &expected);
        check("  a 7   1.5:   400577 f (/a)\n", &["a/7 1500000000 0 samples f"]);
        let text = format!("# event : name = cycles:u, type = 0\n#\na 7 1.5: \n{frames}");
        check(&text, &["a/7 1500000000 0 cycles:u main;f"]);
    }

    #[test]
    fn times_between_events_are_added_up() {
        let line = |time: &str| format!("a 7     {time}:   5 cycles: \n\t 40 f (/a)\n\n");
        let text = ["0.000000", "0.001000", "0.000500", "0.100000"].map(line).concat();
        let at = |time: u64| format!("a/7 {time} 5 cycles f");
        let expected = [0, 1_000_000, 1_500_000, 101_500_000].map(at);
        check(&text, &expected.each_ref().map(String::as_str));
        // Ascending ones are times since the first event (`--reltime`), or undecidable.
        let text = ["0.000000", "0.000500", "0.001000"].map(line).concat();
        let expected = [0, 500_000, 1_000_000].map(at);
        check(&text, &expected.each_ref().map(String::as_str));
    }

    #[test]
    fn tabs_stand_for_spaces_in_texts_of_simpleperf() {
        let text = "my app\t77 [002] 7.000500:\t\t9 cpu-clock:u:\n\
                    \x20           7f01\tf(int) (/system/lib64/libc.so)\n\
                    \x20         40\tmain (/a)\n\n";
        check(text, &["my app/77 7000500000 9 cpu-clock main;f(int)"]);
    }

    #[test]
    fn other_texts_are_not_of_perf() {
        for text in
            ["main;work 12\nmain;idle 3\n", "step 12 done:\n  100 files (all)\n", "a 1: x\n"]
        {
            assert!(!crate::perf::script::seems_perf_script(text.as_bytes()), "{text}");
        }
    }
}
