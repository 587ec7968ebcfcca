//! What a thread waits for, told by the functions on its stack.
//!
//! The innermost function that the table knows decides. The kernel's own part of a lock
//! (`futex_wait`) is not in it, so that the search goes on to the library call around.

use spanwise_model::BlockedOn;

use crate::{Names, Place};

/// Whole names, without leading underscores, `GI_` and symbol versions.
const FUNCTIONS: &[(&str, BlockedOn)] = &[
    ("do_nanosleep", BlockedOn::Sleep),
    ("hrtimer_nanosleep", BlockedOn::Sleep),
    ("clock_nanosleep", BlockedOn::Sleep),
    ("nanosleep", BlockedOn::Sleep),
    ("usleep", BlockedOn::Sleep),
    ("lll_lock_wait", BlockedOn::Mutex),
    ("lll_lock_wait_private", BlockedOn::Mutex),
    ("lll_mutex_lock_optimized", BlockedOn::Mutex),
    ("pthread_mutex_lock", BlockedOn::Mutex),
    ("pthread_mutex_timedlock", BlockedOn::Mutex),
    ("pthread_mutex_clocklock", BlockedOn::Mutex),
    ("pthread_mutex_lock_full", BlockedOn::Mutex),
    ("pthread_mutex_cond_lock", BlockedOn::Mutex),
    ("pthread_cond_wait", BlockedOn::Condition),
    ("pthread_cond_wait_common", BlockedOn::Condition),
    ("pthread_cond_timedwait", BlockedOn::Condition),
    ("pthread_cond_clockwait", BlockedOn::Condition),
    ("pthread_join", BlockedOn::Join),
    ("pthread_clockjoin_ex", BlockedOn::Join),
    ("pthread_timedjoin_np", BlockedOn::Join),
    ("do_wait", BlockedOn::Join),
    ("kernel_wait4", BlockedOn::Join),
    ("wait4", BlockedOn::Join),
    ("waitid", BlockedOn::Join),
    ("waitpid", BlockedOn::Join),
    ("sem_wait", BlockedOn::Semaphore),
    ("sem_timedwait", BlockedOn::Semaphore),
    ("sem_clockwait", BlockedOn::Semaphore),
    ("new_sem_wait_slow", BlockedOn::Semaphore),
    ("new_sem_wait_slow64", BlockedOn::Semaphore),
    ("pthread_rwlock_rdlock", BlockedOn::ReadWriteLock),
    ("pthread_rwlock_wrlock", BlockedOn::ReadWriteLock),
    ("pthread_rwlock_timedrdlock", BlockedOn::ReadWriteLock),
    ("pthread_rwlock_timedwrlock", BlockedOn::ReadWriteLock),
    ("pthread_barrier_wait", BlockedOn::Barrier),
    ("take_gil", BlockedOn::Gil),
    // Compilers put `take_gil` into these, which do nothing else for long.
    ("PyEval_RestoreThread", BlockedOn::Gil),
    ("PyEval_AcquireThread", BlockedOn::Gil),
    ("PyEval_AcquireLock", BlockedOn::Gil),
    ("PyGILState_Ensure", BlockedOn::Gil),
    ("PyThread_acquire_lock", BlockedOn::Lock),
    ("PyThread_acquire_lock_timed", BlockedOn::Lock),
    ("PyMutex_LockTimed", BlockedOn::Lock),
    ("ep_poll", BlockedOn::Io),
    ("do_poll", BlockedOn::Io),
    ("do_sys_poll", BlockedOn::Io),
    ("do_select", BlockedOn::Io),
    ("epoll_wait", BlockedOn::Io),
    ("poll", BlockedOn::Io),
    ("io_schedule", BlockedOn::Io),
    ("io_schedule_timeout", BlockedOn::Io),
    ("io_cqring_wait", BlockedOn::Io),
    ("pipe_read", BlockedOn::Io),
    ("anon_pipe_read", BlockedOn::Io),
    ("pipe_write", BlockedOn::Io),
    ("anon_pipe_write", BlockedOn::Io),
    ("eventfd_read", BlockedOn::Io),
    ("sock_recvmsg", BlockedOn::Io),
    ("sock_sendmsg", BlockedOn::Io),
    ("inet_csk_accept", BlockedOn::Io),
    ("unix_stream_read_generic", BlockedOn::Io),
    ("n_tty_read", BlockedOn::Io),
    ("vfs_read", BlockedOn::Io),
    ("vfs_write", BlockedOn::Io),
    ("vfs_fsync_range", BlockedOn::Io),
];

/// Runtimes build their locks from those of the system: whoever stands on the stack around
/// one of those is what the program waits for.
const RUNTIMES: [BlockedOn; 2] = [BlockedOn::Gil, BlockedOn::Lock];

/// What the stack says, outermost frame first; `None` where it says nothing.
pub(crate) fn by_stack(names: &Names, frames: &[Place]) -> Option<BlockedOn> {
    let known = |place: &Place| by_name(names.name_text(place.function));
    let mut known = frames.iter().rev().filter_map(known);
    let innermost = known.next();
    match innermost {
        None => {
            let is_futex = |place: &Place| names.name_text(place.function).contains("futex");
            frames.iter().any(is_futex).then_some(BlockedOn::Futex)
        }
        Some(BlockedOn::Sleep | BlockedOn::Io | BlockedOn::Join) => innermost,
        Some(_) => known.find(|on| RUNTIMES.contains(on)).or(innermost),
    }
}

/// What a function of this name waits for, where it is known for that.
pub(crate) fn by_name(name: &str) -> Option<BlockedOn> {
    let name = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    let name = name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_');
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|&(_, on)| on)
}

/// True for a stack below which an interrupt was served: whoever ran there has nothing to
/// do with it.
pub(crate) fn is_interrupt(names: &Names, frames: &[Place]) -> bool {
    frames.iter().filter(|place| place.is_kernel()).any(|place| {
        let name = names.name_text(place.function);
        ["asm_sysvec_", "asm_common_interrupt", "hrtimer_interrupt", "handle_softirqs"]
            .iter()
            .any(|known| name.starts_with(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stack: &[&str], expected: Option<BlockedOn>) {
        let mut names = Names::default();
        let place = |name: &&str| Place { function: names.function(name, "x"), ..Place::NOWHERE };
        let frames: Vec<Place> = stack.iter().map(place).collect();
        assert_eq!(by_stack(&names, &frames), expected, "{stack:?}");
    }

    #[test]
    fn stacks_tell_what_is_waited_for() {
        check(&["main", "__GI___lll_lock_wait", "futex_wait"], Some(BlockedOn::Mutex));
        check(&["main", "___pthread_cond_wait", "__futex_wait"], Some(BlockedOn::Condition));
        check(&["take_gil", "pthread_cond_timedwait@@GLIBC_2.3.2"], Some(BlockedOn::Gil));
        check(&["PyThread_acquire_lock_timed", "sem_clockwait"], Some(BlockedOn::Lock));
        check(
            &["time_sleep", "PyEval_RestoreThread", "__pthread_cond_timedwait", "futex_wait"],
            Some(BlockedOn::Gil),
        );
        check(
            &["PyGILState_Ensure", "PyThread_acquire_lock_timed", "sem_wait"],
            Some(BlockedOn::Lock),
        );
        check(&["take_gil", "clock_nanosleep@GLIBC_2.2.5"], Some(BlockedOn::Sleep));
        check(&["worker", "__futex_abstimed_wait_common"], Some(BlockedOn::Futex));
        check(&["main", "do_syscall_64", "ep_poll", "schedule"], Some(BlockedOn::Io));
        check(&["main", "my_pthread_join"], None);
        check(&[], None);
    }
}
