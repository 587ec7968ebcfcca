//! The idle loops: perf calls them thread 0 of process 0, on each processor.
//!
//! Interrupts are handled on top of them, at the same time on several processors, so each is
//! a thread of its own here, `swapper/3` as the kernel itself calls it.

use spanwise_flow::ThreadKey;

/// Numbers of idle loops descend from here, where no thread of a system is.
const FIRST: i64 = -1_000_000;

/// The thread that a record belongs to, given the one that it names.
pub(super) fn thread_on(thread: ThreadKey, cpu: Option<u32>) -> ThreadKey {
    match (thread.tid, cpu) {
        (0, Some(cpu)) => ThreadKey { pid: 0, tid: FIRST - i64::from(cpu) },
        _ => thread,
    }
}

/// The processor of a thread that [`thread_on`] made of thread 0.
pub(super) fn cpu_of(thread: ThreadKey) -> Option<u32> {
    u32::try_from(FIRST - thread.tid).ok().filter(|_| thread.pid == 0 && thread.tid <= FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_an_idle_loop() {
        let key = |tid| ThreadKey { pid: 0, tid };
        let idle = |cpu| thread_on(key(0), Some(cpu));
        assert_ne!(idle(0), idle(1));
        assert_eq!(cpu_of(idle(0)), Some(0));
        assert_eq!(cpu_of(idle(u32::MAX)), Some(u32::MAX));
        assert_eq!(thread_on(key(0), None), key(0));
        assert_eq!(thread_on(key(7), Some(1)), key(7));
        for other in [key(0), key(7), key(-1), ThreadKey { pid: 3, ..idle(1) }] {
            assert_eq!(cpu_of(other), None);
        }
    }
}
