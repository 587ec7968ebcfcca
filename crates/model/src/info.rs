//! What a source says about itself: format, devices, rank, versions, counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The property by which sources say whose monotonic clock their times are of: the system's id
/// of the boot. Times of two sources with the same one need no calendar to be compared.
pub const BOOT_PROPERTY: &str = "boot";

/// A GPU or other accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    pub id: i64,
    /// Some producers leave it empty.
    pub name: String,
    pub memory_bytes: Option<u64>,
    pub multiprocessors: Option<u64>,
    /// Major and minor, as in "9.0".
    pub compute_capability: Option<String>,
    pub warp_size: Option<u64>,
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
    pub devices: Vec<Device>,
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    /// Of the distributed run, such as "nccl".
    pub backend: Option<String>,
    /// Scalars that stood beside the events, such as `cuda_runtime_version`.
    pub properties: BTreeMap<String, String>,
    /// Events read, by phase letter (`X`, `s`, `M` …).
    pub events_by_phase: BTreeMap<String, u64>,
}

impl SourceInfo {
    pub fn events(&self) -> u64 {
        // Counts of an index may be anything.
        self.events_by_phase.values().fold(0, |sum, &count| sum.saturating_add(count))
    }
}
