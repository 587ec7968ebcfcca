//! Recordings of perf, written as traces.

use spanwise_model::{SpanKind, Trace};

use crate::WRITERS;
use crate::kept::through;
use crate::traces;

/// Name, category and kind of all spans, sorted.
fn kinds_of_spans(trace: &Trace) -> Vec<(String, String, SpanKind)> {
    let text = |id| trace.strings().get(id).to_owned();
    let row = |span| {
        let spans = trace.spans();
        let category = trace.categories().get(spans.category(span));
        (text(spans.name(span)), text(category.name), trace.kind(span))
    };
    let mut rows: Vec<_> = trace.spans().ids().map(row).collect();
    rows.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    rows
}

/// The kernel of an operating system is none that a GPU runs.
#[test]
fn functions_of_the_system_stay_what_they_are() {
    let sampled = ("sampled_kernel", SpanKind::Sampled);
    let exact = ("os_kernel", SpanKind::Other);
    let files = [("kernel_and_user", exact), ("kernel_only", exact), ("sched", sampled)];
    for (name, (category, kind)) in files {
        let path = traces::at_root(&format!("testdata/perf/{name}.perf"));
        let trace = traces::read(&path).expect("a recording");
        let kinds = kinds_of_spans(&trace);
        assert!(kinds.iter().any(|row| row.1 == category && row.2 == kind), "{name}");
        for write in WRITERS {
            let (_, back) = through(&trace, write, name);
            assert_eq!(kinds_of_spans(&back), kinds, "{name}");
        }
    }
}
