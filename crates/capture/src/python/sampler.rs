//! Reads the stacks of interpreters at a steady rate, beside the recorder.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::code::{Codes, Function};
use super::interpreter::{Interpreter, ThreadStack};
use super::samples::{self, SampleOf};
use crate::side_log::SideRecords;
use crate::sys;

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
}

/// What the recorder tells the sampler.
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
    pub(crate) fn start(rate_hz: u32) -> io::Result<Sampler> {
        let shared = Arc::new(Shared::default());
        let period = Duration::from_secs(1) / rate_hz.max(1);
        let inner = Worker { period, interpreters: BTreeMap::new(), numbers: HashMap::new() };
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
    /// Functions that were told of, by what they are.
    numbers: HashMap<Arc<Function>, u32>,
}

impl Worker {
    fn work(mut self, shared: &Shared) {
        let mut next = Instant::now();
        while !shared.is_over.load(Ordering::Acquire) {
            let orders = std::mem::take(&mut *lock(&shared.orders));
            let mut readings = Readings::default();
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
        readings.records.facts.extend(samples::process(pid, new.layout.minor, period_ns));
        self.interpreters.insert(pid, new);
    }

    fn read(&mut self, readings: &mut Readings) {
        let Worker { interpreters, numbers, .. } = self;
        interpreters.retain(|&pid, interpreter| {
            let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
            match interpreter.stacks() {
                Ok(stacks) => {
                    for stack in stacks {
                        keep(numbers, readings, (time, pid), &interpreter.codes, &stack);
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

fn keep(
    numbers: &mut HashMap<Arc<Function>, u32>,
    readings: &mut Readings,
    (time, pid): (u64, i32),
    codes: &Codes,
    stack: &ThreadStack,
) {
    readings.counts.stacks += 1;
    readings.counts.torn += u64::from(stack.frames.is_none());
    let mut number = |code: u64| {
        let Some(known) = codes.get(code) else { return 0 };
        let next = numbers.len() as u32;
        *numbers.entry(Arc::clone(&known.function)).or_insert_with_key(|function| {
            readings.records.facts.extend(samples::function(next, function));
            next
        })
    };
    let frames = stack.frames.as_ref().map(|frames| {
        let row =
            |frame: &super::interpreter::Frame| (number(frame.code), frame.is_entry, frame.line);
        frames.iter().map(row).collect::<Vec<(u32, bool, i32)>>()
    });
    let of = SampleOf { time, pid, tid: stack.tid, has_gil: stack.has_gil };
    readings.records.timed.push((time, samples::sample(of, frames.as_deref())));
}

fn append(all: &mut Readings, new: Readings) {
    all.records.facts.extend(new.records.facts);
    all.records.timed.extend(new.records.timed);
    all.counts.stacks += new.counts.stacks;
    all.counts.torn += new.counts.torn;
    all.troubles.extend(new.troubles);
}
