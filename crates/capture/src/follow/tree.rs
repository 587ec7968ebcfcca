//! The threads of some processes and of all that they start, for programs that have to choose.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::btf;
use super::program::{self, FROM_EXEC, Maps, SHARED_BYTES, THREAD_WORDS};
use super::{THREADS_MAX, add_threads};
use crate::calls::bpf;
use crate::system::processes;

/// A table of threads that the kernel keeps, as long as this lives.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    _following: Vec<OwnedFd>,
    threads: OwnedFd,
    _shared: OwnedFd,
}

impl ProcessTree {
    /// A process that is not yet the program that it will be is recorded from then on.
    pub(crate) fn begin(pids: &[i32], is_from_exec: bool) -> io::Result<ProcessTree> {
        if !processes::has_the_kernels_numbers() {
            return Err(io::Error::other("numbers of processes are not the kernel's"));
        }
        let threads = bpf::table(THREAD_WORDS, THREADS_MAX)?;
        let shared = bpf::shared_numbers(SHARED_BYTES)?;
        let maps = Maps {
            // No program that keeps the table writes switches.
            ring: threads.as_raw_fd(),
            stacks: threads.as_raw_fd(),
            interrupts: None,
            frames: None,
            has_waker_stacks: false,
            threads: threads.as_raw_fd(),
            shared: shared.as_raw_fd(),
            thread: btf::thread_layout()
                .ok_or_else(|| io::Error::other("threads of another form"))?,
        };
        let following = program::following(maps)?;
        add_threads(&threads, pids, if is_from_exec { FROM_EXEC } else { 0 })?;
        Ok(ProcessTree { _following: following, threads, _shared: shared })
    }

    /// The table, for programs that find threads in it.
    pub(crate) fn threads(&self) -> io::Result<OwnedFd> {
        self.threads.try_clone()
    }
}
