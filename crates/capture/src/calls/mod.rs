//! Calls of chosen functions, each with its beginning and its end.
//!
//! Something in the kernel notes the time where such a function begins and at each instruction by
//! which it is left, in a ring: a small program of ours, or a probe. Stacks are never touched, so
//! nothing that walks or switches them can notice. When the descriptors are closed, also by the
//! end of a killed recorder, the kernel takes it away.

pub(crate) mod bpf;
mod brake;
mod budget;
mod by_bpf;
mod by_probes;
mod hold;
mod place;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use spanwise_recording::calls::{CallHits, CallRecord, CalledFunction};
use spanwise_symbols::{FunctionPatterns, FunctionProbes, ProbePlaces, probes_matching};

use crate::follow::ProcessTree;
use crate::perf::records::Record;
use crate::perf::rings::is_refusal;
use crate::session::output::side_log::SideRecords;
use crate::system::doctor;
use crate::system::processes;
use crate::system::sys;
use crate::{Ability, CallLevel, CaptureError};
pub use bpf::sums::LENGTH_BUCKETS;
use brake::Brake;
use by_bpf::{ByBpf, Numbered, Whose};
use by_probes::ByProbes;
pub(crate) use hold::{Hold, not_held};
pub(crate) use place::{fetched, is_left};
pub(crate) use trial::own_function;

/// Which functions are recorded.
#[derive(Clone, Copy)]
pub struct CallsOptions<'a> {
    pub functions: FunctionPatterns<'a>,
    pub by: CallsBy,
    /// How much of the program's own processor time it may cost, in percent. Above that, calls of
    /// the functions that cost most are counted, and at last not watched any more.
    pub budget_percent: f64,
    /// Counts all calls from the beginning.
    pub aggregates: bool,
}

/// More functions of one file than this are too many.
const FUNCTIONS_MAX: usize = 50_000;

/// How calls are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsBy {
    /// BPF where it can be had, probes otherwise.
    Auto,
    Bpf,
    Probes,
}

impl CallsBy {
    /// What options call each.
    pub const NAMES: [(&'static str, CallsBy); 3] =
        [("auto", CallsBy::Auto), ("bpf", CallsBy::Bpf), ("uprobes", CallsBy::Probes)];
}

enum Backend {
    Bpf(ByBpf),
    Probes(Box<ByProbes>),
}

/// The functions that are watched, and what notes their calls.
pub(crate) struct Calls<'a> {
    options: CallsOptions<'a>,
    backend: Backend,
    /// Functions in each file, with their numbers.
    files: BTreeMap<Vec<u8>, Rc<[(u32, FunctionProbes)]>>,
    count: u32,
    /// The processes that are recorded from the beginning.
    pids: Vec<i32>,
    /// Kept while programs find threads in it.
    tree: Option<ProcessTree>,
    /// Files that are watched in all processes, and those that are watched in some.
    for_everyone: BTreeSet<Vec<u8>>,
    by_process: BTreeSet<Vec<u8>>,
    /// Processes and files that have links of their own: a second one would note calls twice.
    linked: BTreeSet<(i32, Vec<u8>)>,
    /// Processes that were forked, and watched only when that was known.
    late: BTreeSet<i32>,
    /// Files of each process that are watched.
    watched: BTreeMap<i32, BTreeSet<Vec<u8>>>,
    /// Processes that were copied from another, by that one: files of it that are reported later
    /// are theirs as well.
    copies: BTreeMap<i32, Vec<i32>>,
    new: SideRecords,
    brake: Brake,
    /// When it began, and when sums were last read.
    began_ns: u64,
    summed_ns: u64,
    /// Calls and returns of each function that were counted in the kernel until then.
    summed: BTreeMap<u32, [u64; 2]>,
    /// Calls of each function that were recorded.
    recorded: BTreeMap<u32, u64>,
    /// Processor time of each process, which is kept when it has ended.
    cpu_ns: BTreeMap<i32, u64>,
    braked: Vec<BrakedFunction>,
    /// The budget was exceeded by so much that nothing is watched any more.
    has_let_go: bool,
    has_stopped: bool,
    /// Functions that cannot be watched without harm, or that the kernel does not take.
    refused: Vec<RefusedFunction>,
    /// Functions that are more than can be watched.
    too_many: u64,
    /// Patterns that no function of any file fits.
    unmatched: Vec<&'a str>,
}

impl<'a> Calls<'a> {
    /// To be called before threads are made.
    pub(crate) fn begin(
        options: CallsOptions<'a>,
        pids: &[i32],
        is_from_exec: bool,
    ) -> Result<Calls<'a>, CaptureError> {
        let tree = match options.by {
            CallsBy::Probes => None,
            CallsBy::Auto | CallsBy::Bpf => ProcessTree::begin(pids, is_from_exec).ok(),
        };
        let begin_bpf = || begin_bpf(tree.as_ref());
        let backend = match options.by {
            CallsBy::Bpf => begin_bpf().map(Backend::Bpf),
            CallsBy::Probes => ByProbes::begin().map(Box::new).map(Backend::Probes),
            CallsBy::Auto if doctor::has_calls_by_bpf() => begin_bpf().map(Backend::Bpf),
            CallsBy::Auto => ByProbes::begin().map(Box::new).map(Backend::Probes),
        };
        let backend = backend.map_err(|error| {
            let error = CaptureError::io("calls of functions cannot be recorded", error);
            error.lacks(ability(options.by))
        })?;
        let mut backend = backend;
        if options.aggregates && matches!(backend, Backend::Probes(_)) {
            let error = CaptureError::new("calls can only be counted by BPF");
            return Err(error.lacks(Ability::Calls));
        }
        let brake = match &mut backend {
            Backend::Bpf(bpf) => Brake::new(options.budget_percent, bpf.costs(), true),
            Backend::Probes(_) => Brake::new(options.budget_percent, trial::DEFAULT_COSTS, false),
        };
        let began_ns = sys::clock_ns(libc::CLOCK_MONOTONIC);
        Ok(Calls {
            options,
            backend,
            brake,
            began_ns,
            summed_ns: began_ns,
            summed: BTreeMap::new(),
            recorded: BTreeMap::new(),
            cpu_ns: BTreeMap::new(),
            braked: Vec::new(),
            has_let_go: false,
            has_stopped: false,
            files: BTreeMap::new(),
            count: 0,
            pids: pids.to_vec(),
            tree,
            for_everyone: BTreeSet::new(),
            by_process: BTreeSet::new(),
            linked: BTreeSet::new(),
            late: BTreeSet::new(),
            watched: BTreeMap::new(),
            copies: BTreeMap::new(),
            new: SideRecords::default(),
            refused: Vec::new(),
            too_many: 0,
            unmatched: options.functions.wanted.iter().map(String::as_str).collect(),
        })
    }

    /// A process has this file in its memory, or will have: watches its functions.
    pub(crate) fn file_mapped(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        if !self.watched.entry(pid).or_default().insert(path.to_vec()) {
            return Ok(());
        }
        self.watch(pid, path)?;
        for copy in self.copies.get(&pid).cloned().unwrap_or_default() {
            self.file_mapped(copy, path)?;
        }
        Ok(())
    }

    fn watch(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        let functions = match self.files.get(path) {
            Some(known) => Rc::clone(known),
            None => self.read_probes(path),
        };
        let numbered: Vec<Numbered<'_>> = functions.iter().filter_map(numbered).collect();
        if numbered.is_empty() || self.for_everyone.contains(path) || self.has_let_go {
            return Ok(());
        }
        let whose = self.whose(pid, path);
        match whose {
            Whose::Everyone => self.for_everyone.insert(path.to_vec()),
            Whose::Process(_) => self.by_process.insert(path.to_vec()),
        };
        if !self.linked.insert((pid, path.to_vec())) {
            return Ok(());
        }
        let attached = match &mut self.backend {
            Backend::Bpf(bpf) => bpf.attach(whose, path, &numbered),
            Backend::Probes(probes) => probes.attach(pid, path, &numbered),
        };
        let refused = attached.map_err(|error| {
            let is_refusal = is_refusal(&error);
            let path = processes::path_of(path).display();
            let error = CaptureError::io(format!("{path}: its calls cannot be recorded"), error);
            if is_refusal { error.lacks(ability(self.options.by)) } else { error }
        })?;
        for (_, function) in functions.iter().filter(|(number, _)| refused.contains(number)) {
            let why = "the kernel does not take it".to_owned();
            self.refused.push(RefusedFunction { name: function.name.clone(), why });
        }
        Ok(())
    }

    /// A file that nobody else uses is watched in all processes, of which programs choose: so no
    /// call of a process is missed that lives for a short time. Others would be slowed down by
    /// that.
    fn whose(&self, pid: i32, path: &[u8]) -> Whose {
        let recorded: Vec<i32> = self.watched.keys().chain(&self.pids).copied().collect();
        // Once decided, always: a call must not be noted twice.
        let may_be_everyone = self.tree.is_some() && !self.by_process.contains(path);
        match may_be_everyone && !processes::is_mapped_by_others(path, &recorded) {
            true => Whose::Everyone,
            false => Whose::Process(pid),
        }
    }

    fn read_probes(&mut self, path: &[u8]) -> Rc<[(u32, FunctionProbes)]> {
        let file = processes::path_of(path);
        let functions = probes_matching(file, self.options.functions);
        if !functions.is_empty() {
            self.options.functions.remove_matched(file, &mut self.unmatched);
        }
        let most = match self.backend {
            Backend::Bpf(_) => FUNCTIONS_MAX,
            Backend::Probes(_) => by_probes::FUNCTIONS_MAX.saturating_sub(self.count as usize),
        };
        let mut watched = Vec::new();
        for function in functions {
            if let Some(why) = self.refusal(&function) {
                self.refused.push(RefusedFunction { name: function.name, why });
            } else if watched.len() == most {
                self.too_many += 1;
            } else {
                let called = CalledFunction {
                    number: self.count,
                    is_go: function.is_go,
                    name: function.name.clone(),
                    file: file.to_string_lossy().into_owned(),
                };
                self.new.facts.extend(CallRecord::Function(called).to_bytes());
                if self.options.aggregates {
                    self.begin_counted(self.count);
                }
                watched.push((self.count, function));
                self.count += 1;
            }
        }
        let watched: Rc<[(u32, FunctionProbes)]> = watched.into();
        self.files.insert(path.to_vec(), Rc::clone(&watched));
        watched
    }

    /// Why a function cannot be watched without harm, if so.
    fn refusal(&self, function: &FunctionProbes) -> Option<String> {
        let places = match &function.places {
            Ok(places) => places,
            Err(why) => return Some(why.clone()),
        };
        let Backend::Probes(probes) = &self.backend else { return None };
        probes.refusal(&Numbered { number: 0, is_go: function.is_go, places })
    }

    /// A process that was copied from another has its files, and needs probes of its own.
    pub(crate) fn note(&mut self, record: Record<'_>) -> Result<(), CaptureError> {
        // Probes are of a process, whatever program it runs, and end with it.
        if let Some(ended) = record.ended() {
            self.linked.retain(|(pid, _)| *pid != ended || processes::is_running(ended));
            self.watched.remove(&ended);
            self.copies.remove(&ended);
            self.copies.values_mut().for_each(|copies| copies.retain(|&copy| copy != ended));
        }
        let Some((parent, pid)) = record.copied() else { return Ok(()) };
        if let Backend::Probes(_) = self.backend {
            // Events are inherited.
            let files = self.watched.get(&parent).cloned().unwrap_or_default();
            self.watched.entry(pid).or_default().extend(files);
            return Ok(());
        }
        self.copies.entry(parent).or_default().push(pid);
        for path in self.watched.get(&parent).cloned().unwrap_or_default() {
            let has_functions = self.files.get(&path).is_some_and(|known| !known.is_empty());
            if has_functions && !self.for_everyone.contains(&path) {
                self.late.insert(pid);
            }
            self.file_mapped(pid, &path)?;
        }
        Ok(())
    }

    /// Calls of a function are counted from the first on.
    fn begin_counted(&mut self, number: u32) {
        if let Backend::Bpf(bpf) = &mut self.backend
            && bpf.set_levels(&[(number, CallLevel::Counted)]).is_ok()
        {
            self.brake.begin_at(number, CallLevel::Counted);
        }
    }

    /// What was noted since the last time, and how much of it there is.
    pub(crate) fn take(&mut self) -> (SideRecords, CallCounts) {
        let (hits, lost) = match &mut self.backend {
            Backend::Bpf(bpf) => bpf.drain(),
            Backend::Probes(probes) => probes.drain(),
        };
        let hits = CallHits::new(&hits);
        self.keep_budget(hits);
        let mut records = std::mem::take(&mut self.new);
        let counts = CallCounts { hits: hits.count() as u64, lost };
        let latest = hits.iter().map(|hit| hit.time).max();
        if let Some(latest) = latest {
            records.timed.push((latest, CallRecord::Hits(hits).to_bytes()));
        }
        if lost > 0 {
            let time = latest.unwrap_or(u64::MAX);
            records.timed.push((time, CallRecord::Lost(lost).to_bytes()));
        }
        (records, counts)
    }

    /// No more is noted from now on.
    pub(crate) fn stop(&mut self) {
        self.has_stopped = true;
        match &mut self.backend {
            Backend::Bpf(bpf) => bpf.stop(),
            Backend::Probes(probes) => probes.stop(),
        }
    }

    pub(crate) fn functions(&self) -> FunctionCounts {
        FunctionCounts {
            watched: u64::from(self.count),
            refused: self.refused.clone(),
            too_many: self.too_many,
            unmatched: self.unmatched.iter().map(|&pattern| pattern.to_owned()).collect(),
            files: self.files.keys().map(|path| processes::path_of(path).to_owned()).collect(),
            late_processes: self.late_processes(),
            braked: self.braked.clone(),
            counted: self.summed.values().map(|counts| counts[0]).sum(),
            by: match &self.backend {
                Backend::Probes(_) => NotedBy::Probes,
                Backend::Bpf(bpf) if bpf.performs_returns() => NotedBy::Bpf(ReturnsBy::Program),
                Backend::Bpf(_) => NotedBy::Bpf(ReturnsBy::Stepping),
            },
        }
    }

    /// Functions that are not watched, and why.
    pub(crate) fn refused(&self) -> &[RefusedFunction] {
        &self.refused
    }

    /// Functions that are recorded less closely than they were.
    pub(crate) fn braked(&self) -> &[BrakedFunction] {
        &self.braked
    }

    pub(crate) fn late_processes(&self) -> u64 {
        self.late.len() as u64
    }
}

/// A function that is not watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedFunction {
    pub name: String,
    pub why: String,
}

/// What notes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotedBy {
    Bpf(ReturnsBy),
    Probes,
}

/// What executes the `ret` that a probe is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnsBy {
    /// The program that notes it, at little cost.
    Program,
    /// The kernel, as a single step.
    Stepping,
}

/// What became of the functions that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionCounts {
    pub(crate) watched: u64,
    pub(crate) refused: Vec<RefusedFunction>,
    pub(crate) too_many: u64,
    pub(crate) unmatched: Vec<String>,
    pub(crate) files: Vec<PathBuf>,
    /// Processes that were forked, and watched a little later.
    pub(crate) late_processes: u64,
    pub(crate) braked: Vec<BrakedFunction>,
    /// Calls that were counted instead of being recorded.
    pub(crate) counted: u64,
    pub(crate) by: NotedBy,
}

/// A function that is recorded less closely than it was, since its calls cost too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrakedFunction {
    pub(crate) function: u32,
    pub name: String,
    pub level: CallLevel,
    /// Since when, from the beginning of the recording.
    pub after_ns: u64,
    /// How often it was called until then.
    pub calls: u64,
}

impl std::fmt::Display for BrakedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            CallLevel::Recorded => "recorded",
            CallLevel::Counted => "counted",
            CallLevel::CountedWithoutEnds => "counted without ends",
            CallLevel::Detached => "detached",
        };
        let BrakedFunction { name, calls, after_ns, .. } = self;
        write!(f, "{name}: {level} at {after_ns} ns, after {calls} calls")
    }
}

fn begin_bpf(tree: Option<&ProcessTree>) -> io::Result<ByBpf> {
    ByBpf::begin(match tree {
        Some(tree) => tree.threads()?,
        None => bpf::table(1, 1)?,
    })
}

fn numbered(function: &(u32, FunctionProbes)) -> Option<Numbered<'_>> {
    let (number, function) = function;
    let places = function.places.as_ref().ok()?;
    Some(Numbered { number: *number, is_go: function.is_go, places })
}

fn ability(by: CallsBy) -> Ability {
    match by {
        CallsBy::Probes => Ability::CallsByProbes,
        CallsBy::Auto | CallsBy::Bpf => Ability::Calls,
    }
}

/// Beginnings and ends of calls that were noted, and those that there was no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CallCounts {
    pub(crate) hits: u64,
    pub(crate) lost: u64,
}

/// Tries all of it on a function of this very program, and lets nothing be called.
pub(crate) fn try_on_ourselves(
    by: CallsBy,
    path: &[u8],
    places: &ProbePlaces,
) -> io::Result<ReturnsBy> {
    let own = std::process::id() as i32;
    let functions = [Numbered { number: 0, is_go: false, places }];
    match by {
        CallsBy::Probes => match ByProbes::begin()?.attach(own, path, &functions)?[..] {
            [] => Ok(ReturnsBy::Stepping),
            _ => Err(io::Error::other("no probe can be set there")),
        },
        CallsBy::Auto | CallsBy::Bpf => {
            let mut bpf = begin_bpf(None)?;
            bpf.try_attach(Whose::Process(own), path, &functions)?;
            let performs = bpf.performs_returns();
            Ok(if performs { ReturnsBy::Program } else { ReturnsBy::Stepping })
        }
    }
}
