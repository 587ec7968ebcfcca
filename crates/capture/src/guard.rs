//! Takes away what a recorder has defined in the kernel, should the recorder be killed.
//!
//! Descriptors are closed by the kernel when a process ends, however it ends; definitions of
//! probes are not. So a second process waits for the end of the first, and looks what is left.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use crate::launch::pipe;
use crate::probe;

/// The process that waits; it ends when this is dropped, or with the recorder.
#[derive(Debug)]
pub(crate) struct Guard {
    pid: libc::pid_t,
    /// That it is closed tells the other.
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
