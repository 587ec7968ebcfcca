//! The steps of a run, one after the other.

use spanwise_model::{Nanos, SpanId, StrId, Trace, Track};

use crate::Batch;

const STEP: &str = "ProfilerStep#";

/// For each span the number of the step that it began in; GPU work has that of its launch.
pub fn step_numbers(trace: &Trace) -> Vec<Option<i64>> {
    let (steps, spans) = (Steps::new(trace), trace.spans());
    let number = |span: SpanId| {
        let began = spans.launch(span).unwrap_or(span);
        steps.row_at(spans.start(began)).map(|row| steps.rows()[row].number)
    };
    spans.ids().map(number).collect()
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// As the profiler numbers it; serving steps are numbered from 0.
    pub(crate) number: i64,
    pub(crate) span: SpanId,
    /// What its own name says about the batch.
    pub(crate) batch: Option<Batch>,
}

/// Steps by time: those that the profiler was notified of; where there are none, those
/// that a serving engine annotates.
pub(crate) struct Steps(Vec<Step>);

/// Whether every track could be reported step by step: where it could not, there are none.
///
/// Answers have a value for each step of each track. A recording has many spans in a step, so
/// that these are fewer than its spans. A file made to have as many steps as tracks, and little
/// else, would cost the square of its size.
fn are_affordable(trace: &Trace, steps: usize) -> bool {
    let is_used = |track: &&Track| !track.spans.is_empty();
    let tracks = trace.tracks().rows().iter().filter(is_used).count();
    steps.saturating_mul(tracks) <= VALUES_PER_SPAN_MAX * trace.spans().len() + VALUES_MIN
}

const VALUES_PER_SPAN_MAX: usize = 32;
const VALUES_MIN: usize = 1 << 16;

/// Says how many marks of steps are not taken as steps, since there are too many for the tracks.
pub fn ignored_steps(trace: &Trace) -> Option<usize> {
    let marked = [Steps::all_of_profiler(trace), Steps::all_of_batches(trace)];
    let used = marked.iter().map(|steps| steps.0.len()).find(|&count| count > 0)?;
    (!are_affordable(trace, used)).then_some(used)
}

impl Steps {
    pub(crate) fn new(trace: &Trace) -> Self {
        let steps = Steps::of_profiler(trace);
        if !steps.0.is_empty() {
            return steps;
        }
        Steps::of_batches(trace)
    }

    /// Those that the profiler was notified of.
    pub(crate) fn of_profiler(trace: &Trace) -> Self {
        Steps::all_of_profiler(trace).if_affordable(trace)
    }

    /// The batches that a serving engine annotates, the outer where they nest.
    pub(crate) fn of_batches(trace: &Trace) -> Self {
        Steps::all_of_batches(trace).if_affordable(trace)
    }

    pub(crate) fn none() -> Self {
        Steps(Vec::new())
    }

    fn if_affordable(self, trace: &Trace) -> Self {
        if are_affordable(trace, self.0.len()) { self } else { Steps::none() }
    }

    fn all_of_profiler(trace: &Trace) -> Self {
        let numbered = |name: &str| name.strip_prefix(STEP)?.parse().ok();
        Steps::marked(trace, |name| Some((numbered(name)?, None)))
    }

    fn all_of_batches(trace: &Trace) -> Self {
        let mut steps = Steps::marked(trace, |name| Some((0, Some(Batch::parse(name)?))));
        for (number, step) in steps.0.iter_mut().enumerate() {
            step.number = number as i64;
        }
        steps
    }

    /// Spans whose names `mark` knows, one after the other.
    fn marked(trace: &Trace, mark: impl Fn(&str) -> Option<(i64, Option<Batch>)>) -> Self {
        let strings = trace.strings();
        let marks: Vec<Option<(i64, Option<Batch>)>> =
            (0..strings.len() as u32).map(|id| mark(strings.get(StrId(id)))).collect();
        let spans = trace.spans();
        // Few names are marks, mostly none: checking the names alone is soon done.
        let is_mark: Vec<bool> = marks.iter().map(Option::is_some).collect();
        let marked = spans.ids().zip(spans.name_column().iter());
        let marked = marked.filter(|&(_, &name)| is_mark[name as usize]).map(|(span, _)| span);
        let mut steps: Vec<Step> = marked
            .filter(|&span| trace.kind(span).is_on_stack())
            .filter_map(|span| {
                let (number, batch) = marks[spans.name(span).index()]?;
                let (start, end) = (spans.start(span), spans.end(span));
                Some(Step { start, end, number, span, batch })
            })
            .collect();
        steps.sort_unstable_by_key(|step| (step.start, std::cmp::Reverse(step.end), step.span));
        // One after the other: where two overlap, the first keeps the time.
        let mut reached = Nanos::MIN;
        steps.retain_mut(|step| {
            step.start = step.start.max(reached);
            reached = reached.max(step.end);
            step.start < step.end
        });
        Steps(steps)
    }

    pub(crate) fn rows(&self) -> &[Step] {
        &self.0
    }

    /// The row of the step that an instant lies in.
    pub(crate) fn row_at(&self, time: Nanos) -> Option<usize> {
        let at = self.0.partition_point(|step| step.start <= time).checked_sub(1)?;
        (time < self.0[at].end).then_some(at)
    }

    /// The step that an instant lies in, and until when that answer holds.
    pub(crate) fn at(&self, time: Nanos) -> (Option<i64>, Nanos) {
        match self.row_at(time) {
            Some(row) => (Some(self.0[row].number), self.0[row].end),
            None => {
                let next = self.0.partition_point(|step| step.start <= time);
                (None, self.0.get(next).map_or(Nanos::MAX, |step| step.start))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(spans: &[(&str, i64, i64)], expected: &[(i64, i64, i64)]) {
        let mut sample = Sample::default();
        for &(name, start, dur) in spans {
            sample.span("1", SpanKind::Annotation, name, start, dur);
        }
        let steps = Steps::new(&sample.finish());
        let rows = steps.rows().iter().map(|step| (step.start, step.end, step.number));
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_profilers_steps_come_first() {
        check(
            &[("step[DECODE bs=1]", 0, 5), ("ProfilerStep#7", 0, 10), ("ProfilerStep#8", 10, 10)],
            &[(0, 10, 7), (10, 20, 8)],
        );
    }

    #[test]
    fn serving_steps_are_counted_and_the_outer_one_stands() {
        let execute = "execute_context_1(4)_generation_0(0)";
        check(
            &[("step[EXTEND bs=1 toks=4]", 0, 10), (execute, 1, 5), ("step[DECODE bs=1]", 20, 5)],
            &[(0, 10, 0), (20, 25, 1)],
        );
    }

    /// So many threads with a step each, and little else.
    #[track_caller]
    fn check_marks(count: usize, expected: Option<usize>) {
        let mut sample = Sample::default();
        for at in 0..count {
            let (thread, name) = (at.to_string(), format!("ProfilerStep#{at}"));
            sample.span(&thread, SpanKind::Annotation, &name, at as i64, 1);
        }
        let trace = sample.finish();
        assert_eq!(ignored_steps(&trace), expected);
        let steps = Steps::new(&trace).rows().len();
        assert_eq!(steps, if expected.is_some() { 0 } else { count });
    }

    #[test]
    fn more_marks_than_the_tracks_of_a_recording_have_are_no_steps() {
        check_marks(200, None);
        check_marks(400, Some(400));
    }

    #[test]
    fn an_instant_has_its_step() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Annotation, "ProfilerStep#1", 10, 10);
        let steps = Steps::new(&sample.finish());
        assert_eq!(steps.at(9), (None, 10));
        assert_eq!(steps.at(10), (Some(1), 20));
        assert_eq!(steps.at(20), (None, Nanos::MAX));
    }
}
