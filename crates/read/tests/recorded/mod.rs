//! Rings that are not the kernel's, recorded as the kernel's are: what comes out of the recording
//! is what the program did, as far as the rings held it.

mod rings;

use std::path::Path;
use std::time::Duration;

use rings::{COLLISION, PARTIAL, Rings};
use spanwise_capture::{
    ClockOf, FlightOptions, PtOptions, RecordOptions, RecordPolicy, Stacks, TraceRecorded,
    TraceScope, TraceSource, Triggers, record_rings,
};
use spanwise_model::{NoticeKind, Trace};

use super::stepping::cpus::{Keeping, Sharing, deal};
use super::stepping::perf_data::{File, ZERO, is_recorded};
use super::stepping::record::{CRYSTAL, CRYSTAL_SHIFT, FIRST_TICK};
use super::stepping::{RecorderOptions, Step};
use super::{Case, OPTIONS, STATIC, found, read, shadow};

/// The folder in which a kernel describes such hardware.
fn source(folder: &Path) -> TraceSource {
    let periods = format!("{:x}", 1 << CRYSTAL_SHIFT);
    let ratio = format!("{CRYSTAL}:1");
    let files = [
        ("type", "8"),
        ("max_nonturbo_ratio", "24"),
        ("tsc_art_ratio", &ratio),
        ("nr_addr_filters", "2"),
        ("format/pt", "config:0"),
        ("format/cyc", "config:1"),
        ("format/mtc", "config:9"),
        ("format/tsc", "config:10"),
        ("format/noretcomp", "config:11"),
        ("format/branch", "config:13"),
        ("format/mtc_period", "config:14-17"),
        ("format/cyc_thresh", "config:19-22"),
        ("format/psb_period", "config:24-27"),
        ("caps/mtc", "1"),
        ("caps/mtc_periods", &periods),
        ("caps/psb_cyc", "1"),
        ("caps/cycle_thresholds", "3"),
        ("caps/psb_periods", "8"),
    ];
    for name in ["format", "caps"] {
        std::fs::create_dir_all(folder.join(name)).expect("writable");
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), format!("{text}\n")).expect("writable");
    }
    TraceSource::read(folder).expect("a source")
}

/// How a recording is made.
#[derive(Clone, Copy)]
struct Making {
    cpus: usize,
    /// Instructions until another thread has the processor.
    turn: usize,
    ring_bytes: usize,
    keeps_last: bool,
    /// What a processor writes between two reads of its ring, and during one.
    at_once: usize,
    meanwhile: usize,
    /// What the kernel says of pieces besides.
    flags: u64,
    records_max: usize,
}

const MAKING: Making = Making {
    cpus: 1,
    turn: 2000,
    ring_bytes: 2048,
    keeps_last: false,
    at_once: 500,
    meanwhile: 37,
    flags: 0,
    records_max: usize::MAX,
};

struct Recording {
    trace: Trace,
    counts: TraceRecorded,
    /// What the processors had to write.
    stream_bytes: usize,
}

impl Recording {
    fn count(&self, kind: NoticeKind) -> u64 {
        let notices = self.trace.notices().iter().filter(|notice| notice.kind == kind);
        notices.map(|notice| notice.count).sum()
    }
}

fn record(case: &Case, making: Making) -> Recording {
    let threads = case.threads();
    let (pid, code) = (case.stepped.pid, &case.stepped.code);
    let sharing = Sharing { cpus: making.cpus, turn: making.turn, keeping: Keeping::Whole };
    let options = RecorderOptions { psb_every: 300, ..OPTIONS() };
    let (turns, streams) = deal(&threads, code, options, sharing);
    let stream_bytes = streams.iter().map(Vec::len).sum();
    let mut rings = Rings::new(pid, streams, making.ring_bytes, making.keeps_last);
    (rings.meanwhile, rings.flags) = (making.meanwhile, making.flags);
    let say = |rings: &Rings, record: &dyn Fn(&mut File)| {
        let mut file = File::default();
        record(&mut file);
        rings.say(file.into_records());
    };
    say(&rings, &|file| file.named(pid, pid, "stepped"));
    for code in code.iter().filter(|code| is_recorded(code)) {
        say(&rings, &|file| file.mapped(pid, code));
    }
    for thread in threads.iter().filter(|thread| thread.tid != pid) {
        say(&rings, &|file| file.forked(pid, pid, thread.tid, ZERO + FIRST_TICK));
    }
    for turn in &turns {
        let of = (pid, threads[turn.thread].tid);
        say(&rings, &|file| file.switched(of, ZERO + turn.since + 2, turn.cpu as u32, false));
        say(&rings, &|file| file.switched(of, ZERO + turn.until + 5, turn.cpu as u32, true));
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("made.spanwise-recording");
    let source = source(&place.path().join("intel_pt"));
    let mut is_first = true;
    let run = |rings: &mut Rings| {
        let cpus = 0..making.cpus;
        let goes_on = cpus.map(|cpu| rings.run(cpu, making.at_once)).filter(|&on| on).count() > 0;
        let records = rings.read_records();
        if std::mem::take(&mut is_first) {
            rings.records_max = making.records_max;
        }
        (goes_on || !records.is_empty()).then_some(records)
    };
    let (_, counts) =
        record_rings(&mut rings, &source, &how(&folder, making.keeps_last), run).expect("recorded");
    Recording { trace: read(&folder), counts, stream_bytes }
}

fn how(folder: &Path, keeps_last: bool) -> RecordOptions<'_> {
    let flight = FlightOptions {
        bytes: 1 << 20,
        triggers: Triggers::default(),
        warn_of_signal: &|_| {},
        takes_many: false,
    };
    let scope = TraceScope::Program;
    RecordOptions {
        rate_hz: 1,
        stacks: Stacks::FramePointers,
        switches: RecordPolicy::Always,
        clock: ClockOf::Auto,
        wait_stacks: RecordPolicy::Never,
        wait_threshold: Duration::from_millis(1),
        duration: Some(Duration::from_secs(1)),
        python: None,
        calls: None,
        step: None,
        pt: Some(PtOptions { settings: &[], scope, only: &[], until: &[] }),
        children: false,
        torch: false,
        flight: keeps_last.then_some(flight),
        keeps_arguments: false,
        folder: Some(folder),
    }
}

/// Rings are emptied in time: every call is there, also where they are emptied many times over.
#[test]
fn rings_that_are_emptied_hold_everything() {
    let check = |case: &Case, making: Making, least| {
        let made = record(case, making);
        assert!(making.ring_bytes * making.cpus < made.stream_bytes, "{}", made.stream_bytes);
        assert_eq!(made.counts.bytes, made.stream_bytes as u64);
        assert_eq!((made.counts.cuts, made.count(NoticeKind::EventsLost)), (0, 0));
        case.check_trace(&made.trace, <[Step]>::len, least);
    };
    let Some(case) = Case::new("sorts.c", &STATIC, 20_000) else { return };
    check(&case, MAKING, 300);
    check(&case, Making { ring_bytes: 1024, at_once: 333, meanwhile: 0, ..MAKING }, 300);
    let Some(case) = Case::new("threads.c", &["-O1", "-pthread"], 30_000) else { return };
    check(&case, Making { cpus: 2, turn: 300, ring_bytes: 512, at_once: 200, ..MAKING }, 20);
}

/// The reader is too slow: what there was no room for is reported, and the rest is there.
#[test]
fn rings_that_are_emptied_too_late_say_what_is_lost() {
    let Some(case) = Case::new("sorts.c", &STATIC, 20_000) else { return };
    let all = found(&record(&case, MAKING).trace, case.stepped.pid).len();
    let made = record(&case, Making { ring_bytes: 1024, at_once: 1500, ..MAKING });
    assert!(made.counts.cuts > 1 && made.counts.bytes < made.stream_bytes as u64);
    assert_eq!(made.count(NoticeKind::EventsLost), made.counts.cuts);
    assert!(made.count(NoticeKind::DecodeError) > 0);
    let some = found(&made.trace, case.stepped.pid).len();
    assert!(some < all && some > all / 4, "{some} of {all}");
}

/// A ring that is overwritten holds the last calls, in their order and depth.
#[test]
fn rings_that_are_overwritten_hold_the_last_calls() {
    let Some(case) = Case::new("sorts.c", &STATIC, 20_000) else { return };
    let making = Making { keeps_last: true, ..MAKING };
    let whole = record(&case, Making { ring_bytes: 1 << 20, ..making });
    assert_eq!((whole.counts.overwritten, whole.counts.bytes), (0, whole.stream_bytes as u64));
    case.check_trace(&whole.trace, <[Step]>::len, 300);
    let steps = &case.stepped.threads[&case.stepped.pid];
    let made = shadow::calls(steps, &case.stepped.code, &case.symbols());
    for ring_bytes in [1024, 2048] {
        let part = record(&case, Making { ring_bytes, ..making });
        assert_eq!((part.counts.overwritten, part.counts.bytes), (1, ring_bytes as u64));
        let found = found(&part.trace, case.stepped.pid);
        assert!(found.len() < made.len() && found.len() > 20, "{}", found.len());
        // Of what was called before the ring began, only what is returned to is known.
        let known = &found[found.len() / 2..];
        let is_there = |&left: &usize| {
            let end = made.len() - left;
            let made = &made[end - known.len()..end];
            let above = made[0].0 - known[0].0;
            let mut pairs = known.iter().zip(made);
            pairs.all(|(found, made)| found.0 + above == made.0 && made.1.contains(&found.1))
        };
        // What was called last has had no time.
        assert!((0..8).any(|left| is_there(&left)), "{ring_bytes}: {known:?}");
    }
}

/// What the kernel says of gaps, and of records that it had no room for, is reported.
#[test]
fn gaps_and_lost_records_are_reported() {
    let Some(case) = Case::new("leaps.c", &STATIC, 20_000) else { return };
    for flags in [PARTIAL, COLLISION] {
        let made = record(&case, Making { flags, at_once: 100, ..MAKING });
        assert!(made.counts.gaps > 1);
        assert_eq!(made.counts.gaps, made.count(NoticeKind::EventsLost));
    }
    // Room for only one record at a time.
    let made = record(&case, Making { records_max: 64, at_once: 100, ..MAKING });
    assert!(made.count(NoticeKind::EventsLost) > 0);
    case.check_trace(&made.trace, <[Step]>::len, 100);
}
