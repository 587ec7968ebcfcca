//! Signals to spanwise itself, taken as messages instead of interruptions.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::thread;
use std::time::Duration;

use crate::system::sys;

/// What somebody has asked for by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Ctrl-C (SIGINT), or another polite request to end.
    Stop(libc::c_int),
    /// A child may have ended.
    Child,
    /// SIGUSR1 or SIGUSR2.
    Snapshot,
}

/// The signals wait here as long as it lives.
#[derive(Debug)]
pub(crate) struct Signals {
    file: File,
    mask_before: libc::sigset_t,
}

const TAKEN: [(libc::c_int, Message); 6] = [
    (libc::SIGINT, Message::Stop(libc::SIGINT)),
    (libc::SIGTERM, Message::Stop(libc::SIGTERM)),
    (libc::SIGHUP, Message::Stop(libc::SIGHUP)),
    (libc::SIGCHLD, Message::Child),
    (libc::SIGUSR1, Message::Snapshot),
    (libc::SIGUSR2, Message::Snapshot),
];

impl Signals {
    /// To be called before threads are made: they inherit what waits.
    pub(crate) fn take() -> io::Result<Signals> {
        // SAFETY: all sets are live and initialised by `sigemptyset` or the kernel, and the
        // descriptor that is made belongs to nobody else.
        unsafe {
            let mut mask = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut mask);
            for (signal, _) in TAKEN {
                libc::sigaddset(&raw mut mask, signal);
            }
            let mut mask_before = std::mem::zeroed::<libc::sigset_t>();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, &raw mut mask_before);
            let fd = libc::signalfd(-1, &raw const mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { file: File::from_raw_fd(fd), mask_before })
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Signals that have come since.
    pub(crate) fn messages(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut one = [0_u8; size_of::<libc::signalfd_siginfo>()];
        while self.file.read_exact(&mut one).is_ok() {
            let number = i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
            messages.extend(TAKEN.iter().find(|row| row.0 == number).map(|row| row.1));
        }
        messages
    }
}

/// Lets work go on, on a thread of its own, until somebody asks to end: by Ctrl-C or another
/// polite request. What it was doing then is left as it is.
pub fn work_until_stopped(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::take()?;
    thread::Builder::new().spawn(work)?;
    loop {
        sys::wait_for(&[signals.as_fd()], LONG)?;
        if signals.messages().iter().any(|message| matches!(message, Message::Stop(_))) {
            return Ok(());
        }
    }
}

/// Has signals wait until somebody records, as long as it lives: one that comes between two
/// recordings ends the next one, and not what is to be cleared away. Threads that are made
/// meanwhile are ended by none.
#[derive(Debug)]
pub struct HeldSignals(#[allow(dead_code, reason = "it acts when it is dropped")] Signals);

impl HeldSignals {
    pub fn hold() -> io::Result<HeldSignals> {
        Signals::take().map(HeldSignals)
    }
}

/// Between two looks at nothing.
const LONG: Duration = Duration::from_secs(3600);

impl Drop for Signals {
    /// What came meanwhile is taken first: Ctrl-C ended the recording, not the report.
    fn drop(&mut self) {
        self.messages();
        // SAFETY: the set is the one that the kernel gave.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask_before,
                std::ptr::null_mut(),
            );
        }
    }
}
