//! Stack samples become calls.
//!
//! Two samples in a row that have a function in the same place of the stack are taken as
//! one call of it. Functions are compared, not addresses: a caller is at another
//! instruction in every sample, and has still been called only once.

use spanwise_model::Nanos;

use crate::flow::{Context, Thread};
use crate::{FunctionId, Place};

impl Thread {
    pub(crate) fn sample(
        &mut self,
        frames: &[Place],
        speaks_for: Option<Nanos>,
        context: Context<'_>,
    ) {
        if self.has_branches {
            return;
        }
        let Context { names, time, .. } = context;
        // Had the thread run on, there would have been a sample in between.
        if let Some((before, Some(period))) = self.sampled
            && time.saturating_sub(before) > period.saturating_mul(2)
        {
            self.close_samples(before.saturating_add(period));
        }
        let function = |place: &Place| names.whole(place.function);
        let open: Vec<FunctionId> = self.stack.frames().map(|node| node.function).collect();
        let pairs = open.iter().rev().zip(frames);
        let same = pairs.take_while(|&(&open, place)| open == function(place)).count();
        self.stack.pop(open.len() - same, time);
        for place in &frames[same..] {
            self.stack.push_found(function(place), place.is_inlined, time);
        }
        self.sampled = Some((time, speaks_for));
    }

    /// The thread does not run any more.
    pub(crate) fn close_samples(&mut self, time: Nanos) {
        if self.sampled.take().is_some() {
            self.stack.pop_all(time);
        }
    }

    /// When the thread's stack ends, should nothing follow.
    pub(crate) fn end(&self) -> Nanos {
        match self.sampled {
            Some((time, Some(period))) => self.last_time.max(time.saturating_add(period)),
            _ => self.last_time,
        }
    }
}
