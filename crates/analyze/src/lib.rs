//! Questions asked of a trace; plain rows out.
//!
//! Each question is one file and one function from a [`spanwise_model::Trace`] to
//! rows of numbers and names. Nothing here prints, reads a clock or depends on
//! the order of a hash map, so the same trace gives the same answer (I7). Sums are
//! integers and add up exactly (I9).

mod breakdown;
mod cover;
mod device;
mod facts;
mod findings;
mod frames;
mod gpu;
mod host;
mod hot;
mod idle;
mod intervals;
mod launch;
mod launches;
mod names;
mod profile;
mod python;
mod quality;
mod queue;
mod ranks;
#[cfg(test)]
mod sample;
mod self_time;
mod syncs;
mod threads;
mod waits;

pub use breakdown::{Balance, BreakdownRow, breakdown};
pub use facts::Facts;
pub use findings::{
    Doing, Finding, FindingKind, GpuIdle, GpuIdleCause, HostLine, NotRecorded, Thresholds,
    TinyKernels, Waiting, findings,
};
pub use frames::Frames;
use gpu::gpu_use;
pub use gpu::{DeviceUse, GpuUse, LineUse, WorkUse};
pub use hot::{HotFunction, HotFunctions, hot_functions};
pub use idle::{IdleCause, IdleRow, idle};
pub use launch::{Launcher, Origin};
pub use launches::{LaunchRow, Percentiles, launches};
pub use names::Names;
pub use profile::{Backward, Phase, ProfileOptions, StackMode, VALUE_TYPES, profile};
pub use quality::{Check, CheckKind, CheckStatus, quality};
pub use queue::{QUEUE_DEPTHS, QueueRow, queues};
pub use ranks::{
    Activity, CollectiveKey, CollectiveOp, CollectiveRow, Excess, RankDigest, RankRow, RankWait,
    Ranks, Straggler, rank_digest, ranks,
};
pub use self_time::{SelfTime, TrackTime, self_time};
pub use syncs::{SyncRow, syncs};
use threads::thread_times;
pub use threads::{KindTimes, ThreadTime, main_thread};
pub use waits::{WaitKind, Waits};

/// A sum of nanoseconds. Wider than a time: a file from a stranger may hold spans
/// of centuries, and their sum must stay exact.
pub type TotalNanos = i128;
