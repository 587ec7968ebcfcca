//! The events of all threads, in the order they were recorded, become calls.

use std::collections::HashMap;

use spanwise_model::{Nanos, StrId};

use crate::samples::SampleReach;
use crate::stack::Stack;
use crate::{Branch, BranchKind, Names, ThreadCalls, ThreadKey, Traps, calls};

/// What the events do not say themselves.
#[derive(Debug, Clone, Default)]
pub struct FlowOptions {
    pub traps: Traps,
}

/// What was odd about the events, by how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anomalies {
    /// An event before the one that was recorded before it; taken as of the same time.
    pub time_went_back: u64,
    /// Branches of transactions that were aborted, and so never happened.
    pub aborted: u64,
}

/// The machine: one stack a thread.
#[derive(Debug, Default)]
pub struct Flow {
    pub names: Names,
    options: FlowOptions,
    threads: Vec<Thread>,
    ids: HashMap<ThreadKey, usize>,
    latest: Option<(ThreadKey, usize)>,
    anomalies: Anomalies,
}

/// What is known of a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    key: ThreadKey,
    pub(crate) stack: Stack,
    pub(crate) last_time: Nanos,
    /// The time of the latest event as it was reported.
    reported_time: Nanos,
    pub(crate) has_branches: bool,
    /// Branches of a transaction that may yet be aborted.
    transaction: Vec<(Nanos, Branch)>,
    /// Where the latest branch led to.
    pub(crate) last_ip: u64,
    /// The frames that OCaml's handlers in force belong to.
    pub(crate) handlers: Vec<u32>,
    /// Go has switched to a stack that may be another one.
    pub(crate) is_other_stack: bool,
    /// The latest stack sample: when, and for how long it speaks, where that is known.
    pub(crate) sampled: Option<(Nanos, Option<Nanos>)>,
    /// Nothing of the snapshot was seen yet.
    is_new_snapshot: bool,
    errors: Vec<(Nanos, StrId)>,
}

/// What a step of a thread may read.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) names: &'a Names,
    pub(crate) traps: &'a Traps,
    pub(crate) time: Nanos,
}

impl Flow {
    pub fn new(options: FlowOptions) -> Self {
        Flow { options, ..Flow::default() }
    }

    /// A branch of a thread; without a time it is taken as of the one before.
    pub fn branch(&mut self, key: ThreadKey, time: Option<Nanos>, branch: &Branch) {
        let (id, time) = self.thread(key, time);
        let thread = &mut self.threads[id];
        thread.has_branches_from(time);
        let context = Context { names: &self.names, traps: &self.options.traps, time };
        if branch.kind == BranchKind::TransactionAbort {
            self.anomalies.aborted += thread.transaction.len() as u64;
            thread.transaction.clear();
        } else if branch.is_in_transaction {
            return thread.transaction.push((time, *branch));
        }
        for (time, branch) in std::mem::take(&mut thread.transaction) {
            thread.step(&branch, Context { time, ..context });
        }
        thread.step(branch, context);
    }

    /// The branches of a thread were a part of its time, which is over: what is known of it from
    /// now on are samples again.
    pub fn branches_over(&mut self, key: ThreadKey, time: Nanos) {
        let (id, time) = self.thread(key, Some(time));
        let thread = &mut self.threads[id];
        thread.transaction.clear();
        thread.handlers.clear();
        thread.stack.restart(time);
        thread.has_branches = false;
    }

    /// A stack as it was found, outermost frame first.
    pub fn sample(
        &mut self,
        key: ThreadKey,
        time: Option<Nanos>,
        frames: &[crate::Location],
        reach: SampleReach,
    ) {
        if !self.ids.contains_key(&key) {
            // So that the stack can begin before the sample.
            self.thread(key, time.map(|time| reach.start(time)));
        }
        let (id, time) = self.thread(key, time);
        let context = Context { names: &self.names, traps: &self.options.traps, time };
        self.threads[id].sample(frames, reach, context);
    }

    /// The thread went off its processor, or came back.
    pub fn switch(&mut self, key: ThreadKey, time: Option<Nanos>, is_out: bool) {
        let (id, time) = self.thread(key, time);
        let thread = &mut self.threads[id];
        // Branches say themselves where tracing ends; samples do not.
        if is_out && !thread.has_branches {
            thread.close_samples(time);
        }
    }

    /// The recorder lost the thread: nothing that was known still holds.
    pub fn error(&mut self, key: ThreadKey, time: Option<Nanos>, message: StrId) {
        let (id, time) = self.thread(key, time);
        let thread = &mut self.threads[id];
        thread.transaction.clear();
        thread.handlers.clear();
        thread.sampled = None;
        thread.stack.restart(time);
        thread.errors.push((time, message));
    }

    /// Everything before is of another recording: all stacks end, each at its last time.
    pub fn new_snapshot(&mut self) {
        for thread in &mut self.threads {
            thread.transaction.clear();
            thread.handlers.clear();
            let end = thread.last_time;
            thread.sampled = None;
            thread.stack.restart(end);
            thread.is_new_snapshot = true;
        }
    }

    /// All calls, thread by thread in order of first use.
    pub fn finish(self) -> (Names, Vec<ThreadCalls>, Anomalies) {
        let Flow { names, options, threads, anomalies, .. } = self;
        let threads = threads.into_iter().map(|mut thread| {
            // A transaction that the recording ends in has not been aborted.
            for (time, branch) in std::mem::take(&mut thread.transaction) {
                let context = Context { names: &names, traps: &options.traps, time };
                thread.step(&branch, context);
            }
            let end = thread.last_time;
            let Thread { key, stack, errors, .. } = thread;
            let calls = calls::in_order(&stack.finish(end));
            ThreadCalls { thread: key, calls, errors }
        });
        let threads = threads.collect();
        (names, threads, anomalies)
    }

    /// A thread whose calls are recorded one by one, and the time of its event.
    pub(crate) fn exact_thread(&mut self, key: ThreadKey, time: Nanos) -> (&mut Thread, Nanos) {
        let (id, time) = self.thread(key, Some(time));
        let thread = &mut self.threads[id];
        thread.has_branches_from(time);
        (thread, time)
    }

    /// The thread's place, and the time of its event: never before the one before it.
    fn thread(&mut self, key: ThreadKey, time: Option<Nanos>) -> (usize, Nanos) {
        let known = self.latest.filter(|latest| latest.0 == key).map(|latest| latest.1);
        let known = known.or_else(|| self.ids.get(&key).copied());
        let id = known.unwrap_or_else(|| {
            self.threads.push(Thread::new(key, time.unwrap_or_default()));
            self.ids.insert(key, self.threads.len() - 1);
            self.threads.len() - 1
        });
        self.latest = Some((key, id));
        let thread = &mut self.threads[id];
        let time = time.unwrap_or(thread.last_time);
        // Compared with the last reported time, not the reached one: so it does not matter whether
        // events that change nothing were left out in between.
        self.anomalies.time_went_back += u64::from(time < thread.reported_time);
        thread.reported_time = time;
        thread.last_time = time.max(thread.last_time);
        if std::mem::take(&mut thread.is_new_snapshot) {
            thread.stack.restart(thread.last_time);
        }
        (id, thread.last_time)
    }
}

impl Thread {
    fn new(key: ThreadKey, time: Nanos) -> Self {
        Thread {
            key,
            stack: Stack::new(time),
            last_time: time,
            reported_time: time,
            has_branches: false,
            transaction: Vec::new(),
            last_ip: 0,
            handlers: Vec::new(),
            is_other_stack: false,
            sampled: None,
            is_new_snapshot: false,
            errors: Vec::new(),
        }
    }

    /// Stacks of samples say less than branches, and the two cannot be mixed.
    fn has_branches_from(&mut self, time: Nanos) {
        if !self.has_branches && self.sampled.take().is_some() {
            self.stack.restart(time);
        }
        self.has_branches = true;
    }
}
