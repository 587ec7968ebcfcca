//! Findings about recorded programs: what their CPU time went into, what threads waited for,
//! and whether there were processors enough.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{
    BlockedOn, NO_CPU, RunnableSince, StackId, ThreadState, Trace, Track, TrackId,
};

use super::{Finding, FindingKind, SpentOn, Thresholds, reaches};
use crate::cpu::off_cpu::locks::user_stack;
use crate::cpu::off_cpu::threads::thread_name;
use crate::cpu::sampled::{ObservedSpending, PythonWait, in_event_loop, python_waits};
use crate::{Facts, FunctionBy, SampledFunctions, TotalNanos, cpu_functions, python_functions};

/// CPU time that went into one kind of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSpent {
    pub on: SpentOn,
    pub spent_ns: TotalNanos,
    /// CPU time of all threads.
    pub cpu_ns: TotalNanos,
    pub samples: u64,
    pub all_samples: u64,
    /// The Python function with most of it, or of imports the module, how much, and the line that
    /// most of that was on; 0 where that is not known.
    pub function: Option<String>,
    pub function_ns: TotalNanos,
    pub line: u32,
}

/// One function with much of the CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFunction {
    pub function: String,
    pub is_python: bool,
    /// The line with most of its time; 0 where that is not known.
    pub line: u32,
    /// Of native code, the file of that line.
    pub file: String,
    pub own_ns: TotalNanos,
    /// Of that, in native code that a Python function called.
    pub native_ns: Option<TotalNanos>,
    pub cpu_ns: TotalNanos,
    pub samples: u64,
    pub all_samples: u64,
}

/// Waits of threads for one reason on one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuWaits {
    pub on: BlockedOn,
    pub total_ns: TotalNanos,
    pub count: u64,
    pub longest_from: TotalNanos,
    pub longest_ns: TotalNanos,
    pub window_ns: TotalNanos,
    /// Threads that waited, and the one that did so longest.
    pub threads: u64,
    pub thread: String,
    pub thread_ns: TotalNanos,
    /// Where, outermost call first; empty where that was not recorded.
    pub stack: Vec<String>,
    /// Who ended most of it, and where that thread stood then.
    pub waker: Option<String>,
    pub waker_stack: Vec<String>,
    /// For the result or the end of something that others do.
    pub is_for_others: bool,
    /// An event loop runs what waits: it serves nobody meanwhile.
    pub blocks_event_loop: bool,
}

/// Threads that could run and had no processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuStarvation {
    pub waiting_ns: TotalNanos,
    pub running_ns: TotalNanos,
    /// Of the waiting, after another thread took the processor.
    pub preempted_ns: TotalNanos,
    pub threads: u64,
    /// These threads did not use the processors up themselves.
    pub is_by_others: bool,
}

pub(super) fn observed(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    if !facts.cpu_time().is_recorded() {
        return Vec::new();
    }
    let mut found = cpu_spent(facts, thresholds);
    let explained: TotalNanos = found.iter().map(|finding| finding.about_ns).max().unwrap_or(0);
    // Where most of a function is work of a known kind, that says more.
    let function = cpu_function(facts, thresholds);
    found.extend(function.filter(|function| explained * 2 < function.about_ns));
    found.extend(off_cpu_waits(facts, thresholds));
    found.extend(cpu_starvation(facts, thresholds));
    found
}

fn cpu_spent(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let spending = ObservedSpending::new(facts);
    let cpu_ns = facts.cpu_time().total_ns();
    let rows = SpentOn::ALL.into_iter().filter_map(|on| {
        let spent = spending.total(on);
        let is_much = reaches(spent.cpu_ns, cpu_ns, super::overheads::limit(thresholds, on));
        if !is_much || spent.samples < SAMPLES_MIN {
            return None;
        }
        let function = spending.function(on);
        let kind = FindingKind::CpuSpent(CpuSpent {
            on,
            spent_ns: spent.cpu_ns,
            cpu_ns,
            samples: spent.samples,
            all_samples: facts.cpu_time().samples,
            function: function.map(|of| of.function.to_owned()),
            function_ns: function.map_or(0, |of| of.cpu_ns),
            line: function.map_or(0, |of| of.line),
        });
        Some(Finding { kind, about_ns: spent.cpu_ns, gain_ns: Some(spent.cpu_ns) })
    });
    rows.collect()
}

/// Fewer samples than this are no evidence.
const SAMPLES_MIN: u64 = 5;

/// The function with most CPU time: of Python where the program runs that.
fn cpu_function(facts: &Facts, thresholds: &Thresholds) -> Option<Finding> {
    let python = python_functions(facts, FunctionBy::Function);
    let native = cpu_functions(facts, FunctionBy::Function);
    let is_python = !python.functions.rows.is_empty();
    let functions: &SampledFunctions = if is_python { &python.functions } else { &native };
    let row = functions.rows.first()?;
    let is_much = reaches(row.own, functions.total, thresholds.cpu_function_percent);
    // Profiles have sums of samples, of which nobody knows how many they are.
    let are_few = functions.samples > 0 && row.samples < SAMPLES_MIN;
    if !is_much || are_few {
        return None;
    }
    let kind = FindingKind::CpuFunction(CpuFunction {
        function: row.name.clone(),
        is_python,
        line: match &row.hottest {
            _ if is_python => hottest_line(facts, &row.name),
            hottest => hottest.as_ref().map_or(0, |line| line.line),
        },
        file: row
            .hottest
            .as_ref()
            .filter(|_| !is_python)
            .map(|line| line.file.clone())
            .unwrap_or_default(),
        own_ns: row.own,
        native_ns: python.native.first().copied().filter(|_| is_python),
        cpu_ns: functions.total,
        samples: row.samples,
        all_samples: functions.samples,
    });
    Some(Finding { kind, about_ns: row.own, gain_ns: Some(row.own) })
}

/// The line of a Python function with most of its own time; 0 where that is not known.
fn hottest_line(facts: &Facts, function: &str) -> u32 {
    let lines = python_functions(facts, FunctionBy::Line).functions.rows;
    lines.into_iter().find(|row| row.name == function).map_or(0, |row| row.line)
}

/// Sums of waits.
#[derive(Default)]
struct WaitSum {
    total_ns: TotalNanos,
    count: u64,
    longest: (i64, i64),
    by_thread: BTreeMap<TrackId, TotalNanos>,
    by_waker: BTreeMap<(TrackId, StackId), TotalNanos>,
    meaning: PythonWait,
    blocks_event_loop: bool,
}

/// Waits that keep a thread from working for a good part of the recording. Who waits for
/// something to do is not kept from anything.
fn off_cpu_waits(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let trace = facts.trace();
    let mut sums: BTreeMap<(BlockedOn, Vec<String>), WaitSum> = BTreeMap::new();
    let mut by_stack: BTreeMap<(BlockedOn, StackId), WaitSum> = BTreeMap::new();
    let (meanings, in_loop) = (python_waits(trace), in_event_loop(trace));
    let is_service: Vec<bool> =
        trace.tracks().iter().map(|(_, track)| is_service_thread(trace, track)).collect();
    for state in trace.thread_states().iter_counted() {
        let ThreadState::Blocked(on) = state.state else { continue };
        let meaning = meanings[state.stack.index()];
        // An event loop waits in functions of its own; what waits in others stops it, also where
        // the kernel calls that polling, as for `time.sleep` of older versions.
        let blocks_loop = in_loop[state.stack.index()] && meaning != PythonWait::Idle;
        let is_idle = on.is_idle() && !blocks_loop
            || meaning == PythonWait::Idle
            || on.is_of_threads() && is_service[state.track.index()];
        if is_idle || on == BlockedOn::Unknown {
            continue;
        }
        let sum = by_stack.entry((on, state.stack)).or_default();
        sum.meaning = meaning;
        sum.blocks_event_loop = blocks_loop;
        sum.add(&state);
    }
    for ((on, stack), sum) in by_stack {
        sums.entry((on, user_stack(trace, stack))).or_default().absorb(sum);
    }
    let rows = sums.into_iter().filter_map(|((on, stack), sum)| {
        let (&track, &thread_ns) = largest(&sum.by_thread)?;
        if !reaches(thread_ns, facts.window_ns(), thresholds.waiting_percent) {
            return None;
        }
        let waker = largest(&sum.by_waker).map(|(&key, _)| key);
        let name = |track| thread_name(trace, trace.tracks().get(track));
        let kind = FindingKind::OffCpu(OffCpuWaits {
            on,
            total_ns: sum.total_ns,
            count: sum.count,
            longest_from: facts.since_start(sum.longest.1),
            longest_ns: sum.longest.0.into(),
            window_ns: facts.window_ns(),
            threads: sum.by_thread.len() as u64,
            thread: name(track),
            thread_ns,
            stack,
            waker: waker.map(|(track, _)| name(track)),
            waker_stack: waker.map(|(_, stack)| user_stack(trace, stack)).unwrap_or_default(),
            is_for_others: sum.meaning == PythonWait::ForOthers && !sum.blocks_event_loop,
            blocks_event_loop: sum.blocks_event_loop,
        });
        // Threads that all want to work lose together what each of them waits for the others.
        let about_ns = if is_contended(on) { sum.total_ns } else { thread_ns };
        Some(Finding { kind, about_ns, gain_ns: Some(thread_ns) })
    });
    rows.collect()
}

/// What one thread has while others want it.
fn is_contended(on: BlockedOn) -> bool {
    use BlockedOn::{FileLock, Gil, KernelLock, Mutex, ReadWriteLock};
    matches!(on, Mutex | ReadWriteLock | Gil | FileLock | KernelLock)
}

/// Threads of Java that wait for garbage, and do so in interpreted code, which has no names. The
/// kernel keeps 15 letters of a name.
const SERVICE_THREADS: [&str; 4] =
    ["Finalizer", "Reference Handl", "Common-Cleaner", "Signal Dispatch"];

fn is_service_thread(trace: &Trace, track: &Track) -> bool {
    SERVICE_THREADS.contains(&trace.strings().get(track.thread_name))
}

fn largest<K: Ord>(sums: &BTreeMap<K, TotalNanos>) -> Option<(&K, &TotalNanos)> {
    sums.iter().rev().max_by_key(|(_, ns)| **ns)
}

impl WaitSum {
    fn add(&mut self, state: &spanwise_model::StateRow) {
        let ns = i128::from(state.dur);
        self.total_ns += ns;
        self.count += 1;
        if state.dur > self.longest.0 {
            self.longest = (state.dur, state.start);
        }
        *self.by_thread.entry(state.track).or_default() += ns;
        if let Some(waker) = state.waker {
            *self.by_waker.entry((waker, state.waker_stack)).or_default() += ns;
        }
    }

    fn absorb(&mut self, other: WaitSum) {
        self.total_ns += other.total_ns;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
        self.meaning = self.meaning.max(other.meaning);
        self.blocks_event_loop |= other.blocks_event_loop;
        for (track, ns) in other.by_thread {
            *self.by_thread.entry(track).or_default() += ns;
        }
        for (waker, ns) in other.by_waker {
            *self.by_waker.entry(waker).or_default() += ns;
        }
    }
}

fn cpu_starvation(facts: &Facts, thresholds: &Thresholds) -> Option<Finding> {
    let (mut waiting_ns, mut preempted_ns, mut running_ns) = (0, 0, 0);
    let mut threads: BTreeSet<TrackId> = BTreeSet::new();
    for state in facts.trace().thread_states().iter_counted() {
        let ns = i128::from(state.dur);
        match state.state {
            ThreadState::Running => running_ns += ns,
            ThreadState::Runnable(since) => {
                waiting_ns += ns;
                preempted_ns += if since == RunnableSince::Preempted { ns } else { 0 };
                threads.insert(state.track);
            }
            ThreadState::Blocked(_) | ThreadState::Unrecorded => {}
        }
    }
    let able_ns = waiting_ns + running_ns;
    if !reaches(waiting_ns, able_ns, thresholds.cpu_starvation_percent) {
        return None;
    }
    let kind = FindingKind::CpuStarvation(CpuStarvation {
        waiting_ns,
        running_ns,
        preempted_ns,
        threads: threads.len() as u64,
        is_by_others: running_ns * 100 < facts.window_ns() * processors(facts) * OWN_USE_PERCENT,
    });
    Some(Finding { kind, about_ns: waiting_ns, gain_ns: Some(waiting_ns) })
}

/// Threads that run for less than this part of the time of all processors did not crowd them.
const OWN_USE_PERCENT: i128 = 80;

/// Processors that samples were taken on.
fn processors(facts: &Facts) -> i128 {
    let cpus = &facts.trace().samples().cpu;
    let seen: BTreeSet<u16> = cpus.iter().copied().filter(|&cpu| cpu != NO_CPU).collect();
    (seen.len() as i128).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    const MS: i64 = 1_000_000;

    fn kinds(sample: &mut Sample) -> Vec<FindingKind> {
        let trace = sample.finish();
        let found = super::super::findings(&Facts::new(&trace), &Thresholds::default());
        found.into_iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn the_function_with_most_of_the_time_is_named() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        for time in 0..100 {
            let function = if time % 4 == 0 { "other" } else { "hot" };
            sample.taken("1", "1", clock, MS, time * MS, &["main", function]);
        }
        let [FindingKind::CpuFunction(function)] = &kinds(&mut sample)[..] else {
            panic!("one finding")
        };
        assert_eq!((&*function.function, function.own_ns / 1_000_000), ("hot", 75));
        assert_eq!((function.samples, function.all_samples), (75, 100));
    }

    #[test]
    fn calls_for_memory_explain_more_than_the_function_that_makes_them() {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        for time in 0..100 {
            sample.taken("1", "1", clock, MS, time * MS, &["main", "malloc", "_int_malloc"]);
        }
        let [FindingKind::CpuSpent(spent)] = &kinds(&mut sample)[..] else { panic!("one finding") };
        assert_eq!((spent.on, spent.samples), (SpentOn::Allocation, 100));
    }

    #[test]
    fn waits_for_locks_are_findings_and_idle_workers_are_none() {
        let mut sample = Sample::default();
        sample.state("1", ThreadState::Running, 0, 50 * MS);
        sample.wait("1", BlockedOn::Mutex, 50 * MS, 50 * MS, &["main", "lock"]);
        sample.wait("2", BlockedOn::Poll, 0, 100 * MS, &["serve", "epoll_wait"]);
        let [FindingKind::OffCpu(waits)] = &kinds(&mut sample)[..] else { panic!("one finding") };
        assert_eq!((waits.on, waits.total_ns / 1_000_000), (BlockedOn::Mutex, 50));
        assert_eq!(waits.stack, ["main", "lock"]);
    }

    #[test]
    fn threads_that_wait_for_processors_are_a_finding() {
        let mut sample = Sample::default();
        sample.state("1", ThreadState::Running, 0, 10 * MS);
        sample.state("1", ThreadState::Runnable(RunnableSince::Preempted), 10 * MS, 10 * MS);
        let [FindingKind::CpuStarvation(starved)] = &kinds(&mut sample)[..] else {
            panic!("one finding")
        };
        assert_eq!(starved.waiting_ns, starved.preempted_ns);
    }
}
