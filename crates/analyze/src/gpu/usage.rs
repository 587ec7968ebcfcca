//! What the GPUs did, and which lines of the program made them do it.
//!
//! Time is summed twice, on purpose: a device is *busy* while any of its streams
//! works, and *work* is the sum over kernels, which counts streams that run side
//! by side each. Work by launching line adds up to the work in all: what has no
//! launch in the trace stands under [`Origin::NotRecorded`] (I9).

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{Device, Nanos, SpanId, SpanKind, StrId, Trace, Track, TrackKind};

use crate::base::intervals::{IntervalSet, length};
use crate::gpu::launching_frame::{LauncherKey, Launchers};
use crate::{Frames, Launcher, Names, Origin, TotalNanos};

/// All answers about GPUs; empty lists where the trace has no GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuUse {
    pub devices: Vec<DeviceUse>,
    /// Kernels, copies and fills by name, most time first.
    pub work: Vec<WorkUse>,
    /// The same time by the line that launched it, most time first.
    pub lines: Vec<LineUse>,
    /// Sum over all GPU work.
    pub work_ns: TotalNanos,
    pub work_count: u64,
}

/// One GPU over the window of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// As the source numbers it.
    pub id: String,
    /// Empty where the source does not say.
    pub name: String,
    pub streams: u64,
    pub work_count: u64,
    pub window_ns: TotalNanos,
    /// While at least one stream worked.
    pub busy_ns: TotalNanos,
    pub kernel_ns: TotalNanos,
    pub memcpy_ns: TotalNanos,
    pub memset_ns: TotalNanos,
    /// The longest time without work, from and to; its ends may be the window's.
    pub longest_gap: (Nanos, Nanos),
}

impl DeviceUse {
    pub fn idle_ns(&self) -> TotalNanos {
        self.window_ns - self.busy_ns
    }
}

/// GPU work of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkUse {
    pub name: String,
    pub kind: SpanKind,
    pub count: u64,
    pub total_ns: TotalNanos,
    pub min_ns: Nanos,
    pub max_ns: Nanos,
    /// The place that launched most of its time …
    pub launcher: Launcher,
    /// … how much that was, and how many other places launched it.
    pub launcher_ns: TotalNanos,
    pub other_launchers: u64,
}

impl WorkUse {
    pub fn mean_ns(&self) -> TotalNanos {
        self.total_ns / i128::from(self.count.max(1))
    }
}

/// GPU work that one line of Python launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineUse {
    pub origin: Origin,
    pub line: Option<String>,
    pub count: u64,
    pub total_ns: TotalNanos,
    /// The work that took most of it.
    pub top_work: String,
    pub top_work_ns: TotalNanos,
}

pub(crate) fn gpu_use(trace: &Trace, frames: &Frames, names: &Names) -> GpuUse {
    let cells = Cells::collect(trace, frames, names);
    GpuUse {
        devices: devices(trace),
        work: cells.work(names),
        lines: cells.lines(names),
        work_ns: cells.rows.iter().map(|cell| cell.total_ns).sum(),
        work_count: cells.rows.iter().map(|cell| cell.count).sum(),
    }
}

/// Rows of all GPU work, stream by stream.
pub(crate) fn gpu_work(trace: &Trace) -> impl Iterator<Item = SpanId> {
    let streams = trace.tracks().rows().iter().filter(|row| row.kind == TrackKind::GpuStream);
    streams.flat_map(|row| row.span_ids()).filter(|&span| trace.kind(span).is_gpu_work())
}

type WorkKey = (SpanKind, StrId);

/// GPU work of one name from one launcher.
struct Cell {
    work: WorkKey,
    launcher: LauncherKey,
    count: u64,
    total_ns: TotalNanos,
    min_ns: Nanos,
    max_ns: Nanos,
}

/// All work by name and launcher, in order of first appearance.
struct Cells {
    rows: Vec<Cell>,
}

impl Cells {
    fn collect(trace: &Trace, frames: &Frames, names: &Names) -> Self {
        let launchers = Launchers::new(trace, frames, names);
        let mut rows: Vec<Cell> = Vec::new();
        let mut places: HashMap<(WorkKey, LauncherKey), usize> = HashMap::new();
        for span in gpu_work(trace) {
            let work = (trace.kind(span), names.merged(trace.spans().name(span)));
            let launcher = launchers.of(span);
            let place = *places.entry((work, launcher)).or_insert_with(|| {
                let (min_ns, max_ns) = (Nanos::MAX, 0);
                rows.push(Cell { work, launcher, count: 0, total_ns: 0, min_ns, max_ns });
                rows.len() - 1
            });
            let dur = trace.spans().dur(span);
            let cell = &mut rows[place];
            cell.count += 1;
            cell.total_ns += i128::from(dur);
            cell.min_ns = cell.min_ns.min(dur);
            cell.max_ns = cell.max_ns.max(dur);
        }
        // Most time first, so that the first cell of any group is its largest.
        rows.sort_by_key(|cell| (std::cmp::Reverse(cell.total_ns), cell.work, cell.launcher));
        Cells { rows }
    }

    fn work(&self, names: &Names) -> Vec<WorkUse> {
        let mut groups: BTreeMap<WorkKey, Vec<&Cell>> = BTreeMap::new();
        for cell in &self.rows {
            groups.entry(cell.work).or_default().push(cell);
        }
        let mut rows: Vec<WorkUse> = groups
            .into_iter()
            .map(|((kind, name), cells)| WorkUse {
                name: names.text(name).into_owned(),
                kind,
                count: cells.iter().map(|cell| cell.count).sum(),
                total_ns: cells.iter().map(|cell| cell.total_ns).sum(),
                min_ns: cells.iter().map(|cell| cell.min_ns).min().unwrap_or(0),
                max_ns: cells.iter().map(|cell| cell.max_ns).max().unwrap_or(0),
                launcher: cells[0].launcher.named(names),
                launcher_ns: cells[0].total_ns,
                other_launchers: cells.len() as u64 - 1,
            })
            .collect();
        rows.sort_by(|a, b| (b.total_ns, &a.name, a.kind).cmp(&(a.total_ns, &b.name, b.kind)));
        rows
    }

    fn lines(&self, names: &Names) -> Vec<LineUse> {
        type ByWork = BTreeMap<WorkKey, (u64, TotalNanos)>;
        let mut groups: BTreeMap<(Origin, Option<StrId>), ByWork> = BTreeMap::new();
        for cell in &self.rows {
            let line = groups.entry((cell.launcher.origin, cell.launcher.line)).or_default();
            let (count, total_ns) = line.entry(cell.work).or_default();
            *count += cell.count;
            *total_ns += cell.total_ns;
        }
        let mut rows = Vec::with_capacity(groups.len());
        for ((origin, line), work) in groups {
            let largest = work.iter().max_by_key(|&(&key, &(_, ns))| (ns, std::cmp::Reverse(key)));
            let (&(_, top_work), &(_, top_work_ns)) = largest.expect("groups are never empty");
            rows.push(LineUse {
                origin,
                line: line.map(|line| names.text(line).into_owned()),
                count: work.values().map(|&(count, _)| count).sum(),
                total_ns: work.values().map(|&(_, ns)| ns).sum(),
                top_work: names.text(top_work).into_owned(),
                top_work_ns,
            });
        }
        rows.sort_by(|a, b| (b.total_ns, a.origin, &a.line).cmp(&(a.total_ns, b.origin, &b.line)));
        rows
    }
}

fn devices(trace: &Trace) -> Vec<DeviceUse> {
    let mut streams: BTreeMap<StrId, Vec<&Track>> = BTreeMap::new();
    for track in trace.tracks().rows().iter().filter(|row| row.kind == TrackKind::GpuStream) {
        streams.entry(track.process).or_default().push(track);
    }
    // The first of those that the source names under one number.
    let listed = trace.info().devices.iter().rev();
    let listed: HashMap<String, &Device> =
        listed.map(|device| (device.id.to_string(), device)).collect();
    let text = |id: &StrId| trace.strings().get(*id);
    let mut devices: Vec<(StrId, Vec<&Track>)> = streams.into_iter().collect();
    // Numbers in order of numbers, then anything else.
    devices.sort_by_key(|(id, _)| (text(id).parse::<u64>().unwrap_or(u64::MAX), text(id)));
    let device = |(id, streams): (StrId, Vec<&Track>)| {
        device(trace, text(&id), listed.get(text(&id)).copied(), &streams)
    };
    devices.into_iter().map(device).collect()
}

fn device(trace: &Trace, id_text: &str, known: Option<&Device>, streams: &[&Track]) -> DeviceUse {
    let (from, to) = trace.window().unwrap_or((0, 0));
    let mut row = DeviceUse {
        id: id_text.to_owned(),
        name: known.map(|device| device.name.clone()).unwrap_or_default(),
        streams: 0,
        work_count: 0,
        window_ns: i128::from(to) - i128::from(from),
        busy_ns: 0,
        kernel_ns: 0,
        memcpy_ns: 0,
        memset_ns: 0,
        longest_gap: (from, from),
    };
    let mut intervals = Vec::new();
    for track in streams {
        let before = row.work_count;
        for span in track.span_ids() {
            let dur = i128::from(trace.spans().dur(span));
            match trace.kind(span) {
                SpanKind::Kernel => row.kernel_ns += dur,
                SpanKind::Memcpy => row.memcpy_ns += dur,
                SpanKind::Memset => row.memset_ns += dur,
                _ => continue,
            }
            row.work_count += 1;
            if dur > 0 {
                intervals.push((trace.spans().start(span), trace.spans().end(span)));
            }
        }
        // A stream that only repeats annotations did no work.
        row.streams += u64::from(row.work_count > before);
    }
    intervals.sort_unstable();
    (row.busy_ns, row.longest_gap) = busy_and_gap(&intervals, (from, to));
    row
}

/// Time covered and the longest time not covered; `intervals` ascend.
fn busy_and_gap(intervals: &[(i64, i64)], window: (i64, i64)) -> (TotalNanos, (Nanos, Nanos)) {
    let busy = IntervalSet::new(intervals.to_vec());
    let idle = IntervalSet::new(vec![window]).minus(&busy);
    // Of several, the first.
    let longest = idle.iter().rev().max_by_key(|&gap| length(gap));
    (busy.total_ns(), longest.unwrap_or((window.0, window.0)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::sample::Sample;

    /// Two lines launch `mm`, one of them from autograd's thread; `fill` came before.
    fn sample() -> Arc<Trace> {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
        sample.span("1", SpanKind::Python, "model.py(5): forward", 10, 20);
        sample.span("1", SpanKind::Operator, "aten::mm", 12, 10);
        sample.call("1", 13, 5, 1);
        sample.call("1", 40, 5, 2);
        sample.span("2", SpanKind::Operator, "MmBackward0", 50, 20);
        sample.call("2", 55, 5, 3);
        sample.forward_backward(("1", 12), ("2", 50), 9);
        sample.work("7", SpanKind::Memset, "fill", (0, 8), 77);
        sample.work("7", SpanKind::Kernel, "mm", (20, 30), 1);
        sample.work("7", SpanKind::Kernel, "mm", (50, 10), 2);
        sample.work("9", SpanKind::Kernel, "mm", (55, 25), 3);
        sample.finish()
    }

    fn asked(trace: &Arc<Trace>) -> GpuUse {
        gpu_use(trace, &Frames::new(trace), &Names::new(trace))
    }

    #[test]
    fn busy_counts_streams_side_by_side_once() {
        let gpu = asked(&sample());
        let device = &gpu.devices[0];
        assert_eq!((device.busy_ns, device.idle_ns()), (68, 32));
        assert_eq!((device.kernel_ns, device.memset_ns, device.streams), (65, 8, 2));
        assert_eq!(device.longest_gap, (80, 100));
    }

    #[test]
    fn work_goes_to_the_line_that_launched_it() {
        let gpu = asked(&sample());
        let lines: Vec<_> = gpu
            .lines
            .iter()
            .map(|row| (row.origin, row.line.as_deref().unwrap_or(""), row.total_ns))
            .collect();
        let expected = [
            (Origin::Python, "model.py(5): forward", 30),
            (Origin::BackwardOf, "model.py(5): forward", 25),
            (Origin::Python, "train.py(1): main", 10),
            (Origin::NotRecorded, "", 8),
        ];
        assert_eq!(lines, expected);
        assert_eq!(gpu.lines.iter().map(|row| row.total_ns).sum::<i128>(), gpu.work_ns);
    }

    #[test]
    fn a_kernel_names_the_place_that_launched_most_of_it() {
        let gpu = asked(&sample());
        let mm = &gpu.work[0];
        assert_eq!(
            (mm.count, mm.total_ns, mm.min_ns, mm.max_ns, mm.mean_ns()),
            (3, 65, 10, 30, 21)
        );
        assert_eq!(mm.launcher.line.as_deref(), Some("model.py(5): forward"));
        assert_eq!(mm.launcher.operator.as_deref(), Some("aten::mm"));
        assert_eq!((mm.launcher_ns, mm.other_launchers), (30, 2));
    }

    #[test]
    fn a_trace_without_gpu_has_no_rows() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, 1);
        let gpu = asked(&sample.finish());
        assert!(gpu.devices.is_empty() && gpu.work.is_empty() && gpu.lines.is_empty());
    }
}
