//! What one recording contributes to a comparison: for every key a value a step.
//!
//! Plain data, so that a baseline can keep it without the trace.

use std::collections::BTreeMap;

use crate::compare::changes::causes::achieved::Achieved;
use crate::{Phase, TotalNanos};

/// What rows of a comparison stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompareBy {
    /// The innermost operator around the work, on host and GPU.
    Operator,
    /// The class of GPU work.
    Class,
    Kernel,
    /// The path of `nn.Module` classes around the work.
    Module,
    /// The instance of the repeated module around the work.
    Layer,
    /// The phase that the work was launched in, or ran in.
    Phase,
    /// The step, counted from the first one that is compared.
    Step,
    /// All Python functions around the work, outermost first.
    Stack,
    /// The function around it, identified by the line of its definition.
    PythonLine,
    /// The function around it, by file and name: lines move.
    Function,
}

impl CompareBy {
    pub const ALL: [CompareBy; 10] = [
        CompareBy::Operator,
        CompareBy::Class,
        CompareBy::Kernel,
        CompareBy::Module,
        CompareBy::Layer,
        CompareBy::Phase,
        CompareBy::Step,
        CompareBy::Stack,
        CompareBy::PythonLine,
        CompareBy::Function,
    ];

    /// As the command line and baselines name it.
    pub fn text(self) -> &'static str {
        match self {
            CompareBy::Operator => "op",
            CompareBy::Class => "class",
            CompareBy::Kernel => "kernel",
            CompareBy::Module => "module",
            CompareBy::Layer => "layer",
            CompareBy::Phase => "phase",
            CompareBy::Step => "step",
            CompareBy::Stack => "stack",
            CompareBy::PythonLine => "python-line",
            CompareBy::Function => "function",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        CompareBy::ALL.into_iter().find(|by| by.text() == text)
    }
}

/// Where time was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComparePlace {
    Gpu,
    /// Self time of threads that work.
    Host,
    /// Self time of threads inside calls that wait.
    Waiting,
    /// The clock: steps and phases from begin to end, idle time, communication.
    Wall,
}

impl ComparePlace {
    pub const ALL: [ComparePlace; 4] =
        [ComparePlace::Gpu, ComparePlace::Host, ComparePlace::Waiting, ComparePlace::Wall];

    /// As baselines and rules name it.
    pub fn text(self) -> &'static str {
        match self {
            ComparePlace::Gpu => "gpu",
            ComparePlace::Host => "host",
            ComparePlace::Waiting => "waiting",
            ComparePlace::Wall => "wall",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        ComparePlace::ALL.into_iter().find(|place| place.text() == text)
    }
}

/// What is compared with what.
pub(in crate::compare::changes) type CompareKey = (ComparePlace, String);

/// Rows that add up to a whole.
pub(in crate::compare::changes) type Group = BTreeMap<CompareKey, RowSeries>;

/// What is read besides what the user asked for, to find causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::compare::changes) enum Aspect {
    Rows(CompareBy),
    /// Calls that wait for the GPU: "operator @ file: function".
    Syncs,
    /// Copies between the GPU and memory that must be staged: by function.
    Copies,
    /// Each device: idle, exposed communication.
    Devices,
    /// Time of each phase on the clock.
    PhaseWalls,
}

/// Everything of one recording that a comparison needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompareSeries {
    pub(in crate::compare::changes) rank: Option<i64>,
    /// One a step; a trace without steps is one.
    pub(in crate::compare::changes) steps: Vec<StepOf>,
    /// False where the trace has none and counts as a whole.
    pub(in crate::compare::changes) has_steps: bool,
    /// Markers of steps of a trace that is compared as one step, since they are too many.
    pub(in crate::compare::changes) ignored_steps: u64,
    pub(in crate::compare::changes) wall: Vec<TotalNanos>,
    pub(in crate::compare::changes) groups: BTreeMap<Aspect, Group>,
    /// What was compared, and what lies outside of the steps and phases that were asked for.
    pub(in crate::compare::changes) inside: BTreeMap<ComparePlace, TotalNanos>,
    pub(in crate::compare::changes) outside: BTreeMap<ComparePlace, TotalNanos>,
    /// Phases that occur, also those that were not asked for.
    pub(in crate::compare::changes) phases: Vec<Phase>,
}

impl CompareSeries {
    /// Phases that the trace knows.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    pub(in crate::compare::changes) fn group(&self, aspect: Aspect) -> Option<&Group> {
        self.groups.get(&aspect)
    }
}

/// Which step a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::compare::changes) struct StepOf {
    pub(in crate::compare::changes) number: i64,
    /// Steps of different phases are different things.
    pub(in crate::compare::changes) phase: Option<Phase>,
}

/// One key: its steps, and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::compare::changes) struct RowSeries {
    pub(in crate::compare::changes) cells: Vec<Cell>,
    pub(in crate::compare::changes) behind: Behind,
}

/// Time and count of one key in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::compare::changes) struct Cell {
    pub(in crate::compare::changes) ns: TotalNanos,
    pub(in crate::compare::changes) count: u64,
}

/// What a row is made of, over all steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::compare::changes) struct Behind {
    pub(in crate::compare::changes) kernels: BTreeMap<String, Cell>,
    pub(in crate::compare::changes) lines: BTreeMap<String, Cell>,
    pub(in crate::compare::changes) stacks: BTreeMap<String, Cell>,
    /// Of a sample of the work: shapes of inputs, and bytes of copies with their time.
    pub(in crate::compare::changes) shapes: BTreeMap<String, u64>,
    pub(in crate::compare::changes) copied_bytes: TotalNanos,
    pub(in crate::compare::changes) copied_ns: TotalNanos,
    /// Of operators whose bytes and arithmetic are known.
    pub(in crate::compare::changes) achieved: Achieved,
}

impl RowSeries {
    /// Adds another one, step by step.
    pub(in crate::compare::changes) fn add(&mut self, other: RowSeries) {
        self.cells.resize(self.cells.len().max(other.cells.len()), Cell::default());
        for (sum, cell) in self.cells.iter_mut().zip(other.cells) {
            sum.add(cell);
        }
        self.behind.add(&other.behind);
    }
}

impl Cell {
    pub(in crate::compare::changes) fn add(&mut self, other: Cell) {
        self.ns += other.ns;
        self.count += other.count;
    }
}

impl Behind {
    pub(in crate::compare::changes) fn add(&mut self, other: &Behind) {
        let both = [
            (&mut self.kernels, &other.kernels),
            (&mut self.lines, &other.lines),
            (&mut self.stacks, &other.stacks),
        ];
        for (sums, more) in both {
            for (name, &cell) in more {
                sums.entry(name.clone()).or_default().add(cell);
            }
        }
        for (shape, count) in &other.shapes {
            *self.shapes.entry(shape.clone()).or_default() += count;
        }
        self.copied_bytes += other.copied_bytes;
        self.copied_ns += other.copied_ns;
        self.achieved.add(&other.achieved);
    }
}
