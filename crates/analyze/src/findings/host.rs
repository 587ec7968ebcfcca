//! Findings about the host: waiting, and where its work is.

use std::collections::BTreeMap;

use spanwise_model::{SpanId, SpanKind, StrId, TrackId};

use super::{Finding, FindingKind, Thresholds, largest, reaches};
use crate::{Facts, ThreadTime, TotalNanos, WaitKind, main_thread};

/// Calls of one name on one thread that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub thread: String,
    pub call: String,
    pub wait: WaitKind,
    pub count: u64,
    pub total_ns: TotalNanos,
    pub window_ns: TotalNanos,
    pub longest_from: TotalNanos,
    pub longest_ns: TotalNanos,
    /// The line with most of it, and how much.
    pub line: Option<String>,
    pub line_ns: TotalNanos,
}

/// One line of Python under which the main thread works for a good part of the
/// window, calls into libraries included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLine {
    pub thread: String,
    pub line: String,
    pub line_ns: TotalNanos,
    pub window_ns: TotalNanos,
    /// What took most of it there.
    pub inside: Option<TopFunction>,
    /// The first and the last time spent there.
    pub from: TotalNanos,
    pub to: TotalNanos,
}

/// A function, the line it runs under, and its self time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopFunction {
    pub function: String,
    pub line: Option<String>,
    pub self_ns: TotalNanos,
}

#[derive(Default)]
struct WaitSum {
    count: u64,
    total_ns: TotalNanos,
    longest: Option<(TotalNanos, SpanId)>,
    by_line: BTreeMap<Option<StrId>, TotalNanos>,
}

/// Waiting calls by thread and name: all that wait for a GPU, the rest on the main
/// thread only, since a worker that waits for work is doing its job.
pub(super) fn waiting(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let spans = facts.trace().spans();
    let main = main_thread(facts.threads()).map(|thread| thread.track);
    let mut sums: BTreeMap<(TrackId, WaitKind, StrId), WaitSum> = BTreeMap::new();
    for (call, waited_ns) in waited_by_call(facts) {
        let (Some(wait), track) = (facts.waits().kind(call), spans.track(call)) else { continue };
        if wait != WaitKind::Gpu && Some(track) != main {
            continue;
        }
        let sum = sums.entry((track, wait, facts.names().merged(spans.name(call)))).or_default();
        sum.count += 1;
        sum.total_ns += waited_ns;
        if sum.longest.is_none_or(|(longest, _)| waited_ns > longest) {
            sum.longest = Some((waited_ns, call));
        }
        *sum.by_line.entry(facts.line(call)).or_default() += waited_ns;
    }
    let mut found = Vec::new();
    for ((track, wait, name), sum) in sums {
        let Some((longest_ns, longest)) = sum.longest else { continue };
        if !reaches(sum.total_ns, facts.window_ns(), thresholds.waiting_percent) {
            continue;
        }
        let (line, line_ns) = largest(&sum.by_line);
        let thread = facts.threads().iter().find(|thread| thread.track == track);
        let kind = FindingKind::Waiting(Waiting {
            thread: thread.map(thread_label).unwrap_or_default(),
            call: facts.text(name),
            wait,
            count: sum.count,
            total_ns: sum.total_ns,
            window_ns: facts.window_ns(),
            longest_from: facts.since_start(spans.start(longest)),
            longest_ns,
            line: line.map(|line| facts.text(line)),
            line_ns,
        });
        // The backward pass is work, on another thread.
        let gain_ns = (wait != WaitKind::Autograd).then_some(sum.total_ns);
        found.push(Finding { kind, about_ns: sum.total_ns, gain_ns });
    }
    found
}

/// How long each outermost waiting call waited, itself or further down.
fn waited_by_call(facts: &Facts) -> BTreeMap<SpanId, TotalNanos> {
    let mut waited = BTreeMap::new();
    for span in facts.trace().spans().ids() {
        if let (Some(_), Some(call)) = (facts.waits().kind(span), facts.waits().call(span)) {
            let self_ns = i128::from(facts.self_time().span_ns[span.index()]);
            *waited.entry(call).or_default() += self_ns;
        }
    }
    waited
}

pub(super) fn host_line(facts: &Facts, thresholds: &Thresholds) -> Option<Finding> {
    let thread = main_thread(facts.threads())?;
    let spans = facts.trace().spans();
    let is_work = |&span: &SpanId| {
        facts.waits().kind(span).is_none() && facts.trace().kind(span) != SpanKind::Annotation
    };
    let work = || facts.trace().tracks().get(thread.track).span_ids().filter(is_work);
    // By number of the name: a map would be asked for every span.
    let mut by_line: Vec<TotalNanos> = vec![0; facts.trace().strings().len()];
    for span in work() {
        if let Some(line) = facts.line(span) {
            by_line[line.index()] += i128::from(facts.self_time().span_ns[span.index()]);
        }
    }
    let (at, &line_ns) = by_line.iter().enumerate().rev().max_by_key(|&(_, &ns)| ns)?;
    if !reaches(line_ns, facts.window_ns(), thresholds.host_line_percent) {
        return None;
    }
    let line = StrId(at as u32);
    let there: Vec<SpanId> = work().filter(|&span| facts.line(span) == Some(line)).collect();
    let first = *there.first()?;
    let end = there.iter().map(|&span| spans.end(span)).max()?;
    let self_times = there.iter().map(|&span| (span, facts.self_time().span_ns[span.index()]));
    let kind = FindingKind::HostLine(HostLine {
        thread: thread_label(thread),
        line: facts.text(line),
        line_ns,
        window_ns: facts.window_ns(),
        inside: facts.mostly(self_times).map(|doing| TopFunction { line: None, ..doing }),
        from: facts.since_start(spans.start(first)),
        to: facts.since_start(end),
    });
    Some(Finding { kind, about_ns: line_ns, gain_ns: Some(line_ns) })
}

fn thread_label(thread: &ThreadTime) -> String {
    match thread.thread_name.trim() {
        "" => format!("thread {}", thread.thread),
        name => name.to_owned(),
    }
}
