//! Every branch of a chosen function, from its call to its return.
//!
//! The thread that calls it executes one instruction at a time, and a second process checks where
//! each has led. Other threads run on. That is tens of thousands of times slower than the
//! function itself, so it is bounded: by calls, instructions and time.

mod message;
mod ptrace;
mod region;
mod tracer;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use libc::pid_t;
use spanwise_recording::single_steps::{EndCause, StepRecord, function_record};
use spanwise_recording::{SideRecord, whole_records};
use spanwise_symbols::function_sites;

use crate::perf::event::Attr;
use crate::session::output::side_log::SideRecords;
use crate::session::program::launch::{Child, pipe};
use crate::system::processes;
use crate::system::sys;
use crate::{Ability, CaptureError};
use message::kind;
use tracer::Tracer;

/// What is stepped through.
#[derive(Clone, Copy)]
pub struct StepOptions<'a> {
    /// The function.
    pub name: &'a str,
    /// How many calls of it, at most; not those inside of one.
    pub calls: u32,
    /// The most instructions and the most time of one call.
    pub instructions: u64,
    pub time: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    calls: u32,
    instructions: u64,
    time: Duration,
}

/// What the recorder asks the tracer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    /// All threads of a process, and those that they make.
    Trace(pid_t),
    /// The function is at this address in a process.
    Watch(pid_t, u64),
    /// A process that runs another program now.
    GoOn(pid_t),
}

impl Command {
    const BYTES: usize = 16;

    fn read(bytes: &[u8; Command::BYTES]) -> Option<Command> {
        let [kind, pid] = [0, 4]
            .map(|at| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let address = bytes.last_chunk().copied().map_or(0, u64::from_le_bytes);
        match kind {
            1 => Some(Command::Trace(pid)),
            2 => Some(Command::Watch(pid, address)),
            3 => Some(Command::GoOn(pid)),
            _ => None,
        }
    }

    fn to_bytes(self) -> [u8; Command::BYTES] {
        let (kind, pid, address) = match self {
            Command::Trace(pid) => (1_i32, pid, 0),
            Command::Watch(pid, address) => (2, pid, address),
            Command::GoOn(pid) => (3, pid, 0),
        };
        let mut bytes = [0; Command::BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&pid.to_le_bytes());
        bytes[8..].copy_from_slice(&address.to_le_bytes());
        bytes
    }
}

/// How much was stepped through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepsRecorded {
    pub calls: u64,
    pub instructions: u64,
    /// Calls that were left before their end, by instructions and by time.
    pub cut: [u64; 2],
}

/// The tracer, as the recorder knows it.
pub(crate) struct Steps<'a> {
    options: StepOptions<'a>,
    tracer: pid_t,
    commands: Option<File>,
    messages: File,
    /// What has come of a message that is not whole.
    kept: Vec<u8>,
    /// It will say nothing any more.
    is_over: bool,
    known: BTreeSet<(pid_t, Vec<u8>, u64)>,
    /// How many processes it has begun to trace, or tried to.
    traced: usize,
    new: SideRecords,
    pub(crate) counts: StepsRecorded,
    troubles: Vec<String>,
}

impl<'a> Steps<'a> {
    /// To be called before threads are made: the copy of a process has only one.
    pub(crate) fn begin(
        options: StepOptions<'a>,
        pids: &[pid_t],
    ) -> Result<Steps<'a>, CaptureError> {
        let fail = |error| {
            CaptureError::io("a function cannot be stepped through", error).lacks(Ability::Steps)
        };
        if !cfg!(target_arch = "x86_64") {
            return Err(fail(io::Error::other("only on x86-64")));
        }
        let (tracer, commands, messages) = start(&options).map_err(fail)?;
        let facts = function_record(options.name);
        let mut steps = Steps {
            options,
            tracer,
            commands: Some(commands),
            messages,
            kept: Vec::new(),
            is_over: false,
            known: BTreeSet::new(),
            traced: 0,
            new: SideRecords { facts, timed: Vec::new() },
            counts: StepsRecorded::default(),
            troubles: Vec::new(),
        };
        pids.iter().for_each(|&pid| steps.command(Command::Trace(pid)));
        steps.wait_until_traced(pids.len());
        match steps.troubles.pop() {
            Some(trouble) => Err(CaptureError::new(trouble).lacks(Ability::Steps)),
            None => Ok(steps),
        }
    }

    /// Before that, a program could run past what is to be stepped through.
    fn wait_until_traced(&mut self, count: usize) {
        while self.traced < count && !self.is_over {
            let _ = sys::wait_for(&[self.messages.as_fd()], Duration::from_millis(100));
            self.listen();
        }
    }

    fn command(&mut self, command: Command) {
        let sent = self.commands.as_mut().map(|pipe| pipe.write_all(&command.to_bytes()));
        if sent.is_some_and(|sent| sent.is_err()) {
            self.commands = None;
            self.troubles.push("the process that steps has ended".to_owned());
        }
    }

    /// What shows that the tracer has sent something.
    pub(crate) fn listened(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_over).then(|| self.messages.as_fd())
    }

    /// True where the function was found in some file.
    pub(crate) fn has_found_function(&self) -> bool {
        !self.known.is_empty()
    }

    /// A process has this file in its memory, or will have.
    pub(crate) fn file_mapped(&mut self, pid: pid_t, path: &[u8]) {
        let sites = function_sites(processes::path_of(path), self.options.name);
        if sites.is_empty() {
            return;
        }
        for mapping in processes::mappings(pid).iter().filter(|mapping| mapping.path == path) {
            let end = mapping.file_offset + mapping.end.saturating_sub(mapping.start);
            for &site in sites.iter().filter(|&&site| (mapping.file_offset..end).contains(&site)) {
                let address = mapping.start + (site - mapping.file_offset);
                if self.known.insert((pid, path.to_vec(), address)) {
                    self.command(Command::Watch(pid, address));
                }
            }
        }
    }

    /// What the tracer has said since the last time.
    pub(crate) fn take(&mut self) -> (SideRecords, Vec<String>) {
        self.listen();
        (std::mem::take(&mut self.new), std::mem::take(&mut self.troubles))
    }

    fn listen(&mut self) {
        let mut bytes = std::mem::take(&mut self.kept);
        // It is never waited for.
        while !self.is_over && sys::is_readable(self.messages.as_fd()) {
            let mut some = [0; 1 << 16];
            match self.messages.read(&mut some) {
                Ok(len) if len > 0 => bytes.extend(&some[..len]),
                _ => {
                    self.is_over = true;
                    break;
                }
            }
        }
        let mut used = 0;
        for record in whole_records(&bytes) {
            used += record.bytes.len();
            self.receive(record);
        }
        self.kept = bytes.split_off(used);
    }

    fn receive(&mut self, record: SideRecord<'_>) {
        let body = record.body();
        match record.kind {
            kind::EXECUTED => {
                let pid = body.first_chunk().map_or(0, |pid| pid_t::from_le_bytes(*pid));
                self.troubles.extend(rights_lost(pid));
                self.known.retain(|known| known.0 != pid);
                for path in paths(pid) {
                    self.file_mapped(pid, &path);
                }
                self.command(Command::GoOn(pid));
            }
            kind::TRACED => self.traced += 1,
            kind::TROUBLE => {
                let text = String::from_utf8_lossy(body).into_owned();
                if !self.troubles.contains(&text) {
                    self.troubles.push(text);
                }
            }
            kind => {
                let Some(step) = StepRecord::read(kind, body) else { return };
                if let StepRecord::End(end) = step {
                    self.counts.calls += 1;
                    self.counts.instructions += end.instructions;
                    match end.cause {
                        EndCause::InstructionLimit => self.counts.cut[0] += 1,
                        EndCause::TimeLimit => self.counts.cut[1] += 1,
                        EndCause::Return | EndCause::ThreadEnd | EndCause::Stop => {}
                    }
                }
                let time = step.time().unwrap_or(0);
                self.new.timed.push((time, record.bytes.to_vec()));
            }
        }
    }

    /// Ends the tracer, and waits until all threads are let go.
    pub(crate) fn stop(&mut self) {
        self.commands = None;
        while !sys::has_ended(self.tracer) {
            let _ = sys::wait_for(&[self.messages.as_fd()], Duration::from_millis(10));
            self.listen();
        }
    }
}

/// A program that has more rights than its user would lose them while it is traced, and do
/// something else than it does otherwise.
pub(crate) fn refuse_if_rights_are_lost(program: &Path) -> Result<(), CaptureError> {
    let Some(rights) = processes::rights_gained_by(program) else { return Ok(()) };
    Err(CaptureError::new(format!(
        "{}: it runs with {rights}, and the kernel takes these away from a program that a user \
         without them steps through; run spanwise as root, or use --calls, which changes nothing",
        program.display()
    )))
}

/// What to say of a program that another one has started meanwhile: it is too late to refuse.
fn rights_lost(pid: pid_t) -> Option<String> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let rights = processes::rights_gained_by(&program)?;
    let program = program.display();
    Some(format!("process {pid} runs {program} without {rights}, since it is stepped through"))
}

fn paths(pid: pid_t) -> BTreeSet<Vec<u8>> {
    processes::mappings(pid).into_iter().map(|mapping| mapping.path).collect()
}

/// The process that traces, the pipe to it and the pipe from it.
fn start(options: &StepOptions<'_>) -> io::Result<(pid_t, File, File)> {
    let ((command_in, command_out), (message_in, message_out)) = (pipe()?, pipe()?);
    let StepOptions { calls, instructions, time, .. } = *options;
    let limits = Limits { calls, instructions, time };
    let pid = sys::fork_before_threads()?;
    if pid == 0 {
        // In a group of its own: Ctrl-C is not for it.
        sys::stand_alone(&[command_in.as_raw_fd(), message_out.as_raw_fd()]);
        // They are closed already, like all that was the recorder's.
        std::mem::forget((command_out, message_in));
        Tracer::new(command_in, message_out, limits).work();
        sys::end_at_once();
    }
    Ok((pid, File::from(command_out), File::from(message_in)))
}

/// Tries both on a process that waits for the permission to run something, and never gets it: to
/// trace it, and to let it be stopped at a place that it never comes to.
pub(crate) fn try_on_a_child() -> io::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::Error::other("only on x86-64"));
    }
    let child = Child::prepare(&["true".into()], &[], None).map_err(io::Error::other)?;
    ptrace::seize(child.pid)?;
    sys::open_event(&Attr::breakpoint(8), child.pid, -1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_as_they_went() {
        let commands =
            [Command::Trace(7), Command::Watch(i32::MAX, u64::MAX - 1), Command::GoOn(1)];
        for command in commands {
            assert_eq!(Command::read(&command.to_bytes()), Some(command));
        }
        assert_eq!(Command::read(&[0; Command::BYTES]), None);
    }
}
