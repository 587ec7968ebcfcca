//! A trace in a nutshell: what `info` shows and an index keeps in its manifest,
//! so that asking for it touches no column.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Notice, SourceInfo, SpanKind, Trace, TrackId, TrackKind};

/// Counts and names; small whatever the size of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Facts about the source.
    pub info: SourceInfo,
    /// Repairs and losses.
    pub notices: Vec<Notice>,
    /// First and last nanosecond recorded ([`Trace::window`]).
    pub window: Option<(Nanos, Nanos)>,
    /// Number of spans.
    pub spans: u64,
    /// Number of instant events.
    pub instants: u64,
    /// Number of counter values.
    pub counter_values: u64,
    /// Number of links.
    pub links: u64,
    /// Number of samples.
    pub samples: u64,
    /// Number of thread states.
    pub thread_states: u64,
    /// Number of kernels, copies and fills.
    pub gpu_work: u64,
    /// GPU work whose launching call is known.
    pub gpu_work_launched: u64,
    /// All categories, with most spans first.
    pub categories: Vec<CategorySummary>,
    /// The tracks with most events, most first.
    pub tracks: Vec<TrackSummary>,
    /// Number of tracks, of which [`Summary::tracks`] has some.
    pub tracks_total: u64,
}

/// The events of a category.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategorySummary {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub kind: SpanKind,
    /// Number of spans.
    pub spans: u64,
    /// Number of instant events.
    pub instants: u64,
    /// Sum of the spans' lengths; nested ones count each.
    pub total_ns: i128,
}

/// The events of a track.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackSummary {
    /// What it is.
    pub kind: TrackKind,
    /// Id of the process.
    pub process: String,
    /// Name of the process.
    pub process_name: String,
    /// Id of the thread.
    pub thread: String,
    /// Name of the thread.
    pub thread_name: String,
    /// Number of spans.
    pub spans: u64,
    /// Number of instant events.
    pub instants: u64,
    /// Number of counter values.
    pub counter_values: u64,
    /// Number of samples.
    pub samples: u64,
}

const TRACKS_MAX: usize = 256;

impl Trace {
    /// Counts and names of the trace.
    pub fn summary(&self) -> Summary {
        let spans = &self.spans;
        let gpu = |span: &crate::SpanId| self.kind(*span).is_gpu_work();
        let mut gpu_work = 0;
        let mut gpu_work_launched = 0;
        for span in spans.ids().filter(gpu) {
            gpu_work += 1;
            gpu_work_launched += u64::from(spans.launch(span).is_some());
        }
        Summary {
            info: self.info.clone(),
            notices: self.notices.iter().cloned().collect(),
            window: self.window(),
            spans: spans.len() as u64,
            instants: self.instants.len() as u64,
            counter_values: self.counters.len() as u64,
            links: self.links.len() as u64,
            samples: self.observed.samples.len() as u64,
            thread_states: self.observed.states.len() as u64,
            gpu_work,
            gpu_work_launched,
            categories: self.category_summaries(),
            tracks: self.track_summaries(),
            tracks_total: self.tracks.len() as u64,
        }
    }

    fn category_summaries(&self) -> Vec<CategorySummary> {
        let mut rows: Vec<CategorySummary> = self
            .categories
            .rows()
            .iter()
            .map(|category| CategorySummary {
                name: self.strings.get(category.name).to_owned(),
                kind: category.kind,
                spans: 0,
                instants: 0,
                total_ns: 0,
            })
            .collect();
        for (&category, &dur) in self.spans.category.iter().zip(self.spans.dur.iter()) {
            let row = &mut rows[usize::from(category)];
            row.spans += 1;
            row.total_ns += i128::from(dur);
        }
        for &category in self.instants.category.iter() {
            rows[usize::from(category)].instants += 1;
        }
        rows
    }

    fn track_summaries(&self) -> Vec<TrackSummary> {
        let mut instants = vec![0; self.tracks.len()];
        self.instants.track.iter().for_each(|&track| instants[track as usize] += 1);
        let mut values = vec![0; self.tracks.len()];
        self.counters.track.iter().for_each(|&track| values[track as usize] += 1);
        let samples = |at: usize| self.observed.samples.of_track(TrackId(at as u32)).len() as u64;
        let text = |id| self.strings.get(id).to_owned();
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        let events = |at: usize| {
            self.tracks.0[at].rows().len() as u64 + instants[at] + values[at] + samples(at)
        };
        order.sort_by_key(|&at| std::cmp::Reverse(events(at)));
        order.truncate(TRACKS_MAX);
        let rows = order.into_iter().map(|at| {
            let track = &self.tracks.0[at];
            TrackSummary {
                kind: track.kind,
                process: text(track.process),
                process_name: text(track.process_name),
                thread: text(track.thread),
                thread_name: text(track.thread_name),
                spans: track.rows().len() as u64,
                instants: instants[at],
                counter_values: values[at],
                samples: samples(at),
            }
        });
        rows.collect()
    }
}
