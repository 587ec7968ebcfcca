//! Holds a new program until its first calls can be recorded.
//!
//! Libraries are known once the loader has mapped them, and what is done before they are watched
//! is missed. So a program of ours stops the process where the loader says that everything is
//! mapped, before any code of a library runs, and again where the program itself begins. It is a
//! plain stop, as by `SIGSTOP`: nobody traces the program, and one that has other rights than its
//! user keeps them. Nothing of the program has run yet that could notice. Should we be killed
//! meanwhile, a process that stands by ends the stop (`guard.rs`).

use std::fmt::Display;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use spanwise_symbols::{CodeSite, LoaderSite, StartSites};

use super::bpf::program::{
    FRAME, Instruction, Text, add, call, code, copy, function, instruction, map, set,
};
use super::bpf::{self, Places};
use crate::session::program::guard::HoldGuard;
use crate::session::program::launch::{Child, ChildState};
use crate::system::sys;

/// A loader that takes longer, or that works longer, is not waited for: perhaps something else
/// than the file is executed.
const PATIENCE: Duration = Duration::from_secs(3);
const WORK_MAX_NS: u64 = 1_000_000_000;

/// How long until it is checked again whether the process has stopped.
const APART: Duration = Duration::from_micros(100);

pub(crate) struct Hold {
    /// Closing them ends it.
    links: Vec<OwnedFd>,
    /// How often the program has begun.
    entered: OwnedFd,
    guard: HoldGuard,
    /// Which calls may not be recorded all the same, and why.
    misses: Option<String>,
}

impl Hold {
    /// Before the process runs its program.
    pub(crate) fn begin(pid: i32, sites: &StartSites) -> io::Result<Hold> {
        let (entered, guard) = (bpf::counter()?, HoldGuard::start(pid)?);
        let mut links = Vec::new();
        let attach = |program: &OwnedFd, site: &CodeSite| {
            let path = site.file.as_os_str().as_encoded_bytes();
            bpf::attach(program, &Places { path, pid, offsets: &[site.offset], cookies: &[0] })
        };
        links.push(attach(&bpf::program(&stopping(Some(entered.as_raw_fd())))?, &sites.entry)?);
        // Without it, calls in the constructors of libraries are missed.
        let mut misses = None;
        match &sites.loader {
            LoaderSite::None => {}
            LoaderSite::Unknown => {
                misses = Some(
                    "calls in the constructors of libraries may be missing: the \
                               program's loader is not understood"
                        .to_owned(),
                );
            }
            LoaderSite::At(site) => match attach(&bpf::program(&stopping(None))?, site) {
                Ok(link) => links.push(link),
                Err(error) => {
                    misses = Some(format!(
                        "calls in the constructors of libraries may be missing: \
                                           the loader cannot be watched ({error})"
                    ));
                }
            },
        }
        Ok(Hold { links, entered, guard, misses })
    }

    /// Calls back each time that the process stands still, until the program begins. Nothing is
    /// stopped any more afterwards. Says which calls may be missing, and why, if any.
    pub(crate) fn until_begun(
        self,
        child: &mut Child,
        mut at_stop: impl FnMut(),
    ) -> Option<String> {
        let Hold { links, entered, guard, misses } = self;
        let started = Instant::now();
        let has_begun = || bpf::counted(&entered).map_or(true, |count| count > 0);
        let why = loop {
            if started.elapsed() >= PATIENCE {
                let patience = PATIENCE.as_secs();
                break Some(format!("its loader took longer than {patience} s"));
            }
            if sys::process_cpu_ns(child.pid) >= WORK_MAX_NS {
                break Some("its loader needed more than 1 s of CPU time".to_owned());
            }
            match child.state() {
                ChildState::Ended if has_begun() => break None,
                ChildState::Ended => {
                    break Some(
                        "it ended without coming to the entry point of its file".to_owned(),
                    );
                }
                ChildState::Running => sleep(APART),
                ChildState::Stopped => {
                    let is_last = has_begun();
                    at_stop();
                    if is_last {
                        break None;
                    }
                    sys::send(child.pid, libc::SIGCONT);
                }
            }
        };
        drop(links);
        // Whatever has happened meanwhile: one that runs does not notice.
        if !matches!(child.state(), ChildState::Ended) {
            sys::send(child.pid, libc::SIGCONT);
        }
        drop(guard);
        why.map(not_held).or(misses)
    }
}

/// What to say of a program that could not be held, and why.
pub(crate) fn not_held(why: impl Display) -> String {
    format!("the first calls of the program may be missing: it could not be held ({why})")
}

/// Stops the process, and counts that.
fn stopping(counter: Option<RawFd>) -> Vec<Instruction> {
    const KEY: i16 = -4;
    let mut text = Text::default();
    if let Some(counter) = counter {
        text.add([instruction(code::STORE_NUMBER_32, FRAME, 0, KEY, 0)]);
        text.add(map(1, counter));
        text.add([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
        text.end_if(code::JUMP_EQUAL, 0, 0, 0);
        text.add([set(1, 1), instruction(code::ADD_AT_ONCE, 0, 1, 0, 0)]);
    }
    text.add([set(1, libc::SIGSTOP), call(function::SEND_SIGNAL)]);
    text.finish()
}
