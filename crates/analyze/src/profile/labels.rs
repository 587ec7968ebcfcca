//! What samples are labelled with: thread, rank, device, stream, phase, step, state.
//!
//! Identities are text ("rank 0", "stream 7"): clients parse a label that resembles
//! a number as a range, and drop a number 0 without a unit.

use spanwise_model::{Label, LabelValue, ProfileBuilder, QuickMap, StrId, Trace, TrackId};

use crate::{MemoryOf, Phase};

/// What decides a sample's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Context {
    /// The thread that did it, or that launched it.
    pub(crate) thread: Option<TrackId>,
    /// The stream that GPU work ran on.
    pub(crate) stream: Option<TrackId>,
    pub(crate) step: Option<i64>,
    pub(crate) phase: Option<Phase>,
    /// Work waits or runs; GPU work does neither.
    pub(crate) is_waiting: Option<bool>,
    /// The device whose memory was asked for.
    pub(crate) memory: Option<MemoryOf>,
}

/// Numbers of label sets, mostly the same as last time.
pub(crate) struct Labels<'a> {
    trace: &'a Trace,
    rank: Option<i64>,
    last: Option<(Context, u32)>,
    known: QuickMap<Context, u32>,
}

impl<'a> Labels<'a> {
    /// `rank` counts where the trace names none.
    pub(crate) fn new(trace: &'a Trace, rank: Option<i64>) -> Self {
        Labels { trace, rank: trace.info().rank.or(rank), last: None, known: QuickMap::default() }
    }

    #[inline]
    pub(crate) fn of(&mut self, builder: &mut ProfileBuilder, context: Context) -> u32 {
        if let Some((_, labels)) = self.last.filter(|(last, _)| *last == context) {
            return labels;
        }
        let labels = match self.known.get(&context) {
            Some(&labels) => labels,
            None => {
                let labels = self.new_set(builder, context);
                self.known.insert(context, labels);
                labels
            }
        };
        self.last = Some((context, labels));
        labels
    }

    fn new_set(&self, builder: &mut ProfileBuilder, context: Context) -> u32 {
        let mut labels = Vec::new();
        let mut text = |builder: &mut ProfileBuilder, key: &str, value: &str| {
            let (key, value) = (builder.string(key), LabelValue::Text(builder.string(value)));
            labels.push(Label { key, value });
        };
        if let Some(rank) = self.rank {
            text(builder, "rank", &format!("rank {rank}"));
        }
        if let Some(thread) = context.thread {
            text(builder, "thread", &self.thread_name(thread));
        }
        if let Some(stream) = context.stream {
            let track = self.trace.tracks().get(stream);
            let device = self.trace.strings().get(track.process);
            let stream = self.trace.strings().get(track.thread);
            let stream = stream.strip_prefix("stream ").unwrap_or(stream);
            text(builder, "device", &format!("gpu{device}"));
            text(builder, "stream", &format!("stream {stream}"));
        }
        if let Some(of) = context.memory {
            text(builder, "device", &of.label());
        }
        if let Some(phase) = context.phase {
            text(builder, "phase", phase.text());
        }
        if let Some(is_waiting) = context.is_waiting {
            text(builder, "state", if is_waiting { "waiting" } else { "running" });
        }
        if let Some(value) = context.step {
            let (key, unit) = (builder.string("step"), builder.string("step"));
            labels.push(Label { key, value: LabelValue::Number { value, unit } });
        }
        builder.labels(labels)
    }

    /// The thread's name, which producers mostly begin with its number.
    fn thread_name(&self, thread: TrackId) -> String {
        let track = self.trace.tracks().get(thread);
        let text = |id: StrId| self.trace.strings().get(id);
        match text(track.thread_name) {
            "" => format!("thread {}", text(track.thread)),
            name => name.to_owned(),
        }
    }
}
