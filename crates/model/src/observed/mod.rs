//! What was observed from outside a program: samples of stacks, and states of threads.
//!
//! Spans are what a program or its runtime reported itself. A sample is a stack that was seen
//! at an instant, with a weight in the unit of the event that took it (I11); it is never
//! turned into a call. A thread state is what the scheduler said about a thread over an
//! interval (I13). Both refer to [`Stacks`], in which every stack is stored once.

mod frames;
mod rows;
mod samples;
mod stacks;
mod states;
#[cfg(test)]
mod tests;

pub use frames::{Frame, FrameId, FrameKind, Frames};
pub use rows::ObservedRows;
pub(crate) use rows::{RowNumbers, join};
pub use samples::{NO_CPU, NO_TIME, SampleEvent, SampleEvents, SampleRow, SampleRows, Samples};
pub use stacks::Stacks;
pub use states::{NO_LOCK, StateRow, ThreadStates};

/// The tables that hold what was observed from outside.
#[derive(Debug, Clone, Default)]
pub struct ObservedTables {
    /// Functions with their positions in the source.
    pub frames: Frames,
    /// Stacks, as a tree.
    pub stacks: Stacks,
    /// What samples were taken of.
    pub events: SampleEvents,
    /// Samples.
    pub samples: Samples,
    /// Thread states.
    pub states: ThreadStates,
}

impl ObservedTables {
    /// Whether there are neither samples nor thread states.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.states.is_empty()
    }
}
