//! Blocks of whole records, read by all cores and handed over in order.
//!
//! Each core has a lane: names of its own, and what it learned of earlier lines, from block
//! to block. A lane takes the next block that nobody has taken; blocks are joined in order
//! while later ones are read, by the caller, who reads too when there is nothing to join.
//! Each block comes with the names that its lane met for the first time, so what comes out
//! does not depend on which lane has read which block.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use spanwise_callstack::{NameTranslation, Names, NamesLen, NewNames};
use spanwise_model::{Nanos, Notices};

use super::form::{Form, Times};
use super::line_head::Header;
use super::parser;
use super::parser::{Counts, ParseOptions};
use super::quick::Quick;
use crate::perf::record::Record;

/// What a block of whole records holds, in the numbers of its lane.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) records: Vec<Record>,
    pub(crate) notices: Notices,
    pub(crate) counts: Counts,
    /// What passed from the line before it to the last of it, where lines say that alone.
    /// The records' times count from there, until they are joined.
    pub(crate) elapsed: Nanos,
    /// What the lane did not know before.
    pub(crate) new_names: NewNames,
}

impl Block {
    fn start_at(&mut self, start: Nanos) {
        for time in self.records.iter_mut().filter_map(|record| record.time.as_mut()) {
            *time = time.saturating_add(start);
        }
    }
}

/// What one core keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) names: Names,
    pub(crate) quick: Quick,
    /// How many of the names went out with blocks.
    pub(crate) sent: NamesLen,
}

/// The lanes, and how much text one of them reads at a time.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The numbers of each lane's names where they are joined.
    adopted: Vec<NameTranslation>,
    block_bytes: usize,
    /// What passed in the blocks that were joined, by the sum of [`Block::elapsed`].
    elapsed: Nanos,
}

/// Where blocks are joined.
pub(crate) trait Join {
    fn names(&mut self) -> &mut Names;
    fn block(&mut self, block: Block, numbers: &NameTranslation);
}

impl Lanes {
    pub(crate) fn new(threads: usize, block_bytes: usize) -> Self {
        let lanes: Vec<Lane> = (0..threads.max(1)).map(|_| Lane::default()).collect();
        Lanes {
            adopted: vec![NameTranslation::default(); lanes.len()],
            lanes,
            block_bytes,
            elapsed: 0,
        }
    }

    /// What follows is another text.
    pub(crate) fn new_text(&mut self) {
        self.elapsed = 0;
    }

    /// Reads whole records, and hands them over in order.
    pub(crate) fn read(
        &mut self,
        text: &[u8],
        base: u64,
        options: ParseOptions<'_>,
        join: &mut impl Join,
    ) {
        let blocks = cut(text, self.block_bytes, options.form);
        let queue = Queue::new(blocks.len(), BLOCKS_A_LANE * self.lanes.len());
        let read = |lane: &mut Lane, number: usize| {
            let (at, text) = blocks[number];
            parser::parse(text, base + at as u64, options, lane)
        };
        let (read, queue) = (&read, &queue);
        let (own, others) = self.lanes.split_first_mut().expect("there is a lane at least");
        thread::scope(|scope| {
            let others = others.iter_mut().enumerate().take(blocks.len().saturating_sub(1));
            for (other, lane) in others {
                scope.spawn(move || {
                    let _end = queue.ends_on_panic();
                    while let Some(number) = queue.next_or_wait() {
                        queue.put(number, (other + 1, read(lane, number)));
                    }
                });
            }
            let _end = queue.ends_on_panic();
            for number in 0..blocks.len() {
                let (lane, mut block) = loop {
                    match queue.take(number) {
                        JoinTask::Ready(lane, block) => break (lane, block),
                        JoinTask::Other(other) => queue.put(other, (0, read(own, other))),
                    }
                };
                if options.form.times == Times::SinceBefore {
                    block.start_at(self.elapsed);
                    self.elapsed = self.elapsed.saturating_add(block.elapsed);
                }
                let adopted = &mut self.adopted[lane];
                adopted.extend(join.names(), &block.new_names);
                join.block(block, adopted);
            }
        });
    }
}

/// Enough that lanes seldom wait for each other, and few records are held at once.
const BLOCKS_A_LANE: usize = 4;

/// Blocks that were read and wait to be joined, and what is yet to be read.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// How many blocks there are.
    count: usize,
    /// How far reading may be ahead of joining.
    ahead: usize,
}

#[derive(Default)]
struct State {
    /// The next block that nobody has taken.
    next: usize,
    /// The next block to be joined.
    joined: usize,
    /// By number: the lane, and what it read.
    done: BTreeMap<usize, (usize, Block)>,
    /// A thread gave up: the others must not wait for it.
    is_over: bool,
}

/// What whoever joins is to do.
enum JoinTask {
    /// Join this block of a lane.
    Ready(usize, Block),
    /// Read this one meanwhile.
    Other(usize),
}

impl Queue {
    fn new(count: usize, ahead: usize) -> Self {
        Queue { state: Mutex::default(), changed: Condvar::new(), count, ahead }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).expect("nothing panics while it holds this")
    }

    fn take_next(&self, state: &mut State) -> Option<usize> {
        let may = state.next < self.count && state.next < state.joined + self.ahead;
        may.then(|| {
            state.next += 1;
            state.next - 1
        })
    }

    /// A block to read; `None` when all are taken.
    fn next_or_wait(&self) -> Option<usize> {
        let mut state = self.state();
        while state.next < self.count && !state.is_over {
            if let Some(number) = self.take_next(&mut state) {
                return Some(number);
            }
            state = self.wait(state);
        }
        None
    }

    fn put(&self, number: usize, read: (usize, Block)) {
        self.state().done.insert(number, read);
        self.changed.notify_all();
    }

    /// A block that is to be joined now, or another one to read until it is there.
    fn take(&self, number: usize) -> JoinTask {
        let mut state = self.state();
        loop {
            if let Some((lane, block)) = state.done.remove(&number) {
                state.joined = number + 1;
                self.changed.notify_all();
                return JoinTask::Ready(lane, block);
            }
            if let Some(other) = self.take_next(&mut state) {
                return JoinTask::Other(other);
            }
            assert!(!state.is_over, "a lane panicked");
            state = self.wait(state);
        }
    }

    fn ends_on_panic(&self) -> EndsOnPanic<'_> {
        EndsOnPanic(self)
    }
}

/// Lets nobody wait for a thread that is no more.
struct EndsOnPanic<'a>(&'a Queue);

impl Drop for EndsOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            if let Ok(mut state) = self.0.state.lock() {
                state.is_over = true;
            }
            self.0.changed.notify_all();
        }
    }
}

/// Cuts a text into blocks of whole records; each with where it begins.
fn cut<'a>(text: &'a [u8], block_bytes: usize, form: &Form) -> Vec<(usize, &'a [u8])> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let rest = &text[from..];
        let len = match rest.get(..block_bytes) {
            None => rest.len(),
            Some(_) => record_end(rest, block_bytes, form),
        };
        blocks.push((from, &rest[..len]));
        from += len;
    }
    blocks
}

/// True where a record begins: at a line that is neither a frame nor beside one.
fn begins_record(text: &[u8], form: &Form) -> bool {
    match text.first() {
        None | Some(b'\t' | b'\n' | b'\r') => false,
        Some(byte) if *byte != b' ' && !form.frames_are_loose => true,
        // Names are set to the right, and lines of source stand between frames. What kind
        // of line it is, is unknown until its end: `7.5:` may go on as `7.5:x`.
        Some(_) => memchr::memchr(b'\n', text).is_some_and(|end| {
            let line = &text[..end];
            Header::read(line.strip_suffix(b"\r").unwrap_or(line), form).is_some()
        }),
    }
}

/// Where the first record ends at or behind `from`.
fn record_end(text: &[u8], from: usize, form: &Form) -> usize {
    let ends = memchr::memchr_iter(b'\n', &text[from..]).map(|end| from + end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..], form));
    ends.next().unwrap_or(text.len())
}

/// How much of a text that goes on is certainly whole records.
pub(crate) fn whole_records(text: &[u8], form: &Form) -> usize {
    let ends = memchr::memrchr_iter(b'\n', text).map(|end| end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..], form));
    ends.next().unwrap_or(0)
}
