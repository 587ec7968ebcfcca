//! Stacks by the addresses that the kernel recorded for them.
//!
//! A program that runs for minutes is sampled in the same places again and again: of millions of
//! samples, most have callers that were seen before. A stack is looked up caller by caller, each
//! by its address alone, which is several times as fast as finding the function of each.

use std::collections::HashMap;

use spanwise_callstack::StackRef;
use spanwise_model::QuickMap;

/// An address in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainAddress {
    pub(crate) ip: u64,
    /// It is where a call returns to, and not where the program was.
    pub(crate) is_return: bool,
}

/// Callers and addresses of each process, as long as nothing is mapped anew there.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    by_process: HashMap<i32, QuickMap<(u32, u64), StackRef>>,
    count: usize,
}

/// Beyond this all is forgotten, and learned again: some 50 MB.
const COUNT_MAX: usize = 1 << 20;

impl Chains {
    /// The stack of a caller and an address in what it called.
    pub(crate) fn find(&self, pid: i32, caller: StackRef, at: ChainAddress) -> Option<StackRef> {
        self.by_process.get(&pid)?.get(&key(caller, at)).copied()
    }

    pub(crate) fn add(&mut self, pid: i32, caller: StackRef, at: ChainAddress, stack: StackRef) {
        self.count += 1;
        if self.count > COUNT_MAX {
            *self = Chains { count: 1, ..Chains::default() };
        }
        self.by_process.entry(pid).or_default().insert(key(caller, at), stack);
    }

    /// Something is mapped anew in a process; or, below 0, in the kernel.
    pub(crate) fn forget(&mut self, pid: i32) {
        match pid {
            0.. => {
                let gone = self.by_process.remove(&pid);
                self.count -= gone.map_or(0, |gone| gone.len().min(self.count));
            }
            _ => *self = Chains::default(),
        }
    }
}

/// No two stacks have numbers so large that the flag would be lost.
fn key(caller: StackRef, at: ChainAddress) -> (u32, u64) {
    (caller.0 << 1 | u32::from(at.is_return), at.ip)
}

#[cfg(test)]
mod tests {
    use spanwise_model::{NoticeKind, SourceInfo, Trace};

    use crate::binary::{Feed, Records};
    use crate::perf::data::Reader;

    fn read(bytes: &[u8], drawn_words_max: u64) -> Trace {
        let mut reader = Reader { drawn_words_max, ..Reader::closed() };
        reader.feed(bytes, 0, true);
        let trace = Box::new(reader).finish(SourceInfo::default(), 1).expect("a recording");
        assert_eq!(trace.check(), Ok(()));
        trace
    }

    /// Each sample with its frames.
    fn samples(trace: &Trace) -> Vec<String> {
        let text = |id| trace.strings().get(id);
        let sample = |row: spanwise_model::SampleRow| {
            let frames = trace.stacks().frames(row.stack).map(|id| trace.frames().get(id));
            let frame = |frame: spanwise_model::Frame| {
                format!("{} {:x} {:?}", text(frame.function), frame.address, frame.kind)
            };
            let frames: Vec<String> = frames.map(frame).collect();
            let thread = text(trace.tracks().get(row.track).thread);
            format!("{} {thread} {} {frames:?}", row.time, row.weight)
        };
        let mut samples: Vec<String> = trace.samples().iter().map(sample).collect();
        // Threads have other numbers where calls are drawn first.
        samples.sort_unstable();
        samples
    }

    #[test]
    fn samples_that_are_not_drawn_are_the_same() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/perf/small.perf.data");
        let bytes = std::fs::read(path).expect("part of the repository");
        let (drawn, not_drawn) = (read(&bytes, u64::MAX), read(&bytes, 1));
        assert!(drawn.samples().len() > 1);
        assert_eq!(samples(&drawn), samples(&not_drawn));
        let left_out = |trace: &Trace| trace.notices().count(NoticeKind::SamplesNotDrawn);
        assert_eq!(left_out(&drawn), 0);
        assert!(left_out(&not_drawn) > 0);
        assert!(not_drawn.spans().len() < drawn.spans().len());
    }
}
