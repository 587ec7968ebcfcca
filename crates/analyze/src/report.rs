//! All questions of the report at once, asked of what they share only once.

use spanwise_model::{Nanos, Trace};

use crate::findings::{Facts, findings};
use crate::{
    Finding, Frames, GpuUse, HotFunctions, Names, ThreadTime, Thresholds, Waits, gpu_use,
    hot_functions, self_time, thread_times,
};

/// Where the time went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// First and last nanosecond of the recording; equal in an empty trace.
    pub window: (Nanos, Nanos),
    pub findings: Vec<Finding>,
    pub gpu: GpuUse,
    pub threads: Vec<ThreadTime>,
    pub functions: HotFunctions,
}

pub fn report(trace: &Trace, thresholds: &Thresholds) -> Report {
    let names = Names::new(trace);
    let frames = Frames::new(trace);
    let waits = Waits::new(trace);
    let self_time = self_time(trace);
    let gpu = gpu_use(trace, &frames, &names);
    let threads = thread_times(trace, &self_time, &waits);
    let window = trace.window().unwrap_or((0, 0));
    let facts = Facts {
        trace,
        frames: &frames,
        names: &names,
        waits: &waits,
        self_time: &self_time,
        gpu: &gpu,
        threads: &threads,
        window,
    };
    let findings = findings(&facts, thresholds);
    let functions = hot_functions(trace, &self_time, &names);
    Report { window, findings, gpu, threads, functions }
}
