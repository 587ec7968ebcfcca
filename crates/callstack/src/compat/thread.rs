//! A thread as magic-trace sees it: its stack, what waits for a time, what waits for the
//! end.

use std::collections::VecDeque;

use spanwise_model::Nanos;

use super::{Line, Outside, Symbol, SymbolLocation};
use crate::{Branch, Location, Names};

/// A stack, and since when it is known.
#[derive(Debug, Clone)]
pub(super) struct CallStack {
    pub(super) frames: Vec<SymbolLocation>,
    pub(super) create_time: Nanos,
}

#[derive(Debug, Clone)]
enum Waiting {
    Begin(Symbol),
    End(Symbol),
    /// A return from a frame that was never seen, there since this time.
    EndUnknown(Nanos),
}

/// What is written at the end of the thread.
#[derive(Debug, Clone)]
struct DeferredSpan {
    time: Nanos,
    until: Option<Nanos>,
    name: String,
    is_inferred: bool,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) stack: CallStack,
    /// Stacks that were interrupted.
    pub(super) inactive: Vec<CallStack>,
    pub(super) last_decode_error_time: Nanos,
    pub(super) last_event_time: Nanos,
    pub(super) transaction: Vec<(Nanos, Branch)>,
    /// Where the latest branch led to.
    pub(super) last_ip: Option<u64>,
    /// Frames that OCaml's runtime walked over to raise an exception.
    pub(super) walked_frames: usize,
    pending: Vec<Waiting>,
    pending_time: Nanos,
    deferred: VecDeque<DeferredSpan>,
}

impl Thread {
    pub(super) fn new(time: Nanos) -> Self {
        Thread {
            stack: CallStack { frames: Vec::new(), create_time: time },
            inactive: Vec::new(),
            last_decode_error_time: time,
            last_event_time: time,
            transaction: Vec::new(),
            last_ip: None,
            walked_frames: 0,
            pending: Vec::new(),
            pending_time: 0,
            deferred: VecDeque::new(),
        }
    }

    pub(super) fn call(
        &mut self,
        location: SymbolLocation,
        time: Nanos,
        outside: &mut Outside<'_>,
    ) {
        self.queue(Waiting::Begin(location.symbol), time, outside);
        self.stack.frames.push(location);
    }

    pub(super) fn ret(&mut self, time: Nanos, outside: &mut Outside<'_>) {
        let waiting = match self.stack.frames.pop() {
            Some(location) => Waiting::End(location.symbol),
            None => Waiting::EndUnknown(self.stack.create_time),
        };
        self.queue(waiting, time, outside);
    }

    /// Returns; and where that was Go's scheduler, leaves the scheduler's stack too.
    fn ret_through_go(&mut self, time: Nanos, outside: &mut Outside<'_>) {
        let named = |frame: &SymbolLocation, names: &Names, wanted: &[&str]| match frame.symbol {
            Symbol::Named(name) => wanted.contains(&names.text(name)),
            Symbol::Unknown(..) => false,
        };
        let names = outside.names;
        let was_switch = self.stack.frames.last().is_some_and(|top| named(top, names, &["gogo"]));
        self.ret(time, outside);
        if !was_switch {
            return;
        }
        let scheduler = ["runtime.mcall", "runtime.morestack.abi0"];
        let place = self.stack.frames.iter().rposition(|frame| named(frame, names, &scheduler));
        match place {
            Some(place) => {
                for _ in 0..self.stack.frames.len() - place + 1 {
                    self.ret(time, outside);
                }
            }
            None => self.end(time, false, outside),
        }
    }

    /// Makes `location` the innermost frame.
    pub(super) fn check(
        &mut self,
        location: SymbolLocation,
        time: Nanos,
        outside: &mut Outside<'_>,
    ) {
        match self.stack.frames.last() {
            Some(top) if top.symbol == location.symbol => {}
            Some(_) => {
                self.ret_through_go(time, outside);
                self.call(location, time, outside);
            }
            None => {
                self.write_begin(location.symbol, self.stack.create_time, true, outside);
                self.stack.frames.push(location);
            }
        }
    }

    pub(super) fn clear(&mut self, time: Nanos, outside: &mut Outside<'_>) {
        while !self.stack.frames.is_empty() {
            self.ret(time, outside);
        }
    }

    pub(super) fn new_stack(&mut self, ip: u64, time: Nanos) {
        let is_kernel = ip >> 63 == 1;
        let create_time = if is_kernel { time } else { self.last_decode_error_time };
        self.stack = CallStack { frames: Vec::new(), create_time };
    }

    /// Writes what was kept back, leaves all frames, and begins anew.
    pub(super) fn end(&mut self, time: Nanos, is_kernel: bool, outside: &mut Outside<'_>) {
        for deferred in std::mem::take(&mut self.deferred) {
            let DeferredSpan { time, until, name, is_inferred } = deferred;
            write_line(outside, Some(time), true, name.clone(), is_inferred);
            if let Some(until) = until {
                write_line(outside, Some(until), false, name, false);
            }
        }
        self.clear(time, outside);
        while let Some(stack) = self.inactive.pop() {
            self.stack = stack;
            self.clear(time, outside);
        }
        self.flush(self.pending_time, outside);
        self.last_decode_error_time = time;
        self.new_stack(u64::from(is_kernel) << 63, time);
    }

    /// A new recording begins.
    pub(super) fn set_back(&mut self, time: Nanos) {
        self.pending_time = time;
        self.last_event_time = time;
        self.stack.create_time = time;
    }

    pub(super) fn error(&mut self, message: &str, ip: u64, time: Nanos, outside: &mut Outside<'_>) {
        self.transaction.clear();
        let name = format!("[decode error: {message}]");
        write_line(outside, Some(time), true, name.clone(), false);
        write_line(outside, None, false, name, false);
        self.end(time, ip >> 63 == 1, outside);
    }

    pub(super) fn sample(&mut self, frames: &[Location], time: Nanos, outside: &mut Outside<'_>) {
        let pairs = self.stack.frames.iter().zip(frames);
        let same = pairs.take_while(|(open, frame)| open.ip == frame.ip).count();
        while self.stack.frames.len() > same {
            self.ret_through_go(time, outside);
        }
        // Go's rules may have left more.
        for frame in &frames[self.stack.frames.len().min(same)..] {
            self.call(SymbolLocation::of(frame, outside.names), time, outside);
        }
    }

    fn queue(&mut self, waiting: Waiting, time: Nanos, outside: &mut Outside<'_>) {
        if time != self.pending_time {
            self.flush(time, outside);
        }
        self.pending.push(waiting);
    }

    /// Spreads what waits over the time until the next event: calls share it, returns
    /// take none.
    fn flush(&mut self, until: Nanos, outside: &mut Outside<'_>) {
        let is_begin = |waiting: &&Waiting| matches!(waiting, Waiting::Begin(_));
        let mut begins = self.pending.iter().filter(is_begin).count() as Nanos;
        let total = until.saturating_sub(self.pending_time);
        let mut used = 0;
        for waiting in std::mem::take(&mut self.pending) {
            let stamp = self.pending_time.saturating_add(used);
            match waiting {
                Waiting::Begin(symbol) => {
                    self.write_begin(symbol, stamp, false, outside);
                    used += (total - used) / begins;
                    begins -= 1;
                }
                Waiting::End(symbol) => {
                    let name = symbol.text(outside.names);
                    write_line(outside, Some(stamp), false, name, false);
                }
                Waiting::EndUnknown(since) => self.deferred.push_front(DeferredSpan {
                    time: since,
                    until: Some(stamp),
                    name: "[unknown]".to_owned(),
                    is_inferred: false,
                }),
            }
        }
        self.pending_time = until;
    }

    fn write_begin(
        &mut self,
        symbol: Symbol,
        time: Nanos,
        is_inferred: bool,
        outside: &mut Outside<'_>,
    ) {
        let name = symbol.text(outside.names);
        let deferred = DeferredSpan { time, until: None, name, is_inferred };
        match (is_inferred, time) {
            (true, _) => self.deferred.push_front(deferred),
            (false, 0) => self.deferred.push_back(deferred),
            _ => write_line(outside, Some(time), true, deferred.name, false),
        }
    }
}

fn write_line(
    outside: &mut Outside<'_>,
    time: Option<Nanos>,
    is_begin: bool,
    name: String,
    is_inferred: bool,
) {
    outside.lines.push(Line { time, is_begin, name, is_inferred });
}
