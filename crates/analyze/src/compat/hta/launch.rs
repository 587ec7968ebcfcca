//! Each launch: how long the call took, the work, and the way between them.

use std::collections::BTreeMap;

use super::Rows;
use super::load::{Loaded, Row};

/// Calls that HTA takes for launches.
pub(super) fn is_launch(name: &str) -> bool {
    matches!(
        name,
        "cudaLaunchKernel"
            | "cudaLaunchKernelExC"
            | "cuLaunchKernel"
            | "cuLaunchKernelEx"
            | "cudaMemcpyAsync"
            | "cudaMemsetAsync"
            | "hipLaunchKernel"
            | "hipExtModuleLaunchKernel"
            | "hipMemcpyAsync"
            | "hipMemsetAsync"
            | "hipMemcpyWithStream"
            | "runFunction - job_prep_and_submit_for_execution"
    )
}

/// HTA considers only calls of CUDA here.
fn is_counted(name: &str) -> bool {
    is_launch(name) && name.starts_with("cu")
}

pub(super) fn launch_stats(loaded: &Loaded<'_>) -> Rows {
    let columns = vec!["correlation", "cpu_duration", "gpu_duration", "launch_delay"];
    let mut work: BTreeMap<i64, Vec<&Row>> = BTreeMap::new();
    for row in &loaded.gpu {
        work.entry(row.correlation).or_default().push(row);
    }
    let calls = loaded.cpu.iter().filter(|row| is_counted(loaded.name(row)));
    let mut rows = Vec::new();
    for call in calls {
        for launched in work.get(&call.correlation).into_iter().flatten() {
            let delay = (launched.ts - call.ts - call.dur).max(0);
            let values = [call.correlation, call.dur, launched.dur, delay];
            rows.push(values.map(Into::into).to_vec());
        }
    }
    (columns, rows)
}
