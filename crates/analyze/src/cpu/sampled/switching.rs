//! The start of slices, which no sample can see.
//!
//! While the kernel switches to a thread it takes no interrupts, and samples come from one: in the
//! first microseconds of a slice there are none. Some come before the switch instead, to whoever
//! ran then; the others would have been of an idle processor, or of other programs, and are
//! missing. Were that time divided among samples, functions of threads that run for 100 µs at a
//! time would have some percent too much. How much of a slice it is follows from how many samples
//! are missing in all, and no more than there are too few shortly after switches.
//!
//! Before a switch there are fewer samples as well, but that says nothing: taking a sample takes
//! time itself, so that whoever was sampled leaves later.

use spanwise_model::Nanos;

use crate::TotalNanos;

/// This much of the start of slices is examined, in steps of a microsecond.
const STEPS: usize = 20;
const STEP_NS: Nanos = 1000;
const EXAMINED_NS: Nanos = STEPS as Nanos * STEP_NS;

/// A lack of samples is none where chance makes one in 700 recordings.
const SIGMAS: f64 = 3.0;
/// Fewer samples than these say nothing about a rate.
const LATER_SAMPLES_MIN: u64 = 50;

/// Time and samples by their distance from the switch before.
#[derive(Debug, Default)]
pub(super) struct SwitchDistances {
    /// Slices by how many steps they last, and the longer ones last.
    slices: [u64; STEPS + 1],
    samples: [u64; STEPS],
    total_ns: TotalNanos,
    /// Later in slices than is examined.
    later_ns: TotalNanos,
    later_samples: u64,
}

impl SwitchDistances {
    pub(super) fn slice(&mut self, length: Nanos) {
        let steps = (length.max(0) / STEP_NS) as usize;
        self.slices[steps.min(STEPS)] += 1;
        self.total_ns += i128::from(length.max(0));
        self.later_ns += i128::from((length - EXAMINED_NS).max(0));
    }

    /// A sample, so long after the start of its slice.
    pub(super) fn sample(&mut self, after: Nanos) {
        let step = usize::try_from(after / STEP_NS).unwrap_or(0);
        match self.samples.get_mut(step) {
            Some(count) => *count += 1,
            None => self.later_samples += 1,
        }
    }

    /// How much of the start of each slice belongs to switching threads.
    pub(super) fn unseen_ns(&self, asked_interval_ns: Nanos) -> Nanos {
        let interval_ns = self.interval_ns(asked_interval_ns);
        if interval_ns <= 0.0 {
            return 0;
        }
        let spent = self.spent_ns();
        let mut seen = 0;
        let mut is_significant = false;
        let mut lack = 0.0;
        for (&spent_ns, &samples) in spent.iter().zip(&self.samples) {
            seen += samples;
            let expected = spent_ns / interval_ns;
            lack = expected - seen as f64;
            is_significant |= lack > SIGMAS * expected.sqrt() && lack > 5.0;
        }
        let missing = self.total_ns as f64 / asked_interval_ns as f64;
        let missing = missing - (seen + self.later_samples) as f64;
        let unseen = lack.min(missing).max(0.0);
        if is_significant { length_of(&spent, unseen * interval_ns) } else { 0 }
    }

    /// Busy machines lose some samples everywhere.
    fn interval_ns(&self, asked_ns: Nanos) -> f64 {
        let asked_ns = asked_ns as f64;
        if self.later_samples < LATER_SAMPLES_MIN {
            return asked_ns;
        }
        (self.later_ns as f64 / self.later_samples as f64).clamp(asked_ns, 2.0 * asked_ns)
    }

    /// Time that threads have spent in the first steps of their slices, by how many these are.
    fn spent_ns(&self) -> [f64; STEPS] {
        let mut left: u64 = self.slices.iter().sum();
        let mut spent_ns = 0.0;
        let mut spent = [0.0; STEPS];
        for (spent, &slices) in spent.iter_mut().zip(&self.slices) {
            left -= slices;
            spent_ns += left as f64 * STEP_NS as f64;
            *spent = spent_ns;
        }
        spent
    }
}

/// How much of the start of each slice makes so much time.
fn length_of(spent: &[f64; STEPS], wanted_ns: f64) -> Nanos {
    let whole = spent.iter().take_while(|&&ns| ns <= wanted_ns).count();
    let before = if whole == 0 { 0.0 } else { spent[whole - 1] };
    let in_step = spent.get(whole).map_or(0.0, |ns| ns - before);
    let part = if in_step > 0.0 { ((wanted_ns - before) / in_step).max(0.0) } else { 0.0 };
    whole as Nanos * STEP_NS + (part * STEP_NS as f64) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of 100 µs, sampled each 200 µs on average where samples can be; those that would be
    /// elsewhere are missing, or come at the end of the slice before.
    fn unseen_of(seen_from: Nanos, count: i64, is_missing: bool) -> Nanos {
        let mut distances = SwitchDistances::default();
        for number in 0..count {
            distances.slice(100_000);
            // Places that are spread evenly.
            let at = number * 61_803 % 100_000;
            if number % 2 == 0 && at >= seen_from {
                distances.sample(at);
            } else if number % 2 == 0 && !is_missing {
                distances.sample(99_999);
            }
        }
        distances.unseen_ns(200_000)
    }

    fn unseen(seen_from: Nanos, count: i64) -> Nanos {
        unseen_of(seen_from, count, true)
    }

    #[test]
    fn where_samples_are_missing_threads_are_switched() {
        let found = unseen(5_000, 20_000);
        assert!((4_500..5_500).contains(&found), "{found}");
    }

    #[test]
    fn samples_of_the_slice_before_are_not_missing() {
        assert_eq!(unseen_of(5_000, 20_000, false), 0);
    }

    #[test]
    fn where_none_are_missing_nothing_is_taken_away() {
        assert_eq!(unseen(0, 20_000), 0);
    }

    #[test]
    fn few_samples_say_nothing() {
        assert_eq!(unseen(5_000, 60), 0);
    }

    #[test]
    fn short_slices_are_switching_as_a_whole() {
        let spent =
            std::array::from_fn(|step| if step < 2 { 1000.0 * (step + 1) as f64 } else { 2000.0 });
        assert_eq!(length_of(&spent, 500.0), 500);
        assert_eq!(length_of(&spent, 1500.0), 1500);
        assert_eq!(length_of(&spent, 9000.0), STEPS as Nanos * STEP_NS);
    }
}
