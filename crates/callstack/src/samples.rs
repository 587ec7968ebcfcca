//! Stack samples become calls: a picture for timelines, which no number comes from.
//!
//! Two samples in a row that have a function in the same place of the stack are taken as
//! one call of it. Functions are compared, not addresses: a caller is at another
//! instruction in every sample, and has still been called only once.
//!
//! A sample that was taken because some time had passed speaks for that time: its stack
//! begins where the thread came to its processor, or where the sample before it was taken,
//! but no longer ago than a period.

use spanwise_model::Nanos;

use crate::flow::{Context, Thread};
use crate::{FunctionId, Location};

/// The time that a sample speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleReach {
    /// How long before it, where samples are taken by the clock.
    pub speaks_for: Option<Nanos>,
    /// The thread did not run before, where that is known.
    pub not_before: Option<Nanos>,
}

impl SampleReach {
    /// The beginning, of a sample that was taken at `time` and has none before it.
    pub(crate) fn start(&self, time: Nanos) -> Nanos {
        let Some(period) = self.speaks_for else { return time };
        let start = time.saturating_sub(period);
        start.max(self.not_before.unwrap_or(start)).min(time)
    }
}

impl Thread {
    pub(crate) fn sample(&mut self, frames: &[Location], reach: SampleReach, context: Context<'_>) {
        if self.has_branches {
            return;
        }
        let Context { names, time, .. } = context;
        let start = self.start_of(time, reach);
        let function = |place: &Location| names.whole(place.function);
        let open: Vec<FunctionId> = self.stack.frames().map(|node| node.function).collect();
        let pairs = open.iter().rev().zip(frames);
        let same = pairs.take_while(|&(&open, place)| open == function(place)).count();
        self.stack.pop(open.len() - same, start);
        for place in &frames[same..] {
            self.stack.push_sampled(function(place), place.is_inlined, start);
        }
        self.sampled = Some((time, reach.speaks_for));
    }

    /// Where the stack of a sample begins; what was known before may end there.
    fn start_of(&mut self, time: Nanos, reach: SampleReach) -> Nanos {
        match (self.sampled, reach.speaks_for) {
            (Some((before, Some(_))), Some(period)) => {
                if time.saturating_sub(before) <= period.saturating_mul(2) {
                    return before;
                }
                // Had the thread run on, there would have been a sample in between.
                self.close_samples(before);
                reach.start(time).max(before)
            }
            // A stack that was found without a clock lasts until something else is known.
            (Some(_), _) | (None, None) => time,
            (None, Some(_)) => reach.start(time).max(self.stack.changed()),
        }
    }

    /// The thread does not run any more.
    pub(crate) fn close_samples(&mut self, time: Nanos) {
        if self.sampled.take().is_some() {
            self.stack.pop_all(time);
        }
    }
}
