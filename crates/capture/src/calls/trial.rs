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
            let is_started = libc::read(go_in.as_raw_fd(), (&raw mut byte).cast(), 1) == 1;
            let before = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
            (0..calls).for_each(|_| nothing());
            let took = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
            libc::write(took_out.as_raw_fd(), (&raw const took).cast(), 8);
            libc::_exit(if is_started { 0 } else { 1 })
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::os::fd::OwnedFd;

    use spanwise_recording::calls::CallLevel;

    use super::*;
    use crate::calls::bpf;
    use crate::calls::by_bpf::wait_for_programs;

    /// Functions that nobody calls, two bytes each.
    const OTHERS: u32 = 8;

    #[unsafe(naked)]
    extern "C" fn others() {
        core::arch::naked_asm!(
            "nop", "ret", "nop", "ret", "nop", "ret", "nop", "ret", "nop", "ret", "nop", "ret",
            "nop", "ret", "nop", "ret"
        )
    }

    /// A copy of this process that calls the function from its start signal until it is stopped.
    struct Caller {
        pid: i32,
        go: OwnedFd,
        stop: OwnedFd,
        count: OwnedFd,
    }

    impl Caller {
        fn start() -> Caller {
            let (go_in, go) = pipe().expect("a pipe");
            let (stop_in, stop) = pipe().expect("a pipe");
            let (count, count_out) = pipe().expect("a pipe");
            // SAFETY: the copy calls a function that does nothing, reads from and writes to pipes,
            // and ends: nothing of that needs what other threads may hold.
            let pid = unsafe { libc::fork() };
            assert!(pid >= 0, "a copy of this process");
            if pid == 0 {
                drop((go, stop));
                let mut wait = libc::pollfd { fd: stop_in.as_raw_fd(), events: 0, revents: 0 };
                let (mut byte, mut calls) = (0_u8, 0_u64);
                // SAFETY: one byte is read into one byte, one descriptor polled, one number
                // written from one; `_exit` ends the copy alone, and the alarm does so where it
                // hangs.
                unsafe {
                    libc::alarm(60);
                    libc::read(go_in.as_raw_fd(), (&raw mut byte).cast(), 1);
                    while libc::poll(&raw mut wait, 1, 0) == 0 {
                        nothing();
                        calls += 1;
                    }
                    libc::write(count_out.as_raw_fd(), (&raw const calls).cast(), 8);
                    libc::_exit(0)
                }
            }
            Caller { pid, go, stop, count }
        }

        fn go(&self) {
            // SAFETY: one byte is written from one byte.
            unsafe { libc::write(self.go.as_raw_fd(), b"1".as_ptr().cast(), 1) };
        }

        /// How often it has called the function.
        fn stop(self) -> u64 {
            drop(self.stop);
            let mut calls = [0; 8];
            File::from(self.count).read_exact(&mut calls).expect("it wrote that");
            // SAFETY: the child is ours and ends; nothing is written.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
            u64::from_ne_bytes(calls)
        }
    }

    /// Lets go of functions that are watched together with one that is called all the time.
    #[track_caller]
    #[allow(clippy::print_stderr, reason = "whoever runs tests learns what was not tried")]
    fn check(level: CallLevel) {
        let Ok(mut all) = bpf::table(1, 1).and_then(ByBpf::begin) else {
            return eprintln!("skipped: the kernel takes no programs");
        };
        let (path, places) = own_function().expect("a file");
        let (_, first) = processes::own_place(others as *const () as u64).expect("a file");
        let place = |number: u64| {
            let entry = first + 2 * number;
            let exit = ExitPlace { offset: entry + 1, ..places.exits[0].clone() };
            ProbePlaces { entry, exits: vec![exit] }
        };
        let others: Vec<ProbePlaces> = (0..u64::from(OTHERS)).map(place).collect();
        let mut group = vec![Numbered { number: OTHERS, is_go: false, places: &places }];
        let numbered = |(number, places)| Numbered { number, is_go: false, places };
        group.extend((0..).zip(&others).map(numbered));
        all.set_levels(&[(OTHERS, level)]).expect("a level");

        wait_for_programs().expect("own programs may be watched");
        let caller = Caller::start();
        let refused = all.attach_group(Whose::Process(caller.pid), &path, &group);
        assert!(refused.expect("they are watched").is_empty());
        caller.go();
        for number in 0..OTHERS {
            for level in [CallLevel::CountedWithoutEnds, CallLevel::Detached] {
                all.set_levels(&[(number, level)]).expect("the others stay");
            }
        }
        let calls = caller.stop();

        let (hits, lost) = all.drain();
        let mut noted = [0; 2];
        for hit in hits.chunks_exact(HIT_BYTES) {
            noted[usize::from(hit[16] & 1)] += 1;
        }
        let counted = all
            .sums()
            .iter()
            .fold([0; 2], |[calls, returns], sum| [calls + sum.calls, returns + sum.returns]);
        let (expected, unexpected) =
            if level == CallLevel::Recorded { (noted, counted) } else { (counted, noted) };
        assert!(calls > 100, "{calls} calls are too few to miss one");
        assert_eq!((expected, unexpected, lost), ([calls; 2], [0; 2], 0), "{level:?}");
    }

    #[test]
    fn a_group_is_made_smaller_without_missing_a_call_of_the_others() {
        check(CallLevel::Recorded);
        check(CallLevel::Counted);
    }
}
