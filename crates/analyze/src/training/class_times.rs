//! GPU time of each step by class, for a chart of steps.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::training::steps::Steps;
use crate::{Facts, TotalNanos};

/// Steps in order of time, and the classes that their GPU work is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepClasses {
    /// The costliest first; where there are more than asked for, the last stands for the rest.
    pub classes: Vec<String>,
    pub steps: Vec<StepClassTimes>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepClassTimes {
    pub number: i64,
    pub wall_ns: TotalNanos,
    /// Time of the GPU work that it launched, a class each; work that runs at once counts twice.
    pub class_ns: Vec<TotalNanos>,
}

/// What the classes that are not shown are called.
const REST: &str = "rest";

/// At most so many classes; work that no step launched is left out.
pub fn step_classes(facts: &Facts, classes_max: usize) -> StepClasses {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let steps = Steps::new(trace);
    let found = facts.span_classes();
    let mut sums: BTreeMap<(usize, u32), TotalNanos> = BTreeMap::new();
    let mut totals: Vec<TotalNanos> = vec![0; found.classes.len()];
    for span in spans.ids() {
        let Some(class) = found.of_span[span.index()] else { continue };
        let began = spans.start(spans.launch(span).unwrap_or(span));
        let Some(step) = steps.row_at(began) else { continue };
        *sums.entry((step, class)).or_default() += TotalNanos::from(spans.dur(span));
        totals[class as usize] += TotalNanos::from(spans.dur(span));
    }
    let mut order: Vec<usize> = (0..totals.len()).filter(|&class| totals[class] > 0).collect();
    order.sort_by_key(|&class| (Reverse(totals[class]), class));
    let shown = if order.len() > classes_max { classes_max.saturating_sub(1) } else { order.len() };
    let mut classes: Vec<String> =
        order[..shown].iter().map(|&class| found.classes[class].clone()).collect();
    if order.len() > shown {
        classes.push(REST.to_owned());
    }
    let mut rows: Vec<StepClassTimes> = steps
        .rows()
        .iter()
        .map(|step| StepClassTimes {
            number: step.number,
            wall_ns: TotalNanos::from(step.end) - TotalNanos::from(step.start),
            class_ns: vec![0; classes.len()],
        })
        .collect();
    for ((step, class), ns) in sums {
        let place = order.iter().position(|&other| other == class as usize).unwrap_or(shown);
        rows[step].class_ns[place.min(shown)] += ns;
    }
    StepClasses { classes, steps: rows }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn work_counts_in_the_step_that_launched_it() {
        let mut sample = Sample::default();
        sample.span("9", SpanKind::Annotation, "ProfilerStep#4", 0, 100);
        sample.span("9", SpanKind::Annotation, "ProfilerStep#5", 100, 60);
        for (at, (name, start, dur, launched)) in [
            ("sm80_gemm_f16", 20, 30, 10),
            // Runs in the next step, and belongs to the one before.
            ("sm80_gemm_f16", 110, 20, 90),
            ("softmax_warp_forward", 130, 7, 120),
            ("ncclDevKernel_AllReduce_Sum", 140, 5, 125),
            // Nobody knows the step of what was launched before the first.
            ("sm80_gemm_f16", 5, 1, -20),
        ]
        .into_iter()
        .enumerate()
        {
            sample.call("9", launched, 2, at as u64 + 1);
            sample.work("7", SpanKind::Kernel, name, (start, dur), at as u64 + 1);
        }
        let trace = sample.finish();
        let all = step_classes(&Facts::new(&trace), 9);
        let times = |made: &StepClasses| -> Vec<(i64, TotalNanos, Vec<TotalNanos>)> {
            made.steps.iter().map(|row| (row.number, row.wall_ns, row.class_ns.clone())).collect()
        };
        assert_eq!(all.classes.len(), 3, "{:?}", all.classes);
        assert_eq!(times(&all), [(4, 100, vec![50, 0, 0]), (5, 60, vec![0, 7, 5])]);
        let few = step_classes(&Facts::new(&trace), 2);
        assert_eq!(few.classes[1], "rest");
        assert_eq!(times(&few), [(4, 100, vec![50, 0]), (5, 60, vec![0, 12])]);
    }

    #[test]
    fn a_trace_without_steps_has_none() {
        let mut sample = Sample::default();
        sample.work("7", SpanKind::Kernel, "sm80_gemm_f16", (0, 5), 1);
        let trace = sample.finish();
        let found = step_classes(&Facts::new(&trace), 9);
        assert_eq!(found, StepClasses::default());
    }
}
