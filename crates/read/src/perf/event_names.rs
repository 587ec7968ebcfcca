//! The name of an event, and what its lines are.

/// `NAME[/SETTINGS/][:MODIFIERS]:` without all that follows the name.
pub(crate) fn event_name(word: &[u8]) -> Option<&[u8]> {
    let word = word.strip_suffix(b":")?;
    let word = match memchr::memrchr(b':', word) {
        Some(colon) if is_modifiers(&word[colon + 1..]) => &word[..colon],
        _ => word,
    };
    let name = match memchr::memchr(b'/', word) {
        None => word,
        Some(slash) => {
            let (unit, inside) = (&word[..slash], &word[slash + 1..]);
            let end = memchr::memchr2(b'/', b',', inside).unwrap_or(inside.len());
            // `cpu_core/cycles/` is named inside, `cycles/period=50/` outside.
            let is_named = end > 0 && memchr::memchr(b'=', &inside[..end]).is_none();
            if is_named { &inside[..end] } else { unit }
        }
    };
    (!name.is_empty()).then_some(name)
}

/// The letters that perf puts behind an event: user, kernel, precise …
fn is_modifiers(text: &[u8]) -> bool {
    text.len() <= 8 && text.iter().all(|letter| b"ukhHGpPSDIWebR".contains(letter))
}

/// What the lines of an event are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// Events of the trace hardware that say nothing about the program.
    Silent,
    /// The processor's frequency.
    Frequency,
    /// Something happened in the kernel, or a probe was passed.
    Instant,
    /// A sample of a clock or of a counter.
    Sample,
}

impl EventClass {
    pub(crate) fn of(name: &[u8]) -> EventClass {
        match name {
            b"psb" | b"iflag" | b"dummy" => EventClass::Silent,
            b"cbr" => EventClass::Frequency,
            b"ptwrite" | b"mwait" | b"pwre" | b"exstop" | b"pwrx" | b"evt" => EventClass::Instant,
            name if name.contains(&b':') => EventClass::Instant,
            _ => EventClass::Sample,
        }
    }
}

/// The class and the plain name of an event as a recording's header has it.
pub(crate) fn event_class_of(name: &str) -> (EventClass, String) {
    let word = format!("{name}:");
    let plain = event_name(word.as_bytes()).unwrap_or(name.as_bytes());
    (EventClass::of(plain), String::from_utf8_lossy(plain).into_owned())
}

/// How much CPU time passes between two samples of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRate {
    /// Samples say nothing about time.
    NotSteady,
    /// Always about as much, and samples have to show how much.
    Steady,
    /// A period in nanoseconds.
    Every(i64),
}

impl EventRate {
    /// What a recording says that was asked to sample at a frequency, or once per period in
    /// events.
    pub(crate) fn asked(name: &str, frequency: u64, period: u64) -> EventRate {
        match (EventRate::of(name), i64::try_from(frequency), i64::try_from(period)) {
            (EventRate::Steady, Ok(hertz @ 1..), _) => EventRate::Every(1_000_000_000 / hertz),
            (EventRate::Steady, _, Ok(ns @ 2..)) if is_in_nanoseconds(name) => EventRate::Every(ns),
            (by_name, ..) => by_name,
        }
    }

    /// What is known by the name alone.
    pub(crate) fn of(name: &str) -> EventRate {
        if is_clock(name) { EventRate::Steady } else { EventRate::NotSteady }
    }
}

/// What the weights of an event's samples count.
pub(crate) fn unit_of(name: &str) -> &'static str {
    let plain = name.split([':', '/']).next().unwrap_or(name);
    match plain {
        "cpu-clock" | "task-clock" => "ns",
        "cycles" | "cpu-cycles" | "ref-cycles" | "bus-cycles" => "cycles",
        "instructions" => "instructions",
        "page-faults" | "faults" | "minor-faults" | "major-faults" => "faults",
        "context-switches" | "cs" => "switches",
        "cpu-migrations" | "migrations" => "migrations",
        name if name.ends_with("-misses") => "misses",
        name if name.ends_with("-references") || name.ends_with("-loads") => "accesses",
        "branches" | "branch-instructions" => "branches",
        _ => "events",
    }
}

/// True for events that come at a steady rate while a thread runs.
pub(crate) fn is_clock(name: &str) -> bool {
    matches!(name, "cycles" | "cpu-cycles" | "ref-cycles" | "instructions" | "task-clock")
        || matches!(name, "cpu-clock" | "bus-cycles")
}

/// True where the period of a sample is in nanoseconds.
pub(crate) fn is_in_nanoseconds(name: &str) -> bool {
    matches!(name, "cpu-clock" | "task-clock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_all_spellings() {
        let check = |word: &str, name: Option<&str>| {
            assert_eq!(event_name(word.as_bytes()), name.map(str::as_bytes), "{word}");
        };
        check("branches:uH:", Some("branches"));
        check("cycles:u:", Some("cycles"));
        check("cpu-clock:", Some("cpu-clock"));
        check("branch-misses/period=50/u:", Some("branch-misses"));
        check("cpu_core/cycles/P:", Some("cycles"));
        check("intel_pt//u:", Some("intel_pt"));
        check("sched:sched_switch:", Some("sched:sched_switch"));
        check("probe_libc:malloc__return:", Some("probe_libc:malloc__return"));
        check("cycles", None);
        check(":", None);
    }
}
