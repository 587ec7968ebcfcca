//! Which reading of a thread's stack says where it was at a time.
//!
//! The recorder's programs in the kernel copy the stack at each sample, which is exact. What is
//! read from outside is of another time: while a thread does not run its stack stays as it is, so
//! the distance that counts is what the thread ran in between, not what passed on the wall. A
//! reading that was made while it was away is of the times at which it left and came back.

use spanwise_model::Nanos;

use super::Stack;

/// Everything that was read of one thread, each in order of time.
#[derive(Debug, Default)]
pub(super) struct ThreadReadings {
    /// From outside.
    pub(super) beside: Vec<Stack>,
    /// Copied at samples; once these are paired, of the very times of the samples.
    pub(super) of_samples: Vec<Stack>,
    /// At the times at which it came back from waits.
    pub(super) of_waits: Vec<Stack>,
    /// When it ran, as far as that is known.
    slices: Vec<Slice>,
    /// When it was sampled.
    pub(super) samples: Vec<Nanos>,
    /// When its process became another program.
    execs: Vec<Nanos>,
}

/// When copies are made: before the kernel notes the time of a sample, or, since Linux 6.3, after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyOrder {
    CopyFirst,
    TimeFirst,
}

impl CopyOrder {
    /// The order in which copies are nearer to the samples that they are then of.
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a ThreadReadings> + Clone) -> CopyOrder {
        const FAR: Nanos = 1_000_000;
        let far = |order: CopyOrder| {
            let distances = threads.clone().flat_map(|readings| {
                let sample_of = |copy: &Stack| readings.sample_of(copy.time, order);
                readings.of_samples.iter().map(move |copy| {
                    sample_of(copy).map_or(FAR, |sample| (sample - copy.time).abs().min(FAR))
                })
            });
            distances.map(i128::from).sum::<i128>()
        };
        match far(CopyOrder::CopyFirst) < far(CopyOrder::TimeFirst) {
            true => CopyOrder::CopyFirst,
            false => CopyOrder::TimeFirst,
        }
    }
}

/// A time in which it had a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Nanos,
    /// `None` where nothing says when it left.
    end: Option<Nanos>,
    /// How long it had run before.
    ran: Nanos,
}

/// A stack that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen<'a> {
    pub(super) stack: &'a Stack,
    /// The thread was there then, and not only nearby.
    pub(super) is_exact: bool,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadingQuery {
    pub(super) time: Nanos,
    pub(super) when: When,
    /// How often the kernel's stack calls the C function that interprets, where that is known.
    pub(super) interpreting: Option<u32>,
    /// Nothing is said across more than this of what the thread ran.
    pub(super) most: Nanos,
}

/// When a thread's stack is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// A sample of it was taken.
    Sampled,
    Running,
    /// It is about to wait, and will be in the same functions all the while.
    Leaving,
    /// It has left then, and comes back at this time.
    Waited {
        until: Nanos,
    },
    /// It has just come back from a wait.
    Back,
}

impl ThreadReadings {
    /// It came to a processor; called in order of time.
    pub(super) fn came(&mut self, time: Nanos) {
        let ran = self.ran_until(time);
        self.slices.push(Slice { start: time, end: None, ran });
    }

    /// It left its processor; called in order of time.
    pub(super) fn left(&mut self, time: Nanos) {
        match self.slices.last_mut() {
            Some(Slice { end: end @ None, .. }) => *end = Some(time),
            // It ran from the beginning on.
            None => self.slices.push(Slice { start: 0, end: Some(time), ran: 0 }),
            Some(_) => {}
        }
    }

    /// Its process became another program; called in order of time.
    pub(super) fn became_another(&mut self, time: Nanos) {
        self.execs.push(time);
    }

    /// Both times are of one program: a script of a shell that ends with `exec python` was never in
    /// the functions of that Python.
    fn is_one_program(&self, one: Nanos, other: Nanos) -> bool {
        let program_at = |time| self.execs.partition_point(|&exec| exec <= time);
        program_at(one) == program_at(other)
    }

    /// How long it ran up to a time, on a clock of its own.
    fn ran_until(&self, time: Nanos) -> Nanos {
        let after = self.slices.partition_point(|slice| slice.start <= time);
        match self.slices[..after].last() {
            Some(slice) => {
                let end = slice.end.map_or(time, |end| end.min(time));
                slice.ran.saturating_add(end.saturating_sub(slice.start).max(0))
            }
            // Before the first that is known.
            None => time.saturating_sub(self.slices.first().map_or(0, |first| first.start)),
        }
    }

    /// The stacks of all readings, by time.
    pub(super) fn sort(&mut self) {
        let all = [&mut self.beside, &mut self.of_samples, &mut self.of_waits];
        all.into_iter().for_each(|stacks| stacks.sort_by_key(|stack| stack.time));
    }

    /// The sample that a copy was made at.
    fn sample_of(&self, copied: Nanos, order: CopyOrder) -> Option<Nanos> {
        let at = match order {
            CopyOrder::CopyFirst => self.samples.partition_point(|&sample| sample < copied),
            CopyOrder::TimeFirst => {
                self.samples.partition_point(|&sample| sample <= copied).checked_sub(1)?
            }
        };
        self.samples.get(at).copied()
    }

    /// Gives copies the times of their samples. Where the sample of one was lost there are two:
    /// the nearer one counts.
    pub(super) fn pair(&mut self, order: CopyOrder) {
        let copies = std::mem::take(&mut self.of_samples);
        let mut paired: Vec<(Nanos, Stack)> = Vec::with_capacity(copies.len());
        for copy in copies {
            let Some(time) = self.sample_of(copy.time, order) else { continue };
            let distance = (time - copy.time).abs();
            let stack = Stack { time, ..copy };
            match paired.last_mut() {
                Some(last) if last.1.time == time && last.0 <= distance => {}
                Some(last) if last.1.time == time => *last = (distance, stack),
                _ => paired.push((distance, stack)),
            }
        }
        self.of_samples = paired.into_iter().map(|(_, stack)| stack).collect();
    }

    /// The reading that says most about a time.
    pub(super) fn choose(&self, asked: ReadingQuery) -> Option<Chosen<'_>> {
        let ReadingQuery { time, when, .. } = asked;
        let exact = match when {
            When::Sampled => self.copied_for(time),
            When::Waited { until } => self.copied_at_end(until),
            When::Back => self.copied_at_end(time),
            When::Running | When::Leaving => None,
        };
        if let Some(at) = exact {
            let stacks = if when == When::Sampled { &self.of_samples } else { &self.of_waits };
            return Some(Chosen { stack: &stacks[at], is_exact: true });
        }
        let is_wait = matches!(when, When::Leaving | When::Waited { .. });
        let inside = if is_wait { self.read_while_away(time) } else { None };
        match inside {
            Some(stack) => Some(Chosen { stack, is_exact: true }),
            None => self.nearest(asked, is_wait),
        }
    }

    fn copied_for(&self, time: Nanos) -> Option<usize> {
        self.of_samples.binary_search_by_key(&time, |stack| stack.time).ok()
    }

    /// The copy from the end of a wait. The wait's sample is of just before.
    fn copied_at_end(&self, until: Nanos) -> Option<usize> {
        let at = self.of_waits.partition_point(|stack| stack.time < until);
        let is_of_it = |stack: &Stack| stack.time <= until.saturating_add(1);
        self.of_waits.get(at).is_some_and(is_of_it).then_some(at)
    }

    /// A reading that was made before a thread that left came back, however late that was.
    fn read_while_away(&self, time: Nanos) -> Option<&Stack> {
        if self.slices.is_empty() {
            return None;
        }
        let next = self.slices.partition_point(|slice| slice.start <= time);
        let back = self.slices.get(next).map(|slice| slice.start);
        let at = self.beside.partition_point(|stack| stack.time < time);
        self.beside.get(at).filter(|stack| back.is_none_or(|back| stack.time < back))
    }

    /// The reading from outside between which and a time the thread ran least. Of the two around a
    /// sample, one with as many calls of the interpreter as the kernel's stack has comes first.
    fn nearest(&self, asked: ReadingQuery, is_wait: bool) -> Option<Chosen<'_>> {
        let ReadingQuery { time, when, interpreting, most } = asked;
        let after = self.beside.partition_point(|stack| stack.time < time);
        let around =
            [after.checked_sub(1).and_then(|at| self.beside.get(at)), self.beside.get(after)];
        let now = self.ran_until(time);
        let distance = |stack: &Stack| self.ran_until(stack.time).abs_diff(now);
        let near = |stack: &&Stack| {
            distance(stack) <= most.unsigned_abs() && self.is_one_program(stack.time, time)
        };
        let [before, after] = around.map(|stack| stack.filter(near));
        let is_other = |stack: &Stack| {
            let both = stack.entries.zip(interpreting).filter(|_| when == When::Sampled);
            both.is_some_and(|(read, sampled)| read != sampled)
        };
        let nearest = [before, after].into_iter().flatten().min_by_key(|stack| {
            let distance = distance(stack);
            (distance > 0, distance > 0 && is_other(stack), distance)
        });
        // Where it is not known when a thread came back, a reading soon after it left is likely
        // to be of the wait.
        let is_near = nearest.is_some_and(|stack| distance(stack) * 8 <= most.unsigned_abs());
        let stack = if is_wait && !is_near { after.or(nearest) } else { nearest };
        stack.map(|stack| Chosen { stack, is_exact: distance(stack) == 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(time: Nanos) -> Stack {
        Stack { time, pid: 1, is_cut: false, entries: None, frames: 0..0 }
    }

    fn stacks(times: &[Nanos]) -> Vec<Stack> {
        times.iter().copied().map(stack).collect()
    }

    #[track_caller]
    fn check(readings: &ThreadReadings, at: (Nanos, When), expected: Option<(Nanos, bool)>) {
        let asked = ReadingQuery { time: at.0, when: at.1, interpreting: None, most: 1000 };
        let chosen = readings.choose(asked);
        let found = chosen.map(|chosen| (chosen.stack.time, chosen.is_exact));
        assert_eq!(found, expected, "{at:?}");
    }

    #[track_caller]
    fn paired(copies: &[Nanos], samples: &[Nanos]) -> (ThreadReadings, CopyOrder) {
        let (of_samples, samples) = (stacks(copies), samples.to_vec());
        let mut readings = ThreadReadings { of_samples, samples, ..ThreadReadings::default() };
        let order = CopyOrder::of([&readings].into_iter());
        readings.pair(order);
        (readings, order)
    }

    #[test]
    fn a_sample_has_the_copy_that_was_made_for_it() {
        // The sample of 250 was lost, and so was the copy of 400.
        let (mut readings, order) = paired(&[99, 199, 250, 299], &[100, 200, 300, 400]);
        assert_eq!(order, CopyOrder::CopyFirst);
        readings.beside = stacks(&[401]);
        check(&readings, (100, When::Sampled), Some((100, true)));
        check(&readings, (300, When::Sampled), Some((300, true)));
        check(&readings, (400, When::Sampled), Some((401, false)));
        let (readings, order) = paired(&[101, 201, 302], &[100, 200, 300]);
        assert_eq!(order, CopyOrder::TimeFirst);
        check(&readings, (300, When::Sampled), Some((300, true)));
    }

    #[test]
    fn what_a_thread_ran_in_between_counts() {
        let beside = stacks(&[50, 500, 610]);
        let mut readings = ThreadReadings { beside, ..ThreadReadings::default() };
        readings.came(0);
        readings.left(100);
        readings.came(600);
        // It ran 10 until it left, and 500 is of that time.
        check(&readings, (90, When::Running), Some((500, false)));
        check(&readings, (60, When::Running), Some((50, false)));
        check(&readings, (600, When::Running), Some((500, true)));
        check(&readings, (609, When::Running), Some((610, false)));
        check(&readings, (100, When::Leaving), Some((500, true)));
        check(&readings, (5000, When::Running), None);
    }

    #[test]
    fn what_is_read_of_a_program_says_nothing_of_the_one_before() {
        let beside = stacks(&[320]);
        let mut readings = ThreadReadings { beside, ..ThreadReadings::default() };
        readings.came(0);
        readings.left(100);
        readings.came(200);
        check(&readings, (100, When::Leaving), Some((320, false)));
        readings.became_another(300);
        check(&readings, (100, When::Leaving), None);
        check(&readings, (290, When::Running), None);
        check(&readings, (310, When::Running), Some((320, false)));
    }

    #[test]
    fn a_wait_has_the_copy_of_its_end() {
        let readings = ThreadReadings { of_waits: stacks(&[300, 900]), ..Default::default() };
        check(&readings, (100, When::Waited { until: 299 }), Some((300, true)));
        check(&readings, (400, When::Waited { until: 900 }), Some((900, true)));
        check(&readings, (950, When::Waited { until: 990 }), None);
    }
}
