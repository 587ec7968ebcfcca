//! Whether programs may perform `ret` themselves, tried on a copy of this process before any
//! program of somebody else is touched.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;

use spanwise_recording::calls::HIT_BYTES;
use spanwise_symbols::{ExitPlace, LeaveKind, ProbePlaces};

use super::bpf::noting::{NotedAt, Noting};
use super::brake::HitCosts;
use super::by_bpf::{ByBpf, Numbered, Whose};
use crate::session::program::launch::pipe;
use crate::system::processes;
use crate::system::sys;

const CALLS: usize = 3;

/// True where the kernel allows it, and it works. Processors with shadow stacks check every
/// return against a second stack, which such a program would not take the return from.
pub(super) fn may_perform_returns(all: &mut ByBpf) -> bool {
    let what = Noting {
        at: NotedAt::PerformedReturn,
        is_go: false,
        is_for_everyone: false,
        has_entry: false,
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if processor.contains("user_shstk") || all.load(what).is_err() {
        return false;
    }
    works_on_a_copy(all).unwrap_or(false)
}

/// A function whose instructions are known: `nop`, then `ret`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn nothing() {
    core::arch::naked_asm!("nop", "ret")
}

/// The same elsewhere, where it is watched for its calls alone.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
extern "C" fn nothing() {}

/// The file of this program, and where in it there is a function to try things on.
pub(crate) fn own_function() -> Option<(Vec<u8>, ProbePlaces)> {
    let (path, entry) = processes::own_place(nothing as *const () as u64)?;
    let kind = LeaveKind::Return { popped: 0 };
    let exit = ExitPlace { offset: entry + 1, len: 1, kind, inside: Vec::new() };
    let exits = if cfg!(target_arch = "x86_64") { vec![exit] } else { Vec::new() };
    Some((path, ProbePlaces { entry, exits }))
}

/// What a call and a return cost on this machine, each with a program of ours.
pub(super) fn costs(all: &mut ByBpf, performs_returns: bool) -> HitCosts {
    const ROUNDS: u64 = 300;
    let mut measure = |has_exits: bool| {
        let (path, mut places) = own_function()?;
        if !has_exits {
            places.exits.clear();
        }
        let took = on_a_copy(all, &path, &places, ROUNDS, performs_returns)?;
        all.drain();
        Some(took / ROUNDS)
    };
    let call_ns = measure(false).unwrap_or(DEFAULT_COSTS.call_ns);
    let both = measure(true).unwrap_or(DEFAULT_COSTS.call_ns + DEFAULT_COSTS.return_ns);
    HitCosts { call_ns, return_ns: both.saturating_sub(call_ns) }
}

/// Where it cannot be measured: what a virtual machine needs.
pub(super) const DEFAULT_COSTS: HitCosts = HitCosts { call_ns: 1500, return_ns: 15_000 };

fn works_on_a_copy(all: &mut ByBpf) -> Option<bool> {
    let (path, places) = own_function()?;
    on_a_copy(all, &path, &places, CALLS as u64, true)?;
    let (hits, lost) = all.drain();
    Some(lost == 0 && hits.len() == 2 * CALLS * HIT_BYTES)
}

/// Lets a copy of this process call the function so often while it is watched; gives how much of
/// the processor's time that took. `None` where it did not end well.
fn on_a_copy(
    all: &mut ByBpf,
    path: &[u8],
    places: &ProbePlaces,
    calls: u64,
    performs_returns: bool,
) -> Option<u64> {
    let ((go_in, go_out), (took_in, took_out)) = (pipe().ok()?, pipe().ok()?);
    // SAFETY: there is no other thread yet; the copy only reads from and writes to pipes, calls a
    // function that does nothing, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(go_out);
        let mut byte = 0_u8;
        // SAFETY: one byte is read into one byte, one number written from one; `_exit` ends the
        // copy alone, and the alarm does so where it hangs.
        unsafe {
            libc::alarm(5);
            let is_told = libc::read(go_in.as_raw_fd(), (&raw mut byte).cast(), 1) == 1;
            let before = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
            (0..calls).for_each(|_| nothing());
            let took = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
            libc::write(took_out.as_raw_fd(), (&raw const took).cast(), 8);
            libc::_exit(if is_told { 0 } else { 1 })
        }
    }
    drop(took_out);
    if pid < 0 {
        return None;
    }
    let function = Numbered { number: 0, is_go: false, places };
    let links = all.attach_as(Whose::Process(pid), path, &[function], performs_returns);
    if links.is_ok() {
        let byte = 1_u8;
        // SAFETY: one byte is written from one byte.
        unsafe { libc::write(go_out.as_raw_fd(), (&raw const byte).cast(), 1) };
    }
    drop(go_out);
    let mut status = 0;
    // SAFETY: the child is ours, ends by itself within seconds, and one number is written.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    let mut took = [0; 8];
    File::from(took_in).read_exact(&mut took).ok()?;
    (status == 0 && links.is_ok()).then(|| u64::from_ne_bytes(took))
}
