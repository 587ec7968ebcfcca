//! The interpreter of a process: its threads, and the frames of each.
//!
//! The process runs on while it is read, so what is read may not have been there at one time.
//! Every frame is read twice: where the second reading is the first, the stack was as it says
//! in between; where it is not, it is read anew, a few times. Frames that the kernel has copied
//! while their thread stood still need none of that.

use std::collections::{HashMap, HashSet};
use std::io;

use super::code::{Codes, Torn};
use super::layout::{Entries, Gil, Layout};
use super::memory::{Ahead, Memory, number_at, word_at};
use crate::follow::{FRAME_BYTES_MAX, ThreadFrames};
use crate::system::processes;

/// No chain of interpreters or threads is longer than this.
const CHAIN_MAX: usize = 4096;

/// Frames beyond this are left out, from the outermost on.
const FRAMES_MAX: usize = 4096;

const TRIES: usize = 5;

/// An interpreter in the memory of a process.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    pub(crate) runtime: u64,
    pub(crate) code_type: u64,
    pub(crate) codes: Codes,
    /// Where its threads are.
    threads: Ahead,
    /// The frames of each thread, by its state's address.
    frames: HashMap<u64, Ahead>,
    /// Where in what pthreads keep of a thread the kernel's number of it is.
    tid_at: Option<usize>,
    /// Code objects that were read for the frames that are being recorded.
    looked_at: HashSet<u64>,
}

/// What a thread does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadStack {
    pub(crate) tid: i32,
    /// Where what the interpreter keeps of it is; nowhere alone where frames of several
    /// interpreters are one stack.
    pub(crate) state: Option<u64>,
    /// It has the lock that lets it run Python.
    pub(crate) has_gil: bool,
    /// Outermost first; `None` where it did not hold still.
    pub(crate) frames: Option<Vec<Frame>>,
}

/// One call of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The address of its code object.
    pub(crate) code: u64,
    pub(crate) line: i32,
    /// A call of the C function that interprets begins with it.
    pub(crate) is_entry: bool,
}

/// A frame as it is in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RawFrame {
    address: u64,
    bytes: Vec<u8>,
}

/// One stack for each thread: one that runs code of another interpreter has a state in both. The
/// newer interpreter, which comes first, is called by the older one.
fn joined(stacks: Vec<ThreadStack>) -> Vec<ThreadStack> {
    let mut places: HashMap<i32, usize> = HashMap::new();
    let mut all: Vec<ThreadStack> = Vec::with_capacity(stacks.len());
    for outer in stacks {
        let Some(&at) = places.get(&outer.tid) else {
            places.insert(outer.tid, all.len());
            all.push(outer);
            continue;
        };
        let inner = &mut all[at];
        inner.has_gil |= outer.has_gil;
        let is_empty = |stack: &ThreadStack| stack.frames.as_ref().is_some_and(Vec::is_empty);
        if is_empty(&outer) {
            continue;
        }
        inner.state = if is_empty(inner) { outer.state } else { None };
        let frames = outer.frames.zip(inner.frames.take());
        inner.frames = frames.map(|(outer, inner)| [outer, inner].concat());
    }
    all
}

impl Interpreter {
    pub(crate) fn new(memory: Memory, layout: Layout, runtime: u64, code_type: u64) -> Self {
        Interpreter {
            memory,
            layout,
            runtime,
            code_type,
            codes: Codes::default(),
            threads: Ahead::new(memory),
            frames: HashMap::new(),
            tid_at: None,
            looked_at: HashSet::new(),
        }
    }

    /// The same, in a process that was copied from this one.
    pub(crate) fn copied_to(&self, pid: i32) -> Interpreter {
        Interpreter::new(Memory { pid }, self.layout, self.runtime, self.code_type)
    }

    /// The stacks of all threads. An error where the process is gone or may not be read.
    pub(crate) fn stacks(&mut self) -> io::Result<Vec<ThreadStack>> {
        let mut stacks = Vec::new();
        self.threads.begin();
        let first = self.threads.word(self.runtime + self.layout.interpreters as u64)?;
        let mut interpreters = Vec::new();
        let mut at = first;
        // One that is being made or taken apart may lead nowhere.
        while at != 0 && interpreters.len() < CHAIN_MAX {
            interpreters.push(at);
            let next = at.wrapping_add(self.layout.next_interpreter as u64);
            at = self.threads.word(next).unwrap_or(0);
        }
        let mut frames_before = std::mem::take(&mut self.frames);
        for interpreter in interpreters {
            let holder = self.gil_holder(interpreter);
            for (address, state) in self.threads(interpreter) {
                let Some(tid) = self.native_id(&state) else { continue };
                let mut ahead =
                    frames_before.remove(&address).unwrap_or_else(|| Ahead::new(self.memory));
                let frames = self.frames(address, &mut ahead).ok();
                self.frames.insert(address, ahead);
                let has_gil = holder == Some(address);
                stacks.push(ThreadStack { tid, state: Some(address), has_gil, frames });
            }
        }
        Ok(joined(stacks))
    }

    /// Where a program that copies the frames of a thread finds them.
    pub(crate) fn thread_frames(&self, state: u64) -> ThreadFrames {
        ThreadFrames {
            from: state.wrapping_add(self.layout.frame as u64),
            through: self.layout.through,
            frame_bytes: self.layout.frame_bytes(),
            previous: self.layout.frame_previous,
        }
    }

    /// Copied frames come that may have code objects which are new, also at addresses of old ones.
    pub(crate) fn begin_copied(&mut self) {
        self.looked_at.clear();
    }

    /// What frames that were copied are, outermost first. Code objects live long: what they say
    /// is read now.
    pub(crate) fn copied_frames(&mut self, frames: &[u8]) -> Result<Vec<Frame>, Torn> {
        let of_frame = self.layout.frame_bytes().min(FRAME_BYTES_MAX);
        let raw = frames
            .chunks_exact(FRAME_BYTES_MAX)
            .map(|bytes| RawFrame { address: 0, bytes: bytes[..of_frame].to_vec() });
        let python = self.python_frames(raw.collect());
        let codes = self.codes_of(&python);
        let new = codes.iter().copied().filter(|code| !self.looked_at.contains(code));
        let new: Vec<u64> = new.collect();
        if !new.is_empty() {
            let mut memory = Ahead::new(self.memory);
            self.codes.look_at(&mut memory, &self.layout, self.code_type, &new)?;
            self.looked_at.extend(new);
        }
        self.named(&python, &codes)
    }

    /// The states of an interpreter's threads.
    fn threads(&mut self, interpreter: u64) -> Vec<(u64, Vec<u8>)> {
        let mut threads = Vec::new();
        let first = interpreter.wrapping_add(self.layout.threads as u64);
        let mut at = self.threads.word(first).unwrap_or(0);
        while at != 0 && threads.len() < CHAIN_MAX {
            let Ok(state) = self.threads.read(at, self.layout.thread_bytes()) else { break };
            let next = word_at(&state, self.layout.next_thread);
            threads.push((at, state));
            at = next;
        }
        threads
    }

    /// The state of the thread that has the lock.
    fn gil_holder(&mut self, interpreter: u64) -> Option<u64> {
        let memory = &mut self.threads;
        let (gil, locked, holder) = match self.layout.gil {
            Gil::None => return None,
            Gil::Shared { locked, holder } => (self.runtime, locked, holder),
            Gil::Own { gil, locked, holder } => {
                let gil = memory.word(interpreter.wrapping_add(gil as u64)).ok()?;
                (gil, locked, holder)
            }
        };
        let is_locked = memory.word(gil.wrapping_add(locked as u64)).ok()? as u32 as i32 > 0;
        let holder = memory.word(gil.wrapping_add(holder as u64)).ok()?;
        is_locked.then_some(holder)
    }

    /// What the kernel calls a thread.
    fn native_id(&mut self, state: &[u8]) -> Option<i32> {
        if let Some(at) = self.layout.native_id {
            return Some(number_at(state, at)).filter(|&tid| tid > 0);
        }
        let of_pthreads = word_at(state, self.layout.thread_id);
        if self.tid_at.is_none() {
            self.tid_at = self.find_tid_at(of_pthreads);
        }
        let tid = self.threads.read(of_pthreads.wrapping_add(self.tid_at? as u64), 4).ok()?;
        Some(number_at(&tid, 0)).filter(|&tid| tid > 0)
    }

    /// Older interpreters know what pthreads call a thread, which is where these keep what
    /// they know of it, and the kernel's number is somewhere in there.
    fn find_tid_at(&self, of_pthreads: u64) -> Option<usize> {
        const LOOKED_AT: usize = 1024;
        let bytes = self.memory.read(of_pthreads, LOOKED_AT).ok()?;
        let tids = processes::threads(self.memory.pid);
        (0..LOOKED_AT).step_by(4).find(|&at| tids.contains(&number_at(&bytes, at)))
    }

    /// The frames of a thread, outermost first.
    fn frames(&mut self, thread: u64, memory: &mut Ahead) -> Result<Vec<Frame>, Torn> {
        for _ in 0..TRIES {
            memory.begin();
            if let Ok(frames) = self.try_frames(thread, memory) {
                return Ok(frames);
            }
        }
        Err(Torn)
    }

    fn try_frames(&mut self, thread: u64, memory: &mut Ahead) -> Result<Vec<Frame>, Torn> {
        let raw = self.raw_frames(thread, memory)?;
        let python: Vec<(RawFrame, bool)> = self.python_frames(raw.clone());
        let codes = self.codes_of(&python);
        self.codes.look_at(memory, &self.layout, self.code_type, &codes)?;
        self.check(thread, &raw, memory)?;
        self.named(&python, &codes)
    }

    fn codes_of(&self, frames: &[(RawFrame, bool)]) -> Vec<u64> {
        // Since 3.14 the lowest bits say how it is referred to.
        let code = |frame: &RawFrame| word_at(&frame.bytes, self.layout.frame_code) & !3;
        frames.iter().map(|(frame, _)| code(frame)).collect()
    }

    /// Frames with their lines, outermost first.
    fn named(&self, python: &[(RawFrame, bool)], codes: &[u64]) -> Result<Vec<Frame>, Torn> {
        let frames = python.iter().zip(codes).map(|((frame, is_entry), &code)| {
            let instruction = word_at(&frame.bytes, self.layout.frame_instruction);
            let known = self.codes.get(code).ok_or(Torn)?;
            let line = known.line(&self.layout, code, instruction);
            Ok(Frame { code, line, is_entry: *is_entry })
        });
        let mut frames = frames.collect::<Result<Vec<Frame>, Torn>>()?;
        frames.reverse();
        Ok(frames)
    }

    /// All frames, innermost first.
    fn raw_frames(&self, thread: u64, memory: &mut Ahead) -> Result<Vec<RawFrame>, Torn> {
        let mut frames = Vec::new();
        let mut at = self.innermost(thread, memory)?;
        while at != 0 && frames.len() < FRAMES_MAX {
            let bytes = memory.read(at, self.layout.frame_bytes())?;
            let previous = word_at(&bytes, self.layout.frame_previous);
            frames.push(RawFrame { address: at, bytes });
            at = previous;
        }
        Ok(frames)
    }

    /// Where the innermost frame of a thread is.
    fn innermost(&self, thread: u64, memory: &mut Ahead) -> io::Result<u64> {
        let at = memory.word(thread.wrapping_add(self.layout.frame as u64))?;
        match self.layout.through {
            Some(through) if at != 0 => memory.word(at.wrapping_add(through as u64)),
            _ => Ok(at),
        }
    }

    /// Frames of Python, with whether the C function that interprets was called for them.
    fn python_frames(&self, raw: Vec<RawFrame>) -> Vec<(RawFrame, bool)> {
        let mut python: Vec<(RawFrame, bool)> = Vec::new();
        for frame in raw {
            match self.layout.entries {
                Entries::All => python.push((frame, true)),
                Entries::Marked(at) => {
                    let is_entry = frame.bytes.get(at) == Some(&1);
                    python.push((frame, is_entry));
                }
                Entries::Inside(at)
                    if frame.bytes.get(at).is_some_and(|&owner| owner >= Entries::OF_C) =>
                {
                    if let Some((_, is_entry)) = python.last_mut() {
                        *is_entry = true;
                    }
                }
                Entries::Inside(_) => python.push((frame, false)),
            }
        }
        if let Some((_, is_entry)) = python.last_mut() {
            *is_entry = true;
        }
        python
    }

    /// Whether all frames still lead to one another, with the same code. Where in its code the
    /// innermost is, changes all the time.
    fn check(&self, thread: u64, frames: &[RawFrame], memory: &mut Ahead) -> Result<(), Torn> {
        memory.again();
        let again = self.raw_frames(thread, memory)?;
        let links = |frame: &RawFrame| {
            let words = [self.layout.frame_code, self.layout.frame_previous];
            (frame.address, words.map(|at| word_at(&frame.bytes, at)))
        };
        frames.iter().map(links).eq(again.iter().map(links)).then_some(()).ok_or(Torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread, the address of its state, and the code of its frames.
    type Row<'a, S> = (i32, S, Option<&'a [u64]>);

    fn stack(row: &Row<'_, Option<u64>>) -> ThreadStack {
        let (tid, state, codes) = *row;
        let frame = |&code: &u64| Frame { code, line: 1, is_entry: true };
        let frames = codes.map(|codes| codes.iter().map(frame).collect());
        ThreadStack { tid, state, has_gil: false, frames }
    }

    #[track_caller]
    fn check(stacks: &[Row<'_, u64>], expected: &[Row<'_, Option<u64>>]) {
        let read = stacks.iter().map(|&(tid, state, codes)| stack(&(tid, Some(state), codes)));
        let expected: Vec<ThreadStack> = expected.iter().map(stack).collect();
        assert_eq!(joined(read.collect()), expected);
    }

    #[test]
    fn frames_of_a_newer_interpreter_are_inside() {
        check(
            &[(7, 1, Some(&[10])), (8, 2, Some(&[20]))],
            &[(7, Some(1), Some(&[10])), (8, Some(2), Some(&[20]))],
        );
        let both: &[u64] = &[21, 22, 11, 12];
        check(&[(7, 1, Some(&[11, 12])), (7, 2, Some(&[21, 22]))], &[(7, None, Some(both))]);
    }

    #[test]
    fn a_state_without_frames_adds_nothing() {
        check(&[(7, 1, Some(&[])), (7, 2, Some(&[21]))], &[(7, Some(2), Some(&[21]))]);
        check(&[(7, 1, Some(&[11])), (7, 2, Some(&[]))], &[(7, Some(1), Some(&[11]))]);
    }

    #[test]
    fn a_stack_is_torn_where_a_part_of_it_is() {
        check(&[(7, 1, None), (7, 2, Some(&[21]))], &[(7, None, None)]);
        check(&[(7, 1, Some(&[11])), (7, 2, None)], &[(7, None, None)]);
    }
}
