//! The numbers of HolisticTraceAnalysis (HTA), as HTA computes them.
//!
//! HTA rounds times to whole microseconds (starts up, ends down, so that short
//! events get negative lengths), leaves out what was launched in the last step, and
//! distinguishes kernels by a few patterns. Those who have such numbers from before
//! can compare with these; the native sections do none of it. Everything of it
//! stays in this folder.
//!
//! One thing cannot be had: HTA sorts by time with a sort that leaves events of the
//! same microsecond in an order that depends on the processor's vector unit. Counts
//! over time (queue length, memory bandwidth) see that order; here such events stay
//! in the order of the source: on traces in whole microseconds means differ by up to
//! one percent, and the greatest bandwidth, where copies follow each other, by eight.

mod annotations;
mod breakdown;
mod counters;
mod critical;
mod idle;
mod launch;
mod load;
mod stats;

use spanwise_model::Trace;

use crate::CompatTable;
pub use critical::HtaWindow;
use load::Loaded;

/// The tables of HTA: key and title.
pub const HTA_TABLES: &[(&str, &str)] = &[
    ("temporal_breakdown", "Temporal breakdown (HTA)"),
    ("comm_comp_overlap", "Communication overlapped by computation (HTA)"),
    ("kernel_types", "Kernel time by type (HTA)"),
    ("kernels", "Kernels by type and name (HTA)"),
    ("idle_time", "Idle time by cause (HTA)"),
    ("idle_intervals", "Idle intervals by cause (HTA)"),
    ("launch_stats", "Launches (HTA)"),
    ("queue_length", "Queue length (HTA)"),
    ("memory_bandwidth", "Memory bandwidth (HTA)"),
    ("gpu_user_annotations", "GPU time by annotation (HTA)"),
    ("critical_path", "Critical path (HTA)"),
];

/// The tables with these keys, in the order of [`HTA_TABLES`]; the window is for the
/// critical path alone.
pub fn hta_tables(trace: &Trace, keys: &[&str], window: &HtaWindow) -> Vec<CompatTable> {
    let loaded = Loaded::new(trace);
    let wanted = HTA_TABLES.iter().filter(|(key, _)| keys.contains(key));
    wanted.map(|&(key, title)| table(&loaded, key, title, window)).collect()
}

fn table(
    loaded: &Loaded<'_>,
    key: &'static str,
    title: &'static str,
    window: &HtaWindow,
) -> CompatTable {
    let (columns, rows) = match key {
        "temporal_breakdown" => breakdown::temporal(loaded),
        "comm_comp_overlap" => breakdown::overlap(loaded),
        "kernel_types" => breakdown::kernel_types(loaded),
        "kernels" => breakdown::kernels(loaded),
        "idle_time" => idle::idle_time(loaded),
        "idle_intervals" => idle::idle_intervals(loaded),
        "launch_stats" => launch::launch_stats(loaded),
        "queue_length" => counters::queue_length(loaded),
        "memory_bandwidth" => counters::memory_bandwidth(loaded),
        "critical_path" => critical::critical_path(loaded, window),
        _ => annotations::gpu_user_annotations(loaded),
    };
    CompatTable { key, title, columns, rows, left_out: loaded.left_out() }
}

/// Names of columns, and rows with a value for each.
type Rows = (Vec<&'static str>, Vec<Vec<crate::CompatValue>>);
