//! Reads the stacks of interpreters at a steady rate, beside the recorder.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use spanwise_recording::python::{
    HowRead, PythonFrame, PythonFunction, PythonProcess, PythonStack,
};

use super::code::{Codes, Function};
use super::interpreter::{Frame, Interpreter, ThreadStack};
use crate::follow::{Copied, CopiedAt, FrameCopies, ThreadFrames};
use crate::session::output::side_log::SideRecords;
use crate::system::sys;

/// What was read since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub(crate) records: SideRecords,
    pub(crate) counts: Counts,
    pub(crate) troubles: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) stacks: u64,
    /// Stacks that did not hold still.
    pub(crate) torn: u64,
    /// Of all stacks, those that were copied at a sample or a wait.
    pub(crate) copied: u64,
}

/// What the recorder asks of the sampler.
enum Order {
    Watch(Box<Interpreter>),
    /// A process is a copy of another.
    Copied {
        from: i32,
        to: i32,
    },
    Forget(i32),
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Vec<Order>>,
    readings: Mutex<Readings>,
    is_over: AtomicBool,
}

/// The thread that reads; it ends when this is dropped.
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    pub(crate) fn start(rate_hz: u32, copies: Option<FrameCopies>) -> io::Result<Sampler> {
        let shared = Arc::new(Shared::default());
        let period = Duration::from_secs(1) / rate_hz.max(1);
        let copies = copies.map(|copies| Copying { copies, threads: BTreeMap::new() });
        let (interpreters, numbers) = Default::default();
        let inner = Worker { period, interpreters, numbers, copying: copies };
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("python".to_owned())
            .spawn(move || inner.work(&of_thread))?;
        Ok(Sampler { shared, thread: Some(thread) })
    }

    pub(crate) fn watch(&self, interpreter: Interpreter) {
        self.order(Order::Watch(Box::new(interpreter)));
    }

    pub(crate) fn copied(&self, from: i32, to: i32) {
        self.order(Order::Copied { from, to });
    }

    pub(crate) fn forget(&self, pid: i32) {
        self.order(Order::Forget(pid));
    }

    fn order(&self, order: Order) {
        lock(&self.shared.orders).push(order);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    pub(crate) fn take(&self) -> Readings {
        std::mem::take(&mut *lock(&self.shared.readings))
    }

    /// No more is read from now on.
    pub(crate) fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics at nothing; and what it has read is there in any case.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Nobody panics while holding one of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker {
    period: Duration,
    interpreters: BTreeMap<i32, Interpreter>,
    /// Functions that were recorded, by what they are.
    numbers: HashMap<Arc<Function>, u32>,
    copying: Option<Copying>,
}

/// Frames that programs in the kernel copy.
struct Copying {
    copies: FrameCopies,
    /// Of these threads, by process.
    threads: BTreeMap<i32, BTreeMap<i32, ThreadFrames>>,
}

impl Copying {
    /// Has the frames of exactly these threads of a process copied. Those whose frames are of
    /// several interpreters are read from outside alone: copies would lack the outer ones.
    fn follow(&mut self, interpreter: &Interpreter, stacks: &[ThreadStack]) {
        let known = self.threads.entry(interpreter.memory.pid).or_default();
        let states = stacks.iter().filter_map(|stack| Some((stack.tid, stack.state?)));
        let states: BTreeMap<i32, u64> = states.collect();
        known.retain(|tid, _| {
            let is_there = states.contains_key(tid);
            if !is_there {
                self.copies.end(*tid);
            }
            is_there
        });
        for (tid, state) in states {
            let frames = interpreter.thread_frames(state);
            let is_new = known.get(&tid) != Some(&frames);
            if is_new && self.copies.begin(tid, frames).is_ok() {
                known.insert(tid, frames);
            }
        }
    }

    fn forget(&mut self, pid: i32) {
        let threads = self.threads.remove(&pid).unwrap_or_default();
        threads.keys().for_each(|&tid| self.copies.end(tid));
    }
}

impl Worker {
    fn work(mut self, shared: &Shared) {
        let mut next = Instant::now();
        while !shared.is_over.load(Ordering::Acquire) {
            let orders = std::mem::take(&mut *lock(&shared.orders));
            let mut readings = Readings::default();
            // What was copied is of interpreters that are known until now.
            self.take_copies(&mut readings);
            orders.into_iter().for_each(|order| self.obey(order, &mut readings));
            self.read(&mut readings);
            let SideRecords { facts, timed } = &readings.records;
            if !facts.is_empty() || !timed.is_empty() || !readings.troubles.is_empty() {
                append(&mut lock(&shared.readings), readings);
            }
            if self.interpreters.is_empty() {
                // Most programs have no interpreter: nothing to wake up for, until there is one.
                if lock(&shared.orders).is_empty() && !shared.is_over.load(Ordering::Acquire) {
                    thread::park();
                }
                next = Instant::now();
                continue;
            }
            let now = Instant::now();
            // Where reading takes longer than a period, some are left out.
            next = if next + self.period > now { next + self.period } else { now + self.period };
            while Instant::now() < next && !shared.is_over.load(Ordering::Acquire) {
                thread::park_timeout(next.saturating_duration_since(Instant::now()));
            }
        }
    }

    fn obey(&mut self, order: Order, readings: &mut Readings) {
        let new = match order {
            Order::Forget(pid) => {
                self.interpreters.remove(&pid);
                self.copying.iter_mut().for_each(|copying| copying.forget(pid));
                return;
            }
            Order::Watch(interpreter) => *interpreter,
            Order::Copied { from, to } => match self.interpreters.get(&from) {
                Some(from) => from.copied_to(to),
                None => return,
            },
        };
        let pid = new.memory.pid;
        let period_ns = self.period.as_nanos() as u64;
        let process = PythonProcess { pid, minor: new.layout.minor, period_ns };
        readings.records.facts.extend(process.to_bytes());
        self.interpreters.insert(pid, new);
    }

    /// What was copied since the last time.
    fn take_copies(&mut self, readings: &mut Readings) {
        let Worker { interpreters, numbers, copying, .. } = self;
        let Some(copying) = copying else { return };
        interpreters.values_mut().for_each(Interpreter::begin_copied);
        copying.copies.drain(|copied| {
            let Some(interpreter) = interpreters.get_mut(&copied.pid) else { return };
            let frames = interpreter.copied_frames(copied.frames).ok();
            readings.counts.copied += 1;
            let of = stack_of_copy(copied, frames.is_none());
            keep(numbers, readings, of, &interpreter.codes, frames.as_deref());
        });
    }

    fn read(&mut self, readings: &mut Readings) {
        let Worker { interpreters, numbers, copying, .. } = self;
        interpreters.retain(|&pid, interpreter| {
            let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
            match interpreter.stacks() {
                Ok(stacks) => {
                    copying.iter_mut().for_each(|copying| copying.follow(interpreter, &stacks));
                    for ThreadStack { tid, has_gil, frames, .. } in stacks {
                        let how = HowRead::Beside;
                        let (is_cut, is_torn) = (false, frames.is_none());
                        let of = PythonStack { time, pid, tid, has_gil, how, is_cut, is_torn };
                        keep(numbers, readings, of, &interpreter.codes, frames.as_deref());
                    }
                    true
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        readings.troubles.push(format!(
                            "process {pid}: its Python functions cannot be read: {error}"
                        ));
                    }
                    // A process that has just begun has not all of its memory yet.
                    error.raw_os_error() != Some(libc::ESRCH)
                        && error.kind() != io::ErrorKind::PermissionDenied
                }
            }
        });
    }
}

fn stack_of_copy(copied: Copied<'_>, is_torn: bool) -> PythonStack {
    let Copied { time, pid, tid, at, is_cut, .. } = copied;
    let how = match at {
        CopiedAt::Sample => HowRead::OfSample,
        CopiedAt::Wait => HowRead::OfWait,
    };
    PythonStack { time, pid, tid, has_gil: false, how, is_cut, is_torn }
}

fn keep(
    numbers: &mut HashMap<Arc<Function>, u32>,
    readings: &mut Readings,
    of: PythonStack,
    codes: &Codes,
    frames: Option<&[Frame]>,
) {
    readings.counts.stacks += 1;
    readings.counts.torn += u64::from(frames.is_none());
    let mut number = |code: u64| {
        let Some(known) = codes.get(code) else { return 0 };
        let next = numbers.len() as u32;
        *numbers.entry(Arc::clone(&known.function)).or_insert_with_key(|function| {
            let (name, file) = (function.name.clone(), function.file.clone());
            let function =
                PythonFunction { number: next, first_line: function.first_line, name, file };
            readings.records.facts.extend(function.to_bytes());
            next
        })
    };
    let frame = |frame: &Frame| PythonFrame {
        function: number(frame.code),
        is_entry: frame.is_entry,
        line: frame.line,
    };
    let frames: Vec<PythonFrame> = frames.unwrap_or_default().iter().map(frame).collect();
    readings.records.timed.push((of.time, of.to_bytes(&frames)));
}

fn append(all: &mut Readings, new: Readings) {
    all.records.facts.extend(new.records.facts);
    all.records.timed.extend(new.records.timed);
    all.counts.stacks += new.counts.stacks;
    all.counts.torn += new.counts.torn;
    all.counts.copied += new.counts.copied;
    all.troubles.extend(new.troubles);
}
