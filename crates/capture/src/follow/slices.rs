//! How long threads ran, as the kernel counts it.
//!
//! What a program sees of a switch comes some microseconds after the kernel has begun to count for
//! the thread that comes: it has chosen it before it reports the switch. Of threads that run for a
//! few hundred microseconds at a time that would be some percent of their CPU time. So the end of
//! each slice is moved until the slice is as long as the kernel's own count, which is what
//! `CLOCK_THREAD_CPUTIME_ID` and `getrusage` show.
//!
//! Some machines hide what a few of their own processes do, and with it each switch from one of
//! them to a thread of ours: that thread then leaves twice without having come. When it came
//! follows from the kernel's count, too.

use std::collections::HashMap;

use crate::perf::records::{Switch, Waking};

/// The most that the end of a slice is moved. Where the counts differ by more, something was not
/// reported. Where the kernel counts less, time was taken from the thread in the middle of it, by
/// the machine's host or by interrupts, and it is not known when.
const MOVED_MAX_NS: u64 = 50_000;

/// What has been written, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Switch(Switch),
    Waking(Waking),
}

impl Written {
    fn time(&self) -> u64 {
        match self {
            Written::Switch(switch) => switch.time,
            Written::Waking(waking) => waking.time,
        }
    }

    fn time_mut(&mut self) -> &mut u64 {
        match self {
            Written::Switch(switch) => &mut switch.time,
            Written::Waking(waking) => &mut waking.time,
        }
    }
}

/// A time, and how long a thread had run in all by then.
#[derive(Debug, Clone, Copy)]
struct Count {
    time: u64,
    ran: u64,
}

/// One thread.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    /// When it came, while it runs.
    came: Option<Count>,
    /// When it left the last time, as it was reported.
    left: Option<Count>,
    /// Where that is among what is not handed out yet, and when it was seen to leave.
    end: Option<SliceEnd>,
}

#[derive(Debug, Clone, Copy)]
struct SliceEnd {
    at: usize,
    seen: u64,
}

/// The threads that have switched, and what was written since it was last taken.
#[derive(Debug, Default)]
pub(super) struct Slices {
    threads: HashMap<u32, Slice>,
    written: Vec<Written>,
}

impl Slices {
    /// A thread comes to a processor, or leaves it. `ran` is how long it has run in all.
    pub(super) fn switch(&mut self, switch: Switch, ran: u64) {
        if switch.is_out { self.left(switch, ran) } else { self.came(switch, ran) }
    }

    pub(super) fn waking(&mut self, mut waking: Waking) {
        waking.time = self.after_end(waking.woken, waking.time);
        self.written.push(Written::Waking(waking));
    }

    fn came(&mut self, mut switch: Switch, ran: u64) {
        switch.time = self.after_end(switch.tid, switch.time);
        let slice = self.threads.entry(switch.tid).or_default();
        // Who only notices that it is there does not say how long it had run.
        let ran = slice.left.map_or(ran, |left| ran.max(left.ran));
        slice.came = Some(Count { time: switch.time, ran });
        self.written.push(Written::Switch(switch));
    }

    fn left(&mut self, mut switch: Switch, ran: u64) {
        let seen = switch.time;
        let slice = self.threads.entry(switch.tid).or_default();
        let came = slice.came.take();
        if let (None, Some(left)) = (came, slice.left) {
            self.written.extend(unseen_coming(switch, left, ran).map(Written::Switch));
        }
        if let Some(came) = came {
            switch.time = end_of_slice(came, Count { time: seen, ran });
        }
        slice.left = Some(Count { time: switch.time, ran });
        slice.end = Some(SliceEnd { at: self.written.len(), seen });
        self.written.push(Written::Switch(switch));
    }

    /// A time that is not before the end of the thread's last slice: that is moved back to when it
    /// was seen where it would be, as long as it can be.
    fn after_end(&mut self, tid: u32, time: u64) -> u64 {
        let Some(slice) = self.threads.get_mut(&tid) else { return time };
        let Some(left) = slice.left.as_mut().filter(|left| left.time >= time) else { return time };
        if let Some(end) = slice.end.filter(|end| end.seen < time)
            && let Some(written) = self.written.get_mut(end.at)
        {
            left.time = time - 1;
            *written.time_mut() = left.time;
            return time;
        }
        left.time + 1
    }

    /// What was written since the last time, in the order of time.
    pub(super) fn take(&mut self) -> Vec<Written> {
        let mut written = std::mem::take(&mut self.written);
        self.threads.values_mut().for_each(|slice| slice.end = None);
        written.sort_by_key(Written::time);
        written
    }

    /// Nothing is reported for a while.
    pub(super) fn pause(&mut self) {
        self.threads.clear();
    }

    /// The thread has ended.
    pub(super) fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

/// When a slice ends that is as long as the kernel counts it; never before it was seen to end,
/// since the thread may have been sampled until then.
fn end_of_slice(came: Count, seen: Count) -> u64 {
    let Some(ran) = seen.ran.checked_sub(came.ran) else { return seen.time };
    let moved = (came.time + ran).saturating_sub(seen.time);
    if moved > MOVED_MAX_NS { seen.time } else { seen.time + moved }
}

/// The coming of a thread that leaves now and has not come, so far as it was reported.
fn unseen_coming(switch: Switch, left: Count, ran: u64) -> Option<Switch> {
    let came = switch.time.checked_sub(ran.checked_sub(left.ran)?)?;
    // What interrupts take is of no thread: it may have come a little sooner.
    let time = came.max(left.time + 1).min(switch.time);
    Some(Switch { time, is_out: false, is_preempted: false, ..switch })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time, thread, whether it leaves, how long it has run in all.
    struct Seen(u64, u32, bool, u64);

    fn put(slices: &mut Slices, seen: &[Seen]) {
        for &Seen(time, tid, is_out, ran) in seen {
            let switch = Switch { time, pid: 1, tid, cpu: 0, is_out, is_preempted: false };
            slices.switch(switch, ran);
        }
    }

    #[track_caller]
    fn check(slices: &mut Slices, seen: &[Seen], expected: &[(u64, u32, bool)]) {
        put(slices, seen);
        let of = |written: Written| match written {
            Written::Switch(switch) => (switch.time, switch.tid, switch.is_out),
            Written::Waking(waking) => (waking.time, waking.woken, false),
        };
        let found: Vec<_> = slices.take().into_iter().map(of).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn slices_are_as_long_as_the_kernel_counts() {
        let mut slices = Slices::default();
        let seen = [
            Seen(1000, 7, false, 50),
            Seen(1100, 7, true, 155),
            Seen(1102, 8, false, 0),
            Seen(2000, 7, false, 155),
            Seen(2100, 7, true, 250),
        ];
        let expected = [
            (1000, 7, false),
            (1102, 8, false),
            (1105, 7, true),
            (2000, 7, false),
            (2100, 7, true),
        ];
        check(&mut slices, &seen, &expected);
    }

    #[test]
    fn time_that_was_taken_in_the_middle_moves_nothing() {
        let mut slices = Slices::default();
        let seen = [Seen(0, 7, false, 0), Seen(900_000, 7, true, 100_000)];
        check(&mut slices, &seen, &[(0, 7, false), (900_000, 7, true)]);
        let seen = [Seen(1_000_000, 7, false, 0), Seen(1_100_000, 7, true, 900_000)];
        check(&mut slices, &seen, &[(1_000_000, 7, false), (1_100_000, 7, true)]);
    }

    #[test]
    fn no_slice_ends_after_the_next_one_begins() {
        let mut slices = Slices::default();
        let seen = [Seen(1000, 7, false, 0), Seen(1100, 7, true, 130), Seen(1110, 7, false, 130)];
        check(&mut slices, &seen, &[(1000, 7, false), (1109, 7, true), (1110, 7, false)]);
        // Once the end is handed out, the next one begins later.
        check(&mut slices, &[Seen(1200, 7, true, 240)], &[(1220, 7, true)]);
        check(&mut slices, &[Seen(1210, 7, false, 240)], &[(1221, 7, false)]);
        let waking = Waking { time: 5, pid: 1, tid: 9, cpu: 0, woken: 7, is_interrupt: false };
        check(&mut slices, &[Seen(1300, 7, true, 330)], &[(1311, 7, true)]);
        slices.waking(waking);
        check(&mut slices, &[], &[(1312, 7, false)]);
    }

    #[test]
    fn who_leaves_twice_came_when_it_began_to_run() {
        let mut slices = Slices::default();
        let mut check = |seen: Seen, expected: &[(u64, u32, bool)]| {
            check(&mut slices, &[seen], expected);
        };
        check(Seen(100, 7, true, 50), &[(100, 7, true)]);
        check(Seen(200, 7, false, 50), &[(200, 7, false)]);
        check(Seen(250, 7, true, 100), &[(250, 7, true)]);
        check(Seen(400, 7, true, 130), &[(370, 7, false), (400, 7, true)]);
        check(Seen(410, 8, true, 1000), &[(410, 8, true)]);
        // Longer than it was away cannot be.
        check(Seen(500, 7, true, 500), &[(401, 7, false), (500, 7, true)]);
        check(Seen(600, 7, true, 400), &[(600, 7, true)]);
    }
}
