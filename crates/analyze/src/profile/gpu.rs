//! GPU time on the stack that launched it.
//!
//! By the launching call and the time of the launch, never by what the host did
//! while the GPU worked. All kernels of a graph stand under the call that launched
//! the graph.

use spanwise_model::{Nanos, ProfileBuilder, SpanId, SpanKind, StackId, StrId, Trace};

use super::frames::{FrameTable, made_up};
use super::labels::{Context, Labels};
use super::time_slices::AllLaunches;
use super::{ProfileOptions, value};
use crate::Names;

/// This many pieces share an instant at most; more at once is no real device, and must
/// not cost the square of the trace. What is beyond gets what others leave.
const CONCURRENT_MAX: usize = 64;

/// Adds all GPU work; says how much of it has no known launch.
pub(crate) fn work(
    trace: &Trace,
    options: &ProfileOptions,
    names: &Names,
    launches: &AllLaunches,
    busy: &[Nanos],
    builder: &mut ProfileBuilder,
) -> u64 {
    let spans = trace.spans();
    let mut frames = FrameTable::new(trace, names, options);
    let mut labels = Labels::new(trace, options.rank);
    let mut unlinked = 0;
    for span in spans.ids().filter(|&span| trace.kind(span).is_gpu_work()) {
        let stream = Some(spans.track(span));
        let (below, context) = match spans.launch(span).and_then(|call| launches.get(call)) {
            Some(launch) => (launch.stack, Context { stream, ..launch.context }),
            None => {
                unlinked += 1;
                let root = made_up(builder, "[launched before the recording]");
                let nothing = Context { stream, ..Context::default() };
                (builder.push(StackId::EMPTY, root), nothing)
            }
        };
        let stack = match frames.of(builder, span) {
            Some(frame) => builder.push(below, frame),
            None => below,
        };
        let labels = labels.of(builder, context);
        let row = builder.row(stack, labels);
        builder.add_to(row, value::SAMPLES, 1);
        builder.add_to(row, value::GPU, spans.dur(span));
        builder.add_to(row, value::GPU_BUSY, busy[span.index()]);
        builder.add_to(row, value::GPU_LAUNCHES, 1);
        if trace.kind(span) == SpanKind::Memcpy {
            builder.add_to(row, value::COPY_BYTES, copied_bytes(trace, span).unwrap_or(0));
        }
    }
    unlinked
}

fn copied_bytes(trace: &Trace, span: SpanId) -> Option<i64> {
    let [bytes] = trace.pick_args(span, &["bytes"]).ok()?.try_into().ok()?;
    bytes?.as_i64()
}

/// Each piece's share of the time in which its device was busy: time in which
/// several run is divided among them, so that the shares add up to the union.
pub(crate) fn busy_shares(trace: &Trace) -> Vec<Nanos> {
    let spans = trace.spans();
    let mut shares = vec![0; spans.len()];
    let mut work: Vec<(StrId, Nanos, SpanId)> = spans
        .ids()
        .filter(|&span| trace.kind(span).is_gpu_work() && spans.dur(span) > 0)
        .map(|span| (trace.tracks().get(spans.track(span)).process, spans.start(span), span))
        .collect();
    work.sort_unstable();
    for device in work.chunk_by(|a, b| a.0 == b.0) {
        let mut running: Vec<SpanId> = Vec::new();
        // Of those beyond the limit, the one that ends last.
        let mut beyond: Option<SpanId> = None;
        let mut reached = Nanos::MIN;
        let starts = device.iter().map(|&(_, start, span)| (start, Some(span)));
        for (until, next) in starts.chain([(Nanos::MAX, None)]) {
            while let Some(first_end) = running.iter().map(|&span| spans.end(span)).min() {
                let stop = first_end.min(until);
                share(&running, stop - reached.min(stop), &mut shares);
                reached = reached.max(stop);
                if first_end > until {
                    break;
                }
                running.retain(|&span| spans.end(span) > first_end);
                if running.is_empty() {
                    running.extend(beyond.take().filter(|&span| spans.end(span) > first_end));
                }
            }
            reached = until;
            if running.len() < CONCURRENT_MAX {
                running.extend(next);
            } else {
                beyond = beyond.into_iter().chain(next).max_by_key(|&span| spans.end(span));
            }
        }
    }
    shares
}

/// Divides an interval among those running; what does not divide goes to the first.
fn share(running: &[SpanId], len: Nanos, shares: &mut [Nanos]) {
    let each = len / running.len() as i64;
    for &span in running {
        shares[span.index()] += each;
    }
    shares[running[0].index()] += len - each * running.len() as i64;
}
