//! What each sort of branch does to the stack.
//!
//! Branches rarely contradict the stack, and where they do the branch is right: it was
//! recorded, the stack is inferred. So each rule first makes the stack agree with where
//! the branch comes from, then follows it to where it leads.

use crate::flow::{Context, Thread};
use crate::ocaml::TrapChange;
use crate::stack::Node;
use crate::{Branch, BranchKind, FunctionId, Location, TraceEdge};

impl Thread {
    pub(crate) fn step(&mut self, branch: &Branch, context: Context<'_>) {
        let whole =
            |place: Location| Location { function: context.names.whole(place.function), ..place };
        let (from, to) = (whole(branch.from), whole(branch.to));
        if !context.traps.is_empty() {
            self.follow_handlers(&from, context);
            self.last_ip = to.ip;
            let may_raise = matches!(
                branch.kind,
                BranchKind::Jump | BranchKind::Return | BranchKind::Interrupt
            );
            if may_raise && context.traps.is_handler(to.ip) && self.raise(context) {
                return;
            }
        }
        match branch.edge {
            TraceEdge::Blink => {}
            TraceEdge::Start => self.resume(&to, context),
            TraceEdge::End => self.leave_trace(branch.kind, &from, &to, context),
            TraceEdge::Within => self.within(branch.kind, &from, &to, context),
        }
    }

    fn within(&mut self, kind: BranchKind, from: &Location, to: &Location, context: Context<'_>) {
        if kind == BranchKind::None {
            return;
        }
        self.settle(from, context);
        match kind {
            BranchKind::Call => self.call(to, context),
            BranchKind::Return => self.return_to(to, context),
            BranchKind::Jump | BranchKind::TransactionAbort => self.jump_to(to, context),
            BranchKind::Interrupt if from.is_kernel() == to.is_kernel() => {
                self.jump_to(to, context);
            }
            BranchKind::Interrupt | BranchKind::HardwareInterrupt | BranchKind::Syscall => {
                let unseen = match kind {
                    BranchKind::Syscall => FunctionId::SYSCALL,
                    _ => FunctionId::UNTRACED,
                };
                let function = if is_nowhere(to) { unseen } else { to.function };
                self.stack.push_interrupt(function, context.time);
            }
            BranchKind::SyscallReturn | BranchKind::InterruptReturn => {
                self.leave_interrupt(context);
                self.settle(to, context);
            }
            BranchKind::Asynchronous => self.settle(to, context),
            BranchKind::Unsaid => self.unsaid(from, to, context),
            BranchKind::None => {}
        }
    }

    /// Makes the innermost frame that of `place`.
    fn settle(&mut self, place: &Location, context: Context<'_>) {
        if is_nowhere(place) {
            return;
        }
        if self.stack.leaf().is_some_and(FunctionId::is_outside) && !self.stack.leaf_is_interrupt()
        {
            self.stack.pop(1, context.time);
        }
        match self.stack.leaf() {
            None => self.stack.discover(place.function),
            Some(function) if function == place.function => {}
            Some(_) => match self.above(place, 0) {
                Some(count) => self.stack.pop(count, context.time),
                None => self.stack.push(place.function, context.time),
            },
        }
    }

    /// How many frames lie above the nearest one of the place's function, `skip` or more.
    /// An interrupted stack goes on only when its interrupt is left; but should user code
    /// run, then it was.
    fn above(&self, place: &Location, skip: usize) -> Option<usize> {
        let is_wanted = |node: &Node| node.function == place.function;
        let is_barrier = |node: &Node| node.is_interrupt && place.is_kernel();
        self.stack.find(skip, is_wanted, is_barrier)
    }

    fn call(&mut self, to: &Location, context: Context<'_>) {
        let function = if is_nowhere(to) { FunctionId::UNTRACED } else { to.function };
        self.stack.push(function, context.time);
    }

    fn return_to(&mut self, to: &Location, context: Context<'_>) {
        let time = context.time;
        if is_nowhere(to) {
            return self.stack.pop(1, time);
        }
        // To what the kernel has put there, so that it learns of the end of a handler: no call
        // is before a first instruction.
        if to.is_entry && self.stack.leaf_is_from_outside() && self.stack.caller().is_some() {
            return self.stack.replace_with_restorer(to.function, time);
        }
        // What goes on after the cleaning up of one frame is the exception: in a frame further out.
        let skipped =
            usize::from(self.stack.leaf().is_some_and(|leaf| context.names.resumes(leaf)));
        match self.stack.caller() {
            Some(caller) if caller == to.function && skipped == 0 => {
                self.is_other_stack = false;
                self.stack.pop(1, time);
            }
            None => {
                self.stack.pop(1, time);
                self.stack.discover(to.function);
            }
            // Many frames at once: an exception, or longjmp.
            Some(_) => match self.above(to, 1 + skipped) {
                Some(count) => self.stack.pop(count, time),
                None if self.is_other_stack => self.other_stack(to, context),
                None => {
                    self.stack.pop(1, time);
                    self.stack.replace(to.function, time);
                }
            },
        }
    }

    fn jump_to(&mut self, to: &Location, context: Context<'_>) {
        if is_nowhere(to) {
            return;
        }
        let Some(leaf) = self.stack.leaf() else { return self.stack.discover(to.function) };
        if leaf == to.function {
            return;
        }
        if to.is_entry {
            return self.stack.replace(to.function, context.time);
        }
        if is_go_switch(context.names.name_text(leaf)) {
            return self.switch_goroutine(to, context);
        }
        // A stub of the file, such as one that leads to other files: code without a name is no
        // function that one could come back to.
        if context.names.is_nameless_beside(to.function, leaf) {
            return self.stack.replace(to.function, context.time);
        }
        // Into the middle of a function that is still open: an exception, or longjmp.
        let skipped = usize::from(context.names.resumes(leaf));
        match self.above(to, 1 + skipped) {
            Some(count) => self.stack.pop(count, context.time),
            None => self.stack.replace(to.function, context.time),
        }
    }

    /// The recorder did not say what the branch is, so its target has to.
    fn unsaid(&mut self, from: &Location, to: &Location, context: Context<'_>) {
        match () {
            () if to.is_entry => self.call(to, context),
            () if to.function == from.function => {}
            () => self.return_to(to, context),
        }
    }

    /// Tracing goes on after a gap.
    fn resume(&mut self, to: &Location, context: Context<'_>) {
        let time = context.time;
        let was_outside = self.stack.leaf().filter(|leaf| leaf.is_outside());
        if was_outside.is_some() {
            self.stack.pop(1, time);
        }
        if was_outside == Some(FunctionId::SYSCALL) && self.stack.leaf_is_restorer() {
            self.stack.pop(1, time);
        }
        if is_nowhere(to) || self.stack.leaf() == Some(to.function) {
            return;
        }
        // At its first instruction it was called from outside, such as a signal handler; unless a
        // handler ends there.
        let is_handler = |above: usize| {
            let callee = above.checked_sub(1).and_then(|above| self.stack.frames().nth(above));
            callee.is_some_and(|callee| callee.is_from_outside)
        };
        match self.above(to, 1) {
            Some(count) if !to.is_entry || is_handler(count) => self.stack.pop(count, time),
            _ if to.is_entry => self.stack.push_from_outside(to.function, time),
            _ => self.stack.push(to.function, time),
        }
    }

    /// Tracing stops for a while.
    fn leave_trace(
        &mut self,
        kind: BranchKind,
        from: &Location,
        to: &Location,
        context: Context<'_>,
    ) {
        self.settle(from, context);
        let function = match kind {
            BranchKind::Syscall => FunctionId::SYSCALL,
            // The function is done, whatever it returned to.
            BranchKind::Return => {
                self.stack.pop(1, context.time);
                FunctionId::RETURNED
            }
            BranchKind::Call if !is_nowhere(to) => to.function,
            BranchKind::SyscallReturn | BranchKind::InterruptReturn => {
                self.leave_interrupt(context);
                FunctionId::UNTRACED
            }
            _ => FunctionId::UNTRACED,
        };
        self.stack.push(function, context.time);
    }

    /// Goes back to what was interrupted; without an interrupt on the stack, that is
    /// below everything that is known.
    fn leave_interrupt(&mut self, context: Context<'_>) {
        match self.stack.find(0, |node| node.is_interrupt, |_| false) {
            Some(above) => self.stack.pop(above + 1, context.time),
            None => self.stack.pop_all(context.time),
        }
    }

    /// Go's scheduler jumps into the stack of a goroutine: that of the one which called
    /// it, or one that was never seen.
    fn switch_goroutine(&mut self, to: &Location, context: Context<'_>) {
        let is_entry_of_scheduler = |node: &Node| {
            let name = context.names.name_text(node.function);
            matches!(name, "runtime.mcall" | "runtime.morestack" | "runtime.morestack.abi0")
        };
        if let Some(above) = self.stack.find(0, is_entry_of_scheduler, |_| false) {
            self.stack.pop(above + 1, context.time);
            if self.stack.leaf() == Some(to.function) {
                self.is_other_stack = true;
                return;
            }
        }
        self.other_stack(to, context);
    }

    /// Goes on with a stack of which nothing but the innermost frame is known.
    fn other_stack(&mut self, to: &Location, context: Context<'_>) {
        self.is_other_stack = false;
        self.stack.restart(context.time);
        self.stack.discover(to.function);
    }

    /// Takes note of the handlers that were put in force on the way to `from`.
    fn follow_handlers(&mut self, from: &Location, context: Context<'_>) {
        if is_nowhere(from) || self.last_ip == 0 {
            return;
        }
        for change in context.traps.between(self.last_ip, from.ip) {
            match change {
                TrapChange::Push => {
                    self.settle(from, context);
                    self.handlers.push(self.stack.leaf_frame());
                }
                TrapChange::Pop => drop(self.handlers.pop()),
            }
        }
    }

    /// Leaves all frames that an OCaml exception passes; false where its handler is not
    /// on the stack.
    fn raise(&mut self, context: Context<'_>) -> bool {
        let Some(frame) = self.handlers.pop() else { return false };
        self.stack.pop_to(frame, context.time)
    }
}

/// True where the recorder knows nothing: outside what is traced.
fn is_nowhere(place: &Location) -> bool {
    place.ip == 0
}

fn is_go_switch(name: &str) -> bool {
    matches!(name, "gogo" | "runtime.gogo" | "runtime.gogo.abi0")
}
