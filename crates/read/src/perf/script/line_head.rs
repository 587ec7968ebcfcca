//! The part of a line that all lines share: who, and when.

use spanwise_callstack::ThreadKey;

use super::form::{Form, Times, untimed_header};
use crate::perf::words::{decimal, seconds, signed, skip_spaces, split_last_word, split_word};

/// `COMM PID/TID [CPU] TIME:`, of which `perf script -F` may leave out most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) comm: &'a [u8],
    pub(crate) thread: ThreadKey,
    pub(crate) time: Option<i64>,
    pub(crate) cpu: Option<u32>,
    /// Where it stands before the event; behind a time it is in the rest.
    pub(crate) period: Option<u64>,
    /// What follows the time; without times, from the event on.
    pub(crate) rest: &'a [u8],
}

impl<'a> Header<'a> {
    pub(crate) fn read(line: &'a [u8], form: &Form) -> Option<Header<'a>> {
        match form.times {
            Times::Unsaid => untimed_header(line, form),
            _ => Header::numbers_first(line).or_else(|| Header::time_first(line)),
        }
    }

    /// The form without a name, `PID/TID TIME:`, which can be read straight on.
    #[inline]
    fn numbers_first(line: &'a [u8]) -> Option<Header<'a>> {
        let (numbers, after) = split_word(line);
        let thread = numbers_of(numbers)?;
        let (time, rest) = split_word(after);
        let time = Some(seconds(time.strip_suffix(b":")?)?);
        Some(Header { comm: b"", thread, time, cpu: None, period: None, rest })
    }

    /// Names may hold anything, so find the time and read backwards from it.
    fn time_first(line: &'a [u8]) -> Option<Header<'a>> {
        for colon in memchr::memchr_iter(b':', line) {
            if !matches!(line.get(colon + 1), None | Some(b' ' | b'\t')) {
                continue;
            }
            let (word, before) = split_last_word(&line[..colon]);
            let Some(time) = seconds(word) else { continue };
            let Some(header) = Header::ending_with(before) else { continue };
            return Some(Header { time: Some(time), rest: &line[colon + 1..], ..header });
        }
        None
    }

    /// `COMM PID/TID [CPU]`
    pub(crate) fn ending_with(text: &'a [u8]) -> Option<Header<'a>> {
        let (mut numbers, mut before) = split_last_word(text);
        let cpu = cpu_of(numbers);
        if cpu.is_some() {
            (numbers, before) = split_last_word(before);
        }
        let thread = numbers_of(numbers)?;
        let comm = before.trim_ascii();
        Some(Header { comm, thread, time: None, cpu, period: None, rest: b"" })
    }

    /// The next word of the rest, where it is a number.
    pub(crate) fn take_number(&mut self) -> Option<u64> {
        let (word, rest) = split_word(self.rest);
        let number = decimal(word)?;
        self.rest = rest;
        Some(number)
    }

    pub(crate) fn take_word(&mut self) -> &'a [u8] {
        let (word, rest) = split_word(self.rest);
        self.rest = skip_spaces(rest);
        word
    }
}

/// `PID/TID`, or the number of the thread alone.
fn numbers_of(word: &[u8]) -> Option<ThreadKey> {
    match memchr::memchr(b'/', word) {
        Some(slash) => {
            Some(ThreadKey { pid: signed(&word[..slash])?, tid: signed(&word[slash + 1..])? })
        }
        None => Some(ThreadKey { pid: 0, tid: signed(word)? }),
    }
}

/// `[003]`
fn cpu_of(word: &[u8]) -> Option<u32> {
    let inside = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    u32::try_from(decimal(inside)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, i64, i64, i64, &str)>) {
        let header = Header::read(line.as_bytes(), &Form::default());
        let text = |bytes| std::str::from_utf8(bytes).expect("a test's own text");
        let found = header.map(|header| {
            let ThreadKey { pid, tid } = header.thread;
            let time = header.time.expect("a time");
            (text(header.comm), pid, tid, time, text(header.rest).trim())
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn headers_of_all_versions_are_read() {
        check(
            "30549/30550 174427.9384:  1 x",
            Some(("", 30549, 30550, 174_427_938_400_000, "1 x")),
        );
        check("contend 23635  7.5: PERF", Some(("contend", 0, 23635, 7_500_000_000, "PERF")));
        check("a 12 [001]  7.000000001: x", Some(("a", 0, 12, 7_000_000_001, "x")));
        check("a 12/13 [001]  7.5: x", Some(("a", 12, 13, 7_500_000_000, "x")));
        check("   tokio-rt w 1 2 [001] 7.5: x", Some(("tokio-rt w 1", 0, 2, 7_500_000_000, "x")));
        check("kworker/0:1H-kb 99 7.5: x", Some(("kworker/0:1H-kb", 0, 99, 7_500_000_000, "x")));
        check("7zip 3 7.5: x", Some(("7zip", 0, 3, 7_500_000_000, "x")));
        check("app\t77 [001] 7.5:\t\t1 x", Some(("app", 0, 77, 7_500_000_000, "1 x")));
        check(":-1 -1 7.5: x", Some((":-1", 0, -1, 7_500_000_000, "x")));
        check("swapper     0     0.000000000:", Some(("swapper", 0, 0, 0, "")));
    }

    #[test]
    fn processors_are_read() {
        let check = |line: &str, cpu| {
            let header = Header::read(line.as_bytes(), &Form::default()).expect("a header");
            assert_eq!(header.cpu, cpu, "{line}");
        };
        check("a 12/13 [001]  7.5: x", Some(1));
        check("a 12/13  7.5: x", None);
        check("12/13  7.5: x", None);
    }

    #[test]
    fn other_lines_have_no_header() {
        check("main;work 12", None);
        check("", None);
        check("note: 7.5: no thread", None);
        check("a 12 7: x", None);
    }
}
