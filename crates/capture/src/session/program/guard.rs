//! Puts right what a recorder leaves behind, should the recorder be killed.
//!
//! Descriptors are closed by the kernel when a process ends, however it ends; definitions of
//! probes are not, and a program that is held stays so. So a second process waits for the end of
//! the first, and checks what is left.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread::sleep;
use std::time::Duration;

use super::launch::pipe;
use crate::perf::probe;

/// The process that waits; it ends when this is dropped, or with the recorder.
#[derive(Debug)]
pub(crate) struct Guard {
    pid: libc::pid_t,
    /// That it is closed notifies the other.
    alive: Option<OwnedFd>,
}

impl Guard {
    /// To be called before threads are made: the copy of a process has only one.
    pub(crate) fn start() -> io::Result<Guard> {
        let (ends, alive) = pipe()?;
        let recorder = std::process::id() as i32;
        // SAFETY: there is no other thread yet, so that the copy finds no lock taken, and may
        // do whatever the recorder itself may.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(alive);
            stand_by(&ends, recorder);
        }
        if pid < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(Guard { pid, alive: Some(alive) })
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.alive.take());
        // SAFETY: the child is ours, its number is given out to nobody else before this, and
        // nothing is written. It ends by itself as soon as its pipe is closed.
        unsafe {
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// How often and how far apart it is tried: probes can be taken away once all their events
/// are closed, which the kernel does in its own time.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(20);

fn stand_by(ends: &OwnedFd, recorder: i32) -> ! {
    let keep = ends.as_raw_fd();
    let mut byte = 0_u8;
    // SAFETY: other descriptors are of the recorder and used by nobody here; closing them
    // keeps none of its events and files open. Of the pipe nothing is ever read but its end.
    unsafe {
        libc::close_range(0, keep as libc::c_uint - 1, 0);
        libc::close_range(keep as libc::c_uint + 1, libc::c_uint::MAX, 0);
        libc::read(keep, (&raw mut byte).cast(), 1);
    }
    for _ in 0..TRIES {
        if probe::take_away_those_of(recorder) {
            break;
        }
        sleep(APART);
    }
    // SAFETY: ends this process alone, without what the recorder would do at its own end.
    unsafe { libc::_exit(0) }
}

/// Lets a held program go on, should the recorder be killed before it does so itself.
///
/// The kernel has nothing that ends a stop with the process that asked for it, except for what
/// traces the program, which would take a setuid program's rights away, and end it in place of
/// letting it go.
#[derive(Debug)]
pub(crate) struct HoldGuard {
    pid: libc::pid_t,
    /// A byte into it sends the other away.
    over: OwnedFd,
}

impl HoldGuard {
    /// For a child of ours whose status was not fetched yet.
    pub(crate) fn start(held: i32) -> io::Result<HoldGuard> {
        let (notice, over) = pipe()?;
        let (held, recorder) = (process(held)?, process(std::process::id() as i32)?);
        let descriptors = [&notice, &held, &recorder].map(|one| one.as_raw_fd());
        // SAFETY: there may be other threads, so the copy does only what is allowed then: it
        // allocates nothing, takes no lock, and calls nothing but the system.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let_go_afterwards(descriptors);
        }
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(HoldGuard { pid, over }) }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        // SAFETY: one byte that lives is written, and none where the other has been killed, for
        // Rust ignores the signal of a broken pipe. The child is ours and ends upon the byte.
        unsafe {
            libc::write(self.over.as_raw_fd(), [1_u8].as_ptr().cast(), 1);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// What stands for one process and never for a later one of its number.
fn process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers and gives a new descriptor, which nobody else has.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
    }
}

/// So long at most the kernel takes to end a process that has closed its descriptors, in
/// milliseconds.
const ENDED_WITHIN_MS: libc::c_int = 10_000;

/// Between fork and the end of this process: see [`HoldGuard::start`].
fn let_go_afterwards([notice, held, recorder]: [RawFd; 3]) -> ! {
    let mut kept = [notice, held, recorder];
    kept.sort_unstable();
    let mut byte = 0_u8;
    // SAFETY: only calls that are allowed after a fork, with memory that lives. Other descriptors
    // are of the recorder: the probes that stop the program are gone with its own.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let mut from = 0;
        for fd in kept.map(|fd| fd as libc::c_uint) {
            if fd > from {
                libc::close_range(from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::close_range(from, libc::c_uint::MAX, 0);
        if libc::read(notice, (&raw mut byte).cast(), 1) == 0 {
            // Its descriptors are being closed; only afterwards nothing is stopped any more.
            let mut end = libc::pollfd { fd: recorder, events: libc::POLLIN, revents: 0 };
            libc::poll(&raw mut end, 1, ENDED_WITHIN_MS);
            let nothing = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, held, libc::SIGCONT, nothing, 0);
        }
        libc::_exit(0)
    }
}
