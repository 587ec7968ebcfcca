//! Questions asked of a trace; plain rows out.
//!
//! Each question is one file and one function from a [`spanwise_model::Trace`] to
//! rows of numbers and names. Nothing here prints, reads a clock or depends on
//! the order of a hash map, so the same trace gives the same answer (I7). Sums are
//! integers and add up exactly (I9).

mod base;
mod compare;
mod compat;
mod cpu;
mod critical;
mod findings;
mod gpu;
mod memory;
mod profile;
mod ranks;
mod timeline;
mod training;

pub use base::facts::Facts;
pub use base::frames::Frames;
#[doc(hidden)]
pub use base::fuzzing;
pub use base::metrics::{Metric, MetricError, MetricValue, metrics};
pub use base::names::Names;
pub use base::quality::{Check, CheckKind, CheckStatus, quality};
pub use base::tables::TableError;
pub use compare::align::{AlignedGroup, Alignment, alignment};
pub use compare::changes::{
    Allowance, BaselineError, Cause, CauseKind, CompareBy, CompareOptions, ComparePlace,
    CompareRow, CompareSeries, ComparedBy, Comparison, KernelSwap, Reason, STEPS_MIN, SideTotals,
    StepTime, Verdict, Why, baseline_text, compare, compare_series, parse_baseline, row_spans,
    steps_of,
};
pub use compare::correlate::{
    Association, CorrelatedFeature, Correlations, Outcome, SAMPLES_MIN, correlate,
};
pub use compare::diff::{
    DiffOptions, FunctionDiff, ProfileDiff, SideSums, base_and_other, difference, profile_diff,
    step_count,
};
pub use compare::fusion::{
    Confidence, Fusion, FusionNote, FusionSide, Kernels, LayerKernels, LayerPair, LayerSide,
    LayerView, Opportunity, Replacement, ReplacementKind, SameKernel, fusion, layer_view,
};
pub use compare::matching::{
    MatchError, MatchedBy, Matching, has_steps, match_runs, match_steps, outcomes,
};
pub use compare::observe::{Feature, FeatureGroup, Observation, observe_run, observe_steps};
pub use compat::hta::{HTA_TABLES, HtaWindow, hta_tables};
pub use compat::table::{CompatTable, CompatValue};
pub use compat::tracelens::{TRACELENS_TABLES, tracelens_tables};
pub use cpu::calls::{
    Bucket, CallDifference, CallSelection, CallsRow, Latency, NamePattern, SlowCall, calls,
    latency, select_calls,
};
pub use cpu::counted_calls::{CountedCallsRow, counted_calls};
pub use cpu::off_cpu::locks::{
    LockRow, LockThreadRow, LockWaker, WaitForLock, lock_threads, lock_waits, locks,
};
pub use cpu::off_cpu::reasons::{
    OffCpuReason, off_cpu_reasons, off_cpu_reasons_within, reason_text,
};
pub use cpu::off_cpu::sampled_waits::{SampledWaits, WaitStacks, WaitsWithoutStack, wait_stacks};
pub use cpu::off_cpu::threads::{OffCpuRow, off_cpu};
pub use cpu::off_cpu::wakers::{WakerRow, wakers};
pub use cpu::sampled::{
    CpuByStack, CpuTime, FunctionBy, HottestLine, NO_SAMPLE, PythonFunctions, SWITCHING,
    SampledCall, SampledEvent, SampledFunction, SampledFunctions, SampledLine, StartUp,
    cpu_by_stack, cpu_functions, cpu_functions_within, event_functions, frame_name, native_lines,
    other_events, python_functions, sampled_call, share_error_percent, start_up,
};
pub use cpu::self_time::{SelfTime, TrackTime, self_time};
use cpu::threads::thread_times;
pub use cpu::threads::{KindTimes, ThreadTime, main_thread};
pub use cpu::top_functions::{HotFunction, HotFunctions, hot_functions, hottest_functions};
pub use cpu::waits::{WaitClassifier, WaitKind};
pub use critical::{CriticalPath, PathItem, PathKind, PathKindTime, critical_path};
pub use findings::{
    AllocationStorm, Copied, CpuFunction, CpuSpent, CpuStarvation, Finding, FindingKind, GpuIdle,
    GpuIdleCause, HostCopies, HostLine, InGap, LostOverlap, NotRecorded, OffCpuWaits, Overhead,
    SpentOn, Synchronization, Thresholds, TinyKernels, TopFunction, Waiting, findings,
};
pub use gpu::breakdown::{Balance, BreakdownRow, HostBalance, breakdown};
pub use gpu::classes::{ClassRow, ClassRules, ClassUse, OTHER, SpanClasses};
pub use gpu::device::is_communication;
pub use gpu::idle::{IdleCause, IdleRow, idle};
pub use gpu::launches::{LaunchRow, Percentiles, launches};
pub use gpu::launching_frame::{Launcher, Origin};
pub use gpu::queues::{QUEUE_DEPTHS, QueueRow, queues};
pub use gpu::roofline::{
    Bound, Cost, DevicePeaks, Least, NumberType, Peaks, Roofline, RooflineRow, Uncovered, roofline,
};
pub use gpu::syncs::{SyncRow, syncs};
use gpu::usage::gpu_use;
pub use gpu::usage::{DeviceUse, GpuUse, LineUse, WorkUse};
pub use gpu::work_rows::{WorkRow, work_rows};
pub use memory::{
    Allocation, BEFORE_RECORDING, DeviceMemory, Level, Memory, MemoryOf, MemoryPlace, MemorySlice,
    MemoryUse, NO_ADDRESS, Replayed, SHORT_LIVED_NS, TotalBytes, memory_churn, memory_peak,
    memory_timeline, memory_use,
};
pub use profile::profile_use::{FunctionUse, LabelUse, ProfileUse, profile_use};
pub use profile::span_stacks::{SpanStack, span_stacks};
pub use profile::{
    Backward, FrameBy, ProfileOptions, StackMode, ThreadProfile, VALUE_TYPES, event_profile,
    profile, profile_by_label, profiles_side_by_side, thread_profile, without_prefix,
};
pub use ranks::{
    Activity, CollectiveCall, CollectiveInstanceRow, CollectiveKey, CollectiveOp, CollectiveRow,
    Excess, RankDigest, RankDigester, RankRow, RankWait, Ranks, Straggler, ranks,
};
pub use timeline::{
    FoundName, LaunchedWork, NameUse, Rows, SearchHit, Slice, Viewport, find_named, range_use,
    span_self_ns,
};
pub use training::architecture::{Architecture, ArchitectureUse, Evidence, architecture};
pub use training::class_times::{StepClassTimes, StepClasses, step_classes};
pub use training::layers::{LayerRow, LayerUse, LayersFrom, layer_use};
pub use training::modules::{ModuleRow, ModuleTime, ModuleUse, module_use};
pub use training::phase::{Phase, Phases};
pub use training::phase_times::{GpuPart, PhaseRow, PhaseUse, Spread, StepRow};
pub use training::serving::Batch;
pub use training::steps::{ignored_steps, step_numbers};

/// A sum of nanoseconds. Wider than a time: a file from a stranger may hold spans
/// of centuries, and their sum must stay exact.
pub type TotalNanos = i128;
