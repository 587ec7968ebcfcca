//! The text of `perf sched timehist`: who ran how long, and how long he waited before.
//!
//! `TIME [CPU] NAME[TID/PID] WAIT DELAY RUN`, in milliseconds: at that time the thread left its
//! processor, after it ran for RUN; before that it was off for WAIT, and of that ready to run
//! for DELAY. With `--state`, how it left follows; with `-w`, lines of their own say who woke
//! whom; where stacks were recorded, ` <- ` stands between their functions. Columns may be
//! added by options, so numbers are read from the thread on.

use std::collections::BTreeMap;

use memchr::memmem;
use spanwise_callstack::{LeftAs, SchedEvent, ThreadKey};
use spanwise_model::{Nanos, NoticeKind, StrId};

use super::{Doer, Lines, RecordList};
use crate::perf::record::{RecordContent, SchedRecord};
use crate::perf::words::{decimal, seconds, signed, split_word};

/// Reads the lines of `perf sched timehist`.
#[derive(Default)]
pub(crate) struct TimeHist {
    /// Where names begin, as the header says.
    name_column: usize,
    has_states: bool,
    /// Lines say who woke whom, more exactly than delays do.
    has_wakes: bool,
    /// What follows are sums, which say nothing new.
    is_summary: bool,
    /// The lines of each thread, in order.
    runs: BTreeMap<i64, Vec<Run>>,
}

/// A line about a thread that leaves its processor.
struct Run {
    doer: Doer,
    offset: u64,
    time: Nanos,
    times: Times,
    /// `None` where the text does not say it.
    left: Option<LeftAs>,
    /// The functions of its stack, from the outermost on.
    stack: Vec<StrId>,
}

/// Before it left: off its processor, ready, running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    wait: Nanos,
    delay: Nanos,
    run: Nanos,
}

/// What all lines begin with.
#[derive(Debug, PartialEq, Eq)]
struct Head<'a> {
    time: Nanos,
    cpu: u32,
    name: &'a [u8],
    thread: ThreadKey,
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(line: &'a [u8], name_column: usize) -> Option<Head<'a>> {
        let (time, rest) = split_word(line);
        let time = seconds(time)?;
        let (cpu, rest) = split_word(rest);
        let cpu = cpu.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let cpu = u32::try_from(decimal(cpu)?).ok()?;
        // The idle loop, which interrupts others, has no number.
        let after_idle = rest.trim_ascii_start().strip_prefix(b"swapper ");
        if let Some(rest) = after_idle {
            return Some(Head { time, cpu, name: b"swapper", thread: ThreadKey::default(), rest });
        }
        // A name may hold brackets; numbers alone stand only in its last ones.
        let mut places = memchr::memchr_iter(b'[', rest);
        let (open, thread, rest_at) = places.find_map(|open| {
            let close = open + memchr::memchr(b']', &rest[open..])?;
            let is_end = matches!(rest.get(close + 1), None | Some(b' '));
            let thread = thread_of(&rest[open + 1..close]).filter(|_| is_end)?;
            Some((open, thread, close + 1))
        })?;
        let before = line.len() - rest.len();
        let name_from = name_column.saturating_sub(before).min(open);
        let name = rest[name_from..open].trim_ascii();
        Some(Head { time, cpu, name, thread, rest: &rest[rest_at..] })
    }
}

/// `TID/PID`, or one number for both.
fn thread_of(text: &[u8]) -> Option<ThreadKey> {
    match memchr::memchr(b'/', text) {
        Some(slash) => {
            Some(ThreadKey { tid: signed(&text[..slash])?, pid: signed(&text[slash + 1..])? })
        }
        None => signed(text).map(|tid| ThreadKey { pid: tid, tid }),
    }
}

impl Times {
    fn read(text: &[u8]) -> Option<(Times, &[u8])> {
        let (wait, text) = split_word(text);
        let (delay, text) = split_word(text);
        let (run, text) = split_word(text);
        // Thousandths of what `seconds` reads.
        let millis = |word| Some(seconds(word)? / 1000);
        Some((Times { wait: millis(wait)?, delay: millis(delay)?, run: millis(run)? }, text))
    }
}

fn is_header(line: &[u8]) -> bool {
    ["task name", "wait time", "sch delay", "run time"]
        .iter()
        .all(|column| memmem::find(line, column.as_bytes()).is_some())
}

impl Lines for TimeHist {
    const FORMAT: &'static str = "perf sched timehist";

    fn is_typical(line: &[u8]) -> bool {
        is_header(line)
    }

    fn line(&mut self, line: &[u8], offset: u64, gathered: &mut RecordList) {
        if is_header(line) {
            self.name_column = memmem::find(line, b"task name").unwrap_or(0);
            self.has_states = line.trim_ascii_end().ends_with(b"state");
            return;
        }
        let trimmed = line.trim_ascii();
        self.is_summary |= trimmed == b"Runtime summary";
        let is_decoration = trimmed.is_empty()
            || trimmed.starts_with(b"[tid/pid]")
            || trimmed.starts_with(b"----")
            || trimmed == b"Samples do not have callchains.";
        if self.is_summary || is_decoration {
            return;
        }
        let Some(head) = Head::read(line, self.name_column) else {
            return gathered.notice(NoticeKind::UnknownRecord, offset, line);
        };
        gathered.count_event();
        let Head { time, cpu, name, thread, rest } = head;
        let doer = Doer { thread, comm: gathered.text(name), cpu: Some(cpu) };
        let rest = rest.trim_ascii();
        if let Some(woken) = rest.strip_prefix(b"awakened: ") {
            return self.woken(doer, time, offset, woken, line, gathered);
        }
        // The processors of all lines say the same.
        if rest.starts_with(b"migrated: ") {
            return;
        }
        let Some((times, rest)) = Times::read(rest) else {
            return gathered.notice(NoticeKind::UnknownRecord, offset, line);
        };
        let (left, stack) = self.ending(rest, gathered);
        let run = Run { doer, offset, time, times, left, stack };
        self.runs.entry(thread.tid).or_default().push(run);
    }

    fn end(&mut self, gathered: &mut RecordList) {
        for runs in std::mem::take(&mut self.runs).into_values() {
            self.thread(&runs, gathered);
        }
    }
}

impl TimeHist {
    /// What follows the numbers: a state, who came next, a stack.
    fn ending(&self, text: &[u8], gathered: &mut RecordList) -> (Option<LeftAs>, Vec<StrId>) {
        let (word, after) = split_word(text);
        let is_state = self.has_states && word.first().is_some_and(u8::is_ascii_uppercase);
        let left = is_state.then(|| LeftAs::from_letters(word));
        let text = if is_state { after } else { text };
        // `next: NAME[TID]` comes before the stack, set to a width of its own.
        let text = match memmem::find(text, b"next: ") {
            Some(at) => {
                memmem::find(&text[at..], b"]").map_or(&b""[..], |end| &text[at + end + 1..])
            }
            None => text,
        };
        let functions = text.trim_ascii();
        let mut stack = Vec::new();
        for function in
            memmem::find_iter(functions, b" <- ").chain([functions.len()]).scan(0, |from, to| {
                let function = functions.get(*from..to);
                *from = to + 4;
                function
            })
        {
            if !function.trim_ascii().is_empty() {
                stack.push(gathered.text(function.trim_ascii()));
            }
        }
        stack.reverse();
        (left, stack)
    }

    /// `NAME[TID]`
    fn woken(
        &mut self,
        doer: Doer,
        time: Nanos,
        offset: u64,
        text: &[u8],
        line: &[u8],
        gathered: &mut RecordList,
    ) {
        let inside = memchr::memrchr(b'[', text)
            .and_then(|open| text[open + 1..].strip_suffix(b"]"))
            .and_then(thread_of);
        let Some(woken) = inside else {
            return gathered.notice(NoticeKind::UnknownRecord, offset, line);
        };
        self.has_wakes = true;
        let event = SchedEvent::Wake { woken: woken.tid };
        let what = RecordContent::Sched(Box::new(SchedRecord { event, frames: Vec::new() }));
        gathered.push(doer, time, offset, what);
    }

    /// What the lines of one thread stand for.
    fn thread(&self, runs: &[Run], gathered: &mut RecordList) {
        for (at, run) in runs.iter().enumerate() {
            let &Run { doer, offset, time, times, .. } = run;
            // Times are rounded; what was said before is not taken back.
            let before = at.checked_sub(1).map_or(Nanos::MIN, |before| runs[before].time);
            let came = time.saturating_sub(times.run).max(before);
            if !self.has_wakes && times.delay > 0 {
                let ready = came.saturating_sub(times.delay).max(before);
                let event = SchedEvent::Wake { woken: doer.thread.tid };
                // By whom is not known: the idle loop stands for nobody.
                let nobody = Doer { thread: ThreadKey::default(), cpu: None, ..doer };
                let nobody = Doer { comm: StrId::EMPTY, ..nobody };
                let what =
                    RecordContent::Sched(Box::new(SchedRecord { event, frames: Vec::new() }));
                gathered.push(nobody, ready, offset, what);
            }
            if times.run > 0 || before != Nanos::MIN {
                gathered.push(
                    doer,
                    came,
                    offset,
                    RecordContent::Switch { is_out: false, is_preempted: false },
                );
            }
            // Whoever waited was woken, and then had some delay: without, it was ready.
            let is_preempted = match run.left {
                Some(left) => left == LeftAs::Preempted,
                None => runs
                    .get(at + 1)
                    .is_some_and(|next| next.times.delay == 0 && next.times.wait > 0),
            };
            let mut frames = Vec::new();
            for &function in &run.stack {
                let name = gathered.names().text(function).to_owned();
                frames.push(gathered.place(name.as_bytes(), b""));
            }
            let event = SchedEvent::Out { is_preempted };
            let what = RecordContent::Sched(Box::new(SchedRecord { event, frames }));
            gathered.push(doer, time, offset, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_who_and_when() {
        let check = |line: &str, column, expected: Option<(i64, u32, &str, i64, i64, &str)>| {
            let found = Head::read(line.as_bytes(), column).map(|head| {
                let text = |bytes| std::str::from_utf8(bytes).expect("a test's own text");
                let Head { time, cpu, name, thread, rest } = head;
                (time, cpu, text(name), thread.pid, thread.tid, text(rest).trim())
            });
            assert_eq!(found, expected, "{line}");
        };
        let some = |name, pid, rest| Some((7_500_000_000, 1, name, pid, 12, rest));
        check("  7.500000 [0001]  waits[12]  0.000 ", 19, some("waits", 12, "0.000"));
        check("  7.500000 [0001]  waits[12/9]  0.000 ", 19, some("waits", 9, "0.000"));
        check("  7.500000 [0001]  s   a b[x][12/9]  0.000 ", 23, some("a b[x]", 9, "0.000"));
        check("  7.500000 [0001]   m    waits[12]  migrated: ", 23, some("waits", 12, "migrated:"));
        check("  7.500000 [0001]  waits  0.000 ", 19, None);
        let idle = Some((7_500_000_000, 1, "swapper", 0, 0, "awakened: a[12]"));
        check("  7.500000 [0001]  swapper      awakened: a[12]", 19, idle);
        check("Runtime summary", 19, None);
        check("", 0, None);
    }

    #[test]
    fn times_are_thousandths_of_seconds() {
        let times = Times { wait: 2_456_000, delay: 2_321_000, run: 174_000 };
        let (found, rest) = Times::read(b"   2.456      2.321      0.174    D").expect("three");
        assert_eq!((found, rest.trim_ascii()), (times, &b"D"[..]));
        assert_eq!(Times::read(b"2.456 2.321"), None);
    }
}
