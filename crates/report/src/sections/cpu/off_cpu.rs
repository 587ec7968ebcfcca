//! Threads that run and wait, and the locks that they wait for.

use spanwise_analyze::{
    LockRow, LockThreadRow, OffCpuReason, OffCpuRow, SampledWaits, WaitStacks, WakerRow,
    lock_threads, locks, off_cpu, off_cpu_reasons, reason_text, wait_stacks, wakers,
};
use spanwise_model::BlockedOn;
use spanwise_write::{Column, Columns, Content, Top, Unit, count_text, nanos_text};

use crate::sections::{SectionDef, Shown};

/// Columns of what threads are blocked on: key and title.
const BLOCKED: [(BlockedOn, &str, &str); 27] = [
    (BlockedOn::Mutex, "mutex", "mutex"),
    (BlockedOn::Condition, "condition", "condition"),
    (BlockedOn::Join, "join", "join"),
    (BlockedOn::Semaphore, "semaphore", "semaphore"),
    (BlockedOn::ReadWriteLock, "read_write_lock", "read-write lock"),
    (BlockedOn::Barrier, "barrier", "barrier"),
    (BlockedOn::Gil, "gil", "GIL"),
    (BlockedOn::Lock, "lock", "lock"),
    (BlockedOn::Futex, "futex", "futex"),
    (BlockedOn::Io, "io", "I/O"),
    (BlockedOn::Sleep, "sleep", "sleep"),
    (BlockedOn::Fsync, "disk_fsync", "disk: fsync"),
    (BlockedOn::DiskRead, "disk_read", "disk: read"),
    (BlockedOn::DiskWrite, "disk_write", "disk: write"),
    (BlockedOn::PageFault, "page_fault", "page fault"),
    (BlockedOn::Memory, "memory", "memory"),
    (BlockedOn::Socket, "socket", "socket"),
    (BlockedOn::Pipe, "pipe", "pipe"),
    (BlockedOn::Terminal, "terminal", "terminal"),
    (BlockedOn::Child, "child", "child"),
    (BlockedOn::Stopped, "stopped", "stopped"),
    (BlockedOn::FileLock, "file_lock", "file lock"),
    (BlockedOn::KernelLock, "kernel_lock", "kernel lock"),
    (BlockedOn::Poll, "poll", "idle: poll"),
    (BlockedOn::Parked, "parked", "idle: parked"),
    (BlockedOn::Signal, "signal", "idle: signal"),
    (BlockedOn::Unknown, "unknown", "unknown"),
];

pub(in crate::sections) const OFF_CPU: SectionDef = SectionDef {
    key: "offcpu",
    title: "Threads: running, blocked on what, waiting for a CPU",
    about: "each thread, where recorded: running, blocked on what, waiting for a CPU",
    shown: Shown::WhereRecorded,
    method: "off_cpu",
    content: |request| states(&off_cpu(request.facts), request.top),
};

fn states(rows: &[OffCpuRow], top: Top) -> Content {
    let has_moved = rows.iter().any(|row| row.migrations > 0);
    let is_missing = rows.iter().any(|row| row.unrecorded_ns > 0);
    let mut columns = Columns::<OffCpuRow>::new()
        .add(Column::nanos("running", "running"), |row| row.running_ns.into())
        .add(Column::nanos("blocked", "blocked"), |row| row.blocked_in_all().into());
    for (on, key, title) in BLOCKED {
        // What no thread waited for is of no interest to people.
        let is_there = rows.iter().any(|row| row.blocked_ns.contains_key(&on));
        let column = Column::nanos(key, title).optional().in_text_if(is_there);
        columns = columns.add(column, move |row| row.blocked_on(on).into());
    }
    columns
        .add(Column::nanos("runnable", "waiting for a CPU"), |row| row.runnable_ns.into())
        .add(Column::nanos("unrecorded", "not recorded").in_text_if(is_missing), |row| {
            row.unrecorded_ns.into()
        })
        .add(Column::count("voluntary", "switches"), |row| row.voluntary.into())
        .add(Column::count("involuntary", "preempted"), |row| row.involuntary.into())
        .add(Column::count("migrations", "moved").in_text_if(has_moved), |row| {
            row.migrations.into()
        })
        .add(Column::hidden("process", Unit::Text), |row| row.process.as_str().into())
        .add(Column::text("thread", "thread"), |row| row.thread.as_str().into())
        .content(rows, top)
        .when_empty("no switches of threads were recorded")
}

pub(in crate::sections) const WAITS: SectionDef = SectionDef {
    key: "waits",
    title: "Off-CPU time by reason and stack, all threads",
    about: "off-CPU time by reason and stack, where switches were recorded",
    shown: Shown::WhereRecorded,
    method: "waits",
    content: |request| {
        let (rows, stacks) = (off_cpu_reasons(request.facts), wait_stacks(request.facts));
        waits(&rows, &stacks, request.top)
    },
};

fn waits(rows: &[OffCpuReason], stacks: &WaitStacks, top: Top) -> Content {
    let is_sampled = stacks.sampled.stacks > 0;
    Columns::<OffCpuReason>::new()
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::nanos("error", "±").in_text_if(is_sampled), |row| row.error_ns.into())
        .add(Column::hidden("sampled", Unit::Nanos), |row| row.sampled.total_ns.into())
        .add(Column::hidden("stacks", Unit::Count), |row| row.sampled.stacks.into())
        .add(Column::count("count", "count"), |row| row.waits.count.into())
        .add(Column::nanos("p50", "p50").optional(), |row| row.waits.p50_ns.into())
        .add(Column::nanos("p99", "p99").optional(), |row| row.waits.p99_ns.into())
        .add(Column::nanos("max", "longest"), |row| row.waits.max_ns.into())
        .add(Column::count("threads", "threads").optional(), |row| row.threads.into())
        .add(Column::text("reason", "waiting for"), |row| reason_text(row.state).into())
        .add(Column::hidden("stack", Unit::Text), |row| row.stack.join(";").into())
        .add(Column::text("from", "from"), |row| caller_text(&row.stack).into())
        .content(rows, top)
        .titled(format!("{}{}", WAITS.title, wait_stacks_text(stacks)))
}

/// How the stacks of waits were recorded, where not each has its own.
fn wait_stacks_text(stacks: &WaitStacks) -> String {
    let count = |count: u64| count_text(count.into());
    let mut text = String::new();
    let SampledWaits { total_ns, stacks: sampled } = stacks.sampled;
    if sampled > 0 {
        let (total, sampled) = (nanos_text(total_ns), count(sampled));
        text += &format!("; {total} by {sampled} sampled stacks");
    }
    let without = stacks.without;
    if without.count > 0 {
        let (total, waits) = (nanos_text(without.total_ns), count(without.count));
        let noun = if without.count == 1 { "wait" } else { "waits" };
        text += &format!("; {waits} {noun} ({total}) without a stack");
    }
    text
}

const NO_WAITS: &str = "no waits for locks were recorded";

pub(in crate::sections) const LOCKS: SectionDef = SectionDef {
    key: "locks",
    title: "Waits for locks, by lock and call stack",
    about: "waits for locks, where recorded, by lock and call stack",
    shown: Shown::WhereRecorded,
    method: "locks",
    content: |request| lock_waits(&locks(request.facts), request.top),
};

fn lock_waits(rows: &[LockRow], top: Top) -> Content {
    let has_cpu = rows.iter().any(|row| row.runnable_ns.is_some());
    let has_waker = rows.iter().any(|row| row.waker.is_some());
    let has_waker_stack = rows.iter().any(|row| waker_at(row).is_some());
    Columns::<LockRow>::new()
        .add(Column::nanos("delay", "waited"), |row| row.delay_ns.into())
        .add(Column::nanos("runnable", "of it for a CPU").in_text_if(has_cpu), |row| {
            row.runnable_ns.into()
        })
        .add(Column::count("count", "count"), |row| row.waits.count.into())
        .add(Column::nanos("p50", "p50").optional(), |row| row.waits.p50_ns.into())
        .add(Column::nanos("p99", "p99"), |row| row.waits.p99_ns.into())
        .add(Column::nanos("max", "longest"), |row| row.waits.max_ns.into())
        .add(Column::count("threads", "threads").optional(), |row| row.threads.into())
        .add(Column::text("lock", "lock"), |row| row.lock.to_string().into())
        .add(Column::text("waker", "mostly woken by").in_text_if(has_waker), |row| {
            row.waker.as_ref().map(|waker| waker.thread.as_str()).into()
        })
        .add(Column::hidden("waker_delay", Unit::Nanos), |row| {
            row.waker.as_ref().map(|waker| waker.delay_ns).into()
        })
        .add(Column::text("waker_at", "from there").in_text_if(has_waker_stack), |row| {
            waker_at(row).into()
        })
        .add(Column::hidden("stack", Unit::Text), |row| row.stack.join(";").into())
        .add(Column::text("from", "from"), |row| caller_text(&row.stack).into())
        .content(rows, top)
        .when_empty(NO_WAITS)
}

/// Where whoever ended most of the waiting stood then.
fn waker_at(row: &LockRow) -> Option<String> {
    let waker = row.waker.as_ref().filter(|waker| !waker.stack.is_empty())?;
    Some(caller_text(&waker.stack))
}

/// How the names of functions begin that locks, and the waiting of runtimes, are made of: the
/// caller of these is who asked for it.
const LOCK_PARTS: &[&str] = &[
    // The C library.
    "futex_",
    "lll_",
    "GI_",
    "pthread_",
    "clone",
    "start_thread",
    "sem_",
    "new_sem_",
    // C++ and Rust.
    "gthread_",
    "std::condition_variable",
    "std::mutex::",
    "std::unique_lock",
    "std::sync::",
    "std::sys::sync::",
    "std::sys::pal::unix::futex",
    "std::thread::park",
    "parking_lot",
    "absl::Mutex::",
    // Python.
    "PyThread_acquire_lock",
    "PyCOND_",
    "PyMUTEX_",
    "PyEval_RestoreThread",
    "PyEval_AcquireThread",
    "PyGILState_Ensure",
    "take_gil",
    "acquire_timed",
    "lock_PyThread_acquire_lock",
    "rlock_acquire",
    "eval_frame_handle_pending",
    "Py_HandlePending",
    // Java, Node and Go.
    "os::Platform",
    "ObjectMonitor::",
    "ObjectSynchronizer::",
    "Monitor::",
    "PosixSemaphore::",
    "JVM_MonitorWait",
    "uv_cond_",
    "uv_mutex_",
    "uv_sem_",
    "uv__sem_",
    "runtime.futex",
    "runtime.note",
    "runtime.mPark",
    "runtime.semacquire",
    "runtime.lock",
];

fn is_part_of_lock(name: &str) -> bool {
    let plain = name.trim_start_matches('_');
    LOCK_PARTS.iter().any(|known| name.starts_with(known) || plain.starts_with(known))
}

/// The innermost three calls of the program itself, the nearest first.
pub(crate) fn caller_text(stack: &[String]) -> String {
    let own = stack.iter().rev().filter(|name| !is_part_of_lock(name));
    let nearest: Vec<&str> = own.take(3).map(String::as_str).collect();
    match nearest[..] {
        [] => stack.last().cloned().unwrap_or_else(|| "[stack not recorded]".to_owned()),
        _ => nearest.join(" < "),
    }
}

pub(in crate::sections) const LOCK_THREADS: SectionDef = SectionDef {
    key: "lock-threads",
    title: "Waits for locks, by thread and sort of lock",
    about: "waits for locks by thread and sort of lock",
    shown: Shown::OnRequest,
    method: "lock_threads",
    content: |request| lock_waits_of_threads(&lock_threads(request.facts), request.top),
};

fn lock_waits_of_threads(rows: &[LockThreadRow], top: Top) -> Content {
    Columns::<LockThreadRow>::new()
        .add(Column::nanos("delay", "waited"), |row| row.delay_ns.into())
        .add(Column::nanos("runnable", "of it for a CPU"), |row| row.runnable_ns.into())
        .add(Column::count("count", "count"), |row| row.waits.count.into())
        .add(Column::nanos("p99", "p99"), |row| row.waits.p99_ns.into())
        .add(Column::nanos("max", "longest"), |row| row.waits.max_ns.into())
        .add(Column::text("on", "for"), |row| row.on.text().into())
        .add(Column::text("thread", "thread"), |row| row.thread.as_str().into())
        .content(rows, top)
        .when_empty(NO_WAITS)
}

pub(in crate::sections) const WAKERS: SectionDef = SectionDef {
    key: "wakers",
    title: "Waits by the thread that ended them",
    about: "which threads end the waits of which, where wake-ups were recorded",
    shown: Shown::OnRequest,
    method: "wakers",
    content: |request| waits_by_waker(&wakers(request.facts), request.top),
};

fn waits_by_waker(rows: &[WakerRow], top: Top) -> Content {
    Columns::<WakerRow>::new()
        .add(Column::nanos("blocked", "blocked"), |row| row.blocked_ns.into())
        .add(Column::nanos("runnable", "then for a CPU"), |row| row.runnable_ns.into())
        .add(Column::count("count", "count"), |row| row.waits.count.into())
        .add(Column::nanos("p50", "p50").optional(), |row| row.waits.p50_ns.into())
        .add(Column::nanos("p99", "p99").optional(), |row| row.waits.p99_ns.into())
        .add(Column::nanos("max", "longest"), |row| row.waits.max_ns.into())
        .add(Column::text("woken", "thread"), |row| row.woken.as_str().into())
        .add(Column::text("reason", "waiting for"), |row| row.reason.text().into())
        .add(Column::text("waker", "woken by"), |row| row.waker.as_str().into())
        .add(Column::hidden("waker_stack", Unit::Text), |row| row.waker_stack.join(";").into())
        .add(Column::text("waker_at", "from"), |row| caller_text(&row.waker_stack).into())
        .content(rows, top)
        .when_empty("no wake-ups were recorded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_shown_with_the_program_s_own_calls() {
        let check = |stack: &str, expected: &str| {
            let stack: Vec<String> = stack.split_terminator(';').map(str::to_owned).collect();
            assert_eq!(caller_text(&stack), expected);
        };
        check("clone3;start_thread;work;push;___pthread_mutex_lock", "push < work");
        check("a;b;c;d", "d < c < b");
        check(
            "main;f (a.py:1);PyEval_RestoreThread;take_gil;PyCOND_TIMEDWAIT",
            "f (a.py:1) < main",
        );
        check("worker;uv_cond_wait;___pthread_cond_wait", "worker");
        check("__futex_abstimed_wait_common", "__futex_abstimed_wait_common");
        check("", "[stack not recorded]");
    }
}
