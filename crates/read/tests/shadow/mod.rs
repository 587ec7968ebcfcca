//! The calls that a program made, derived from its steps and where its stack ended at each: a
//! frame is gone when the stack ends above the address that it would have returned to.

pub(crate) mod symbols;

use spanwise_pt::Kind;

use crate::stepping::record::instruction_at;
use crate::stepping::{Code, Step};
use symbols::{Function, Symbols};

/// A call and its caller.
struct Node {
    function: Function,
    caller: Option<usize>,
}

struct Frame {
    node: usize,
    /// Where its return address lies; not known of those that were there before.
    slot: Option<u64>,
    /// Called by the kernel.
    is_handler: bool,
}

/// How deep, and what the function may be called.
pub(crate) type Line = (usize, Vec<String>);

pub(crate) struct Shadow<'a> {
    code: &'a [Code],
    symbols: &'a Symbols,
    nodes: Vec<Node>,
    frames: Vec<Frame>,
}

/// The calls of a thread, callers before what they called.
pub(crate) fn calls(steps: &[Step], code: &[Code], symbols: &Symbols) -> Vec<Line> {
    let mut shadow = Shadow { code, symbols, nodes: Vec::new(), frames: Vec::new() };
    let first = steps[0];
    let slot = symbols.is_entry(first.ip).then_some(first.sp);
    shadow.push(first.ip, slot);
    for pair in steps.windows(2) {
        shadow.step(pair[0], pair[1]);
    }
    shadow.lines()
}

impl Shadow<'_> {
    fn step(&mut self, at: Step, next: Step) {
        if at.is_diverted {
            return self.handle(next);
        }
        let insn = instruction_at(self.code, at.ip);
        let after = at.ip + u64::from(insn.len);
        match insn.kind {
            Kind::Plain => {}
            Kind::Call if next.ip == after => {}
            Kind::Call | Kind::IndirectCall => self.push(next.ip, Some(next.sp)),
            Kind::Return => self.returned(next),
            Kind::Jump | Kind::IndirectJump | Kind::Conditional => {
                if self.symbols.find(next.ip) != self.symbols.find(at.ip) {
                    self.jumped(next);
                }
            }
            _ if next.ip == after => {}
            // Back from a signal handler.
            _ => drop(self.pop_below(next.sp)),
        }
    }

    fn push(&mut self, ip: u64, slot: Option<u64>) {
        let caller = self.frames.last().map(|frame| frame.node);
        self.nodes.push(Node { function: self.symbols.find(ip), caller });
        self.frames.push(Frame { node: self.nodes.len() - 1, slot, is_handler: false });
    }

    /// The kernel calls a function, or makes a handler return to one.
    fn handle(&mut self, next: Step) {
        self.push(next.ip, Some(next.sp));
        if let Some(frame) = self.frames.last_mut() {
            frame.is_handler = true;
        }
    }

    fn pop_below(&mut self, sp: u64) -> usize {
        let before = self.frames.len();
        while self.frames.last().is_some_and(|frame| frame.slot.is_some_and(|slot| slot < sp)) {
            self.frames.pop();
        }
        before - self.frames.len()
    }

    fn is_in(&self, ip: u64) -> bool {
        let top = self.frames.last().map(|frame| self.nodes[frame.node].function);
        top == Some(self.symbols.find(ip))
    }

    fn returned(&mut self, next: Step) {
        let is_handler = self.frames.last().is_some_and(|frame| frame.is_handler);
        let popped = self.pop_below(next.sp);
        match self.frames.last() {
            None => self.discover(next.ip),
            Some(_) if popped == 1 && is_handler => self.handle(next),
            Some(_) if popped > 0 && self.is_in(next.ip) => {}
            Some(Frame { slot: None, .. }) => {
                self.frames.pop();
                self.discover(next.ip);
            }
            // A jump in disguise.
            Some(_) => self.replace(next.ip),
        }
    }

    fn jumped(&mut self, next: Step) {
        self.pop_below(next.sp);
        if self.frames.is_empty() {
            self.discover(next.ip);
        } else if !self.is_in(next.ip) {
            self.replace(next.ip);
        }
    }

    fn replace(&mut self, ip: u64) {
        let slot = self.frames.pop().and_then(|frame| frame.slot);
        self.push(ip, slot);
    }

    /// A caller that was there before everything.
    fn discover(&mut self, ip: u64) {
        let found = self.nodes.len();
        let roots = self.nodes.iter_mut().filter(|node| node.caller.is_none());
        roots.for_each(|node| node.caller = Some(found));
        self.nodes.push(Node { function: self.symbols.find(ip), caller: None });
        self.frames.push(Frame { node: found, slot: None, is_handler: false });
    }

    fn lines(&self) -> Vec<Line> {
        let mut callees = vec![Vec::new(); self.nodes.len()];
        let mut open = Vec::new();
        for (id, node) in self.nodes.iter().enumerate().rev() {
            match node.caller {
                Some(caller) => callees[caller].push(id),
                None => open.push((0, id)),
            }
        }
        let mut lines = Vec::new();
        while let Some((depth, id)) = open.pop() {
            lines.push((depth, self.symbols.names(self.nodes[id].function)));
            open.extend(callees[id].iter().map(|&callee| (depth + 1, callee)));
        }
        lines
    }
}
