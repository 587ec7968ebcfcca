//! The GPUs of a trace: their streams, and the work on each in order of time.

use std::collections::HashMap;

use spanwise_model::{Nanos, SpanId, SpanKind, StrId, Trace, TrackId, TrackKind};

use crate::base::intervals::IntervalSet;

/// One GPU that did any work.
pub(crate) struct Device<'a> {
    /// As the source numbers it.
    pub(crate) id: &'a str,
    pub(crate) streams: Vec<Stream<'a>>,
}

/// One stream that did any work.
pub(crate) struct Stream<'a> {
    /// As the source numbers it.
    pub(crate) id: &'a str,
    /// Ascending by start.
    pub(crate) work: Vec<SpanId>,
}

/// What a piece of GPU work is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkKind {
    Compute,
    /// A kernel that exchanges data with other GPUs.
    Communication,
    /// A copy or a fill of memory.
    Copy,
}

/// Kernels of libraries that let GPUs talk to each other, by a part of their names.
/// RCCL names its kernels as NCCL does; the last ones are those of inference engines.
const COMMUNICATION: &[&str] = &[
    "nccl",
    "rccl",
    "hccl",
    "oneccl",
    "nvshmem",
    "rocshmem",
    "cross_device_reduce",
    "all_reduce_kernel",
    "allreduce_kernel",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "multimem_all_reduce",
    "multimem_all_gather",
    "all_gather_kernel",
    "reduce_scatter_kernel",
];

/// Whether kernels of this name communicate.
pub fn is_communication(kernel: &str) -> bool {
    let name = kernel.to_ascii_lowercase();
    COMMUNICATION.iter().any(|part| name.contains(part))
}

/// All GPUs with work, in order of their numbers.
pub(crate) fn devices(trace: &Trace) -> Vec<Device<'_>> {
    let mut places: HashMap<StrId, usize> = HashMap::new();
    let mut devices: Vec<Device<'_>> = Vec::new();
    for (track, row) in trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::GpuStream) {
        let work = stream_work(trace, track);
        if work.is_empty() {
            continue;
        }
        let stream = Stream { id: trace.strings().get(row.thread), work };
        let place = *places.entry(row.process).or_insert_with(|| {
            devices.push(Device { id: trace.strings().get(row.process), streams: Vec::new() });
            devices.len() - 1
        });
        devices[place].streams.push(stream);
    }
    for device in &mut devices {
        device.streams.sort_by_key(|stream| by_number(stream.id));
    }
    devices.sort_by_key(|device| by_number(device.id));
    devices
}

/// Numbers in order of numbers, then anything else.
fn by_number(text: &str) -> (u64, &str) {
    (text.parse().unwrap_or(u64::MAX), text)
}

/// Without work whose times the recorder lost (both 0).
fn stream_work(trace: &Trace, track: TrackId) -> Vec<SpanId> {
    let spans = trace.spans();
    let is_timed = |span: SpanId| spans.start(span) != 0 || spans.dur(span) != 0;
    let ids = trace.tracks().get(track).span_ids();
    ids.filter(|&span| trace.kind(span).is_gpu_work() && is_timed(span)).collect()
}

impl Device<'_> {
    pub(crate) fn work(&self) -> impl Iterator<Item = SpanId> {
        self.streams.iter().flat_map(|stream| stream.work.iter().copied())
    }

    /// When at least one stream worked.
    pub(crate) fn busy(&self, trace: &Trace) -> IntervalSet {
        busy(trace, self.work())
    }
}

pub(crate) fn busy(trace: &Trace, work: impl Iterator<Item = SpanId>) -> IntervalSet {
    let spans = trace.spans();
    IntervalSet::new(work.map(|span| (spans.start(span), spans.end(span))).collect())
}

/// Says what work is for; each name is classified once.
pub(crate) struct WorkKinds<'a> {
    trace: &'a Trace,
    by_name: Vec<Option<bool>>,
}

impl<'a> WorkKinds<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        WorkKinds { trace, by_name: vec![None; trace.strings().len()] }
    }

    pub(crate) fn of(&mut self, work: SpanId) -> WorkKind {
        if self.trace.kind(work) != SpanKind::Kernel {
            return WorkKind::Copy;
        }
        let name = self.trace.spans().name(work);
        let slot = &mut self.by_name[name.index()];
        match *slot.get_or_insert_with(|| is_communication(self.trace.strings().get(name))) {
            true => WorkKind::Communication,
            false => WorkKind::Compute,
        }
    }
}

/// The call that launched the work, where it began no later than the work itself.
pub(crate) fn launch_before(trace: &Trace, work: SpanId) -> Option<(SpanId, Nanos)> {
    let call = trace.spans().launch(work)?;
    // Clocks of host and device may differ by a little.
    Some((call, trace.spans().start(call).min(trace.spans().start(work))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kernel: &str, expected: bool) {
        assert_eq!(is_communication(kernel), expected, "{kernel}");
    }

    #[test]
    fn kernels_that_talk_to_other_gpus_are_known_by_name() {
        check("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", true);
        check("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", true);
        check("void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*)", true);
        check("void at::native::reduce_kernel<512, 1>(float)", false);
        check("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_TNN", false);
    }
}
