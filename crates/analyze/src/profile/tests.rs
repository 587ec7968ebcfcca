//! Profiles against a painter that visits every nanosecond.

use std::sync::Arc;

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanwise_model::{LabelValue, Profile, SpanKind, Trace};

use super::*;
use crate::base::sample::Sample;

/// The rows of one value, as `root;…;leaf` → sum.
fn folded(profile: &Profile, value_type: usize) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let value = profile.values_of(row)[value_type];
        if value != 0 {
            let mut frames: Vec<&str> =
                profile.frames_of(sample.stack).map(|frame| profile.text(frame.name)).collect();
            frames.reverse();
            *rows.entry(frames.join(";")).or_insert(0) += value;
        }
    }
    rows
}

/// The sums of one value by one label.
fn by_label(profile: &Profile, value_type: usize, key: &str) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let labels = &profile.label_sets[sample.labels as usize];
        let label = labels.iter().find(|label| profile.text(label.key) == key);
        let text = label.map_or(String::new(), |label| match label.value {
            LabelValue::Text(text) => profile.text(text).to_owned(),
            LabelValue::Number { value, .. } => value.to_string(),
        });
        *rows.entry(text).or_insert(0) += profile.values_of(row)[value_type];
    }
    rows.retain(|_, value| *value != 0);
    rows
}

#[track_caller]
fn check(rows: &BTreeMap<String, i64>, expected: &[(&str, i64)]) {
    let rows: Vec<(&str, i64)> = rows.iter().map(|(key, value)| (&**key, *value)).collect();
    assert_eq!(rows, expected);
}

fn wall(trace: &Arc<Trace>) -> BTreeMap<String, i64> {
    folded(&profile(trace, &ProfileOptions::default()), value::WALL)
}

#[test]
fn time_stands_on_everything_that_is_open() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Python, "a.py(1): f", 0, 100);
    sample.span("1", SpanKind::Operator, "mm", 20, 30);
    check(&wall(&sample.finish()), &[("a.py(1): f", 70), ("a.py(1): f;mm", 30)]);
}

#[test]
fn a_span_that_ends_below_another_leaves_the_middle() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Other, "a", 0, 100);
    sample.span("1", SpanKind::Other, "b", 10, 30);
    sample.span("1", SpanKind::Other, "c", 20, 50);
    let expected = [("a", 40), ("a;b", 10), ("a;b;c", 20), ("a;c", 30)];
    check(&wall(&sample.finish()), &expected);
}

#[test]
fn asynchronous_ranges_do_not_hide_the_work() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Operator, "all_reduce", 0, 10);
    sample.span("1", SpanKind::Annotation, "nccl:all_reduce", 5, 1000);
    sample.span("1", SpanKind::Operator, "mm", 20, 30);
    check(&wall(&sample.finish()), &[("all_reduce", 10), ("mm", 30)]);
}

fn launching() -> Arc<Trace> {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Annotation, "ProfilerStep#7", 0, 100);
    sample.span("1", SpanKind::Python, "a.py(1): f", 1, 80);
    sample.span("1", SpanKind::Python, "nn.Module: Net_0", 2, 70);
    sample.span("1", SpanKind::Operator, "mm", 3, 50);
    sample.call("1", 10, 5, 1);
    sample.call("1", 20, 5, 2);
    sample.work("7", SpanKind::Kernel, "gemm", (200, 40), 1);
    sample.work("8", SpanKind::Kernel, "gemm", (220, 41), 2);
    sample.work("7", SpanKind::Memset, "fill", (300, 5), 99);
    sample.finish()
}

#[test]
fn gpu_time_stands_on_the_launching_stack() {
    let trace = launching();
    let mixed = profile(&trace, &ProfileOptions::default());
    let stack = "ProfilerStep#7;a.py(1): f;nn.Module: Net_0;mm;cudaLaunchKernel;gemm";
    let early = "[launched before the recording];fill";
    check(&folded(&mixed, value::GPU), &[(stack, 81), (early, 5)]);
    // 20 of the 41 ns in common go to each, the odd one to the first.
    check(&folded(&mixed, value::GPU_BUSY), &[(stack, 61), (early, 5)]);
    check(&folded(&mixed, value::GPU_LAUNCHES), &[(stack, 2), (early, 1)]);
    check(&by_label(&mixed, value::GPU, "step"), &[("", 5), ("7", 81)]);
    check(&by_label(&mixed, value::GPU, "phase"), &[("", 5), ("forward", 81)]);
    check(&by_label(&mixed, value::GPU, "stream"), &[("stream 7", 45), ("stream 8", 41)]);
}

#[test]
fn modes_choose_the_frames() {
    let trace = launching();
    let of = |stack| {
        let options = ProfileOptions { stack, ..ProfileOptions::default() };
        folded(&profile(&trace, &options), value::GPU).into_keys().next_back()
    };
    assert_eq!(of(StackMode::Python).as_deref(), Some("a.py(1): f;nn.Module: Net_0;gemm"));
    assert_eq!(of(StackMode::Modules).as_deref(), Some("nn.Module: Net_0;gemm"));
    let operators = "ProfilerStep#7;mm;cudaLaunchKernel;gemm";
    let options = ProfileOptions { stack: StackMode::Operators, ..ProfileOptions::default() };
    let rows = folded(&profile(&trace, &options), value::GPU);
    assert_eq!(rows.get(operators), Some(&81));
    // Whatever is left out of the stacks, the time is still all there.
    for stack in [StackMode::Python, StackMode::Operators, StackMode::Modules] {
        let options = ProfileOptions { stack, ..ProfileOptions::default() };
        assert_eq!(profile(&trace, &options).totals()[value::WALL], 100);
    }
}

#[test]
fn backward_work_can_stand_under_its_forward_stack() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Python, "a.py(1): f", 0, 50);
    sample.span("1", SpanKind::Operator, "mm", 10, 10);
    sample.span("2", SpanKind::Operator, "MmBackward", 100, 30);
    sample.call("2", 110, 5, 1);
    sample.work("7", SpanKind::Kernel, "gemm", (200, 40), 1);
    sample.forward_backward(("1", 10), ("2", 100), 3);
    let trace = sample.finish();
    let options = ProfileOptions { backward: Backward::ForwardStack, ..Default::default() };
    let gpu = folded(&profile(&trace, &options), value::GPU);
    check(&gpu, &[("a.py(1): f;mm;[backward of];MmBackward;cudaLaunchKernel;gemm", 40)]);
    let own = folded(&profile(&trace, &ProfileOptions::default()), value::GPU);
    check(&own, &[("MmBackward;cudaLaunchKernel;gemm", 40)]);
}

#[test]
fn memory_stands_on_the_stack_that_asked_for_it() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Python, "a.py(1): f", 0, 100);
    sample.span("1", SpanKind::Operator, "mm", 20, 30);
    sample.memory("1", 10, 1, 64, 100, 1100);
    sample.memory("1", 25, 1, 65, 300, 1400);
    sample.memory("1", 60, 1, 65, -300, 1100);
    sample.memory("1", 70, 1, 99, -200, 900);
    sample.memory("1", 80, 0, 64, 7, 7);
    let profile = profile(&sample.finish(), &ProfileOptions::default());
    let (early, line, operator) = (crate::BEFORE_RECORDING, "a.py(1): f", "a.py(1): f;mm");
    let rows = |value| folded(&profile, value);
    check(&rows(value::ALLOC_BYTES), &[(line, 107), (operator, 300)]);
    check(&rows(value::PEAK_BYTES), &[(early, 1000), (line, 107), (operator, 300)]);
    check(&rows(value::PEAK_OBJECTS), &[(early, 1), (line, 2), (operator, 1)]);
    check(&rows(value::INUSE_BYTES), &[(early, 800), (line, 107)]);
    check(&rows(value::INUSE_OBJECTS), &[(line, 2)]);
    // By device it is the peak and the end of each.
    check(&by_label(&profile, value::PEAK_BYTES, "device"), &[("cpu", 7), ("gpu0", 1400)]);
    check(&by_label(&profile, value::INUSE_BYTES, "device"), &[("cpu", 7), ("gpu0", 900)]);
}

#[test]
fn waiting_is_a_state() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Python, "a.py(1): f", 0, 100);
    sample.span("1", SpanKind::Runtime, "cudaStreamSynchronize", 20, 30);
    let profile = profile(&sample.finish(), &ProfileOptions::default());
    check(&by_label(&profile, value::WALL, "state"), &[("running", 70), ("waiting", 30)]);
}

#[test]
fn a_stack_deeper_than_the_limit_keeps_the_sum() {
    let mut sample = Sample::default();
    for at in 0..1500 {
        sample.span("1", SpanKind::Other, "f", at, 2000);
    }
    let trace = sample.finish();
    let whole = profile(&trace, &ProfileOptions::default());
    assert_eq!(whole.totals()[value::WALL], 1499 + 2000);
    let shares = Shares { max: 3, rows_min: 1 };
    assert_eq!(profile_in(shares, &trace, &ProfileOptions::default()), whole);
}

/// (thread, name, start, length)
type Quick = (u8, u8, i64, i64);

/// Random spans of two threads.
/// Where each stack would have to be made anew for every end, spans stand on what encloses
/// them; every instant still has the span that began last.
#[test]
fn spans_that_overlap_by_the_hundred_stand_on_what_encloses_them() {
    let (mut sample, count) = (Sample::default(), 400);
    sample.span("1", SpanKind::Python, "all", 0, 4 * count);
    for at in 0..count {
        sample.span("1", SpanKind::Operator, &format!("f{at}"), 1 + at, count);
    }
    let trace = sample.finish();
    let profile = profile(&trace, &ProfileOptions::default());
    let rows = folded(&profile, value::WALL);
    // The last one is on top half of the time, most of it without the others below.
    assert!(rows[&format!("all;f{}", count - 1)] > 3 * count / 4);
    let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
    for (stack, &ns) in &rows {
        *by_name.entry(stack.rsplit(';').next().unwrap_or("")).or_default() += ns;
    }
    let self_time = crate::self_time(&trace);
    for span in trace.spans().ids() {
        let expected = self_time.span_ns[span.index()];
        assert_eq!(by_name.get(trace.name(span)).copied().unwrap_or(0), expected);
    }
    let stacks_max = 16 * trace.spans().len() + 4096 + 2 * trace.spans().len();
    assert!(profile.stack_parents.len() < stacks_max, "{}", profile.stack_parents.len());
    assert!(profile.comments.iter().any(|text| text.contains("enclose")), "{:?}", profile.comments);
}

fn random_spans() -> impl Strategy<Value = Vec<Quick>> {
    prop::collection::vec((0u8..2, 0u8..4, 0i64..40, 0i64..25), 0..30)
}

fn build(spans: &[Quick]) -> Arc<Trace> {
    sample_of(spans).finish()
}

fn sample_of(spans: &[Quick]) -> Sample {
    let mut sample = Sample::default();
    for &(thread, name, start, dur) in spans {
        sample.span(&thread.to_string(), SpanKind::Other, &format!("f{name}"), start, dur);
    }
    sample
}

/// Visits every nanosecond of every thread.
fn painted(spans: &[Quick]) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for thread in 0..2 {
        let mut order: Vec<(usize, &Quick)> =
            spans.iter().enumerate().filter(|(_, span)| span.0 == thread).collect();
        order.sort_by_key(|&(at, &(_, _, start, dur))| (start, -dur, at));
        for time in 0..80 {
            let open = order.iter().filter(|(_, s)| s.2 <= time && time < s.2 + s.3);
            let stack: Vec<String> = open.map(|(_, span)| format!("f{}", span.1)).collect();
            if !stack.is_empty() {
                *rows.entry(stack.join(";")).or_insert(0) += 1;
            }
        }
    }
    rows
}

/// Those that nest properly in all before them. A cut makes starts equal, and of
/// equal starts the longest is taken as the outer one: only nesting survives that.
fn nested(spans: Vec<Quick>) -> Vec<Quick> {
    let mut kept: Vec<Quick> = Vec::new();
    for new in spans {
        let fits = |old: &Quick| {
            let (new_end, old_end) = (new.2 + new.3, old.2 + old.3);
            let is_inside = old.2 < new.2 && new_end < old_end;
            let is_around = new.2 < old.2 && old_end < new_end;
            old.0 != new.0 || new_end <= old.2 || old_end <= new.2 || is_inside || is_around
        };
        if kept.iter().all(fits) {
            kept.push(new);
        }
    }
    kept
}

proptest! {
    #[test]
    fn wall_time_is_what_a_painter_sees(spans in random_spans()) {
        prop_assert_eq!(wall(&build(&spans)), painted(&spans));
    }

    #[test]
    fn the_order_of_events_does_not_show(spans in random_spans(), seed in any::<u64>()) {
        // Of equal spans file order decides which is inner: make all of them differ.
        let mut spans = spans;
        spans.sort_unstable_by_key(|span| (span.0, span.2, span.3));
        spans.dedup_by_key(|span| (span.0, span.2, span.3));
        let mut shuffled = spans.clone();
        shuffled.sort_by_key(|span| {
            let bytes = format!("{span:?}{seed}");
            spanwise_model::hash_bytes(bytes.as_bytes())
        });
        let options = ProfileOptions::default();
        let (a, b) = (profile(&build(&spans), &options), profile(&build(&shuffled), &options));
        prop_assert_eq!(a, b);
    }

    #[test]
    fn shares_do_not_show(
        spans in random_spans(),
        steps in prop::collection::vec(1..30_i64, 0..4),
        allocations in prop::collection::vec((0..3_u8, 0..70_i64, 1..5_i64), 0..8),
        calls in prop::collection::vec((0..3_u8, 0..60_i64), 0..5),
        max in 2..6_usize,
    ) {
        let mut sample = sample_of(&spans);
        let mut reached = 0;
        for (number, len) in steps.into_iter().enumerate() {
            let name = format!("ProfilerStep#{number}");
            sample.span("step", SpanKind::Annotation, &name, reached, len);
            reached += len;
        }
        for (at, &(thread, time, address)) in allocations.iter().enumerate() {
            sample.memory(&thread.to_string(), time, 1, address, 8, at as i64 * 8);
        }
        for (at, &(thread, time)) in calls.iter().enumerate() {
            sample.call(&thread.to_string(), time, 2, at as u64 + 1);
            sample.work("7", SpanKind::Kernel, "kernel", (time + 5, 10), at as u64 + 1);
        }
        let trace = sample.finish();
        let options = ProfileOptions::default();
        let whole = profile_in(Shares { max: 1, rows_min: 1 }, &trace, &options);
        let shared = profile_in(Shares { max, rows_min: 1 }, &trace, &options);
        prop_assert_eq!(shared, whole);
    }

    #[test]
    fn two_halves_merge_into_the_whole(spans in random_spans(), cut in 0i64..60) {
        let spans = nested(spans);
        let clip = |from: i64, to: i64| -> Vec<Quick> {
            let clipped = spans.iter().map(|&(thread, name, start, dur)| {
                let (low, high) = (start.clamp(from, to), (start + dur).clamp(from, to));
                (thread, name, low, high - low)
            });
            clipped.collect()
        };
        let mut merged = wall(&build(&clip(0, cut)));
        for (stack, ns) in wall(&build(&clip(cut, 100))) {
            *merged.entry(stack).or_insert(0) += ns;
        }
        prop_assert_eq!(merged, wall(&build(&spans)));
    }
}
