//! The events that HTA's graph is made of: those of a window, and who launched whom.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{ArgValue, SpanKind};

use super::super::load::{Loaded, Row, SYNCS};
use super::graph::Node;

pub(super) const STREAM_WAIT: &str = "Stream Wait Event";

/// All events in the order of the source; events are numbers in these lists.
pub(super) struct Events<'a> {
    pub(super) loaded: &'a Loaded<'a>,
    pub(super) rows: Vec<Row>,
    /// Of work the call that launched it, and the other way round.
    pub(super) partner: Vec<Option<usize>>,
    pub(super) is_inside: Vec<bool>,
    /// True for the events of the window that are operators, calls of CUDA or GPU work.
    pub(super) has_nodes: Vec<bool>,
}

/// Process and thread, in HTA's order: numbers before text.
type ThreadKey<'a> = [(i64, &'a str); 2];

impl<'a> Events<'a> {
    /// The events of the range; calls must start in it, and work must be launched in it.
    pub(super) fn new(loaded: &'a Loaded<'a>, range: (i64, i64)) -> Self {
        let spans = loaded.trace.spans();
        let mut rows: Vec<Row> =
            [&loaded.cpu, &loaded.gpu, &loaded.syncs].into_iter().flatten().copied().collect();
        rows.sort_by_key(|row| (spans.offset(row.span), row.span));
        rows.dedup_by_key(|row| row.span);
        let partner = partners(loaded, &rows);
        let is_inside = insides(loaded, &rows, &partner, range);
        let is_node = |(row, &is_inside): (&Row, &bool)| is_inside && has_nodes(loaded, row);
        let has_nodes = rows.iter().zip(&is_inside).map(is_node).collect();
        Events { loaded, rows, partner, is_inside, has_nodes }
    }

    pub(super) fn name(&self, event: usize) -> &'a str {
        self.loaded.name(&self.rows[event])
    }

    pub(super) fn is_sync(&self, event: usize) -> bool {
        self.loaded.trace.kind(self.rows[event].span) == SpanKind::Sync
    }

    /// For work, the number of its GPU.
    pub(super) fn process(&self, event: usize) -> &'a str {
        let trace = self.loaded.trace;
        let track = trace.tracks().get(trace.spans().track(self.rows[event].span));
        trace.strings().get(track.process)
    }

    pub(super) fn thread(&self, event: usize) -> &'a str {
        let trace = self.loaded.trace;
        let track = trace.tracks().get(trace.spans().track(self.rows[event].span));
        trace.strings().get(track.thread)
    }

    pub(super) fn time(&self, node: Node) -> i64 {
        let row = &self.rows[node.event];
        if node.is_start { row.ts } else { row.end() }
    }

    pub(super) fn int_args(&self, event: usize, keys: [&str; 2]) -> [Option<i64>; 2] {
        let span = self.rows[event].span;
        // Unreadable arguments are absent ones, as everywhere.
        let args = self.loaded.trace.pick_args(span, &keys).unwrap_or_default();
        [0, 1].map(|at: usize| args.get(at)?.as_ref().and_then(ArgValue::as_i64))
    }

    /// The events of each thread of the host, in the window.
    pub(super) fn threads(&self) -> Vec<Vec<usize>> {
        let mut threads: BTreeMap<ThreadKey<'_>, Vec<usize>> = BTreeMap::new();
        let mut on_gpu: BTreeSet<ThreadKey<'_>> = BTreeSet::new();
        for event in (0..self.rows.len()).filter(|&event| self.is_inside[event]) {
            let key = [self.process(event), self.thread(event)]
                .map(|text| (text.parse().unwrap_or(i64::MAX), text));
            threads.entry(key).or_default().push(event);
            if self.rows[event].stream >= 0 {
                on_gpu.insert(key);
            }
        }
        threads.retain(|key, _| !on_gpu.contains(key));
        threads.into_values().collect()
    }
}

/// Operators and calls of CUDA by the name of their category; other hosts' calls,
/// which mean the same to us, are none to HTA.
fn has_nodes(loaded: &Loaded<'_>, row: &Row) -> bool {
    let trace = loaded.trace;
    let category = trace.categories().get(trace.spans().category(row.span));
    match trace.strings().get(category.name) {
        "cpu_op" | "cuda_runtime" | "cuda_driver" => true,
        _ => row.stream != -1 && row.correlation >= 0,
    }
}

fn is_on_gpu(loaded: &Loaded<'_>, row: &Row) -> bool {
    (row.stream >= 0 && row.correlation >= 0) || SYNCS.contains(&loaded.name(row))
}

/// Of several with one correlation the last one wins.
fn partners(loaded: &Loaded<'_>, rows: &[Row]) -> Vec<Option<usize>> {
    let mut last: BTreeMap<i64, [Option<usize>; 2]> = BTreeMap::new();
    for (event, row) in rows.iter().enumerate().filter(|(_, row)| row.correlation >= 0) {
        last.entry(row.correlation).or_default()[usize::from(is_on_gpu(loaded, row))] = Some(event);
    }
    let partner = |row: &Row| {
        let other = usize::from(!is_on_gpu(loaded, row));
        last.get(&row.correlation).and_then(|sides| sides[other])
    };
    rows.iter().map(partner).collect()
}

fn insides(
    loaded: &Loaded<'_>,
    rows: &[Row],
    partner: &[Option<usize>],
    within: (i64, i64),
) -> Vec<bool> {
    let (start, end) = within;
    // An event without a length would upset HTA's call stacks.
    let is_host = |row: &Row| row.stream == -1 && row.dur > 0 && start <= row.ts && row.ts <= end;
    let mut inside: Vec<bool> = rows.iter().map(is_host).collect();
    for (event, row) in rows.iter().enumerate() {
        if let (true, Some(work)) = (is_host(row), partner[event]) {
            inside[work] |= rows[work].stream != -1;
        }
        // Waits of streams are wanted from everywhere.
        inside[event] |= row.stream != -1 && loaded.name(row) == STREAM_WAIT;
    }
    inside
}
