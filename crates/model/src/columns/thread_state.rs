//! What a thread does while it does not run, and how spans that say so are named.
//!
//! States are rows of [`crate::ThreadStates`], which all questions read. Formats of traces have
//! no such rows: what is written into them keeps each state as a span with one of these names,
//! and the reader of such a file makes states of them again.

use std::fmt;

use crate::SpanKind;

/// What a blocked thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockedOn {
    /// A mutex.
    Mutex,
    /// A condition variable.
    Condition,
    /// The end of a thread.
    Join,
    /// A semaphore.
    Semaphore,
    /// A read-write lock.
    ReadWriteLock,
    /// A barrier.
    Barrier,
    /// The lock of Python's interpreter.
    Gil,
    /// A lock of a runtime, such as Python's `threading.Lock`.
    Lock,
    /// The kernel's queue below all of the above; which of them is not known.
    Futex,
    /// A device or a file, and it is not known which way.
    Io,
    /// The end of a sleep.
    Sleep,
    /// The recording does not show it.
    Unknown,
    /// That what was written is on the disk.
    Fsync,
    /// A read from a disk.
    DiskRead,
    /// A write to a disk.
    DiskWrite,
    /// A page of memory that has to be read or made.
    PageFault,
    /// Memory that others have to give up.
    Memory,
    /// Data from a socket, or space in it.
    Socket,
    /// Data from a pipe, or space in it.
    Pipe,
    /// Whatever comes first of many: `epoll_wait`, `poll`, `select`, `accept`.
    Poll,
    /// Work, as a worker of a pool that has none.
    Parked,
    /// A signal.
    Signal,
    /// Input from a terminal.
    Terminal,
    /// The end of a process.
    Child,
    /// Whoever stopped it, by a signal or as a debugger.
    Stopped,
    /// A lock of a file.
    FileLock,
    /// A lock inside of the kernel.
    KernelLock,
}

impl BlockedOn {
    /// In the order of [`ThreadState::code`]: new ones come last.
    pub const ALL: [BlockedOn; 27] = [
        BlockedOn::Mutex,
        BlockedOn::Condition,
        BlockedOn::Join,
        BlockedOn::Semaphore,
        BlockedOn::ReadWriteLock,
        BlockedOn::Barrier,
        BlockedOn::Gil,
        BlockedOn::Lock,
        BlockedOn::Futex,
        BlockedOn::Io,
        BlockedOn::Sleep,
        BlockedOn::Unknown,
        BlockedOn::Fsync,
        BlockedOn::DiskRead,
        BlockedOn::DiskWrite,
        BlockedOn::PageFault,
        BlockedOn::Memory,
        BlockedOn::Socket,
        BlockedOn::Pipe,
        BlockedOn::Poll,
        BlockedOn::Parked,
        BlockedOn::Signal,
        BlockedOn::Terminal,
        BlockedOn::Child,
        BlockedOn::Stopped,
        BlockedOn::FileLock,
        BlockedOn::KernelLock,
    ];

    /// The word for it in tables and names.
    pub fn text(self) -> &'static str {
        match self {
            BlockedOn::Mutex => "mutex",
            BlockedOn::Condition => "condition",
            BlockedOn::Join => "join",
            BlockedOn::Semaphore => "semaphore",
            BlockedOn::ReadWriteLock => "read-write lock",
            BlockedOn::Barrier => "barrier",
            BlockedOn::Gil => "GIL",
            BlockedOn::Lock => "lock",
            BlockedOn::Futex => "futex",
            BlockedOn::Io => "I/O",
            BlockedOn::Sleep => "sleep",
            BlockedOn::Unknown => "unknown",
            BlockedOn::Fsync => "disk: fsync",
            BlockedOn::DiskRead => "disk: read",
            BlockedOn::DiskWrite => "disk: write",
            BlockedOn::PageFault => "page fault",
            BlockedOn::Memory => "memory",
            BlockedOn::Socket => "socket",
            BlockedOn::Pipe => "pipe",
            BlockedOn::Poll => "poll",
            BlockedOn::Parked => "parked",
            BlockedOn::Signal => "signal",
            BlockedOn::Terminal => "terminal",
            BlockedOn::Child => "child",
            BlockedOn::Stopped => "stopped",
            BlockedOn::FileLock => "file lock",
            BlockedOn::KernelLock => "kernel lock",
        }
    }

    /// True where others keep the thread waiting by holding something.
    pub fn has_holder(self) -> bool {
        matches!(
            self,
            BlockedOn::Mutex
                | BlockedOn::ReadWriteLock
                | BlockedOn::Gil
                | BlockedOn::Lock
                | BlockedOn::FileLock
        )
    }

    /// True where the thread waits for something to do: there is nothing to be gained.
    pub fn is_idle(self) -> bool {
        matches!(self, BlockedOn::Poll | BlockedOn::Parked | BlockedOn::Signal)
    }

    /// True where another thread of the program ends the wait: a lock, a condition and their like.
    pub fn is_of_threads(self) -> bool {
        matches!(
            self,
            BlockedOn::Mutex
                | BlockedOn::Condition
                | BlockedOn::Semaphore
                | BlockedOn::ReadWriteLock
                | BlockedOn::Barrier
                | BlockedOn::Gil
                | BlockedOn::Lock
                | BlockedOn::Futex
        )
    }

    fn parse(text: &str) -> Option<BlockedOn> {
        BlockedOn::ALL.into_iter().find(|on| on.text() == text)
    }
}

/// Since when a thread that could run waits for a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunnableSince {
    /// Somebody woke it.
    Woken,
    /// Another one took its processor.
    Preempted,
    /// It is new and has not run yet.
    Created,
}

/// The state of a thread over a time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// It runs on a processor.
    Running,
    /// It waits for something else than a processor.
    Blocked(BlockedOn),
    /// It could run, and waits for a processor.
    Runnable(RunnableSince),
    /// An event is missing: it may have run, and it may not.
    Unrecorded,
}

impl ThreadState {
    /// Codes are smaller than this.
    pub const CODES: u16 = FIRST_BLOCKED_CODE + BlockedOn::ALL.len() as u16;

    /// The word for it in tables, the reason aside.
    pub fn text(self) -> &'static str {
        match self {
            ThreadState::Running => "running",
            ThreadState::Blocked(_) => "blocked",
            ThreadState::Runnable(_) => "runnable",
            ThreadState::Unrecorded => "unrecorded",
        }
    }

    /// The word for why the thread does not run; none where that is not known.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            ThreadState::Blocked(BlockedOn::Unknown) => None,
            ThreadState::Blocked(on) => Some(on.text()),
            ThreadState::Runnable(RunnableSince::Woken) => Some("woken"),
            ThreadState::Runnable(RunnableSince::Preempted) => Some("preempted"),
            ThreadState::Runnable(RunnableSince::Created) => Some("created"),
            ThreadState::Running | ThreadState::Unrecorded => None,
        }
    }

    /// The name of a span that stands for the state.
    pub fn span_name(self) -> String {
        match self {
            ThreadState::Running => RUNNING.to_owned(),
            ThreadState::Blocked(BlockedOn::Sleep) => SLEEPING.to_owned(),
            ThreadState::Blocked(BlockedOn::Unknown) => BLOCKED.to_owned(),
            ThreadState::Blocked(on) if on.is_idle() => format!("[idle: {}]", on.text()),
            ThreadState::Blocked(on) => format!("[blocked: {}]", on.text()),
            ThreadState::Runnable(RunnableSince::Woken) => RUNNABLE.to_owned(),
            ThreadState::Runnable(RunnableSince::Preempted) => PREEMPTED.to_owned(),
            ThreadState::Runnable(RunnableSince::Created) => CREATED.to_owned(),
            ThreadState::Unrecorded => UNRECORDED.to_owned(),
        }
    }

    /// The state that a span of this name stands for.
    pub fn from_span_name(name: &str) -> Option<ThreadState> {
        Some(match name {
            RUNNING => ThreadState::Running,
            SLEEPING => ThreadState::Blocked(BlockedOn::Sleep),
            BLOCKED => ThreadState::Blocked(BlockedOn::Unknown),
            RUNNABLE => ThreadState::Runnable(RunnableSince::Woken),
            PREEMPTED => ThreadState::Runnable(RunnableSince::Preempted),
            CREATED => ThreadState::Runnable(RunnableSince::Created),
            UNRECORDED => ThreadState::Unrecorded,
            _ => {
                let begins = name.strip_prefix("[blocked: ").or(name.strip_prefix("[idle: "));
                let on = begins?.strip_suffix(']')?;
                ThreadState::Blocked(BlockedOn::parse(on)?)
            }
        })
    }

    /// The number of the state in a column; [`ThreadState::from_code`] reads it back.
    pub fn code(self) -> u16 {
        let place = |on| BlockedOn::ALL.iter().position(|&other| other == on).unwrap_or(0) as u16;
        match self {
            ThreadState::Running => 0,
            ThreadState::Unrecorded => 1,
            ThreadState::Runnable(RunnableSince::Woken) => 2,
            ThreadState::Runnable(RunnableSince::Preempted) => 3,
            ThreadState::Runnable(RunnableSince::Created) => 4,
            ThreadState::Blocked(on) => FIRST_BLOCKED_CODE + place(on),
        }
    }

    /// The state of a number in a column; `None` if no state has it.
    pub fn from_code(code: u16) -> Option<ThreadState> {
        Some(match code {
            0 => ThreadState::Running,
            1 => ThreadState::Unrecorded,
            2 => ThreadState::Runnable(RunnableSince::Woken),
            3 => ThreadState::Runnable(RunnableSince::Preempted),
            4 => ThreadState::Runnable(RunnableSince::Created),
            _ => {
                let place = usize::from(code.checked_sub(FIRST_BLOCKED_CODE)?);
                ThreadState::Blocked(*BlockedOn::ALL.get(place)?)
            }
        })
    }

    /// The category of such a span, and its meaning.
    pub fn category(self) -> (&'static str, SpanKind) {
        match self {
            ThreadState::Running => ("running", SpanKind::Other),
            ThreadState::Blocked(_) => ("off_cpu_blocked", SpanKind::OffCpu),
            ThreadState::Runnable(_) => ("off_cpu_runnable", SpanKind::OffCpu),
            ThreadState::Unrecorded => ("off_cpu_unrecorded", SpanKind::OffCpu),
        }
    }
}

/// Codes of blocked states begin here, one for each reason.
const FIRST_BLOCKED_CODE: u16 = 16;

const RUNNING: &str = "[running]";
const SLEEPING: &str = "[sleeping]";
const BLOCKED: &str = "[blocked]";
const RUNNABLE: &str = "[waiting for a CPU]";
const PREEMPTED: &str = "[waiting for a CPU: preempted]";
const CREATED: &str = "[waiting for a CPU: new]";
const UNRECORDED: &str = "[off-CPU or running: not recorded]";

/// The category of spans that wait for a lock, see [`AwaitedLock`].
pub const LOCK_WAIT_CATEGORY: &str = "lock_wait";

/// The category of links from a thread to the one that it woke.
pub const WAKEUP_CATEGORY: &str = "wakeup";

/// The category of instant events at which a thread resumed on another processor.
pub const MIGRATION_CATEGORY: &str = "migration";

/// A lock that a thread waits for: its sort, and where it lies, if that is known. Its
/// text is the name of the span, such as `[mutex 0x564e1113f140]` or `[GIL]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AwaitedLock {
    /// The type of lock.
    pub on: BlockedOn,
    /// Its address, if known.
    pub address: Option<u64>,
}

impl fmt::Display for AwaitedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "[{} {address:#x}]", self.on.text()),
            None => write!(f, "[{}]", self.on.text()),
        }
    }
}

impl AwaitedLock {
    /// The lock of a span with this name.
    pub fn from_span_name(name: &str) -> Option<AwaitedLock> {
        let inside = name.strip_prefix('[')?.strip_suffix(']')?;
        let (sort, address) = match inside.rsplit_once(" 0x") {
            Some((sort, digits)) => (sort, Some(u64::from_str_radix(digits, 16).ok()?)),
            None => (inside, None),
        };
        Some(AwaitedLock { on: BlockedOn::parse(sort)?, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_name() {
        let since = [RunnableSince::Woken, RunnableSince::Preempted, RunnableSince::Created];
        let states = BlockedOn::ALL.map(ThreadState::Blocked).into_iter();
        let states = states.chain(since.map(ThreadState::Runnable));
        for state in states.chain([ThreadState::Running, ThreadState::Unrecorded]) {
            assert_eq!(ThreadState::from_span_name(&state.span_name()), Some(state));
            assert_eq!(ThreadState::from_code(state.code()), Some(state));
        }
        assert_eq!(ThreadState::from_span_name("[blocked: by a cat]"), None);
        assert_eq!(ThreadState::from_span_name("main"), None);
        assert_eq!(ThreadState::Blocked(BlockedOn::Unknown).code(), 27, "codes stay what they are");
        assert_eq!(ThreadState::Blocked(BlockedOn::Poll).span_name(), "[idle: poll]");
        assert_eq!(ThreadState::from_code(5), None);
        assert_eq!(ThreadState::from_code(u16::MAX), None);
    }

    #[test]
    fn every_lock_is_read_back_from_its_name() {
        for on in BlockedOn::ALL {
            for address in [None, Some(0), Some(0x564e_1113_f140)] {
                let lock = AwaitedLock { on, address };
                assert_eq!(AwaitedLock::from_span_name(&lock.to_string()), Some(lock));
            }
        }
        assert_eq!(AwaitedLock::from_span_name("[mutex 0xno]"), None);
        assert_eq!(AwaitedLock::from_span_name("[unknown] (libc.so)"), None);
    }
}
