//! Findings about what passes between host and GPU: waiting for a result, copies, and
//! communication that nothing hides.

use std::collections::BTreeMap;

use spanwise_model::{ArgValue, SpanKind, StrId};

use super::{Finding, FindingKind, Thresholds, reaches};
use crate::gpu::launching_frame::Launchers;
use crate::gpu::usage::gpu_work;
use crate::{Facts, SyncRow, TotalNanos, breakdown, syncs};

/// A line that makes the host wait for the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synchronization {
    pub row: SyncRow,
    pub window_ns: TotalNanos,
}

/// Copies between host and GPU from one line, through memory that the driver must stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCopies {
    pub line: Option<String>,
    pub to_device: Copied,
    pub to_host: Copied,
    /// The host was inside the calls, and the GPU then had no work.
    pub blocked_ns: TotalNanos,
    pub idle_ns: TotalNanos,
    pub window_ns: TotalNanos,
}

/// Copies in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    pub count: u64,
    /// Where the source has it.
    pub bytes: u64,
    pub total_ns: TotalNanos,
}

/// Communication between GPUs while none computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostOverlap {
    pub device: String,
    pub exposed_ns: TotalNanos,
    pub communication_ns: TotalNanos,
    pub window_ns: TotalNanos,
}

/// Operators and calls that copy: waiting in them is the copy's doing.
const COPYING: &[&str] = &["aten::to", "aten::copy_", "aten::_to_copy", "aten::cpu", "aten::cuda"];

fn is_copy(row: &SyncRow) -> bool {
    row.operator.as_deref().is_some_and(|operator| COPYING.contains(&operator))
        || (row.operator.is_none() && row.call.contains("Memcpy"))
}

pub(super) fn transfers(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let (copies, waits): (Vec<SyncRow>, Vec<SyncRow>) = syncs(facts).into_iter().partition(is_copy);
    let mut found = synchronizations(facts, waits, thresholds);
    found.extend(host_copies(facts, &copies, thresholds));
    found.extend(lost_overlap(facts, thresholds));
    found
}

fn synchronizations(facts: &Facts, rows: Vec<SyncRow>, thresholds: &Thresholds) -> Vec<Finding> {
    let window_ns = facts.window_ns();
    let finding = |row: SyncRow| {
        // Where the GPU never ran dry the host only caught up with it.
        let is_costly = row.drained > 0
            && reaches(row.blocked_ns + row.idle_ns, window_ns, thresholds.sync_percent);
        is_costly.then(|| Finding {
            about_ns: row.blocked_ns + row.idle_ns,
            gain_ns: Some(row.idle_ns),
            kind: FindingKind::Synchronization(Synchronization { row, window_ns }),
        })
    };
    rows.into_iter().filter_map(finding).collect()
}

fn host_copies(facts: &Facts, syncs: &[SyncRow], thresholds: &Thresholds) -> Vec<Finding> {
    let mut rows: BTreeMap<Option<String>, HostCopies> = BTreeMap::new();
    for ((line, is_to_host), copied) in staged_copies(facts) {
        let line = line.map(|line| facts.text(line));
        let row = rows.entry(line.clone()).or_insert_with(|| HostCopies {
            line,
            to_device: Copied::default(),
            to_host: Copied::default(),
            blocked_ns: 0,
            idle_ns: 0,
            window_ns: facts.window_ns(),
        });
        *(if is_to_host { &mut row.to_host } else { &mut row.to_device }) = copied;
    }
    for sync in syncs {
        if let Some(row) = rows.get_mut(&sync.line) {
            row.blocked_ns += sync.blocked_ns;
            row.idle_ns += sync.idle_ns;
        }
    }
    let cost = |row: &HostCopies| {
        row.to_host.total_ns + row.to_device.total_ns + row.blocked_ns + row.idle_ns
    };
    let is_costly =
        |row: &HostCopies| reaches(cost(row), row.window_ns, thresholds.host_copies_percent);
    rows.into_values()
        .filter(is_costly)
        .map(|row| Finding {
            about_ns: cost(&row),
            gain_ns: Some(row.blocked_ns.max(row.idle_ns)),
            kind: FindingKind::HostCopies(row),
        })
        .collect()
}

/// Copies from and to pageable memory, by launching line and direction.
fn staged_copies(facts: &Facts) -> BTreeMap<(Option<StrId>, bool), Copied> {
    let trace = facts.trace();
    let launchers = Launchers::new(trace, facts.frames(), facts.names());
    let mut copies: BTreeMap<(Option<StrId>, bool), Copied> = BTreeMap::new();
    for span in gpu_work(trace).filter(|&span| trace.kind(span) == SpanKind::Memcpy) {
        let name = trace.name(span);
        let is_to_host = name.contains("DtoH") || name.contains("DeviceToHost");
        let is_to_device = name.contains("HtoD") || name.contains("HostToDevice");
        if !name.contains("Pageable") || !(is_to_host || is_to_device) {
            continue;
        }
        let copied = copies.entry((launchers.of(span).line, is_to_host)).or_default();
        let bytes = trace.pick_args(span, &["bytes"]).ok();
        let bytes = bytes.and_then(|args| args[0].as_ref().and_then(ArgValue::as_i64));
        copied.count += 1;
        copied.bytes = copied.bytes.saturating_add(bytes.unwrap_or(0).max(0) as u64);
        copied.total_ns += i128::from(trace.spans().dur(span));
    }
    copies
}

fn lost_overlap(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let rows = breakdown(facts).into_iter().filter(|row| row.step.is_none());
    rows.filter(|row| {
        let exposed_ns = row.exposed_communication_ns;
        reaches(exposed_ns, row.window_ns, thresholds.exposed_communication_percent)
    })
    .map(|row| Finding {
        about_ns: row.exposed_communication_ns,
        gain_ns: Some(row.exposed_communication_ns.min(row.compute_ns)),
        kind: FindingKind::LostOverlap(LostOverlap {
            device: row.device,
            exposed_ns: row.exposed_communication_ns,
            communication_ns: row.communication_ns,
            window_ns: row.window_ns,
        }),
    })
    .collect()
}
