//! What a thread waits for, inferred from the functions on its stack.
//!
//! The innermost function that a table knows decides, the kernel's own first: it distinguishes a
//! disk from a socket. The kernel's part of a lock (`futex_wait`) is in no table, so that the
//! search goes on to the library call around it; and around that may be a runtime's lock, or the
//! place where a pool keeps workers that have nothing to do.

mod tables;

use std::collections::HashMap;
use std::sync::OnceLock;

use spanwise_model::BlockedOn;

use crate::{Location, Names};
use tables::{FUNCTIONS, LOCKS, PARKED, UNCLEAR};

/// What a function on the stack of a thread that waits says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    WaitsFor(BlockedOn),
    /// For some device.
    Unclear,
    /// What is inside of it is a lock of the program's own.
    IsLock,
    /// The thread has nothing to do.
    IsIdle,
}

fn role(name: &str) -> Option<Role> {
    static ROLES: OnceLock<HashMap<&str, Role>> = OnceLock::new();
    let roles = ROLES.get_or_init(|| {
        let all =
            |names: &'static [&'static str], role| names.iter().map(move |&name| (name, role));
        let waits = FUNCTIONS.iter().flat_map(|&(on, names)| all(names, Role::WaitsFor(on)));
        let others = [(UNCLEAR, Role::Unclear), (LOCKS, Role::IsLock), (PARKED, Role::IsIdle)];
        waits.chain(others.into_iter().flat_map(|(names, role)| all(names, role))).collect()
    });
    let name = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    let name = name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_');
    // What compilers make of a function keeps its name: `f.isra.0`, `f.constprop.0`.
    let name = name.split_once(".isra").or(name.split_once(".constprop")).map_or(name, |it| it.0);
    roles.get(name).or_else(|| roles.get(&*plain(name)?)).copied()
}

/// A name without parameters, type arguments and, of Python, the line; `None` where it has none
/// of them.
fn plain(name: &str) -> Option<String> {
    if let Some((python, _)) = name.split_once(".py:") {
        return Some(format!("{python}.py"));
    }
    let named = name.replace("(anonymous namespace)::", "");
    let name = named.split_once('(').map_or(&*named, |(name, _)| name);
    if !name.contains("::") {
        return None;
    }
    let (mut plain, mut depth) = (String::with_capacity(name.len()), 0_usize);
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    // Rust writes `<T>` behind a path as `::<T>`.
    Some(plain.replace("::::", "::").trim_end_matches("::").to_owned())
}

/// Runtimes build their locks from those of the system: whoever stands on the stack around
/// one of those is what the program waits for.
const RUNTIMES: [BlockedOn; 2] = [BlockedOn::Gil, BlockedOn::Lock];

/// What the stack says, outermost frame first; `None` where it says nothing.
pub(crate) fn by_stack(names: &Names, frames: &[Location]) -> Option<BlockedOn> {
    let mut roles = frames.iter().rev().filter_map(|place| role(names.name_text(place.function)));
    let mut is_unclear = false;
    let mut around = Vec::new();
    let mut innermost = None;
    for role in roles.by_ref() {
        match (role, innermost) {
            (Role::WaitsFor(on), None) => innermost = Some(on),
            (Role::Unclear, None) => is_unclear = true,
            (role, _) => around.push(role),
        }
    }
    let innermost = match innermost {
        _ if is_unclear && innermost.is_none_or(BlockedOn::is_of_threads) => Some(BlockedOn::Io),
        None => {
            let is_futex = |place: &Location| names.name_text(place.function).contains("futex");
            frames.iter().any(is_futex).then_some(BlockedOn::Futex)
        }
        known => known,
    };
    innermost.map(|on| within(on, &around))
}

/// What a wait is, inside of functions that say more.
fn within(on: BlockedOn, around: &[Role]) -> BlockedOn {
    let may_be_part = on.is_of_threads()
        || matches!(on, BlockedOn::Poll | BlockedOn::Sleep | BlockedOn::Pipe | BlockedOn::Socket);
    if !may_be_part || on == BlockedOn::Gil {
        return on;
    }
    if around.contains(&Role::IsLock) {
        return BlockedOn::Lock;
    }
    let mut runtimes = around.iter().filter_map(|&role| match role {
        Role::WaitsFor(on) if RUNTIMES.contains(&on) => Some(on),
        _ => None,
    });
    match runtimes.find(|_| on.is_of_threads()) {
        Some(BlockedOn::Gil) => BlockedOn::Gil,
        _ if around.contains(&Role::IsIdle) => BlockedOn::Parked,
        runtime => runtime.unwrap_or(on),
    }
}

/// What a function of this name waits for, where it is known for that.
pub(crate) fn by_name(name: &str) -> Option<BlockedOn> {
    match role(name)? {
        Role::WaitsFor(on) => Some(on),
        Role::Unclear | Role::IsLock | Role::IsIdle => None,
    }
}

/// True for a stack below which an interrupt was served: whoever ran there has nothing to
/// do with it.
pub(crate) fn is_interrupt(names: &Names, frames: &[Location]) -> bool {
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
        let place =
            |name: &&str| Location { function: names.function(name, "x"), ..Location::NOWHERE };
        let frames: Vec<Location> = stack.iter().map(place).collect();
        assert_eq!(by_stack(&names, &frames), expected, "{stack:?}");
    }

    #[test]
    fn stacks_show_what_is_waited_for() {
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
        check(&["main", "do_syscall_64", "ep_poll", "schedule"], Some(BlockedOn::Poll));
        check(&["main", "my_pthread_join"], None);
    }

    /// As they were recorded on Linux 6.18, and as older ones have them.
    #[test]
    fn the_kernel_distinguishes_a_disk_from_a_socket() {
        let check = |inner: &[&str], on| {
            let outer = ["main", "entry_SYSCALL_64_after_hwframe", "do_syscall_64"];
            check(&[&outer, inner, &["schedule", "__schedule"]].concat(), Some(on));
        };
        let page = ["folio_wait_bit_common", "io_schedule"];
        let of_page = |inner: &[&'static str]| [inner, &page].concat();
        check(&of_page(&["__x64_sys_fsync", "do_fsync", "ext4_sync_file"]), BlockedOn::Fsync);
        check(&["__x64_sys_fdatasync", "do_fsync", "jbd2_log_wait_commit"], BlockedOn::Fsync);
        check(&of_page(&["ksys_read", "vfs_read", "filemap_read"]), BlockedOn::DiskRead);
        check(&of_page(&["vfs_read", "generic_file_buffered_read"]), BlockedOn::DiskRead);
        check(&["vfs_write", "balance_dirty_pages", "io_schedule_timeout"], BlockedOn::DiskWrite);
        check(
            &of_page(&["exc_page_fault", "handle_mm_fault", "filemap_fault"]),
            BlockedOn::PageFault,
        );
        check(&["blkdev_issue_discard", "submit_bio_wait", "io_schedule_timeout"], BlockedOn::Io);
        check(&["vfs_read", "anon_pipe_read"], BlockedOn::Pipe);
        check(&["vfs_read", "sock_read_iter", "unix_stream_read_generic"], BlockedOn::Socket);
        check(&["__sys_recvfrom", "tcp_recvmsg", "sk_wait_data"], BlockedOn::Socket);
        check(&["__sys_accept4", "do_accept", "inet_csk_accept"], BlockedOn::Poll);
        check(&["vfs_read", "tty_read", "n_tty_read", "wait_woken"], BlockedOn::Terminal);
        check(&["kernel_wait4", "do_wait"], BlockedOn::Child);
        check(&["arch_do_signal_or_restart", "get_signal", "do_signal_stop"], BlockedOn::Stopped);
        check(&["__do_sys_flock", "locks_lock_inode_wait"], BlockedOn::FileLock);
        check(&["do_mmap", "rwsem_down_write_slowpath"], BlockedOn::KernelLock);
        check(&["__x64_sys_rt_sigtimedwait", "do_sigtimedwait"], BlockedOn::Signal);
    }

    #[test]
    fn workers_without_work_are_idle_and_locks_of_programs_are_locks() {
        let futex = ["do_syscall_64", "do_futex", "futex_wait"];
        let check = |outer: &[&str], on| check(&[outer, &futex].concat(), Some(on));
        check(&["start_thread", "tokio::runtime::blocking::pool::Inner::run"], BlockedOn::Parked);
        check(
            &["rayon_core::sleep::Sleep::sleep::<core::latch>", "pthread_cond_wait"],
            BlockedOn::Parked,
        );
        check(&["node::TaskQueue<node::Task>::BlockingPop()", "uv_cond_wait"], BlockedOn::Parked);
        check(
            &["get (queue.py:154)", "PyThread_acquire_lock_timed", "sem_wait"],
            BlockedOn::Parked,
        );
        check(&["runtime.findRunnable", "runtime.futexsleep"], BlockedOn::Parked);
        // Another thread holds these, whoever is around.
        check(&["get (queue.py:154)", "take_gil", "pthread_cond_timedwait"], BlockedOn::Gil);
        check(&["runtime.lock2", "runtime.futexsleep"], BlockedOn::Futex);
        check(
            &["XLogFlush", "LWLockAcquireOrWait", "PGSemaphoreLock", "sem_wait"],
            BlockedOn::Lock,
        );
        check(&["worker", "pthread_cond_wait"], BlockedOn::Condition);
    }

    #[test]
    fn names_are_compared_without_what_varies() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(plain(name).as_deref(), expected, "{name}");
        };
        check("a::B<c::D<e>>::f(int, g::h)", Some("a::B::f"));
        check("a::b::<c>", Some("a::b"));
        check("get (queues.py:90)", Some("get (queues.py"));
        check("main", None);
        assert_eq!(by_name("__new_sem_wait_slow64.constprop.0"), Some(BlockedOn::Semaphore));
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        check(&[], None);
    }
}
