//! The last moments of a program, kept in memory until something asks for them.
//!
//! Rings that the kernel overwrites would forget names and mappings as well, and those of
//! processors that were idle would reach back further than others. So everything is read as
//! it comes, and what is too old is dropped here: samples and switches go, names, mappings
//! and new threads stay, and who had each processor last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::perf::records::{self, records};

/// Records up to a number of bytes, the latest ones.
#[derive(Debug)]
pub(crate) struct Flight {
    bytes_max: usize,
    bytes: usize,
    chunks: VecDeque<Vec<u8>>,
    /// Names, mappings and new threads out of what was dropped, as of before everything.
    remembered: Vec<u8>,
    /// The last switch on each processor out of what was dropped: who ran there from then on.
    switches: BTreeMap<i32, Vec<u8>>,
    /// Threads that have ended, of which nothing needs to be remembered.
    ended: BTreeSet<i32>,
    /// Where what is remembered is looked through again.
    remembered_max: usize,
}

/// A program that starts others all the time must not fill the memory with their names.
const REMEMBERED_MIN: usize = 1 << 20;

impl Flight {
    pub(crate) fn new(bytes_max: usize) -> Flight {
        Flight {
            bytes_max,
            bytes: 0,
            chunks: VecDeque::new(),
            remembered: Vec::new(),
            switches: BTreeMap::new(),
            ended: BTreeSet::new(),
            remembered_max: REMEMBERED_MIN,
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        if chunk.is_empty() {
            return;
        }
        self.bytes += chunk.len();
        self.chunks.push_back(chunk.to_vec());
        // The latest stays, however large it is.
        while self.bytes > self.bytes_max && self.chunks.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.chunks.pop_front() else { return };
        self.bytes -= oldest.len();
        for record in records(&oldest) {
            self.ended.extend(record.ended());
            if let Some(cpu) = record.switched_on() {
                self.switches.insert(cpu, record.bytes.to_vec());
            }
            if record.outlives_its_time() {
                // A number that is given out again.
                record.about().map(|thread| self.ended.remove(&thread));
                self.remembered.extend(record.before_everything());
            }
        }
        if self.remembered.len() > self.remembered_max {
            self.forget_the_ended();
            self.remembered_max = (2 * self.remembered.len()).max(REMEMBERED_MIN);
        }
    }

    fn forget_the_ended(&mut self) {
        let is_over =
            |thread: Option<i32>| thread.is_some_and(|thread| self.ended.contains(&thread));
        let there = records(&self.remembered).filter(|record| !is_over(record.about()));
        let there: Vec<&[u8]> = there.map(|record| record.bytes).collect();
        self.remembered = there.concat();
        self.ended.clear();
    }

    /// Hands over all that is there, and forgets it, but for what stays true.
    pub(crate) fn take<E>(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        write(&self.remembered)?;
        for switch in self.switches.values() {
            write(switch)?;
        }
        for chunk in &self.chunks {
            write(chunk)?;
        }
        write(&records::finished_round())?;
        while !self.chunks.is_empty() {
            self.drop_oldest();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::records::{Mapping, mapped, named, test_sample};

    fn taken(flight: &mut Flight) -> Vec<u8> {
        let mut all = Vec::new();
        let keep = |bytes: &[u8]| -> Result<(), ()> {
            all.extend(bytes);
            Ok(())
        };
        flight.take(keep).expect("nothing fails");
        all
    }

    fn times(bytes: &[u8]) -> Vec<Option<u64>> {
        records(bytes).map(|record| record.time()).collect()
    }

    #[test]
    fn the_latest_are_kept_and_names_outlive_them() {
        let sample = test_sample(1);
        let mut flight = Flight::new(2 * sample.len());
        let mapping = Mapping { start: 1, end: 2, file_offset: 0, rights: 5, path: b"/x".to_vec() };
        flight.push(&[named(1, 1, b"a", 9), mapped(1, &mapping, 9), test_sample(5)].concat());
        for time in [10, 20, 30, 40] {
            flight.push(&test_sample(time));
        }
        let first = taken(&mut flight);
        assert_eq!(times(&first), [Some(0), Some(0), Some(30), Some(40), None]);
        // What was handed over is not handed over again.
        flight.push(&test_sample(50));
        assert_eq!(times(&taken(&mut flight)), [Some(0), Some(0), Some(50), None]);
    }

    #[test]
    fn one_chunk_may_be_larger_than_all() {
        let mut flight = Flight::new(1);
        flight.push(&test_sample(10));
        flight.push(&test_sample(20));
        assert_eq!(times(&taken(&mut flight)), [Some(20), None]);
    }
}
