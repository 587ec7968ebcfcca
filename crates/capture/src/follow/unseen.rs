//! Switches that were not told of.
//!
//! Some machines hide what a few of their own processes do, and with it each switch from one of
//! them to a thread of ours: that thread then leaves twice without having come. When it came
//! follows from how long it has run since, which the kernel counts.

use std::collections::HashMap;

use crate::records::Switch;

/// Threads that have left, and how long each had run until then.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    left: HashMap<u32, (u64, u64)>,
}

impl Unseen {
    /// The coming of a thread that leaves now and has not come, so far as it was told. `ran` is
    /// how long the thread has run in all.
    pub(super) fn before(&mut self, switch: Switch, ran: u64) -> Option<Switch> {
        if !switch.is_out {
            self.left.remove(&switch.tid);
            return None;
        }
        let (left_at, ran_before) = self.left.insert(switch.tid, (switch.time, ran))?;
        let came = switch.time.checked_sub(ran.checked_sub(ran_before)?)?;
        // What interrupts take is of no thread: it may have come a little sooner.
        let time = came.max(left_at + 1).min(switch.time);
        Some(Switch { time, is_out: false, is_preempted: false, ..switch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_twice_came_when_it_began_to_run() {
        let mut unseen = Unseen::default();
        // Time, thread, whether it leaves, how long it has run; when it came, unseen.
        let mut check = |(time, tid, is_out, ran), expected: Option<u64>| {
            let switch = Switch { time, pid: 1, tid, cpu: 0, is_out, is_preempted: true };
            let found = unseen.before(switch, ran);
            assert_eq!(found.map(|found| found.time), expected, "{time}");
            assert!(found.is_none_or(|found| !found.is_out && found.tid == tid));
        };
        check((100, 7, true, 50), None);
        check((200, 7, false, 0), None);
        check((250, 7, true, 100), None);
        check((400, 7, true, 130), Some(370));
        check((410, 8, true, 1000), None);
        // Longer than it was away cannot be.
        check((500, 7, true, 500), Some(401));
        check((600, 7, true, 400), None);
    }
}
