//! Several traces on one timeline: clocks, ids, names.

use spanwise_model::{
    BOOT_PROPERTY, Batch, MergePart, MergedClock, MergedTrace, NO_KEY, SourceInfo, SpanKind,
    SpanRow, Trace, TraceBuilder, TrackKind, TrackLabel, merge,
};

/// Spans (start, length, kind) of one track, and when the clock began.
type Recording<'a> = (Option<i64>, &'a [(i64, i64, SpanKind)]);

const WORK: SpanKind = SpanKind::Other;

fn trace(recording: Recording<'_>) -> Trace {
    let (base_time_ns, rows) = recording;
    trace_with(SourceInfo { base_time_ns, ..SourceInfo::default() }, rows)
}

fn trace_with(info: SourceInfo, rows: &[(i64, i64, SpanKind)]) -> Trace {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Thread, "414", "1");
    for (at, &(start, dur, kind)) in rows.iter().enumerate() {
        let (name, category) = (batch.string("work"), batch.category(&format!("{kind:?}"), kind));
        let row = SpanRow { start, dur, key: NO_KEY, offset: at as u64, name, category };
        batch.push_span(track, row);
    }
    batch.seal();
    let mut builder = TraceBuilder::new(1);
    builder.push(batch);
    builder.finish(info, None)
}

fn merged(recordings: &[Recording<'_>]) -> MergedTrace {
    let parts = recordings.iter().enumerate();
    let parts = parts
        .map(|(at, &recording)| MergePart { name: format!("rank {at}"), trace: trace(recording) });
    merge(parts.collect()).expect("few spans")
}

#[track_caller]
fn check(recordings: &[Recording<'_>], expected: (MergedClock, Option<i64>, &[i64])) {
    let MergedTrace { trace, clock } = merged(recordings);
    assert_eq!(trace.check(), Ok(()));
    let starts: Vec<i64> = trace.spans().start_column().to_vec();
    assert_eq!((clock, trace.info().base_time_ns, &starts[..]), expected);
}

#[test]
fn clocks_that_are_known_become_one() {
    let common = MergedClock::Common;
    check(
        &[(Some(1000), &[(5, 1, WORK)]), (Some(400), &[(7, 1, WORK), (9, 1, WORK)])],
        (common, Some(400), &[605, 7, 9]),
    );
    check(&[(Some(1000), &[]), (Some(400), &[(7, 1, WORK)])], (common, Some(400), &[7]));
    // Times that count since 1970 need no base.
    let far = 1_700_000_000_000_000_000;
    check(
        &[(None, &[(far + 3, 1, WORK)]), (Some(far), &[(5, 1, WORK)])],
        (common, Some(0), &[far + 3, far + 5]),
    );
}

#[test]
fn traces_of_one_boot_share_its_clock() {
    // The calendar was set while the second was recorded; the last one is of another machine.
    let parts =
        [(1000, "one", 5), (1600, "one", 7), (1000, "two", 9)].map(|(base, boot, start)| {
            let mut info = SourceInfo { base_time_ns: Some(base), ..SourceInfo::default() };
            info.properties.insert(BOOT_PROPERTY.to_owned(), boot.to_owned());
            let trace = trace_with(info, &[(start, 1, WORK)]);
            MergePart { name: format!("{boot} {base}"), trace }
        });
    let MergedTrace { trace, clock } = merge(parts.into()).expect("few spans");
    assert_eq!((clock, trace.info().base_time_ns), (MergedClock::Common, Some(1000)));
    assert_eq!(trace.spans().start_column().to_vec(), [5, 7, 9]);
}

#[test]
fn clocks_that_are_not_begin_together() {
    let aligned = MergedClock::StartsAligned;
    check(
        &[(None, &[(50, 1, WORK), (60, 1, WORK)]), (Some(400), &[(7, 1, WORK)])],
        (aligned, None, &[0, 10, 0]),
    );
    // No 64 bits hold these two on one clock.
    check(
        &[(Some(i64::MAX), &[(9, 1, WORK)]), (Some(-5), &[(2, 1, WORK)])],
        (aligned, None, &[0, 0]),
    );
    // Nor the length of this one: it stays.
    check(
        &[(None, &[(i64::MIN, 0, WORK), (i64::MAX, 0, WORK)])],
        (aligned, None, &[i64::MIN, i64::MAX]),
    );
}

#[test]
fn lost_timestamps_stay_zero() {
    let lost = (0, 0, SpanKind::Kernel);
    check(
        &[(Some(0), &[(8, 1, WORK)]), (Some(100), &[lost, lost, (9, 1, SpanKind::Kernel)])],
        (MergedClock::Common, Some(0), &[8, 0, 0, 109]),
    );
    check(
        &[(None, &[lost, (9, 1, SpanKind::Kernel)])],
        (MergedClock::StartsAligned, None, &[-9, 0]),
    );
}

/// The process of one span, by id and name, in the second of two parts.
#[track_caller]
fn check_process(kind: SpanKind, process: &str, name: &str, expected: (&str, &str)) {
    let part = || {
        let mut batch = Batch::default();
        let track = batch.track(TrackKind::Thread, process, "1");
        let text = batch.string(name);
        batch.label(track, TrackLabel::ProcessName(text));
        let category = batch.category("work", kind);
        let row = SpanRow { start: 1, dur: 1, key: NO_KEY, offset: 0, name: text, category };
        batch.push_span(track, row);
        batch.seal();
        let mut builder = TraceBuilder::new(1);
        builder.push(batch);
        builder.finish(SourceInfo::default(), None)
    };
    let parts = [("rank 0", part()), ("rank 1", part())];
    let parts = parts.map(|(name, trace)| MergePart { name: name.to_owned(), trace });
    let whole = merge(parts.into()).expect("few spans").trace;
    let track = &whole.tracks().rows()[1];
    let text = |id| whole.strings().get(id);
    assert_eq!((text(track.process), text(track.process_name)), expected);
}

#[test]
fn processes_are_distinguished() {
    check_process(WORK, "414", "", ("1414", "rank 1 · process 414"));
    check_process(WORK, "414", "python3", ("1414", "rank 1 · python3"));
    check_process(WORK, "Spans", "", ("rank 1/Spans", "rank 1 · Spans"));
    check_process(WORK, "", "", ("rank 1/", "rank 1"));
    check_process(SpanKind::Kernel, "0", "", ("1000", "rank 1 · GPU 0"));
    check_process(SpanKind::Kernel, "0", "python3", ("1000", "rank 1 · GPU 0 (python3)"));
    check_process(SpanKind::Kernel, "0", "GPU 0", ("1000", "rank 1 · GPU 0"));
}
