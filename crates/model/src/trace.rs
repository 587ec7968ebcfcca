//! The finished trace.

use std::sync::OnceLock;

use crate::{
    ArgValue, ArgsSource, Categories, Counters, Frames, Instants, Links, NO_OFFSET, NO_TIME, Nanos,
    Notices, ObservedRows, ObservedTables, SampleEvents, Samples, SourceInfo, SpanId, SpanKind,
    Spans, Stacks, Strings, ThreadStates, Tracks, Violation,
};

/// One trace, frozen (I5): `Send + Sync`, shared by reference or `Arc`.
pub struct Trace {
    pub(crate) strings: Strings,
    pub(crate) categories: Categories,
    pub(crate) tracks: Tracks,
    pub(crate) spans: Spans,
    pub(crate) instants: Instants,
    pub(crate) counters: Counters,
    pub(crate) links: Links,
    pub(crate) observed: ObservedTables,
    pub(crate) info: SourceInfo,
    pub(crate) notices: Notices,
    pub(crate) args: Option<Box<dyn ArgsSource>>,
    /// Found when first asked for.
    pub(crate) window: OnceLock<Option<(Nanos, Nanos)>>,
}

/// Everything a trace is made of, for readers of finished traces.
pub struct Parts {
    /// All texts.
    pub strings: Strings,
    /// Categories of events.
    pub categories: Categories,
    /// Threads, GPU streams, counters and others.
    pub tracks: Tracks,
    /// Spans.
    pub spans: Spans,
    /// Instant events.
    pub instants: Instants,
    /// Counter values.
    pub counters: Counters,
    /// Links between spans.
    pub links: Links,
    /// Samples and thread states.
    pub observed: ObservedTables,
    /// Facts about the source.
    pub info: SourceInfo,
    /// Repairs and losses.
    pub notices: Notices,
    /// Reads arguments of events on request.
    pub args: Option<Box<dyn ArgsSource>>,
}

impl Trace {
    /// Takes parts from outside, such as an index file, and checks them: after
    /// this no id can lead astray.
    pub fn from_parts(parts: Parts) -> Result<Trace, Violation> {
        let Parts { strings, categories, tracks, spans, .. } = parts;
        let Parts { instants, counters, links, observed, info, notices, args, .. } = parts;
        let trace = Trace {
            strings,
            categories,
            tracks,
            spans,
            instants,
            counters,
            links,
            observed,
            info,
            notices,
            args,
            window: OnceLock::new(),
        };
        trace.check()?;
        Ok(trace)
    }

    /// The trace with facts and notices from elsewhere than its source.
    #[must_use]
    pub fn with_metadata(mut self, edit: impl FnOnce(&mut SourceInfo, &mut Notices)) -> Trace {
        edit(&mut self.info, &mut self.notices);
        self
    }

    /// The trace with what was observed of its threads, in its own numbers of names and tracks.
    #[must_use]
    pub fn with_observed(mut self, rows: ObservedRows) -> Trace {
        self.observed = rows.finish();
        debug_assert_eq!(self.check(), Ok(()));
        self
    }

    /// All texts.
    pub fn strings(&self) -> &Strings {
        &self.strings
    }

    /// Categories of events.
    pub fn categories(&self) -> &Categories {
        &self.categories
    }

    /// Threads, GPU streams, counters and others.
    pub fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    /// Spans.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Instant events.
    pub fn instants(&self) -> &Instants {
        &self.instants
    }

    /// Counter values.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Links between spans.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Frames of stacks.
    pub fn frames(&self) -> &Frames {
        &self.observed.frames
    }

    /// Stacks of samples and thread states.
    pub fn stacks(&self) -> &Stacks {
        &self.observed.stacks
    }

    /// What samples were taken of.
    pub fn sample_events(&self) -> &SampleEvents {
        &self.observed.events
    }

    /// Samples.
    pub fn samples(&self) -> &Samples {
        &self.observed.samples
    }

    /// Thread states.
    pub fn thread_states(&self) -> &ThreadStates {
        &self.observed.states
    }

    /// Frames, stacks, samples and states together.
    pub fn observed(&self) -> &ObservedTables {
        &self.observed
    }

    /// Facts about the source.
    pub fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// Repairs and losses.
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// The name of a span.
    pub fn name(&self, span: SpanId) -> &str {
        self.strings.get(self.spans.name(span))
    }

    /// The meaning of a span.
    pub fn kind(&self, span: SpanId) -> SpanKind {
        self.categories.get(self.spans.category(span)).kind
    }

    /// The arguments of a span, read from the source now.
    pub fn args(&self, span: SpanId) -> Result<Vec<(String, ArgValue)>, String> {
        self.args_at(self.spans.offset(span))
    }

    /// The arguments of the event at an offset of the source, such as an instant's.
    pub fn args_at(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        match (&self.args, offset) {
            (None, _) | (_, NO_OFFSET) => Ok(Vec::new()),
            (Some(source), offset) => source.args(offset),
        }
    }

    /// Some arguments of a span, in the order of `keys`: quicker than all of them.
    pub fn pick_args(&self, span: SpanId, keys: &[&str]) -> Result<Vec<Option<ArgValue>>, String> {
        self.pick_args_at(self.spans.offset(span), keys)
    }

    /// Some arguments of the event at an offset of the source.
    pub fn pick_args_at(
        &self,
        offset: u64,
        keys: &[&str],
    ) -> Result<Vec<Option<ArgValue>>, String> {
        match (&self.args, offset) {
            (None, _) | (_, NO_OFFSET) => Ok(vec![None; keys.len()]),
            (Some(source), offset) => source.pick(offset, keys),
        }
    }

    /// The first and the last nanosecond of what was recorded.
    ///
    /// The profiler's own bars do not count, nor does GPU work whose timestamps
    /// the recorder lost (both times 0).
    pub fn window(&self) -> Option<(Nanos, Nanos)> {
        *self.window.get_or_init(|| self.find_window())
    }

    fn find_window(&self) -> Option<(Nanos, Nanos)> {
        let counts: Vec<bool> = self
            .categories
            .rows()
            .iter()
            .map(|category| !matches!(category.kind, SpanKind::Window | SpanKind::Overhead))
            .collect();
        let mut window: Option<(Nanos, Nanos)> = None;
        let times = self.spans.start.iter().zip(self.spans.dur.iter());
        for ((&start, &dur), &category) in times.zip(self.spans.category.iter()) {
            if !counts[usize::from(category)] || (start == 0 && dur == 0) {
                continue;
            }
            let (first, last) = window.unwrap_or((start, start + dur));
            window = Some((first.min(start), last.max(start + dur)));
        }
        self.observed_window()
            .into_iter()
            .chain(window)
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    fn observed_window(&self) -> Option<(Nanos, Nanos)> {
        let times = self.observed.samples.time.iter().filter(|&&time| time != NO_TIME);
        let states = self.observed.states.start.iter().zip(self.observed.states.dur.iter());
        let states = states.map(|(&start, &dur)| (start, start + dur));
        times
            .map(|&time| (time, time))
            .chain(states)
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("format", &self.info.format)
            .field("tracks", &self.tracks.len())
            .field("spans", &self.spans.len())
            .finish_non_exhaustive()
    }
}
