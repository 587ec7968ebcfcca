//! Functions of Python, read out of the memory of interpreters that run.
//!
//! The kernel's samples show the interpreter at work, not what it works on. So a thread of
//! ours looks into its memory, a hundred times a second, without stopping it, and notes which
//! functions each of its threads is in, also while these wait. Where programs in the kernel choose
//! samples, they copy the frames of Python at each of them, which is exact
//! ([`crate::follow::FrameCopies`]); that thread makes functions of these, too. The recording keeps
//! what was read; whoever reads the recording joins it with the kernel's samples.

mod code;
mod debug_offsets;
mod find;
mod interpreter;
mod layout;
mod lines;
mod memory;
mod sampler;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use spanwise_symbols::{SymbolAddresses, symbol_addresses};

use find::{InterpreterMatch, NAMES, find, seems_python};
pub(crate) use memory::Memory;
use sampler::Sampler;
pub(crate) use sampler::{Counts, Readings};

use crate::follow::FrameCopies;
use crate::perf::records::Record;
use crate::system::processes;

/// How functions of Python are recorded.
#[derive(Clone, Copy)]
pub struct PythonOptions {
    /// How often a second stacks are read; no more than [`PYTHON_RATE_MAX_HZ`].
    pub rate_hz: u32,
    /// Interpreters are looked for in all files, not only in those that are named so.
    pub is_wanted: bool,
}

/// Reading a stack takes some 50 µs.
pub const PYTHON_RATE_MAX_HZ: u32 = 1000;

/// The interpreters among the processes that are recorded.
pub(crate) struct Python {
    options: PythonOptions,
    sampler: Sampler,
    /// What symbols files have, by path.
    files: BTreeMap<Vec<u8>, Option<SymbolAddresses>>,
    watched: BTreeSet<i32>,
    has_found: bool,
    troubles: Vec<String>,
}

impl Python {
    pub(crate) fn begin(options: PythonOptions, copies: Option<FrameCopies>) -> io::Result<Python> {
        let sampler = Sampler::start(options.rate_hz.clamp(1, PYTHON_RATE_MAX_HZ), copies)?;
        Ok(Python {
            options,
            sampler,
            files: BTreeMap::new(),
            watched: BTreeSet::new(),
            has_found: false,
            troubles: Vec::new(),
        })
    }

    /// A process has this file in its memory: perhaps an interpreter.
    pub(crate) fn file_mapped(&mut self, pid: i32, path: &[u8]) {
        let file = processes::path_of(path);
        if self.watched.contains(&pid) || !(self.options.is_wanted || seems_python(file)) {
            return;
        }
        let addresses = || symbol_addresses(file, &NAMES);
        let addresses = self.files.entry(path.to_vec()).or_insert_with(addresses);
        let found = addresses
            .as_ref()
            .map_or(InterpreterMatch::None, |addresses| find(pid, file, addresses));
        match found {
            InterpreterMatch::Interpreter(interpreter) => {
                self.watched.insert(pid);
                self.has_found = true;
                self.sampler.watch(*interpreter);
            }
            InterpreterMatch::Unknown(why) if !self.troubles.contains(&why) => {
                self.troubles.push(why)
            }
            InterpreterMatch::Unknown(_) | InterpreterMatch::None => {}
        }
    }

    /// Processes are copied, and run other programs.
    pub(crate) fn note(&mut self, record: Record<'_>) {
        if let Some(pid) = record.executed().filter(|pid| self.watched.remove(pid)) {
            self.sampler.forget(pid);
        }
        if let Some((parent, pid)) = record.copied()
            && self.watched.contains(&parent)
            && self.watched.insert(pid)
        {
            self.sampler.copied(parent, pid);
        }
    }

    /// What was read since the last time.
    pub(crate) fn take(&mut self) -> Readings {
        let mut readings = self.sampler.take();
        readings.troubles.append(&mut self.troubles);
        readings
    }

    pub(crate) fn stop(&mut self) {
        self.sampler.stop();
    }

    /// True where an interpreter was found, or nobody insists on one.
    pub(crate) fn is_content(&self) -> bool {
        self.has_found || !self.options.is_wanted
    }
}
