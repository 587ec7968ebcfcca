//! The timeline of magic-trace, line by line.
//!
//! magic-trace writes while it reads, and so prints a call when it can be sure of its
//! time; frames that it learns of late come at the end of a thread. Those rules are kept
//! here as they are, apart from the machine that spanwise uses itself, so that the
//! recordings which magic-trace is tested with can be checked.

mod branches;
mod line;
mod thread;

use std::collections::HashMap;

use spanwise_model::{Nanos, StrId};

use crate::{Branch, BranchKind, FunctionId, Location, Names, ThreadKey, Traps};
pub use line::Line;
use thread::Thread;

/// The line between what was written on the way and what was kept to the end.
pub const STREAM_ENDED: &str =
    "INPUT TRACE STREAM ENDED, any lines printed below this were deferred";

/// Which code was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    User,
    Kernel,
    Both,
}

impl Scope {
    /// What options call each.
    pub const NAMES: [(&'static str, Scope); 3] =
        [("user", Scope::User), ("kernel", Scope::Kernel), ("both", Scope::Both)];
}

/// The machine. Lines are taken out with [`Machine::take_lines`].
#[derive(Debug, Default)]
pub struct Machine {
    pub names: Names,
    scope: Scope,
    traps: Traps,
    threads: Vec<Thread>,
    ids: HashMap<ThreadKey, usize>,
    /// The time of the first event: all lines count from it.
    base: Option<Nanos>,
    is_new_snapshot: bool,
    lines: Vec<Line>,
}

/// What a thread may read, and where its lines go.
pub(crate) struct Outside<'a> {
    pub(crate) names: &'a Names,
    pub(crate) scope: Scope,
    pub(crate) traps: &'a Traps,
    pub(crate) lines: &'a mut Vec<Line>,
}

/// How magic-trace identifies frames: by name, or by address where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    Named(StrId),
    Unknown(u64, FunctionId),
}

/// A frame: its symbol, and the instruction that showed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SymbolLocation {
    pub(crate) symbol: Symbol,
    pub(crate) ip: u64,
}

impl SymbolLocation {
    pub(crate) fn of(place: &Location, names: &Names) -> SymbolLocation {
        let symbol = match names.is_unknown(place.function) {
            true => Symbol::Unknown(place.ip, place.function),
            false => Symbol::Named(names.name(place.function)),
        };
        SymbolLocation { symbol, ip: place.ip }
    }

    /// One of the frames that stand for time outside the recording.
    pub(crate) fn built_in(function: FunctionId, names: &Names) -> SymbolLocation {
        SymbolLocation { symbol: Symbol::Named(names.name(function)), ip: 0 }
    }
}

impl Symbol {
    pub(crate) fn text(self, names: &Names) -> String {
        match self {
            Symbol::Named(name) => names.text(name).to_owned(),
            Symbol::Unknown(ip, function) => {
                let sign = if (ip as i64) < 0 { "-" } else { "" };
                let distance = (ip as i64).unsigned_abs();
                let file = match names.file_text(function) {
                    "" => "[unknown]",
                    file => file,
                };
                format!("[unknown @ {sign}0x{distance:x} ({file})]")
            }
        }
    }
}

impl Machine {
    pub fn new(scope: Scope, traps: Traps) -> Self {
        Machine { scope, traps, ..Machine::default() }
    }

    pub fn branch(&mut self, key: ThreadKey, time: Option<Nanos>, branch: &Branch) {
        self.begin_snapshot(time);
        let (id, time) = self.thread(key, time);
        let (thread, mut outside) = self.parts(id);
        if branch.kind == BranchKind::TransactionAbort {
            thread.transaction.clear();
        } else if branch.is_in_transaction {
            return thread.transaction.push((time, *branch));
        }
        for (time, branch) in std::mem::take(&mut thread.transaction) {
            thread.branch(&branch, time, &mut outside);
        }
        thread.branch(branch, time, &mut outside);
    }

    /// A stack, outermost frame first.
    pub fn sample(&mut self, key: ThreadKey, time: Option<Nanos>, frames: &[Location]) {
        self.begin_snapshot(time);
        let (id, time) = self.thread(key, time);
        let (thread, mut outside) = self.parts(id);
        thread.sample(frames, time, &mut outside);
    }

    /// Anything else that has a time: a counter's value, the processor's frequency.
    pub fn other(&mut self, key: ThreadKey, time: Option<Nanos>) {
        self.thread(key, time);
    }

    pub fn error(&mut self, key: ThreadKey, time: Option<Nanos>, message: &str, ip: u64) {
        let (id, time) = self.thread(key, time);
        let (thread, mut outside) = self.parts(id);
        thread.error(message, ip, time, &mut outside);
    }

    /// What follows was recorded anew.
    pub fn new_snapshot(&mut self) {
        self.is_new_snapshot = !self.threads.is_empty();
    }

    /// The lines that can be written by now.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Ends all threads. Take the lines before and after.
    pub fn finish(&mut self) {
        for id in 0..self.threads.len() {
            let (thread, mut outside) = self.parts(id);
            let time = thread.last_event_time;
            thread.end(time, false, &mut outside);
        }
    }

    /// Ends what was before the first event of a snapshot.
    fn begin_snapshot(&mut self, time: Option<Nanos>) {
        if !std::mem::take(&mut self.is_new_snapshot) {
            return;
        }
        self.finish();
        let Some(time) = time else { return };
        let time = time.saturating_sub(self.base.unwrap_or(time));
        self.threads.iter_mut().for_each(|thread| thread.set_back(time));
    }

    fn parts(&mut self, id: usize) -> (&mut Thread, Outside<'_>) {
        let Machine { names, scope, traps, threads, lines, .. } = self;
        (&mut threads[id], Outside { names, scope: *scope, traps, lines })
    }

    /// The thread's place, and the time of its event since the first one of all.
    fn thread(&mut self, key: ThreadKey, time: Option<Nanos>) -> (usize, Nanos) {
        if self.base.is_none() {
            self.base = time;
        }
        let time = time.map(|time| time.saturating_sub(self.base.unwrap_or_default()));
        let Some(&id) = self.ids.get(&key) else {
            let time = time.unwrap_or_default();
            self.threads.push(Thread::new(time));
            self.ids.insert(key, self.threads.len() - 1);
            return (self.threads.len() - 1, time);
        };
        let thread = &mut self.threads[id];
        let mut time = time.unwrap_or(thread.last_event_time);
        // So that no frame begins where the one that the error closed has ended.
        if time == thread.last_decode_error_time && time != 0 {
            time = time.saturating_add(1);
        }
        thread.last_event_time = time;
        (id, time)
    }
}
