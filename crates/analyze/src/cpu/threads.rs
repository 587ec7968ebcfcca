//! What each thread did with its time.

use spanwise_model::{SpanKind, Trace, TrackId};

use crate::{SelfTime, TotalNanos, WaitClassifier};

/// One thread, with self time by kind of span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    pub track: TrackId,
    pub process: String,
    pub process_name: String,
    pub thread: String,
    pub thread_name: String,
    pub spans: u64,
    /// While any span was open: the union.
    pub busy_ns: TotalNanos,
    /// Of that, in calls known to wait.
    pub waiting_ns: TotalNanos,
    /// Adds up to `busy_ns`.
    pub by_kind: KindTimes,
}

impl ThreadTime {
    /// Time known to be work: neither in a call that waits nor in an annotation
    /// around nothing that was recorded.
    pub fn working_ns(&self) -> TotalNanos {
        self.busy_ns - self.waiting_ns - self.by_kind.annotation_ns
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindTimes {
    pub python_ns: TotalNanos,
    pub operator_ns: TotalNanos,
    pub runtime_ns: TotalNanos,
    pub annotation_ns: TotalNanos,
    pub other_ns: TotalNanos,
}

impl KindTimes {
    fn slot(&mut self, kind: SpanKind) -> &mut TotalNanos {
        match kind {
            SpanKind::Python => &mut self.python_ns,
            SpanKind::Operator => &mut self.operator_ns,
            SpanKind::Runtime => &mut self.runtime_ns,
            SpanKind::Annotation => &mut self.annotation_ns,
            _ => &mut self.other_ns,
        }
    }
}

/// Every thread that has spans, the one that worked longest first.
pub(crate) fn thread_times(
    trace: &Trace,
    self_time: &SelfTime,
    waits: &WaitClassifier,
) -> Vec<ThreadTime> {
    let text = |id| trace.strings().get(id).to_owned();
    let with_spans = self_time.threads.iter().filter(|thread| thread.spans > 0);
    let mut rows: Vec<ThreadTime> = with_spans
        .map(|thread| {
            let track = trace.tracks().get(thread.track);
            let mut by_kind = KindTimes::default();
            let mut waiting_ns = 0;
            for span in track.span_ids() {
                let self_ns = i128::from(self_time.span_ns[span.index()]);
                *by_kind.slot(trace.kind(span)) += self_ns;
                if waits.kind(span).is_some() {
                    waiting_ns += self_ns;
                }
            }
            ThreadTime {
                track: thread.track,
                process: text(track.process),
                process_name: text(track.process_name),
                thread: text(track.thread),
                thread_name: text(track.thread_name),
                spans: thread.spans,
                busy_ns: thread.busy_ns,
                waiting_ns,
                by_kind,
            }
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.working_ns()), row.track));
    rows
}

/// The thread that findings speak of: of those that ran Python, or of all where
/// none did, the one that worked longest. A thread that sat in a lock for the whole
/// recording is busier, but not what the program did.
pub fn main_thread(threads: &[ThreadTime]) -> Option<&ThreadTime> {
    let rank = |thread: &&ThreadTime| (thread.by_kind.python_ns > 0, thread.working_ns());
    // Of equals the last wins: reversed, so that it is the first.
    threads.iter().rev().max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;
    use crate::self_time;

    #[test]
    fn kinds_add_up_and_waiting_is_kept_apart() {
        let mut sample = Sample::default();
        sample.span("idle", SpanKind::Python, "threading.py(355): wait", 0, 100);
        sample.span("idle", SpanKind::Python, "<built-in method acquire of _thread.lock>", 10, 80);
        sample.span("main", SpanKind::Python, "train.py(1): main", 0, 90);
        sample.span("main", SpanKind::Operator, "aten::mm", 10, 30);
        sample.span("main", SpanKind::Runtime, "cudaLaunchKernel", 15, 5);
        sample.span("main", SpanKind::Runtime, "cudaDeviceSynchronize", 50, 20);
        let trace = sample.finish();
        let rows = thread_times(&trace, &self_time(&trace), &WaitClassifier::new(&trace));
        let main = main_thread(&rows).expect("two threads");
        assert_eq!(main.thread, "main");
        assert_eq!((main.busy_ns, main.waiting_ns), (90, 20));
        let kinds = KindTimes {
            python_ns: 40,
            operator_ns: 25,
            runtime_ns: 25,
            annotation_ns: 0,
            other_ns: 0,
        };
        assert_eq!(main.by_kind, kinds);
        assert_eq!((rows[1].busy_ns, rows[1].waiting_ns), (100, 100));
    }
}
