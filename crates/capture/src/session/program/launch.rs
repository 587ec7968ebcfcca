//! Starts a program, stopped before its first instruction until it is allowed to go.
//!
//! The standard library waits until the new program runs, so it cannot stop before that.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::CaptureError;

/// A child that waits for the permission to run its program, and later runs it.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: i32,
    /// A byte into it lets the child go; that it is closed makes the child give up.
    go: Option<File>,
    /// Says why the program could not be run; closed where it was.
    refusal: Option<File>,
    program: String,
    status: Option<ExitStatus>,
}

impl Child {
    /// Forks; the child waits. Its program has our environment except for what is given here, and
    /// ignores the signal unless it handles it.
    pub(crate) fn prepare(
        command: &[OsString],
        environment: &[(&str, OsString)],
        ignored: Option<libc::c_int>,
    ) -> Result<Child, CaptureError> {
        let words: Result<Vec<CString>, _> =
            command.iter().map(|word| CString::new(word.as_bytes())).collect();
        let words = words
            .map_err(|_| CaptureError::new("an argument of the command contains a NUL byte"))?;
        let program = match command.first() {
            Some(program) => program.to_string_lossy().into_owned(),
            None => return Err(CaptureError::new("no program was named")),
        };
        let settings = settings(environment);
        let texts = (pointers(&words), pointers(&settings));
        let pipes = || io::Result::Ok((pipe()?, pipe()?));
        let ((go_in, go_out), (refusal_in, refusal_out)) =
            pipes().map_err(|error| CaptureError::io("no pipe", error))?;
        // SAFETY: between fork and exec the child calls only what is allowed there: it
        // allocates nothing, takes no lock, and everything it needs was made before.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            child(&go_in, &go_out, &refusal_out, &texts.0, &texts.1, ignored);
        }
        if pid < 0 {
            let error = io::Error::last_os_error();
            return Err(CaptureError::io(format!("{program}: no new process"), error));
        }
        Ok(Child {
            pid,
            go: Some(File::from(go_out)),
            refusal: Some(File::from(refusal_in)),
            program,
            status: None,
        })
    }

    /// Lets the child run its program, and says if it could.
    pub(crate) fn go(&mut self) -> Result<(), CaptureError> {
        let fail = |error| CaptureError::io("the new process is gone", error);
        if let Some(mut go) = self.go.take() {
            go.write_all(&[1]).map_err(fail)?;
        }
        let mut errno = Vec::new();
        if let Some(mut refusal) = self.refusal.take() {
            refusal.read_to_end(&mut errno).map_err(fail)?;
        }
        let Ok(errno) = <[u8; 4]>::try_from(errno) else { return Ok(()) };
        self.wait();
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
        Err(CaptureError::io(format!("{}: cannot be run", self.program), error))
    }

    /// What the process does now.
    pub(crate) fn state(&mut self) -> ChildState {
        match self.poll_status(libc::WNOHANG | libc::WUNTRACED) {
            Some(status) if status.stopped_signal().is_some() => {
                // That is not its end.
                self.status = None;
                ChildState::Stopped
            }
            Some(_) => ChildState::Ended,
            None => ChildState::Running,
        }
    }

    /// How the program ended, if it has.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.poll_status(libc::WNOHANG)
    }

    /// Waits for the end of the program.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        self.poll_status(0)
    }

    fn poll_status(&mut self, options: libc::c_int) -> Option<ExitStatus> {
        let mut status = 0;
        while self.status.is_none() {
            // SAFETY: the kernel writes one number into `status`. The child is ours, and once
            // its status was fetched, its number is never asked for again.
            let found = unsafe { libc::waitpid(self.pid, &raw mut status, options) };
            let error = io::Error::last_os_error();
            if found == self.pid {
                self.status = Some(ExitStatus::from_raw(status));
            } else if !(found < 0 && error.kind() == io::ErrorKind::Interrupted) {
                break;
            }
        }
        self.status
    }
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildState {
    Running,
    Stopped,
    Ended,
}

impl Drop for Child {
    /// One that was never allowed to go ends at the closed pipe, and is not left behind.
    fn drop(&mut self) {
        if self.go.take().is_some() {
            self.wait();
        }
    }
}

/// Both ends of a pipe: to read from, to write to. A program that is run has neither.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array, which nobody else has.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// The environment of the program, a text for each variable.
fn settings(changed: &[(&str, OsString)]) -> Vec<CString> {
    let is_kept = |name: &OsString| changed.iter().all(|(other, _)| name != other);
    let kept = std::env::vars_os().filter(|(name, _)| is_kept(name));
    let changed = changed.iter().map(|(name, value)| ((*name).into(), value.clone()));
    let text = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    kept.chain(changed).filter_map(text).collect()
}

/// As the kernel takes texts: by their places, with a null behind them.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The child, up to its program.
fn child(
    go_in: &OwnedFd,
    go_out: &OwnedFd,
    refusal: &OwnedFd,
    words: &[*const libc::c_char],
    settings: &[*const libc::c_char],
    ignored: Option<libc::c_int>,
) -> ! {
    let mut byte = 0_u8;
    // SAFETY: only calls that are allowed after a fork, on descriptors that are open and
    // memory that lives: `words` and `settings` are texts that end with zero, and a null ends
    // each of the two.
    unsafe {
        // Or else the pipe would never seem closed to it.
        libc::close(go_out.as_raw_fd());
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        // Rust ignores it, and what is ignored stays so in the new program.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Some(signal) = ignored {
            libc::signal(signal, libc::SIG_IGN);
        }
        if libc::read(go_in.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
            libc::execvpe(words[0], words.as_ptr(), settings.as_ptr());
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(refusal.as_raw_fd(), errno.as_ptr().cast(), errno.len());
        }
        libc::_exit(127)
    }
}
