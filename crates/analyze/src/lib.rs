//! Questions asked of a trace; plain rows out.
//!
//! Each question is one file and one function from a [`spanwise_model::Trace`] to
//! rows of numbers and names. Nothing here prints, reads a clock or depends on
//! the order of a hash map, so the same trace gives the same answer (I7). Sums are
//! integers and add up exactly (I9).

mod align;
mod architecture;
mod breakdown;
mod calls;
mod classes;
mod compare;
mod compat;
mod correlate;
mod counted_calls;
mod cover;
mod critical;
mod device;
mod diff;
mod facts;
mod findings;
mod frames;
mod fusion;
pub mod fuzzing;
mod gpu;
mod host;
mod hot;
mod hta;
mod idle;
mod intervals;
mod launch;
mod launches;
mod layers;
mod locks;
mod matching;
mod memory;
mod metrics;
mod modules;
mod names;
mod observe;
mod off_cpu;
mod off_cpu_reasons;
mod phase;
mod phase_use;
mod profile;
mod profile_use;
mod python;
mod quality;
mod queue;
mod ranks;
mod roofline;
#[cfg(test)]
mod sample;
mod sampled;
mod self_time;
mod serving;
mod span_stacks;
mod stats;
mod step_classes;
mod steps;
mod syncs;
mod tables;
mod threads;
mod timeline;
mod tracelens;
mod waits;
mod work_rows;

pub use align::{AlignedGroup, Alignment, alignment};
pub use architecture::{Architecture, ArchitectureUse, Evidence, architecture};
pub use breakdown::{Balance, BreakdownRow, breakdown};
pub use calls::{
    Bucket, CallDifference, CallSelection, CallsRow, Latency, NamePattern, SlowCall, calls,
    latency, select_calls,
};
pub use classes::{ClassRow, ClassRules, ClassUse, OTHER, SpanClasses, class_use, span_classes};
pub use compare::{
    Allowance, BaselineError, Cause, CauseKind, CompareBy, CompareOptions, CompareRow,
    CompareSeries, ComparedBy, Comparison, KernelSwap, Place, Reason, STEPS_MIN, SideTotals,
    StepTime, Verdict, Why, baseline_text, compare, compare_series, parse_baseline, row_spans,
    steps_of,
};
pub use compat::{CompatTable, CompatValue};
pub use correlate::{Correlations, Moved, Mover, Outcome, SAMPLES_MIN, correlate};
pub use counted_calls::{CountedCallsRow, counted_calls};
pub use critical::{CriticalPath, PathItem, PathKind, PathKindTime, critical_path};
pub use diff::{
    DiffOptions, FunctionDiff, ProfileDiff, SideSums, base_and_other, difference, profile_diff,
    step_count,
};
pub use facts::Facts;
pub use findings::{
    AllocationStorm, Copied, CpuFunction, CpuSpent, CpuStarvation, Doing, Finding, FindingKind,
    GpuIdle, GpuIdleCause, HostCopies, HostLine, LostOverlap, NotRecorded, OffCpuWaits, Spent,
    SpentOn, Synchronisation, Thresholds, TinyKernels, Waiting, findings,
};
pub use frames::Frames;
pub use fusion::{
    Confidence, Fusion, FusionNote, FusionSide, Kernels, LayerKernels, LayerPair, LayerSide,
    LayerView, Opportunity, Replacement, ReplacementKind, SameKernel, fusion, layer_view,
};
use gpu::gpu_use;
pub use gpu::{DeviceUse, GpuUse, LineUse, WorkUse};
pub use hot::{HotFunction, HotFunctions, hot_functions, hottest_functions};
pub use hta::{HTA_TABLES, HtaWindow, hta_tables};
pub use idle::{IdleCause, IdleRow, idle};
pub use launch::{Launcher, Origin};
pub use launches::{LaunchRow, Percentiles, launches};
pub use layers::{LayerRow, LayerUse, LayersFrom, layer_use};
pub use locks::{LockRow, LockThreadRow, LockWaker, WaitForLock, lock_threads, lock_waits, locks};
pub use matching::{MatchError, MatchedBy, Matching, has_steps, match_runs, match_steps, outcomes};
pub use memory::{
    Allocation, BEFORE_RECORDING, DeviceMemory, Level, Memory, MemoryOf, MemoryPlace, MemorySlice,
    MemoryUse, NO_ADDRESS, Replayed, SHORT_LIVED_NS, TotalBytes, memory_churn, memory_peak,
    memory_timeline, memory_use,
};
pub use metrics::{Metric, MetricError, MetricValue, metrics};
pub use modules::{ModuleRow, ModuleTime, ModuleUse, module_use};
pub use names::Names;
pub use observe::{Feature, FeatureGroup, Observation, observe_run, observe_steps};
pub use off_cpu::{OffCpuRow, off_cpu};
pub use off_cpu_reasons::{OffCpuReason, off_cpu_reasons, off_cpu_reasons_within, reason_text};
pub use phase::{Phase, Phases};
pub use phase_use::{GpuPart, PhaseRow, PhaseUse, Spread, StepRow, phase_use};
pub use profile::{
    Backward, ProfileOptions, StackMode, ThreadProfile, VALUE_TYPES, event_profile, profile,
    profile_by_label, profiles_side_by_side, thread_profile, without_prefix,
};
pub use profile_use::{FunctionUse, LabelUse, ProfileUse, profile_use};
pub use quality::{Check, CheckKind, CheckStatus, quality};
pub use queue::{QUEUE_DEPTHS, QueueRow, queues};
pub use ranks::{
    Activity, CollectiveCall, CollectiveKey, CollectiveOp, CollectiveRow, Excess, MeetingRow,
    RankDigest, RankDigester, RankRow, RankWait, Ranks, Straggler, ranks,
};
pub use roofline::{
    Bound, Cost, DevicePeaks, Least, NumberType, Peaks, Roofline, RooflineRow, Uncovered, roofline,
};
pub use sampled::{
    CpuByStack, CpuTime, FunctionBy, NO_SAMPLE, PythonFunctions, SWITCHING, SampledCall,
    SampledEvent, SampledFunction, SampledFunctions, SampledLine, cpu_by_stack, cpu_functions,
    cpu_functions_within, event_functions, frame_name, other_events, python_functions,
    sampled_call, share_error_percent,
};
pub use self_time::{SelfTime, TrackTime, self_time};
pub use serving::Batch;
pub use span_stacks::{SpanStack, span_stacks};
pub use step_classes::{StepClassTimes, StepClasses, step_classes};
pub use steps::{ignored_steps, step_numbers};
pub use syncs::{SyncRow, syncs};
pub use tables::TableError;
use threads::thread_times;
pub use threads::{KindTimes, ThreadTime, main_thread};
pub use timeline::{
    Found, FoundName, LaunchedWork, Look, NameUse, Rows, Slice, find_named, range_use, span_self_ns,
};
pub use tracelens::{TRACELENS_TABLES, tracelens_tables};
pub use waits::{WaitKind, Waits};
pub use work_rows::{WorkRow, work_rows};

/// A sum of nanoseconds. Wider than a time: a file from a stranger may hold spans
/// of centuries, and their sum must stay exact.
pub type TotalNanos = i128;
