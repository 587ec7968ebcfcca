//! The processes that are recorded, where the kernel reports all that there are.
//!
//! Rings of processors hold names, mappings, beginnings and ends of whatever runs there. Which of
//! that is ours, follows from who began whom; but one ring is emptied after the other, so that a
//! process may be heard of before its beginning is. What is of nobody that we know therefore waits
//! for the next round: then all that came before it is there.

use std::collections::BTreeSet;

use crate::perf::records;
use crate::perf::records::{Record, records};

/// The processes that are recorded, and what was reported of others.
#[derive(Debug)]
pub(crate) struct Family {
    pids: BTreeSet<i32>,
    /// Of this round, of anybody.
    news: Vec<u8>,
    /// Of the round before, of nobody that was known then.
    waiting: Vec<u8>,
}

impl Family {
    pub(crate) fn new(pids: &[i32]) -> Family {
        Family { pids: pids.iter().copied().collect(), news: Vec::new(), waiting: Vec::new() }
    }

    /// A process is ours that was begun before anything was reported.
    pub(crate) fn adopt(&mut self, pid: i32) {
        self.pids.insert(pid);
    }

    /// Takes what is reported of processes out of the records of a ring; leaves the others, which
    /// are of those that are recorded.
    pub(crate) fn sift<'a>(&mut self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let news = &mut self.news;
        records::keep_those(bytes, |record| {
            let is_news = record.belongs_to().is_some();
            if is_news {
                news.extend(record.bytes);
            }
            !is_news
        })
    }

    /// What all rings have reported of our processes since the last time, in the order of time.
    pub(crate) fn own(&mut self) -> Vec<u8> {
        let (waiting, news) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.news));
        let old = records(&waiting).map(|record| (record, true));
        let mut all: Vec<(Record<'_>, bool)> =
            old.chain(records(&news).map(|record| (record, false))).collect();
        all.sort_by_key(|(record, _)| record.time());
        let mut own = Vec::new();
        for (record, is_old) in all {
            let is_own = record.belongs_to().is_some_and(|pid| self.pids.contains(&pid));
            match record.copied() {
                Some((_, new)) if is_own => drop(self.pids.insert(new)),
                // Its number was given out before.
                Some((_, new)) => drop(self.pids.remove(&new)),
                None => {}
            }
            match (is_own, is_old) {
                (true, _) => own.extend(record.bytes),
                (false, false) => self.waiting.extend(record.bytes),
                // Nobody of ours has begun it.
                (false, true) => {}
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::records::{named, test_fork, test_sample};

    fn at(time: u64, mut bytes: Vec<u8>) -> Vec<u8> {
        let place = bytes.len() - 24;
        bytes[place..place + 8].copy_from_slice(&time.to_ne_bytes());
        bytes
    }

    fn name(time: u64, pid: i32) -> Vec<u8> {
        at(time, named(pid, pid, b"x", 1))
    }

    type Records<'a> = &'a [Vec<u8>];

    /// Each line: what the rings held in a round, and what of it is ours. Ours is process 10.
    fn check(rounds: &[(Records<'_>, Records<'_>)]) {
        let mut family = Family::new(&[10]);
        for (round, (reported, expected)) in rounds.iter().enumerate() {
            for bytes in *reported {
                assert_eq!(family.sift(&mut bytes.clone()), b"", "round {round}");
            }
            assert_eq!(family.own(), expected.concat(), "round {round}");
        }
    }

    #[test]
    fn what_is_reported_of_others_is_left_out() {
        let own = [name(1, 10), name(4, 10)];
        check(&[(&[name(2, 11), own[1].clone(), name(3, 12), own[0].clone()], &own), (&[], &[])]);
    }

    #[test]
    fn children_are_ours_and_theirs_as_well() {
        let (child, grandchild) = (test_fork(2, 10, 20), test_fork(3, 20, 30));
        let of_both = [name(4, 20), name(5, 30)];
        let own = [child.clone(), grandchild.clone(), of_both[0].clone(), of_both[1].clone()];
        let reported = [of_both[1].clone(), grandchild, of_both[0].clone(), child];
        check(&[(&reported, &own)]);
    }

    #[test]
    fn who_began_before_anything_was_reported_is_ours_with_its_children() {
        let mut family = Family::new(&[10]);
        family.adopt(20);
        let own = [name(1, 20), test_fork(2, 20, 30), name(3, 30)].concat();
        assert_eq!(family.sift(&mut own.clone()), b"");
        assert_eq!(family.own(), own);
    }

    #[test]
    fn who_is_heard_of_before_the_beginning_waits_for_it() {
        let (child, grandchild) = (test_fork(2, 10, 20), test_fork(3, 20, 30));
        let own = [child.clone(), grandchild.clone(), name(5, 30)];
        check(&[(&[name(5, 30), grandchild, name(4, 40)], &[]), (&[child], &own), (&[], &[])]);
    }

    #[test]
    fn a_number_that_is_given_out_again_is_of_another() {
        let (ours, of_others) = (test_fork(2, 10, 20), test_fork(9, 40, 20));
        check(&[
            (&[ours.clone(), name(3, 20)], &[ours, name(3, 20)]),
            (&[of_others, name(10, 20)], &[]),
            (&[], &[]),
        ]);
    }

    #[test]
    fn all_else_stays_where_it_is() {
        let reported = [name(1, 10), test_sample(2), test_sample(3), name(4, 11), test_sample(5)];
        let kept = [test_sample(2), test_sample(3), test_sample(5)];
        let mut bytes = reported.concat();
        let mut family = Family::new(&[10]);
        assert_eq!(family.sift(&mut bytes), kept.concat());
        assert_eq!(family.own(), name(1, 10));
    }
}
