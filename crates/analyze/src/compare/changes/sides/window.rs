//! Which steps and phases of a trace are compared, and where an instant lies among them.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId};

use crate::compare::changes::sides::gather::CompareOptions;
use crate::compare::changes::sides::series::{CompareSeries, StepOf};
use crate::training::phase_times::{phase_walls, step_phases};
use crate::training::steps::Steps;
use crate::{Facts, Phase, TotalNanos};

/// Which steps and phases count.
pub(in crate::compare::changes) struct Window {
    pub(in crate::compare::changes) steps: Steps,
    /// By row of the steps: its place among those that count.
    shown: Vec<Option<usize>>,
    has_steps: bool,
    phase: Option<Phase>,
    of: Vec<StepOf>,
    wall: Vec<TotalNanos>,
    pub(in crate::compare::changes) phase_walls: BTreeMap<(Phase, Option<usize>), TotalNanos>,
}

impl Window {
    pub(in crate::compare::changes) fn new(facts: &Facts, options: &CompareOptions) -> Self {
        Window::with_steps(facts, options, Steps::new(facts.trace()))
    }

    /// The trace as one step.
    pub(in crate::compare::changes) fn whole(facts: &Facts, options: &CompareOptions) -> Self {
        Window::with_steps(facts, options, Steps::none())
    }

    fn with_steps(facts: &Facts, options: &CompareOptions, steps: Steps) -> Self {
        let has_steps = !steps.rows().is_empty();
        let phase_walls = phase_walls(facts, &steps);
        let in_phase =
            |at: Option<usize>| options.phase.map(|phase| phase_walls.get(&(phase, at)).copied());
        let kinds = step_phases(facts, &steps);
        let (mut shown, mut of, mut wall) = (Vec::new(), Vec::new(), Vec::new());
        for (at, step) in steps.rows().iter().enumerate() {
            let is_asked =
                options.steps.is_none_or(|(from, to)| from <= step.number && step.number <= to);
            let length = i128::from(step.end) - i128::from(step.start);
            let length = in_phase(Some(at)).unwrap_or(Some(length)).filter(|_| is_asked);
            shown.push(length.map(|_| of.len()));
            if let Some(length) = length {
                of.push(StepOf { number: step.number, phase: kinds[at] });
                wall.push(length);
            }
        }
        let whole = in_phase(None).unwrap_or(Some(facts.window_ns()));
        if let Some(length) = whole.filter(|_| !has_steps) {
            of.push(StepOf { number: 0, phase: None });
            wall.push(length);
        }
        Window { steps, shown, has_steps, phase: options.phase, of, wall, phase_walls }
    }

    pub(in crate::compare::changes) fn count(&self) -> usize {
        self.of.len()
    }

    pub(in crate::compare::changes) fn series(&self, facts: &Facts) -> CompareSeries {
        let mut phases: Vec<Phase> = self.phase_walls.keys().map(|&(phase, _)| phase).collect();
        phases.dedup();
        CompareSeries {
            rank: facts.trace().info().rank,
            steps: self.of.clone(),
            has_steps: self.has_steps,
            wall: self.wall.clone(),
            phases,
            ..CompareSeries::default()
        }
    }

    /// The place of a row of the steps among those that count.
    pub(in crate::compare::changes) fn place(&self, row: Option<usize>) -> Option<usize> {
        match self.has_steps {
            true => self.shown[row?],
            false => (!self.of.is_empty()).then_some(0),
        }
    }

    pub(in crate::compare::changes) fn at(&self, time: Nanos) -> Option<usize> {
        self.place(self.steps.row_at(time))
    }

    /// The step of a trace that has none and counts as a whole.
    pub(in crate::compare::changes) fn only_step(&self) -> Option<usize> {
        (!self.has_steps && !self.of.is_empty()).then_some(0)
    }

    /// Whether only one phase counts.
    pub(in crate::compare::changes) fn has_phase(&self) -> bool {
        self.phase.is_some()
    }

    pub(in crate::compare::changes) fn is_in_phase(&self, facts: &Facts, span: SpanId) -> bool {
        self.phase.is_none_or(|phase| facts.phases().of(span) == Some(phase))
    }
}

/// Finds the step of instants that mostly follow one another, without a search each time.
pub(in crate::compare::changes) struct StepCursor<'a> {
    window: &'a Window,
    from: Nanos,
    /// Where the answer changes.
    pub(in crate::compare::changes) until: Nanos,
    row: Option<usize>,
}

impl<'a> StepCursor<'a> {
    pub(in crate::compare::changes) fn new(window: &'a Window) -> Self {
        // Holds no instant.
        StepCursor { window, from: Nanos::MAX, until: Nanos::MIN, row: None }
    }

    /// The place of an instant among the steps that count.
    pub(in crate::compare::changes) fn place(&mut self, time: Nanos) -> Option<usize> {
        if time < self.from || self.until <= time {
            let steps = &self.window.steps;
            self.row = steps.row_at(time);
            (self.from, self.until) = match self.row {
                Some(row) => (steps.rows()[row].start, steps.rows()[row].end),
                None => (time, steps.at(time).1),
            };
        }
        self.window.place(self.row)
    }
}
