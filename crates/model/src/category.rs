//! What kind of work a span stands for.
//!
//! Sources name categories as they like; an analysis asks for the [`SpanKind`]. A
//! reader translates once, so that a new producer is a new row in its table and
//! no analysis changes.

use serde::{Deserialize, Serialize};

use crate::StrId;

/// Number of a category in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CategoryId(pub u16);

/// What a span means to an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum SpanKind {
    /// Anything that its source does not tell more about.
    Other = 0,
    /// A Python frame.
    Python,
    /// A framework operator, such as `aten::mm`.
    Operator,
    /// A range that the user marked.
    Annotation,
    /// A call of a GPU runtime or driver; it may launch GPU work.
    Runtime,
    Kernel,
    Memcpy,
    Memset,
    /// Waiting recorded on the GPU side.
    Sync,
    /// A copy of an annotation on the GPU's row; no work of its own.
    GpuAnnotation,
    /// Time that the profiler itself took.
    Overhead,
    /// The profiler's bar over the whole recording; no work of its own.
    Window,
    /// A thread that does not run: see [`crate::ThreadState`].
    OffCpu,
    /// A thread that waits for a lock, whether it runs or not: see [`crate::AwaitedLock`].
    LockWait,
}

impl SpanKind {
    pub const ALL: [SpanKind; 14] = [
        SpanKind::Other,
        SpanKind::Python,
        SpanKind::Operator,
        SpanKind::Annotation,
        SpanKind::Runtime,
        SpanKind::Kernel,
        SpanKind::Memcpy,
        SpanKind::Memset,
        SpanKind::Sync,
        SpanKind::GpuAnnotation,
        SpanKind::Overhead,
        SpanKind::Window,
        SpanKind::OffCpu,
        SpanKind::LockWait,
    ];

    /// The word for it in tables, in the index and in the viewer.
    pub const fn text(self) -> &'static str {
        match self {
            SpanKind::Other => "other",
            SpanKind::Python => "python",
            SpanKind::Operator => "operator",
            SpanKind::Annotation => "annotation",
            SpanKind::Runtime => "runtime",
            SpanKind::Kernel => "kernel",
            SpanKind::Memcpy => "memcpy",
            SpanKind::Memset => "memset",
            SpanKind::Sync => "sync",
            SpanKind::GpuAnnotation => "gpu_annotation",
            SpanKind::Overhead => "overhead",
            SpanKind::Window => "window",
            SpanKind::OffCpu => "off_cpu",
            SpanKind::LockWait => "lock_wait",
        }
    }

    /// True for what keeps a GPU busy.
    pub fn is_gpu_work(self) -> bool {
        matches!(self, SpanKind::Kernel | SpanKind::Memcpy | SpanKind::Memset)
    }

    /// True for what belongs to a GPU's row, work or not.
    pub fn is_on_gpu(self) -> bool {
        self.is_gpu_work() || matches!(self, SpanKind::Sync | SpanKind::GpuAnnotation)
    }

    /// True for what may stand in a thread's call stack.
    pub fn is_on_stack(self) -> bool {
        use SpanKind::{Annotation, LockWait, OffCpu, Operator, Other, Python, Runtime};
        matches!(self, Other | Python | Operator | Annotation | Runtime | OffCpu | LockWait)
    }
}

/// A category as its source named it, with what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Category {
    pub name: StrId,
    pub kind: SpanKind,
}

/// All categories of a trace, in order of first use.
#[derive(Debug, Clone, Default)]
pub struct Categories(Vec<Category>);

impl Categories {
    pub fn new(rows: Vec<Category>) -> Self {
        Categories(rows)
    }

    pub fn get(&self, id: CategoryId) -> Category {
        self.0[usize::from(id.0)]
    }

    pub fn rows(&self) -> &[Category] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_order_and_are_named_as_they_are_stored() {
        for (at, kind) in SpanKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.text().replace('_', ""), format!("{kind:?}").to_lowercase());
        }
    }
}
