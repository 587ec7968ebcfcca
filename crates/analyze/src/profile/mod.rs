//! A trace becomes a profile whose numbers add up.
//!
//! Wall time stands on the stack of everything open at that instant (`sweep`), GPU
//! time on the stack that launched it (`gpu`), memory on the stack that asked for it
//! (`memory`). Per thread, wall adds up to the union of its spans; GPU time adds up to
//! the GPU work, with what was launched before the recording under a root of its
//! own (I9).

mod frames;
mod gpu;
mod grouped;
mod labels;
mod memory;
mod off_cpu;
mod prefix;
pub(super) mod profile_use;
pub(super) mod span_stacks;
mod sweep;
#[cfg(test)]
mod tests;
mod time_slices;

use spanwise_model::{Profile, ProfileBuilder, Trace, both};

pub(crate) use frames::made_up;
pub use grouped::{profile_by_label, profiles_side_by_side};
pub use off_cpu::{ThreadProfile, event_profile, thread_profile};
pub use prefix::without_prefix;

use crate::cpu::sampled::{ObservedStacks, WeightColumns, add_cpu_time};
use crate::training::steps::ignored_steps;
use crate::{CpuTime, Memory, Names};
use time_slices::Shares;

/// Which frames make up a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StackMode {
    /// Python frames, operators, annotations and runtime calls in one.
    #[default]
    Mixed,
    /// Python frames alone.
    Python,
    /// Everything but Python frames: small, and unmoved by edits of the code.
    Operators,
    /// `nn.Module` markers alone.
    Modules,
}

impl StackMode {
    /// What options call each.
    pub const NAMES: [(&'static str, StackMode); 4] = [
        ("mixed", StackMode::Mixed),
        ("python", StackMode::Python),
        ("ops", StackMode::Operators),
        ("modules", StackMode::Modules),
    ];
}

/// Where backward work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backward {
    /// On its own thread's stack.
    #[default]
    Own,
    /// Under the stack of the forward operator that it differentiates.
    ForwardStack,
}

impl Backward {
    /// What options call each; the last name is Python's.
    pub const NAMES: [(&'static str, Backward); 3] = [
        ("own", Backward::Own),
        ("forward-stack", Backward::ForwardStack),
        ("forward_stack", Backward::ForwardStack),
    ];
}

/// What makes a frame of its own in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameBy {
    #[default]
    Function,
    /// A function with the line that was executed.
    Line,
    /// The same, and the name says the line: for formats that have no field for it.
    NamedLine,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfileOptions {
    pub stack: StackMode,
    pub backward: Backward,
    /// The rank to label samples with, where the trace itself names none.
    pub rank: Option<i64>,
    /// Left out where frames' names begin with it, so that code which moved between
    /// two recordings still compares.
    pub strip_prefix: String,
    pub by: FrameBy,
}

/// The columns of every profile made from a trace. The list is the same whatever
/// the trace holds, since clients refuse to merge or diff lists that differ.
pub const VALUE_TYPES: [(&str, &str); 12] = [
    ("samples", "count"),
    ("wall", "nanoseconds"),
    ("gpu", "nanoseconds"),
    ("gpu_busy", "nanoseconds"),
    ("gpu_launches", "count"),
    ("copy", "bytes"),
    ("alloc_space", "bytes"),
    ("alloc_objects", "count"),
    ("inuse_space", "bytes"),
    ("inuse_objects", "count"),
    ("peak_space", "bytes"),
    ("peak_objects", "count"),
];

/// Columns of [`VALUE_TYPES`], by name.
pub(crate) mod value {
    pub(crate) const SAMPLES: usize = 0;
    pub(crate) const WALL: usize = 1;
    pub(crate) const GPU: usize = 2;
    pub(crate) const GPU_BUSY: usize = 3;
    pub(crate) const GPU_LAUNCHES: usize = 4;
    pub(crate) const COPY_BYTES: usize = 5;
    pub(crate) const ALLOC_BYTES: usize = 6;
    pub(crate) const ALLOC_OBJECTS: usize = 7;
    pub(crate) const INUSE_BYTES: usize = 8;
    pub(crate) const INUSE_OBJECTS: usize = 9;
    pub(crate) const PEAK_BYTES: usize = 10;
    pub(crate) const PEAK_OBJECTS: usize = 11;
}

/// The profile of a trace.
pub fn profile(trace: &Trace, options: &ProfileOptions) -> Profile {
    profile_in(Shares::for_this_machine(), trace, options)
}

fn profile_in(shares: Shares, trace: &Trace, options: &ProfileOptions) -> Profile {
    let of_memory = || {
        let memory = Memory::new(trace);
        let allocations = memory::allocations(trace, &memory);
        (memory, allocations)
    };
    let of_gpu = || (Names::new(trace), gpu::busy_shares(trace));
    let ((memory, allocations), (names, busy)) = both(of_memory, of_gpu);
    let walked = time_slices::threads(trace, options, &names, &allocations, shares);
    let time_slices::AllWalked { mut builder, launches, comments } = walked;
    memory::before(trace, options, &memory, &mut builder);
    let unlinked = gpu::work(trace, options, &names, &launches, &busy, &mut builder);
    observed(trace, options, &mut builder);
    let window = trace.window().unwrap_or((0, 0));
    let info = trace.info();
    builder.time_ns = info.base_time_ns.and_then(|base| base.checked_add(window.0));
    builder.duration_ns = window.1.saturating_sub(window.0);
    builder.comments = vec![format!("made by spanwise from {}", info.format)];
    if unlinked > 0 {
        let note = format!("{unlinked} pieces of GPU work were launched before the recording");
        builder.comments.push(note);
    }
    builder.comments.extend(comments);
    if let Some(marks) = ignored_steps(trace) {
        let note =
            format!("{marks} marks of steps are not taken as steps: too many for its tracks");
        builder.comments.push(note);
    }
    builder.finish()
}

/// Adds what was seen from outside: CPU time by samples, and waits by the stack that threads
/// stood on, with their state as the innermost frame. Per thread both add up to the time that
/// its states were known.
fn observed(trace: &Trace, options: &ProfileOptions, builder: &mut ProfileBuilder) {
    let time = CpuTime::new(trace);
    if !time.is_recorded() {
        return;
    }
    let stacks = ObservedStacks::new(trace, options, builder);
    let columns = WeightColumns { samples: value::SAMPLES, weight: value::WALL };
    add_cpu_time(trace, &time, &stacks, builder, columns);
    off_cpu::add_waits(trace, &stacks, builder);
}
