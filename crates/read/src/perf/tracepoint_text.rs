//! Tracepoints of the scheduler and of locks, as perf prints their fields.
//!
//! The kernel's own form (`prev_pid=7`) and the shorter one of perf's plug-ins
//! (`name:7 [120] S`) are read. Names may hold anything, so fields are searched for from
//! the end. What is not understood stays an instant without a meaning.

use memchr::memmem;
use spanwise_callstack::{LeftAs, Names, SchedEvent, is_probe_of_wait};

use super::words::{decimal, hexadecimal, signed, split_last_word, split_word};

/// What the tracepoint of this name says.
pub(crate) fn read(name: &[u8], text: &[u8], names: &mut Names) -> Option<SchedEvent> {
    match name {
        b"sched:sched_switch" => switch(text),
        b"sched:sched_waking" | b"sched:sched_wakeup" => {
            Some(SchedEvent::Wake { woken: wake(text)? })
        }
        b"syscalls:sys_enter_futex" => Some(SchedEvent::FutexEnter {
            address: number(text, b"uaddr: ")?,
            op: u32::try_from(number(text, b"op: ")?).ok()?,
            value: number(text, b"val: ")?,
        }),
        b"syscalls:sys_exit_futex" => {
            let (word, _) = split_word(text);
            // The result is signed, and printed as if it were not.
            let result = signed(word).or_else(|| hexadecimal(word).map(u64::cast_signed))?;
            Some(SchedEvent::FutexExit { result })
        }
        _ => probe(name, names),
    }
}

fn switch(text: &[u8]) -> Option<SchedEvent> {
    let arrow = memmem::rfind(text, b" ==> ")?;
    let (before, after) = (&text[..arrow], &text[arrow + 5..]);
    let (state, rest) = split_last_word(before);
    let letters = state.strip_prefix(b"prev_state=").unwrap_or(state);
    let prev = match state.starts_with(b"prev_state=") {
        true => field(before, b" prev_pid=").and_then(signed)?,
        false => short_pid(rest)?,
    };
    let next = field(after, b" next_pid=").and_then(signed).or_else(|| short_pid(after))?;
    Some(SchedEvent::Switch { prev, left: LeftAs::from_letters(letters), next })
}

/// The thread that is woken.
fn wake(text: &[u8]) -> Option<i64> {
    if let Some(pid) = field(text, b" pid=").and_then(signed) {
        return Some(pid);
    }
    let priority = memmem::rfind(text, b" [")?;
    let end = memchr::memchr(b']', &text[priority..])?;
    short_pid(&text[..=priority + end])
}

/// The number of `NAME:7 [120]`.
fn short_pid(text: &[u8]) -> Option<i64> {
    let (priority, rest) = split_last_word(text);
    priority.strip_prefix(b"[")?.strip_suffix(b"]").and_then(decimal)?;
    let rest = rest.trim_ascii_end();
    signed(&rest[memchr::memrchr(b':', rest)? + 1..])
}

/// The word behind the last mention of a key.
fn field<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let place = memmem::rfind(text, key)?;
    Some(split_word(&text[place + key.len()..]).0)
}

/// The number behind the first mention of a key, as system calls print their arguments.
fn number(text: &[u8], key: &[u8]) -> Option<u64> {
    let place = memmem::find(text, key)?;
    let (word, _) = split_word(&text[place + key.len()..]);
    hexadecimal(word.strip_suffix(b",").unwrap_or(word))
}

/// `probe_libpython:take_gil` and `probe_libpython:take_gil__return`.
pub(crate) fn probe(name: &[u8], names: &mut Names) -> Option<SchedEvent> {
    let name = std::str::from_utf8(name).ok()?;
    let (group, function) = name.split_once(':')?;
    let (function, is_return) = match function.strip_suffix("__return") {
        Some(function) => (function, true),
        None => (function, false),
    };
    let is_known = group.starts_with("probe") && is_probe_of_wait(function);
    is_known.then(|| SchedEvent::Probe { function: names.string(function), is_return })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expected: Option<SchedEvent>) {
        let found = read(name.as_bytes(), text.as_bytes(), &mut Names::default());
        assert_eq!(found, expected, "{name}: {text}");
    }

    #[test]
    fn switches_say_who_left_how_and_who_came() {
        let both = |left| Some(SchedEvent::Switch { prev: 7, left, next: 8 });
        let check = |text: &str, expected| check("sched:sched_switch", text, expected);
        check(
            " prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 \
             next_prio=1",
            both(LeftAs::Waiting),
        );
        check(
            " prev_comm=x prev_pid=9 ==> y prev_pid=7 prev_prio=1 prev_state=R+ ==> next_comm=b \
             next_pid=8 next_prio=1",
            both(LeftAs::Preempted),
        );
        check("a b:7 [120] D ==> swapper/1:8 [120]", both(LeftAs::Uninterruptible));
        check("a:7 [120] X ==> b:8 [120]", both(LeftAs::Dead));
        check("a:7 [120] S -> b:8 [120]", None);
        check("", None);
    }

    #[test]
    fn wakes_say_who_is_woken() {
        let woken = |woken| Some(SchedEvent::Wake { woken });
        check("sched:sched_waking", " comm=a pid=1 pid=7 prio=120 target_cpu=000", woken(7));
        check("sched:sched_wakeup", "tokio: rt:7 [120] success=1 CPU:001", woken(7));
        check("sched:sched_wakeup", "a:7 [120]<CPU:001", woken(7));
        check("sched:sched_waking", "comm=a", None);
    }

    #[test]
    fn futexes_say_which_and_what_for() {
        let enter = "uaddr: 0x564e1113f0e8, op: 0x00000189, val: 0x00000002, utime: 0x00000000";
        let expected = SchedEvent::FutexEnter { address: 0x564e_1113_f0e8, op: 0x189, value: 2 };
        check("syscalls:sys_enter_futex", enter, Some(expected));
        check("syscalls:sys_enter_futex", "uaddr: 0x564e1113f0e8", None);
        let exit = |result| Some(SchedEvent::FutexExit { result });
        check("syscalls:sys_exit_futex", " 0x1", exit(1));
        check("syscalls:sys_exit_futex", " 0xfffffffffffffff5", exit(-11));
        check("syscalls:sys_exit_futex", " -11", exit(-11));
        check("syscalls:sys_exit_futex", "", None);
    }

    #[test]
    fn probes_of_other_functions_are_instants() {
        let mut names = Names::default();
        let function = names.string("take_gil");
        let probe = |is_return| Some(SchedEvent::Probe { function, is_return });
        check("probe_libpython:take_gil", "(7f00)", probe(false));
        check("probe_libpython:take_gil__return", "(7f00 <- 7f08)", probe(true));
        check("probe_libc:malloc", "(7f00)", None);
        check("sdt_python:take_gil", "(7f00)", None);
        check("sched:sched_migrate_task", "comm=a pid=7", None);
    }
}
