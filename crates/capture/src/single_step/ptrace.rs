//! The few requests of `ptrace` that stepping needs.
//!
//! Each function is safe to call with any numbers: the kernel checks that the thread is one
//! that we trace, and that it is stopped.

use std::io;

use libc::{c_int, c_long, c_uint, pid_t};

/// Where a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) stack: u64,
}

/// What a thread that we trace was stopped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is gone.
    Ended,
    /// A signal on its way to it.
    Signal(c_int),
    /// It made a thread, or was just made, or was interrupted.
    Passing,
    /// It runs another program from now on.
    Exec,
    /// All of the process was stopped, by somebody else.
    Group,
}

/// Begins to trace a thread without stopping it; threads that it makes are traced as well.
pub(super) fn seize(tid: pid_t) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE, tid, options as usize)
}

/// Stops a thread that runs.
pub(super) fn interrupt(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a thread go on, with a signal or without one (0).
pub(super) fn go_on(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, signal as usize)
}

/// Lets a thread execute one instruction.
pub(super) fn step(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, signal as usize)
}

/// Leaves a thread stopped that somebody else has stopped.
pub(super) fn listen(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0)
}

pub(super) fn detach(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, signal as usize)
}

fn request(request: c_uint, tid: pid_t, data: usize) -> io::Result<()> {
    // SAFETY: none of these requests is given memory of ours.
    let result = unsafe { libc::ptrace(request, tid, 0_usize, data) };
    checked(result)
}

fn checked(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn registers(tid: pid_t) -> io::Result<Registers> {
    let mut all = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: the kernel fills one structure of this kind; all zeros are a valid one.
    let all = unsafe {
        checked(libc::ptrace(libc::PTRACE_GETREGS, tid, 0_usize, all.as_mut_ptr()))?;
        all.assume_init()
    };
    Ok(Registers { ip: all.rip, stack: all.rsp })
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn registers(_tid: pid_t) -> io::Result<Registers> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// What the kernel says why a signal was sent.
pub(super) fn signal_code(tid: pid_t) -> io::Result<c_int> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills one structure of this kind; all zeros are a valid one.
    let info = unsafe {
        checked(libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0_usize, info.as_mut_ptr()))?;
        info.assume_init()
    };
    Ok(info.si_code)
}

/// The next thread that was stopped, if there is one now.
pub(super) fn next_stop() -> Option<(pid_t, Stop)> {
    let mut status = 0;
    // SAFETY: the kernel writes one number. All children of this process are threads that it
    // traces.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    (tid > 0).then(|| (tid, stop(status)))
}

fn stop(status: c_int) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_STOP if is_stopping(signal) => Stop::Group,
        _ => Stop::Passing,
    }
}

fn is_stopping(signal: c_int) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_why() {
        let check = |status, expected| assert_eq!(stop(status), expected, "{status:x}");
        check(0x0000, Stop::Ended);
        check(0x0009, Stop::Ended);
        check(0x057f, Stop::Signal(libc::SIGTRAP));
        check(0x0b7f, Stop::Signal(libc::SIGSEGV));
        check(0x0003_057f, Stop::Passing);
        check(0x0004_057f, Stop::Exec);
        check(0x0080_057f, Stop::Passing);
        check(0x0080_137f, Stop::Group);
    }
}
