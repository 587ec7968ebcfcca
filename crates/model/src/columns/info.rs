//! What a source says about itself: format, devices, rank, versions, counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The property by which sources say whose monotonic clock their times are of: the system's id
/// of the boot. Times of two sources with the same one need no calendar to be compared.
pub const BOOT_PROPERTY: &str = "boot";

/// A GPU or other accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Its number in the trace.
    pub id: i64,
    /// Some producers leave it empty.
    pub name: String,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Number of streaming multiprocessors or compute units.
    pub multiprocessors: Option<u64>,
    /// Major and minor, as in "9.0".
    pub compute_capability: Option<String>,
    /// Threads of a warp.
    pub warp_size: Option<u64>,
}

/// Calls of a function in a thread that were counted while they were recorded, and are no spans.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CountedCalls {
    /// The function.
    pub function: String,
    /// Its program or library.
    pub file: String,
    /// Process id.
    pub process: i64,
    /// Thread id.
    pub thread: i64,
    /// Number of calls.
    pub calls: u64,
    /// Calls whose length is known.
    pub timed: u64,
    /// Of those.
    pub total_ns: u64,
    /// How many of those have which highest bit in their length in nanoseconds.
    pub by_length: Vec<u64>,
}

/// A function whose calls were recorded less closely from a time on, because of what they cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BrakedCalls {
    /// The function.
    pub function: String,
    /// Its program or library.
    pub file: String,
    /// From when on.
    pub time_ns: i64,
    /// What was done from then on.
    pub level: BrakedLevel,
    /// How often it had been called by then.
    pub calls: u64,
}

/// How closely calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BrakedLevel {
    /// Counted, with their lengths.
    #[default]
    Counted,
    /// Counted, without their ends.
    CountedWithoutEnds,
    /// Not watched.
    Detached,
}

/// Facts about the source as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Such as "PyTorch (Kineto)" or "Chrome trace events".
    pub format: String,
    /// "gzip", "zstd", "xz", or empty.
    pub compression: String,
    /// Length of the (uncompressed) text.
    pub text_bytes: u64,
    /// What to add to a time of the trace to get nanoseconds since 1970.
    pub base_time_ns: Option<i64>,
    /// GPUs and other accelerators.
    pub devices: Vec<Device>,
    /// Number of this process in a distributed run.
    pub rank: Option<i64>,
    /// Number of processes of the distributed run.
    pub world_size: Option<i64>,
    /// Of the distributed run, such as "nccl".
    pub backend: Option<String>,
    /// Scalars that stood beside the events, such as `cuda_runtime_version`.
    pub properties: BTreeMap<String, String>,
    /// Events read, by phase letter (`X`, `s`, `M` …).
    pub events_by_phase: BTreeMap<String, u64>,
    /// Calls beside the spans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_calls: Vec<CountedCalls>,
    /// Functions whose calls were recorded less closely after some time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub braked_calls: Vec<BrakedCalls>,
}

impl SourceInfo {
    /// Events read, of all phases.
    pub fn events(&self) -> u64 {
        // Counts of an index may be anything.
        self.events_by_phase.values().fold(0, |sum, &count| sum.saturating_add(count))
    }
}
