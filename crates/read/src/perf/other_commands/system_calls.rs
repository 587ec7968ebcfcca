//! The text of `perf trace`: system calls, page faults and tracepoints.
//!
//! `TIME ( DURATION ms): COMM/TID NAME(ARGUMENTS) = RESULT`. A call that is printed before it
//! is over ends in `...`, and comes again, with its duration, as ` ... [continued]: NAME())`.
//! Stacks follow their line, set far to the right, innermost function first. Waits for
//! futexes are waits for locks, as in a recording of their tracepoints.

use std::collections::HashMap;

use memchr::memmem;
use spanwise_callstack::{LeftAs, Location, SchedEvent, ThreadKey};
use spanwise_model::{Nanos, NoticeKind, StrId};

use super::{Doer, Lines, RecordList};
use crate::perf::record::{RecordContent, SchedRecord};
use crate::perf::words::{decimal, hexadecimal, signed, skip_spaces, split_word};

/// Reads the lines of `perf trace`.
#[derive(Default)]
pub(crate) struct SystemCalls {
    /// Calls that were printed before they were over, by thread.
    begun: HashMap<ThreadKey, Begun>,
    /// Lines of a stack belong to this.
    latest: Option<Latest>,
    /// What follows is a summary, which says nothing new.
    is_summary: bool,
}

struct Begun {
    start: Nanos,
    name: Vec<u8>,
    futex: Option<SchedEvent>,
}

/// A line whose stack may follow.
struct Latest {
    doer: Doer,
    start: Nanos,
    offset: u64,
    what: CallOutcome,
    /// From the innermost on, without a call itself.
    frames: Vec<Location>,
}

enum CallOutcome {
    Call { name: Vec<u8>, end: Nanos, futex: Option<(SchedEvent, i64)> },
    Scheduled(SchedEvent),
}

/// The parts of a line.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    /// `None` for a call that had begun before the recording.
    time: Option<Nanos>,
    duration: Option<Nanos>,
    comm: &'a [u8],
    thread: ThreadKey,
    body: &'a [u8],
}

const CONTINUED: &[u8] = b"... [continued]: ";

impl<'a> Parts<'a> {
    fn read(line: &'a [u8]) -> Option<Parts<'a>> {
        let (word, rest) = split_word(line);
        let time = match word {
            b"?" => None,
            word => Some(milliseconds(word)?),
        };
        let rest = rest.strip_prefix(b" ")?;
        let (duration, rest) = match rest.strip_prefix(b"(") {
            None => (None, rest),
            Some(rest) => {
                let close = memmem::find(rest, b"): ")?;
                let inside = rest[..close].trim_ascii();
                let duration = match inside {
                    b"" => None,
                    inside => Some(milliseconds(inside.strip_suffix(b" ms")?)?),
                };
                (duration, &rest[close + 3..])
            }
        };
        let (comm, thread, body) = doer_of(rest);
        let name = memchr::memchr2(b'(', b' ', body).map(|end| &body[..end])?;
        let is_body = body.starts_with(CONTINUED) || is_name(name);
        is_body.then_some(Parts { time, duration, comm, thread, body })
    }
}

/// `futex`, `sched:sched_switch`, `minfault`.
fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:".contains(byte);
    name.first().is_some_and(u8::is_ascii_alphabetic) && name.iter().all(is_part)
}

/// `COMM/TID `, `TID ` or nothing: perf leaves out what it takes for clear.
fn doer_of(text: &[u8]) -> (&[u8], ThreadKey, &[u8]) {
    let key = |tid| ThreadKey { pid: 0, tid };
    // Names have at most 15 bytes, and may hold slashes and spaces themselves.
    for slash in memchr::memchr_iter(b'/', &text[..text.len().min(16)]) {
        let (word, rest) = split_word(&text[slash + 1..]);
        if let Some(tid) = signed(word).filter(|_| text.get(slash + 1) != Some(&b' ')) {
            return (&text[..slash], key(tid), skip_spaces(rest));
        }
    }
    let (word, rest) = split_word(text);
    match signed(word) {
        Some(tid) => (b"", key(tid), skip_spaces(rest)),
        None => (b"", key(0), skip_spaces(text)),
    }
}

/// Milliseconds with three decimals, to nanoseconds.
fn milliseconds(text: &[u8]) -> Option<Nanos> {
    let text = text.trim_ascii();
    let (whole, fraction) = (text.get(..text.len().checked_sub(4)?)?, &text[text.len() - 4..]);
    let micros = decimal(fraction.strip_prefix(b".")?)?;
    let total = u128::from(decimal(whole)?) * 1_000_000 + u128::from(micros) * 1000;
    i64::try_from(total).ok()
}

impl Lines for SystemCalls {
    const FORMAT: &'static str = "perf trace";

    fn is_typical(line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Parts::read(line).is_some_and(|parts| {
            // Without a duration, much other text has this form.
            parts.duration.is_some() || parts.thread.tid != 0
        })
    }

    fn line(&mut self, line: &[u8], offset: u64, gathered: &mut RecordList) {
        if self.is_summary || line.trim_ascii().is_empty() {
            return;
        }
        if line.trim_ascii().starts_with(b"Summary of events") {
            self.is_summary = true;
            return;
        }
        if let Some(parts) = Parts::read(line) {
            self.close(gathered);
            gathered.count_event();
            return self.event(&parts, line, offset, gathered);
        }
        // Stacks are set to the right by more than any time is long.
        if line.starts_with(&[b' '; 24]) {
            if let Some(latest) = &mut self.latest {
                let (name, file) = frame(line.trim_ascii());
                latest.frames.push(gathered.place(name, file));
            }
            return;
        }
        self.close(gathered);
        match lost(line) {
            Some(count) => gathered.lost(count, offset),
            None => gathered.notice(NoticeKind::UnknownRecord, offset, line),
        }
    }

    fn end(&mut self, gathered: &mut RecordList) {
        self.close(gathered);
        let last_time = gathered.last_time();
        let mut begun: Vec<(ThreadKey, Begun)> = self.begun.drain().collect();
        begun.sort_by_key(|(thread, call)| (call.start, thread.tid));
        for (thread, Begun { start, name, .. }) in begun {
            let doer = Doer { thread, comm: StrId::EMPTY, cpu: None };
            let (frames, until) = (vec![gathered.place(&name, b"[syscall]")], last_time.max(start));
            gathered.push(doer, start, 0, RecordContent::Stood { frames, until });
            gathered.notice(NoticeKind::UnfinishedSpan, 0, &name);
        }
    }
}

/// `LOST 12 events!`
fn lost(line: &[u8]) -> Option<u64> {
    let (word, rest) = split_word(line);
    let (count, rest) = split_word(rest);
    (word == b"LOST" && rest.trim_ascii().starts_with(b"events")).then(|| decimal(count))?
}

/// `NAME (FILE)`, with or without `+0xOFFSET`.
fn frame(text: &[u8]) -> (&[u8], &[u8]) {
    let (name, file) = match (memchr::memrchr(b'(', text), text.strip_suffix(b")")) {
        (Some(open), Some(inside)) => (text[..open].trim_ascii(), &inside[open + 1..]),
        _ => (text, &b""[..]),
    };
    let name = memmem::rfind(name, b"+0x").map_or(name, |at| &name[..at]);
    (name, file)
}

impl SystemCalls {
    fn event(&mut self, parts: &Parts<'_>, line: &[u8], offset: u64, gathered: &mut RecordList) {
        let &Parts { time, duration, comm, thread, body } = parts;
        let Some(start) = time else {
            // Also if its start is recorded: perf has lost when.
            self.begun.remove(&thread);
            return gathered.notice(NoticeKind::NoTime, offset, line);
        };
        let doer = Doer { thread, comm: gathered.text(comm), cpu: None };
        let end = start.saturating_add(duration.unwrap_or(0));
        let result = result_of(body);
        if let Some(rest) = body.strip_prefix(CONTINUED) {
            let begun = self.begun.remove(&thread).filter(|begun| begun.start == start);
            let name = rest[..memchr::memchr(b'(', rest).unwrap_or(rest.len())].to_vec();
            let futex = begun.and_then(|begun| begun.futex).zip(result);
            return self.await_stack(doer, start, offset, CallOutcome::Call { name, end, futex });
        }
        let name_len = memchr::memchr2(b'(', b' ', body).unwrap_or(body.len());
        let (name, arguments) = body.split_at(name_len);
        let futex = (name == b"futex").then(|| futex_of(arguments)).flatten();
        match duration {
            Some(_) if arguments.starts_with(b"(") => {
                let what = CallOutcome::Call { name: name.to_vec(), end, futex: futex.zip(result) };
                self.await_stack(doer, start, offset, what);
            }
            None if body.trim_ascii_end().ends_with(b"...") => {
                self.begun.insert(thread, Begun { start, name: name.to_vec(), futex });
            }
            // Faults, tracepoints, and calls that never return.
            _ => match tracepoint(name, arguments) {
                Some(event) => {
                    self.await_stack(doer, start, offset, CallOutcome::Scheduled(event));
                }
                None => {
                    let what = RecordContent::Instant(gathered.text(name));
                    gathered.push(doer, start, offset, what);
                }
            },
        }
    }

    fn await_stack(&mut self, doer: Doer, start: Nanos, offset: u64, what: CallOutcome) {
        self.latest = Some(Latest { doer, start, offset, what, frames: Vec::new() });
    }

    /// The line whose stack may have followed is complete.
    fn close(&mut self, gathered: &mut RecordList) {
        let Some(latest) = self.latest.take() else { return };
        let Latest { doer, start, offset, what, mut frames } = latest;
        frames.reverse();
        let scheduled =
            |event, frames| RecordContent::Sched(Box::new(SchedRecord { event, frames }));
        match what {
            CallOutcome::Scheduled(event) => {
                // Inside of a call, the stack of the call is the one that is shown.
                if self.begun.contains_key(&doer.thread) {
                    frames.clear();
                }
                gathered.push(doer, start, offset, scheduled(event, frames));
            }
            CallOutcome::Call { name, end, futex } => {
                // The kernel's, by a file that no other function of it has.
                frames.push(gathered.place(&name, b"[syscall]"));
                let Some((event, result)) = futex else {
                    gathered.push(doer, start, offset, RecordContent::Stood { frames, until: end });
                    return gathered.push(doer, end, offset, RecordContent::Seen);
                };
                gathered.push(doer, start, offset, scheduled(event, frames));
                let exit = SchedEvent::FutexExit { result };
                gathered.push(doer, end, offset, scheduled(exit, Vec::new()));
            }
        }
    }
}

/// What stands behind the last ` = `.
fn result_of(body: &[u8]) -> Option<i64> {
    let (word, _) = split_word(&body[memmem::rfind(body, b" = ")? + 3..]);
    signed(word).or_else(|| hexadecimal(word).map(u64::cast_signed))
}

/// The word behind `KEY: `; perf leaves out what is 0.
fn argument<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut places = memmem::find_iter(text, key);
    let place = places.find(|&at| at == 0 || matches!(text[at - 1], b' ' | b'('))?;
    let rest = text[place + key.len()..].strip_prefix(b": ")?;
    let end = rest.iter().position(|byte| b",) ".contains(byte)).unwrap_or(rest.len());
    Some(&rest[..end])
}

/// `(uaddr: 0x55b77862c140, op: WAIT|PRIVATE_FLAG, val: 2)`
fn futex_of(text: &[u8]) -> Option<SchedEvent> {
    let mut op = 0;
    for word in argument(text, b"op")?.split(|&byte| byte == b'|') {
        op |= match word {
            b"WAIT" => 0,
            b"WAKE" => 1,
            b"REQUEUE" => 3,
            b"CMP_REQUEUE" => 4,
            b"WAKE_OP" => 5,
            b"LOCK_PI" => 6,
            b"UNLOCK_PI" => 7,
            b"TRYLOCK_PI" => 8,
            b"WAIT_BITSET" => 9,
            b"WAKE_BITSET" => 10,
            b"WAIT_REQUEUE_PI" => 11,
            b"CMP_REQUEUE_PI" => 12,
            b"LOCK_PI2" => 13,
            b"PRIVATE_FLAG" | b"PRIV" => 0x80,
            b"CLOCK_REALTIME" | b"CLKRT" => 0x100,
            _ => return None,
        };
    }
    let address = hexadecimal(argument(text, b"uaddr")?)?;
    let value = argument(text, b"val").map_or(Some(0), decimal)?;
    Some(SchedEvent::FutexEnter { address, op, value })
}

/// What a tracepoint of the scheduler says.
fn tracepoint(name: &[u8], text: &[u8]) -> Option<SchedEvent> {
    let number = |key: &[u8]| argument(text, key).and_then(signed);
    match name {
        b"sched:sched_switch" => Some(SchedEvent::Switch {
            prev: number(b"prev_pid")?,
            left: LeftAs::from_bits(number(b"prev_state").unwrap_or(0).cast_unsigned()),
            // The idle loop is 0.
            next: number(b"next_pid").unwrap_or(0),
        }),
        b"sched:sched_waking" | b"sched:sched_wakeup" => {
            Some(SchedEvent::Wake { woken: number(b"pid")? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time, duration; name and number of the thread; the rest.
    type Read<'a> = Option<(Option<i64>, Option<i64>, &'a str, i64, &'a str)>;

    #[test]
    fn lines_come_in_several_forms() {
        let check = |line: &str, expected: Read<'_>| {
            let found = Parts::read(line.as_bytes()).map(|parts| {
                let text = |bytes| std::str::from_utf8(bytes).expect("a test's own text");
                let Parts { time, duration, comm, thread, body } = parts;
                (time, duration, text(comm), thread.tid, text(body))
            });
            assert_eq!(found, expected, "{line}");
        };
        let both = (Some(62_000), Some(16_000));
        check("  0.062 ( 0.016 ms): a/7 brk() = 0", Some((both.0, both.1, "a", 7, "brk() = 0")));
        check("  0.062 ( 0.016 ms): 7 brk() = 0", Some((both.0, both.1, "", 7, "brk() = 0")));
        check("  0.062 ( 0.016 ms): brk() = 0", Some((both.0, both.1, "", 0, "brk() = 0")));
        check(
            "  0.062 (         ): k/0:1 x/7 exit()",
            Some((both.0, None, "k/0:1 x", 7, "exit()")),
        );
        check("  0.062 a/7 sched:x(y: 1)", Some((both.0, None, "a", 7, "sched:x(y: 1)")));
        check(
            "  ? (  ): a/7  ... [continued]: x())",
            Some((None, None, "a", 7, "... [continued]: x())")),
        );
        check("1.5 ( 0.016 ms): a/7 brk()", None);
        check("   waits 7 [000] 1.500000: sched:sched_switch: x", None);
        check("main;work 12", None);
        check("", None);
    }

    #[test]
    fn arguments_are_found_by_name() {
        let futex = |op, value| Some(SchedEvent::FutexEnter { address: 0x55, op, value });
        let check =
            |text: &str, expected| assert_eq!(futex_of(text.as_bytes()), expected, "{text}");
        check("(uaddr: 0x55, op: WAIT|PRIVATE_FLAG, val: 2) ...", futex(0x80, 2));
        check("(uaddr: 0x55, op: WAIT_BITSET|CLOCK_REALTIME, val3: MATCH_ANY)", futex(0x109, 0));
        check("(uaddr: 0x55, op: UNHEARD_OF)", None);
        check("(op: WAIT)", None);
        check("", None);
    }

    #[test]
    fn switches_of_the_scheduler_are_understood() {
        let text = b"(prev_comm: \"a\", prev_pid: 7 (a), prev_prio: 120, prev_state: 1, \
                     next_comm: \"b\", next_pid: 8 (b))";
        let expected = SchedEvent::Switch { prev: 7, left: LeftAs::Waiting, next: 8 };
        assert_eq!(tracepoint(b"sched:sched_switch", text), Some(expected));
        assert_eq!(tracepoint(b"sched:sched_switch", b"()"), None);
    }
}
