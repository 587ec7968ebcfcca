//! Does the trace hold what it promises, and what is odd about its data?
//!
//! A violated check is a bug of spanwise or a damaged index: nothing that was
//! computed from the trace can be trusted. A note is an oddity of the recording,
//! worth knowing before one believes a number that depends on it.

use spanwise_model::{NoticeKind, SpanId, Trace, TrackKind};

use crate::gpu::usage::gpu_work;
use crate::{Frames, Names, TotalNanos, gpu_use, self_time};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    Ok,
    Note,
    Violated,
}

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    /// Columns, ids, order and parents are sound (I2–I4).
    Model,
    /// Self times of each thread add up to the union of its spans (I9).
    SelfTimeAddsUp,
    /// GPU time by launching line adds up to all GPU work (I9).
    GpuTimeAddsUp,
    /// Nothing of the source was left out, as far as the reader noticed.
    NothingLost,
    /// Something was: this sort of thing.
    Lost(NoticeKind),
    /// GPU work without a launching call.
    GpuWorkUnlinked,
    /// GPU work that began before its launching call did.
    GpuWorkBeforeLaunch,
    /// GPU work that began before the work ahead of it on its stream ended.
    GpuStreamOverlap,
    /// GPU work with time 0.
    TimestampLost,
    /// Spans on threads that outlive the span they began in.
    SpansNotNested,
    /// Spans without length.
    ZeroDuration,
    /// Spans longer than a year.
    AbsurdDuration,
}

/// One check and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub kind: CheckKind,
    pub status: CheckStatus,
    /// How many rows are wrong or odd.
    pub count: u64,
    /// Out of so many.
    pub of: u64,
    /// Their time, where it says something.
    pub total_ns: Option<TotalNanos>,
    /// What is wrong, where there is more to say than the count.
    pub detail: Option<String>,
}

const YEAR_NS: i64 = 365 * 24 * 3600 * 1_000_000_000;

/// Instants and broken recorders leave a few spans without length anywhere.
const ZERO_DURATION_NOTED_PERCENT: u64 = 1;

/// Every check that applies, the promises first.
pub fn quality(trace: &Trace) -> Vec<Check> {
    if let Err(violation) = trace.check() {
        // Ids may lead astray: nothing further can be asked of this trace.
        let detail = Some(violation.to_string());
        let status = CheckStatus::Violated;
        return vec![Check { status, detail, ..check(CheckKind::Model, 1, trace.spans().len()) }];
    }
    let mut checks = vec![check(CheckKind::Model, 0, trace.spans().len())];
    checks.push(self_time_adds_up(trace));
    checks.extend(losses(trace));
    if gpu_work(trace).next().is_some() {
        checks.push(gpu_time_adds_up(trace));
        checks.extend(gpu_checks(trace));
    }
    checks.extend(span_checks(trace));
    checks
}

/// A check that is fine when its count is 0 and worth a note otherwise.
fn check(kind: CheckKind, count: u64, of: usize) -> Check {
    let status = if count == 0 { CheckStatus::Ok } else { CheckStatus::Note };
    Check { kind, status, count, of: of as u64, total_ns: None, detail: None }
}

fn self_time_adds_up(trace: &Trace) -> Check {
    let time = self_time(trace);
    let threads: Vec<_> = time.threads.iter().filter(|thread| thread.spans > 0).collect();
    let wrong = || threads.iter().filter(|thread| thread.self_ns != thread.busy_ns);
    let mut result = check(CheckKind::SelfTimeAddsUp, wrong().count() as u64, threads.len());
    result.total_ns = Some(threads.iter().map(|thread| thread.self_ns).sum());
    if let Some(thread) = wrong().next() {
        result.status = CheckStatus::Violated;
        result.detail = Some(format!(
            "track {}: self times add up to {} ns, spans cover {} ns",
            thread.track.0, thread.self_ns, thread.busy_ns
        ));
    }
    result
}

fn gpu_time_adds_up(trace: &Trace) -> Check {
    let gpu = gpu_use(trace, &Frames::new(trace), &Names::new(trace));
    let mut work_ns: TotalNanos = 0;
    let mut work_count = 0;
    for span in gpu_work(trace) {
        work_ns += i128::from(trace.spans().dur(span));
        work_count += 1;
    }
    let by_line: TotalNanos = gpu.lines.iter().map(|row| row.total_ns).sum();
    let by_name: TotalNanos = gpu.work.iter().map(|row| row.total_ns).sum();
    let is_equal = by_line == work_ns && by_name == work_ns && gpu.work_count == work_count;
    let mut result = check(CheckKind::GpuTimeAddsUp, u64::from(!is_equal), gpu.work_count as usize);
    result.total_ns = Some(work_ns);
    if !is_equal {
        result.status = CheckStatus::Violated;
        result.detail = Some(format!(
            "GPU work takes {work_ns} ns, by line {by_line} ns, by name {by_name} ns"
        ));
    }
    result
}

fn losses(trace: &Trace) -> Vec<Check> {
    let events = usize::try_from(trace.info().events()).unwrap_or(usize::MAX);
    let lost = trace.notices().iter().filter(|notice| notice.kind.is_loss());
    let rows: Vec<Check> = lost
        .map(|notice| Check {
            detail: Some(match notice.example.as_str() {
                "" => format!("first at byte {}", notice.first_offset),
                example => format!("first at byte {}: {example}", notice.first_offset),
            }),
            ..check(CheckKind::Lost(notice.kind), notice.count, events)
        })
        .collect();
    match rows.is_empty() {
        true => vec![check(CheckKind::NothingLost, 0, events)],
        false => rows,
    }
}

fn gpu_checks(trace: &Trace) -> [Check; 4] {
    let spans = trace.spans();
    let (mut work, mut unlinked, mut unlinked_ns, mut early, mut lost) = (0, 0, 0, 0, 0);
    for span in gpu_work(trace) {
        work += 1;
        match spans.launch(span) {
            None => {
                unlinked += 1;
                unlinked_ns += i128::from(spans.dur(span));
            }
            Some(call) => early += u64::from(spans.start(span) < spans.start(call)),
        }
        lost += u64::from(spans.start(span) == 0 && spans.dur(span) == 0);
    }
    let mut unlinked = check(CheckKind::GpuWorkUnlinked, unlinked, work);
    unlinked.total_ns = Some(unlinked_ns);
    [
        unlinked,
        check(CheckKind::GpuWorkBeforeLaunch, early, work),
        check(CheckKind::GpuStreamOverlap, stream_overlaps(trace), work),
        check(CheckKind::TimestampLost, lost, work),
    ]
}

fn stream_overlaps(trace: &Trace) -> u64 {
    let streams = trace.tracks().rows().iter().filter(|row| row.kind == TrackKind::GpuStream);
    let mut overlaps = 0;
    for stream in streams {
        let mut reached = i64::MIN;
        for span in stream.span_ids().filter(|&span| trace.kind(span).is_gpu_work()) {
            overlaps += u64::from(trace.spans().start(span) < reached);
            reached = reached.max(trace.spans().end(span));
        }
    }
    overlaps
}

fn span_checks(trace: &Trace) -> [Check; 3] {
    let spans = trace.spans();
    let on_stack = |span: SpanId| trace.kind(span).is_on_stack();
    let (mut stacked, mut not_nested, mut threads) = (0, 0, 0);
    for track in trace.tracks().rows().iter().filter(|row| row.kind == TrackKind::Thread) {
        let before = not_nested;
        for span in track.span_ids().filter(|&span| on_stack(span)) {
            stacked += 1;
            let parent = spans.parent(span).filter(|&parent| on_stack(parent));
            not_nested += u64::from(parent.is_some_and(|up| spans.end(up) < spans.end(span)));
        }
        threads += u64::from(not_nested > before);
    }
    let mut nested = check(CheckKind::SpansNotNested, not_nested, stacked);
    if threads > 0 {
        nested.detail = Some(format!("on {threads} thread{}", if threads == 1 { "" } else { "s" }));
    }
    let count = |odd: fn(i64) -> bool| spans.dur_column().iter().filter(|&&dur| odd(dur)).count();
    let mut zero = check(CheckKind::ZeroDuration, count(|dur| dur == 0) as u64, spans.len());
    if zero.count * 100 <= zero.of * ZERO_DURATION_NOTED_PERCENT {
        zero.status = CheckStatus::Ok;
    }
    let absurd = count(|dur| dur > YEAR_NS) as u64;
    [nested, zero, check(CheckKind::AbsurdDuration, absurd, spans.len())]
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn assert_check(sample: &mut Sample, kind: CheckKind, status: CheckStatus, count: u64) {
        let checks = quality(&sample.finish());
        let found = checks.iter().find(|check| check.kind == kind).expect("every check is a row");
        assert_eq!((found.status, found.count), (status, count));
    }

    #[test]
    fn a_plain_trace_is_fine() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, 10);
        sample.call("1", 1, 2, 1);
        sample.work("7", SpanKind::Kernel, "mm", (3, 4), 1);
        let checks = quality(&sample.finish());
        assert!(checks.iter().all(|check| check.status == CheckStatus::Ok), "{checks:?}");
    }

    #[test]
    fn gpu_work_without_a_launch_is_noted() {
        let mut sample = Sample::default();
        sample.work("7", SpanKind::Kernel, "mm", (3, 4), 1);
        assert_check(&mut sample, CheckKind::GpuWorkUnlinked, CheckStatus::Note, 1);
    }

    #[test]
    fn gpu_work_ahead_of_its_launch_is_noted() {
        let mut sample = Sample::default();
        sample.call("1", 5, 2, 1);
        sample.work("7", SpanKind::Kernel, "mm", (3, 4), 1);
        assert_check(&mut sample, CheckKind::GpuWorkBeforeLaunch, CheckStatus::Note, 1);
    }

    #[test]
    fn overlap_on_a_stream_is_noted() {
        let mut sample = Sample::default();
        sample.work("7", SpanKind::Kernel, "a", (3, 4), 1);
        sample.work("7", SpanKind::Kernel, "b", (6, 4), 2);
        sample.work("7", SpanKind::Kernel, "c", (10, 4), 3);
        assert_check(&mut sample, CheckKind::GpuStreamOverlap, CheckStatus::Note, 1);
    }

    #[test]
    fn spans_that_outlive_their_parent_are_noted() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, 10);
        sample.span("1", SpanKind::Annotation, "step", 5, 10);
        assert_check(&mut sample, CheckKind::SpansNotNested, CheckStatus::Note, 1);
    }

    #[test]
    fn spans_longer_than_a_year_are_noted() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, YEAR_NS + 1);
        assert_check(&mut sample, CheckKind::AbsurdDuration, CheckStatus::Note, 1);
    }
}
