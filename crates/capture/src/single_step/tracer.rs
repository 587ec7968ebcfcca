//! The second process, which traces.
//!
//! The kernel ends a thread whose tracer is killed between two steps. So the recorder does not
//! trace itself: this process does, which ends by itself when the recorder does, however that
//! ended, and first lets all threads go as they were.
//!
//! Where the function begins, an event of the kernel sends a signal, which reaches this process
//! and not the program. It needs no change of the program's code, and ends with its descriptor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};
use spanwise_recording::single_steps::EndCause;

use super::ptrace::{self, Stop};
use super::region::Region;
use super::{Command, Limits, message};
use crate::perf::event::Attr;
use crate::system::processes;
use crate::system::sys;
use crate::triggers::signals::Signals;

/// `si_code` of the signal that an event of the kernel sends, and of those after a step: of an
/// instruction, of a call of the kernel, and into a function that handles a signal.
const BY_EVENT: c_int = 6;
const AFTER_STEP: [c_int; 3] = [2, 1, libc::SIGTRAP];

/// How long at most until somebody is checked who should have stopped.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Tracer {
    commands: File,
    messages: File,
    limits: Limits,
    /// Threads that are traced, and what is stepped of them.
    threads: BTreeMap<pid_t, Option<Region>>,
    /// Where the function begins, in each thread.
    events: Vec<OwnedFd>,
    /// Threads that were left in the middle of a step, whose end they still come to.
    left: BTreeSet<pid_t>,
    regions: u32,
    is_over: bool,
}

impl Tracer {
    pub(super) fn new(commands: OwnedFd, messages: OwnedFd, limits: Limits) -> Tracer {
        Tracer {
            commands: File::from(commands),
            messages: File::from(messages),
            limits,
            threads: BTreeMap::new(),
            events: Vec::new(),
            left: BTreeSet::new(),
            regions: 0,
            is_over: false,
        }
    }

    /// Traces until the recorder says that it is over, or is no more.
    pub(super) fn work(mut self) {
        let Ok(mut signals) = Signals::take() else { return };
        while !self.is_over {
            while let Some((tid, stop)) = ptrace::next_stop() {
                self.stopped(tid, stop);
            }
            self.end_overdue();
            let _ = sys::wait_for(&[signals.as_fd(), self.commands.as_fd()], PATIENCE);
            signals.messages();
            if sys::is_readable(self.commands.as_fd()) {
                self.obey();
            }
        }
        self.let_go(&mut signals);
    }

    fn obey(&mut self) {
        let mut bytes = [0; Command::BYTES];
        let Some(command) =
            self.commands.read_exact(&mut bytes).ok().and_then(|()| Command::read(&bytes))
        else {
            self.is_over = true;
            return;
        };
        let done = match command {
            Command::Trace(pid) => self.trace(pid),
            Command::Watch(pid, address) => self.watch(pid, address),
            Command::GoOn(pid) => {
                let _ = ptrace::go_on(pid, 0);
                Ok(())
            }
        };
        if let Err(error) = done {
            self.say(&message::trouble(&format!("it cannot be stepped through: {error}")));
        }
        if let Command::Trace(pid) = command {
            self.say(&message::traced(pid));
        }
    }

    /// Threads that are made meanwhile are traced by being made, or found by another search.
    fn trace(&mut self, pid: pid_t) -> io::Result<()> {
        loop {
            let threads = processes::threads(pid);
            let new: Vec<pid_t> =
                threads.into_iter().filter(|tid| !self.threads.contains_key(tid)).collect();
            if new.is_empty() {
                return Ok(());
            }
            for tid in new {
                match ptrace::seize(tid) {
                    Ok(()) => drop(self.threads.insert(tid, None)),
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    // It was made by one that is traced, and has not been met yet.
                    Err(_) if !self.threads.is_empty() => drop(self.threads.insert(tid, None)),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn watch(&mut self, pid: pid_t, address: u64) -> io::Result<()> {
        if self.regions >= self.limits.calls {
            return Ok(());
        }
        let attr = Attr::breakpoint(address);
        for tid in processes::threads(pid) {
            match sys::open_event(&attr, tid, -1) {
                Ok(event) => self.events.push(event),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn stopped(&mut self, tid: pid_t, stop: Stop) {
        let region = self.threads.entry(tid).or_default();
        let gone_on = match stop {
            Stop::Ended => {
                if let Some(Some(region)) = self.threads.remove(&tid) {
                    self.end(region, EndCause::ThreadEnd);
                }
                return;
            }
            Stop::Exec => {
                let region = region.take();
                region.into_iter().for_each(|region| self.end(region, EndCause::ThreadEnd));
                return self.say(&message::executed(tid));
            }
            Stop::Group => ptrace::listen(tid),
            Stop::Passing if region.is_some() => ptrace::step(tid, 0),
            Stop::Passing => ptrace::go_on(tid, 0),
            Stop::Signal(libc::SIGTRAP) => return self.trapped(tid),
            Stop::Signal(signal) => match region {
                Some(region) => {
                    region.interrupted();
                    ptrace::step(tid, signal)
                }
                None => ptrace::go_on(tid, signal),
            },
        };
        // A thread that was killed meanwhile is reported by itself.
        drop(gone_on);
    }

    /// The function begins, or a step was made, or the program raised the signal itself.
    fn trapped(&mut self, tid: pid_t) {
        let code = ptrace::signal_code(tid).unwrap_or(0);
        let Some(region) = self.threads.entry(tid).or_default() else {
            let is_wanted = code == BY_EVENT && self.regions < self.limits.calls;
            if !is_wanted || !self.begin(tid) {
                let is_ours =
                    code == BY_EVENT || AFTER_STEP.contains(&code) && self.left.remove(&tid);
                let signal = if is_ours { 0 } else { libc::SIGTRAP };
                let _ = ptrace::go_on(tid, signal);
            }
            return;
        };
        let end = match ptrace::registers(tid) {
            _ if !AFTER_STEP.contains(&code) && code != BY_EVENT => {
                region.interrupted();
                drop(ptrace::step(tid, libc::SIGTRAP));
                return;
            }
            Ok(registers) if code != BY_EVENT => region.step(registers, &self.limits),
            Ok(_) => None,
            Err(_) => Some(EndCause::ThreadEnd),
        };
        let message = region.take_message();
        match end {
            None => drop(ptrace::step(tid, 0)),
            Some(end) => {
                let region = self.threads.insert(tid, None).flatten();
                let _ = ptrace::go_on(tid, 0);
                region.into_iter().for_each(|region| self.end(region, end));
            }
        }
        message.into_iter().for_each(|message| self.say(&message));
    }

    /// True where stepping has begun.
    fn begin(&mut self, tid: pid_t) -> bool {
        let Some(pid) = processes::process_of(tid) else { return false };
        let Ok(registers) = ptrace::registers(tid) else { return false };
        let Ok(region) = Region::begin(self.regions, (pid, tid), registers, &self.limits) else {
            return false;
        };
        self.regions += 1;
        self.say(&region.beginning_message());
        self.threads.insert(tid, Some(region));
        ptrace::step(tid, 0).is_ok()
    }

    fn end(&mut self, region: Region, cause: EndCause) {
        let messages = region.end_messages(cause);
        messages.iter().for_each(|message| self.say(message));
        let is_stepping = self.threads.values().any(Option::is_some);
        if self.regions >= self.limits.calls && !is_stepping {
            // Nobody needs to stop any more.
            self.events.clear();
        }
    }

    /// Threads that wait inside of the region for longer than it may take.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        let overdue = self.threads.iter().filter_map(|(&tid, region)| {
            region.as_ref().filter(|region| region.until <= now).map(|_| tid)
        });
        for tid in overdue.collect::<Vec<_>>() {
            if let Some(region) = self.threads.insert(tid, None).flatten() {
                self.end(region, EndCause::TimeLimit);
                self.left.insert(tid);
                let _ = ptrace::interrupt(tid);
            }
        }
    }

    /// Lets all threads go, as if nobody had traced them.
    fn let_go(&mut self, signals: &mut Signals) {
        self.events.clear();
        let regions: Vec<Region> = self.threads.values_mut().filter_map(Option::take).collect();
        regions.into_iter().for_each(|region| self.end(region, EndCause::Stop));
        for &tid in self.threads.keys() {
            let _ = ptrace::interrupt(tid);
        }
        while !self.threads.is_empty() {
            while let Some((tid, stop)) = ptrace::next_stop() {
                self.let_one_go(tid, stop);
            }
            // The first thread of a process, when it has ended, is reported only after the others.
            self.threads.retain(|&tid, _| processes::is_thread(tid));
            let _ = sys::wait_for(&[signals.as_fd()], PATIENCE);
            signals.messages();
        }
    }

    fn let_one_go(&mut self, tid: pid_t, stop: Stop) {
        let signal = match stop {
            Stop::Ended => {
                self.threads.remove(&tid);
                return;
            }
            Stop::Signal(libc::SIGTRAP) => match ptrace::signal_code(tid) {
                Ok(code) if code == BY_EVENT || AFTER_STEP.contains(&code) => 0,
                _ => libc::SIGTRAP,
            },
            Stop::Signal(signal) => signal,
            Stop::Passing | Stop::Exec | Stop::Group => 0,
        };
        // One of ours that has not reached it yet would end it.
        if processes::has_pending(tid, libc::SIGTRAP) {
            let _ = ptrace::go_on(tid, signal);
            return;
        }
        let _ = ptrace::detach(tid, signal);
        self.threads.remove(&tid);
    }

    /// That nobody listens any more is seen by the closed pipe of commands.
    fn say(&mut self, message: &[u8]) {
        let _ = self.messages.write_all(message);
    }
}
