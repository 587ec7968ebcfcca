//! What a thread waits for, told by the functions on its stack.
//!
//! The innermost function that a table knows decides, the kernel's own first: it tells a disk from
//! a socket. The kernel's part of a lock (`futex_wait`) is in no table, so that the search goes on
//! to the library call around it; and around that may be a runtime's lock, or the place where a
//! pool keeps workers that have nothing to do.

mod tables;

use std::collections::HashMap;
use std::sync::OnceLock;

use spanwise_model::BlockedOn;

use crate::{Names, Place};
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
    let name = name.split_once('(').map_or(name, |(name, _)| name);
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
pub(crate) fn by_stack(names: &Names, frames: &[Place]) -> Option<BlockedOn> {
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
            let is_futex = |place: &Place| names.name_text(place.function).contains("futex");
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
    let runtimes = around.iter().filter_map(|&role| match role {
        Role::WaitsFor(on) if RUNTIMES.contains(&on) => Some(on),
        _ => None,
    });
    match runtimes.filter(|_| on.is_of_threads()).next() {
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
        check(&["main", "do_syscall_64", "ep_poll", "schedule"], Some(BlockedOn::Poll));
        check(&["main", "my_pthread_join"], None);
        check(&[], None);
    }
}
