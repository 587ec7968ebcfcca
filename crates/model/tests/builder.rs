//! Batches in, trace out: order, parents, launches, flows, pairs.

use proptest::prelude::*;
use spanwise_model::{
    AsyncPhase, AsyncRow, Batch, FlowPhase, FlowRow, LinkRow, NO_KEY, NO_ROW, NoticeKind, PairRow,
    SourceInfo, SpanKind, SpanRow, Trace, TraceBuilder, TrackId, TrackKind, TrackLabel,
};

fn finish(batches: Vec<Batch>, threads: usize) -> Trace {
    let mut builder = TraceBuilder::new(threads);
    for mut batch in batches {
        batch.seal();
        builder.push(batch);
    }
    let trace = builder.finish(SourceInfo::default(), None);
    assert_eq!(trace.check(), Ok(()));
    trace
}

/// A span with a key; its name contains the kind.
fn span(batch: &mut Batch, track: TrackId, kind: SpanKind, time: (i64, i64), key: u64) {
    let category = batch.category(&format!("{kind:?}"), kind);
    let name = batch.string(&format!("{kind:?} {key}"));
    let offset = (time.0 as u64) << 20 | key & 0xfffff;
    let (start, dur) = (time.0, time.1 - time.0);
    batch.push_span(track, SpanRow { start, dur, key, offset, name, category });
}

fn notice_counts(trace: &Trace) -> Vec<(NoticeKind, u64)> {
    trace.notices().iter().map(|notice| (notice.kind, notice.count)).collect()
}

/// (name, start, end) of every span.
fn spans(trace: &Trace) -> Vec<(&str, i64, i64)> {
    let spans = trace.spans();
    spans.ids().map(|id| (trace.name(id), spans.start(id), spans.end(id))).collect()
}

/// Rows of `(from, to)` names, for launches and for links.
fn launches(trace: &Trace) -> Vec<(&str, Option<&str>)> {
    let spans = trace.spans();
    let gpu = spans.ids().filter(|&id| trace.kind(id).is_gpu_work());
    gpu.map(|id| (trace.name(id), spans.launch(id).map(|launch| trace.name(launch)))).collect()
}

#[test]
fn gpu_work_finds_the_innermost_call_with_its_id() {
    let mut batch = Batch::default();
    let thread = batch.track(TrackKind::Thread, "1", "1");
    let stream = batch.track(TrackKind::Thread, "0", "7");
    span(&mut batch, thread, SpanKind::Runtime, (0, 10), 5);
    span(&mut batch, thread, SpanKind::Runtime, (2, 8), 5);
    span(&mut batch, thread, SpanKind::Runtime, (20, 30), u64::MAX - 9);
    span(&mut batch, stream, SpanKind::Kernel, (40, 50), 5);
    span(&mut batch, stream, SpanKind::Memcpy, (50, 60), u64::MAX - 9);
    span(&mut batch, stream, SpanKind::Kernel, (60, 70), 6);
    span(&mut batch, stream, SpanKind::Kernel, (70, 80), NO_KEY);
    let trace = finish(vec![batch], 2);
    let launch = trace.spans().launch_column();
    // Rows 0..3 are the calls in order of start; the inner one is row 1.
    assert_eq!(launch[3..], [1, 2, NO_ROW, NO_ROW]);
    assert_eq!(notice_counts(&trace), [(NoticeKind::UnlinkedGpuWork, 2)]);
    let kinds: Vec<TrackKind> = trace.tracks().rows().iter().map(|track| track.kind).collect();
    assert_eq!(kinds, [TrackKind::Thread, TrackKind::GpuStream]);
}

fn flow(batch: &mut Batch, track: TrackId, phase: FlowPhase, time: i64, key: u64) {
    let category = batch.category("flow", SpanKind::Other);
    let (binds_enclosing, is_launch) = (true, false);
    let offset = batch.flows.len() as u64;
    let row = FlowRow { time, key, offset, track, category, phase, binds_enclosing, is_launch };
    batch.flows.push(row);
}

#[test]
fn flows_connect_the_spans_they_stand_on() {
    let mut batch = Batch::default();
    let (a, b) =
        (batch.track(TrackKind::Thread, "1", "1"), batch.track(TrackKind::Thread, "1", "2"));
    span(&mut batch, a, SpanKind::Operator, (0, 100), 0);
    span(&mut batch, a, SpanKind::Operator, (10, 20), 1);
    span(&mut batch, b, SpanKind::Operator, (30, 40), 2);
    span(&mut batch, b, SpanKind::Operator, (50, 60), 3);
    flow(&mut batch, a, FlowPhase::Start, 15, 9);
    flow(&mut batch, b, FlowPhase::Step, 30, 9);
    flow(&mut batch, b, FlowPhase::End, 59, 9);
    flow(&mut batch, a, FlowPhase::Start, 25, 8);
    flow(&mut batch, b, FlowPhase::End, 45, 7);
    let trace = finish(vec![batch], 1);
    let links: Vec<_> = trace.links().iter().map(|(a, b)| (trace.name(a), trace.name(b))).collect();
    assert_eq!(links, [("Operator 1", "Operator 2"), ("Operator 2", "Operator 3")]);
    // The start without an end, the end without a start (which stands on no span).
    assert_eq!(notice_counts(&trace), [(NoticeKind::UnmatchedFlow, 2)]);
}

#[test]
fn links_connect_the_spans_that_they_name() {
    let mut batch = Batch::default();
    let thread = batch.track(TrackKind::Thread, "1", "1");
    let stream = batch.track(TrackKind::Thread, "0", "7");
    let offset = |start: u64, key: u64| start << 20 | key;
    span(&mut batch, stream, SpanKind::Kernel, (40, 50), 2);
    span(&mut batch, stream, SpanKind::Kernel, (60, 70), 3);
    span(&mut batch, stream, SpanKind::Kernel, (80, 90), 4);
    span(&mut batch, thread, SpanKind::Runtime, (0, 10), 1);
    span(&mut batch, thread, SpanKind::Operator, (20, 30), 5);
    // A launch is no link; a link to GPU work is a launch where there is none.
    let arrow = batch.category("arrow", SpanKind::Other);
    let link = |from, to, category| LinkRow { from, to, category };
    batch.links.push(link(offset(0, 1), offset(40, 2), None));
    batch.links.push(link(offset(20, 5), offset(40, 2), Some(arrow)));
    batch.links.push(link(offset(20, 5), offset(60, 3), Some(arrow)));
    batch.links.push(link(offset(0, 1), 7, Some(arrow)));
    let trace = finish(vec![batch], 2);
    let expected =
        [("Kernel 2", Some("Runtime 1")), ("Kernel 3", Some("Operator 5")), ("Kernel 4", None)];
    assert_eq!(launches(&trace), expected);
    let links: Vec<_> = trace.links().iter().map(|(a, b)| (trace.name(a), trace.name(b))).collect();
    assert_eq!(links, [("Operator 5", "Kernel 2"), ("Operator 5", "Kernel 3")]);
    // The link to nothing; a kernel counts as unlinked where no launch says otherwise.
    let counts = notice_counts(&trace);
    assert_eq!(counts, [(NoticeKind::UnmatchedFlow, 1), (NoticeKind::UnlinkedGpuWork, 2)]);
}

#[test]
fn launch_flows_serve_where_the_correlation_is_missing() {
    let mut batch = Batch::default();
    let thread = batch.track(TrackKind::Thread, "1", "1");
    let stream = batch.track(TrackKind::Thread, "0", "7");
    span(&mut batch, thread, SpanKind::Runtime, (0, 10), NO_KEY);
    span(&mut batch, stream, SpanKind::Kernel, (20, 30), NO_KEY);
    flow(&mut batch, thread, FlowPhase::Start, 0, 3);
    flow(&mut batch, stream, FlowPhase::End, 20, 3);
    batch.flows.iter_mut().for_each(|flow| flow.is_launch = true);
    let trace = finish(vec![batch], 1);
    let name = format!("Runtime {NO_KEY}");
    assert_eq!(launches(&trace), [(&*format!("Kernel {NO_KEY}"), Some(&*name))]);
}

fn pair(batch: &mut Batch, track: TrackId, name: &str, time: i64, is_begin: bool) {
    let (name, category) = (batch.string(name), batch.category("", SpanKind::Other));
    let offset = batch.pairs.len() as u64;
    batch.pairs.push(PairRow { time, offset, name, track, category, is_begin });
}

#[test]
fn begins_and_ends_become_spans() {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Thread, "1", "1");
    for (name, time, is_begin) in [
        ("outer", 0, true),
        ("inner", 2, true),
        ("", 5, false),
        ("left open", 6, true),
        ("outer", 10, false),
        ("stray", 11, false),
        ("unfinished", 12, true),
        ("last", 13, true),
        ("last", 20, false),
    ] {
        pair(&mut batch, track, name, time, is_begin);
    }
    let trace = finish(vec![batch], 1);
    let expected = [
        ("outer", 0, 10),
        ("inner", 2, 5),
        ("left open", 6, 10),
        ("unfinished", 12, 20),
        ("last", 13, 20),
    ];
    assert_eq!(spans(&trace), expected);
    let notices = [(NoticeKind::UnmatchedEnd, 1), (NoticeKind::UnfinishedSpan, 2)];
    assert_eq!(notice_counts(&trace), notices);
}

#[test]
fn asynchronous_spans_pair_by_id() {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Async, "1", "net");
    let (name, category) = (batch.string("request"), batch.category("net", SpanKind::Other));
    use AsyncPhase::{Begin, End};
    for (time, key, phase) in [(0, 1, Begin), (1, 2, Begin), (5, 1, End), (9, 2, End), (9, 3, End)]
    {
        let offset = batch.asyncs.len() as u64;
        batch.asyncs.push(AsyncRow { time, key, offset, name, track, category, phase });
    }
    let trace = finish(vec![batch], 1);
    assert_eq!(spans(&trace), [("request", 0, 5), ("request", 1, 9)]);
    assert_eq!(notice_counts(&trace), [(NoticeKind::UnmatchedEnd, 1)]);
}

#[test]
fn labels_reach_all_tracks_of_a_process() {
    let mut batch = Batch::default();
    let first = batch.track(TrackKind::Thread, "1", "1");
    batch.track(TrackKind::Thread, "1", "2");
    let (process, thread) = (batch.string("python"), batch.string("main"));
    batch.label(first, TrackLabel::ProcessName(process));
    batch.label(first, TrackLabel::ThreadName(thread));
    batch.label(first, TrackLabel::ThreadSort(4));
    let trace = finish(vec![batch], 1);
    let rows = trace.tracks().rows().iter().map(|track| {
        let text = |id| trace.strings().get(id);
        (text(track.process_name), text(track.thread_name), track.sort_index)
    });
    assert_eq!(rows.collect::<Vec<_>>(), [("python", "main", 4), ("python", "", 0)]);
}

#[test]
fn python_frames_keep_time_as_judge_and_say_where_the_record_differs() {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Thread, "1", "1");
    let key = SpanRow::python_key;
    span(&mut batch, track, SpanKind::Python, (0, 100), key(1, None));
    span(&mut batch, track, SpanKind::Operator, (5, 90), NO_KEY);
    span(&mut batch, track, SpanKind::Python, (10, 50), key(2, Some(1)));
    span(&mut batch, track, SpanKind::Python, (60, 70), key(3, Some(2)));
    span(&mut batch, track, SpanKind::Python, (75, 80), key(4, Some(77)));
    let trace = finish(vec![batch], 1);
    assert_eq!(trace.spans().parent_column()[..], [NO_ROW, 0, 1, 1, 1]);
    assert_eq!(notice_counts(&trace), [(NoticeKind::PythonParentElsewhere, 1)]);
}

/// Random spans: (track, start, length), with many equal times.
fn random_spans() -> impl Strategy<Value = Vec<(usize, i64, i64)>> {
    prop::collection::vec((0usize..3, 0i64..40, 0i64..20), 0..60)
}

proptest! {
    #[test]
    fn order_and_parents_do_not_depend_on_batches_or_threads(
        rows in random_spans(),
        cuts in prop::collection::vec(0usize..60, 0..5),
        threads in 1usize..4,
    ) {
        let mut batches = vec![Batch::default()];
        for (at, &(track, start, dur)) in rows.iter().enumerate() {
            if cuts.contains(&at) {
                batches.push(Batch::default());
            }
            let batch = batches.last_mut().expect("never empty");
            let track = batch.track(TrackKind::Thread, "p", &track.to_string());
            let name = batch.string(&at.to_string());
            let category = batch.category("", SpanKind::Other);
            let offset = at as u64;
            batch.push_span(track, SpanRow { start, dur, key: NO_KEY, offset, name, category });
        }
        let trace = finish(batches, threads);
        let spans = trace.spans();
        prop_assert_eq!(spans.len(), rows.len());
        for (id, track) in trace.tracks().iter() {
            let number: usize = trace.strings().get(track.thread).parse().expect("a number");
            let of_track = rows.iter().enumerate().filter(|(_, row)| row.0 == number);
            let mut expected: Vec<_> = of_track.collect();
            expected.sort_by_key(|&(at, &(_, start, dur))| (start, -dur, at));
            let got: Vec<_> = track.span_ids().map(|span| trace.name(span).to_owned()).collect();
            let names: Vec<_> = expected.iter().map(|(at, _)| at.to_string()).collect();
            prop_assert_eq!(got, names, "order on track {:?}", id);
            for (row, span) in track.span_ids().enumerate() {
                // Brute force: the last in order among those open when it began.
                let start = spans.start(span);
                let open = |&&at: &&usize| {
                    let (_, &(_, other_start, dur)) = expected[at];
                    other_start + dur > start
                };
                let before: Vec<usize> = (0..row).collect();
                let parent = before.iter().rev().find(open);
                let parent = parent.map(|&at| track.spans.start + at as u32);
                prop_assert_eq!(spans.parent(span).map(|parent| parent.0), parent);
            }
        }
    }
}

/// More categories than the columns can number, met in several batches.
#[test]
fn spans_never_get_the_category_of_others() {
    let mut builder = TraceBuilder::new(1);
    for numbers in [0..40_000_i64, 30_000..70_000] {
        let mut batch = Batch::default();
        let track = batch.track(TrackKind::Thread, "1", "1");
        for number in numbers {
            let (name, category) =
                (batch.string("work"), batch.category(&format!("c{number}"), SpanKind::Other));
            let offset = number as u64;
            let row = SpanRow { start: number, dur: 1, key: NO_KEY, offset, name, category };
            batch.push_span(track, row);
        }
        batch.seal();
        builder.push(batch);
    }
    let trace = builder.finish(SourceInfo::default(), None);
    assert_eq!(trace.check(), Ok(()));
    let kept_apart = 65_536 - SpanKind::ALL.len() as i64;
    for span in trace.spans().ids() {
        let number = trace.spans().start(span);
        let category = trace.categories().get(trace.spans().category(span)).name;
        let expected = match number < kept_apart {
            true => format!("c{number}"),
            false => "[other categories: other]".to_owned(),
        };
        assert_eq!(trace.strings().get(category), expected);
    }
    let beyond = (70_000 - kept_apart) as u64;
    assert_eq!(trace.notices().count(NoticeKind::TooManyCategories), beyond);
}
