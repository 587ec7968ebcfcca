//! What samples and thread states say of a span that was drawn from them.

use serde_json::{Value, json};
use spanwise_analyze::sampled_call;
use spanwise_model::{NO_CPU, NO_LOCK, SpanId, SpanKind, StackId, StateRow, StrId, TrackId};

use super::slices::short;
use crate::viewed::TraceView;

/// Frames and lines of which there may be very many: the first.
const FRAMES_MAX: usize = 200;
const LINES_MAX: usize = 20;

/// Samples of a call that was drawn from them; null for other spans.
pub(super) fn sampled(viewed: &TraceView, span: SpanId) -> Value {
    let trace = &viewed.trace;
    let Some(call) = sampled_call(trace, viewed.facts.cpu_time(), span) else { return Value::Null };
    let events = call.events.iter().map(|row| {
        let event = trace.sample_events().rows()[usize::from(row.event)];
        let (name, unit) = (text(viewed, event.name), text(viewed, event.unit));
        let is_cpu = Some(row.event) == viewed.facts.cpu_time().event;
        let (samples, weight) = (row.samples, row.weight as f64);
        json!({ "name": name, "unit": unit, "samples": samples, "weight": weight, "cpu": is_cpu })
    });
    let lines = call.lines.iter().filter(|row| row.file != StrId::EMPTY || row.line > 0);
    let lines = lines.take(LINES_MAX).map(|row| {
        let cpu_ns = call.cpu_ns.map(|_| row.cpu_ns as f64);
        let line = (row.line > 0).then_some(row.line);
        json!({
            "file": text(viewed, row.file), "line": line, "samples": row.samples, "cpu": cpu_ns,
        })
    });
    json!({
        "mapping": text(viewed, call.mapping),
        "cpu": call.cpu_ns.map(|ns| ns as f64),
        "events": events.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
    })
}

/// The thread state that a span was drawn from, or null.
pub(super) fn state(viewed: &TraceView, span: SpanId) -> Value {
    let Some(row) = state_of(viewed, span) else { return Value::Null };
    let waker = row.waker.map(|track| json!({ "track": track.0, "name": thread(viewed, track) }));
    let is_idle = matches!(row.state, spanwise_model::ThreadState::Blocked(on) if on.is_idle());
    json!({
        "state": row.state.text(),
        "reason": row.state.reason(),
        "idle": is_idle,
        "cpu": (row.cpu != NO_CPU).then_some(row.cpu),
        "stack": stack(viewed, row.stack),
        "waker": waker,
        "waker_stack": stack(viewed, row.waker_stack),
        "lock": (row.lock != NO_LOCK).then(|| format!("{:#x}", row.lock)),
    })
}

/// The state at the start of a span that says so.
fn state_of(viewed: &TraceView, span: SpanId) -> Option<StateRow> {
    let trace = &viewed.trace;
    if !matches!(trace.kind(span), SpanKind::OffCpu | SpanKind::LockWait) {
        return None;
    }
    let (states, start) = (trace.thread_states(), trace.spans().start(span));
    let rows = states.of_track(trace.spans().track(span));
    let behind = rows.start + states.start[rows.clone()].partition_point(|&time| time <= start);
    let row = behind.checked_sub(1).filter(|row| rows.contains(row))?;
    let counted = states.counted(row);
    (counted.start.saturating_add(counted.dur) > start).then_some(counted)
}

/// Frames, innermost first.
fn stack(viewed: &TraceView, stack: StackId) -> Vec<Value> {
    let trace = &viewed.trace;
    let frames = trace.stacks().frames(stack).take(FRAMES_MAX);
    let frames = frames.map(|frame| {
        let frame = trace.frames().get(frame);
        let line = (frame.line > 0).then_some(frame.line);
        json!({
            "name": short(&spanwise_analyze::frame_name(trace, &frame)),
            "file": text(viewed, frame.file),
            "line": line,
            "mapping": text(viewed, frame.mapping),
        })
    });
    frames.collect()
}

fn thread(viewed: &TraceView, track: TrackId) -> String {
    let track = viewed.trace.tracks().get(track);
    let text = |id| viewed.trace.strings().get(id);
    match text(track.thread_name) {
        "" => text(track.thread).to_owned(),
        name => format!("{name} {}", text(track.thread)),
    }
}

/// A text that is known.
fn text(viewed: &TraceView, id: StrId) -> Option<&str> {
    Some(viewed.trace.strings().get(id)).filter(|text| !text.is_empty())
}
