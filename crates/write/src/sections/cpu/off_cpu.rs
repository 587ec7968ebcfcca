//! Threads that run and wait, and the locks that they wait for.

use spanwise_analyze::{LockRow, LockThreadRow, OffCpuReason, OffCpuRow, reason_text};
use spanwise_model::BlockedOn;

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::sections::report::section;

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

pub fn off_cpu_section(rows: &[OffCpuRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let count = |key, title| Column::new(key, title, Unit::Count);
    let has_moved = rows.iter().any(|row| row.migrations > 0);
    let is_missing = rows.iter().any(|row| row.unrecorded_ns > 0);
    let mut columns = vec![nanos("running", "running"), nanos("blocked", "blocked")];
    for (on, key, title) in BLOCKED {
        // What no thread waited for is of no interest to people.
        let in_text = rows.iter().any(|row| row.blocked_ns.contains_key(&on));
        columns.push(Column { in_text, ..nanos(key, title).optional() });
    }
    columns.extend([
        nanos("runnable", "waiting for a CPU"),
        Column { in_text: is_missing, ..nanos("unrecorded", "not recorded") },
        count("voluntary", "switches"),
        count("involuntary", "preempted"),
        Column { in_text: has_moved, ..count("migrations", "moved") },
        Column::hidden("process", Unit::Text),
        Column::new("thread", "thread", Unit::Text),
    ]);
    let mut table = Table::new(columns);
    for row in top.of(rows) {
        let mut cells: Vec<Cell> = vec![row.running_ns.into(), row.blocked_total_ns().into()];
        let blocked = |on| row.blocked_ns.get(&on).copied().unwrap_or(0);
        cells.extend(BLOCKED.map(|(on, ..)| Cell::from(blocked(on))));
        cells.extend([
            row.runnable_ns.into(),
            row.unrecorded_ns.into(),
            row.voluntary.into(),
            row.involuntary.into(),
            row.migrations.into(),
            row.process.as_str().into(),
            row.thread.as_str().into(),
        ]);
        table.push(cells);
    }
    let title = "Threads: running, blocked on what, waiting for a CPU";
    let shown = section("offcpu", title, table, rows.len());
    Section { when_empty: Some("no switches of threads were recorded"), ..shown }
}

/// Off-CPU time by reason and stack.
pub fn off_cpu_reasons_section(rows: &[OffCpuReason], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        nanos("total", "total"),
        Column::new("count", "count", Unit::Count),
        nanos("p50", "p50").optional(),
        nanos("p99", "p99").optional(),
        nanos("max", "longest"),
        Column::new("threads", "threads", Unit::Count).optional(),
        Column::new("reason", "waiting for", Unit::Text),
        Column { in_text: false, ..Column::new("stack", "", Unit::Text) },
        Column::new("from", "from", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.total_ns.into(),
            row.waits.count.into(),
            row.waits.p50_ns.into(),
            row.waits.p99_ns.into(),
            row.waits.max_ns.into(),
            row.threads.into(),
            reason_text(row.state).into(),
            row.stack.join(";").into(),
            caller_text(&row.stack).into(),
        ]);
    }
    let title = "Off-CPU time by reason and stack, all threads";
    section("waits", title, table, rows.len())
}

const NO_WAITS: &str = "no waits for locks were recorded";

pub fn locks_section(rows: &[LockRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let count = |key, title| Column::new(key, title, Unit::Count);
    let has_cpu = rows.iter().any(|row| row.runnable_ns.is_some());
    let has_waker = rows.iter().any(|row| row.waker.is_some());
    let has_waker_stack = rows.iter().any(|row| waker_at(row).is_some());
    let mut table = Table::new([
        nanos("delay", "waited"),
        Column { in_text: has_cpu, ..nanos("runnable", "of it for a CPU") },
        count("count", "count"),
        nanos("p50", "p50").optional(),
        nanos("p99", "p99"),
        nanos("max", "longest"),
        count("threads", "threads").optional(),
        Column::new("lock", "lock", Unit::Text),
        Column { in_text: has_waker, ..Column::new("waker", "mostly woken by", Unit::Text) },
        Column::hidden("waker_delay", Unit::Nanos),
        Column { in_text: has_waker_stack, ..Column::new("waker_at", "from there", Unit::Text) },
        Column { in_text: false, ..Column::new("stack", "", Unit::Text) },
        Column::new("from", "from", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.delay_ns.into(),
            row.runnable_ns.into(),
            row.waits.count.into(),
            row.waits.p50_ns.into(),
            row.waits.p99_ns.into(),
            row.waits.max_ns.into(),
            row.threads.into(),
            row.lock.to_string().into(),
            row.waker.as_ref().map(|waker| waker.thread.as_str()).into(),
            row.waker.as_ref().map(|waker| waker.delay_ns).into(),
            waker_at(row).into(),
            row.stack.join(";").into(),
            caller_text(&row.stack).into(),
        ]);
    }
    let title = "Waits for locks, by lock and call stack";
    Section { when_empty: Some(NO_WAITS), ..section("locks", title, table, rows.len()) }
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

pub fn lock_threads_section(rows: &[LockThreadRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        nanos("delay", "waited"),
        nanos("runnable", "of it for a CPU"),
        Column::new("count", "count", Unit::Count),
        nanos("p99", "p99"),
        nanos("max", "longest"),
        Column::new("on", "for", Unit::Text),
        Column::new("thread", "thread", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.delay_ns.into(),
            row.runnable_ns.into(),
            row.waits.count.into(),
            row.waits.p99_ns.into(),
            row.waits.max_ns.into(),
            row.on.text().into(),
            row.thread.as_str().into(),
        ]);
    }
    let title = "Waits for locks, by thread and sort of lock";
    Section { when_empty: Some(NO_WAITS), ..section("lock-threads", title, table, rows.len()) }
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
