//! What each sort of branch does, by magic-trace's rules.

use spanwise_model::Nanos;

use super::thread::{CallStack, Thread};
use super::{Outside, Scope, Symbol, SymbolLocation};
use crate::ocaml::TrapChange;
use crate::{Branch, BranchKind, FunctionId, TraceEdge};

impl Thread {
    pub(super) fn branch(&mut self, branch: &Branch, time: Nanos, outside: &mut Outside<'_>) {
        self.follow_traps(branch, outside);
        match branch.edge {
            TraceEdge::Within => self.within(branch, time, outside),
            TraceEdge::Start => self.start(branch, time, outside),
            TraceEdge::End => self.stop(branch, time, outside),
            TraceEdge::Blink => {}
        }
    }

    fn within(&mut self, branch: &Branch, time: Nanos, outside: &mut Outside<'_>) {
        let to = SymbolLocation::of(&branch.to, outside.names);
        match branch.kind {
            BranchKind::Call => self.call(to, time, outside),
            BranchKind::Return => {
                if self.raise(to, time, outside) {
                    return;
                }
                self.ret_of_ocaml(time, outside);
                self.check(to, time, outside);
            }
            BranchKind::Syscall | BranchKind::HardwareInterrupt => {
                let fresh = CallStack { frames: Vec::new(), create_time: time };
                self.inactive.push(std::mem::replace(&mut self.stack, fresh));
                self.new_stack(to.ip, time);
                self.call(to, time, outside);
            }
            BranchKind::InterruptReturn | BranchKind::SyscallReturn => {
                self.clear(time, outside);
                match self.inactive.pop() {
                    Some(stack) => self.stack = stack,
                    None => {
                        self.new_stack(to.ip, time);
                        self.check(to, time, outside);
                    }
                }
            }
            BranchKind::Jump | BranchKind::Interrupt => {
                if !self.raise(to, time, outside) {
                    self.check(to, time, outside);
                }
            }
            BranchKind::TransactionAbort | BranchKind::Asynchronous | BranchKind::Unsaid => {
                self.check(to, time, outside);
            }
            BranchKind::None => {}
        }
    }

    fn start(&mut self, branch: &Branch, time: Nanos, outside: &mut Outside<'_>) {
        let to = SymbolLocation::of(&branch.to, outside.names);
        if outside.scope == Scope::Kernel {
            self.clear(time, outside);
            return self.new_stack(to.ip, time);
        }
        match self.stack.frames.is_empty() {
            true => self.call(to, time, outside),
            // Closes the frame that stood for the gap.
            false => self.ret(time, outside),
        }
    }

    fn stop(&mut self, branch: &Branch, time: Nanos, outside: &mut Outside<'_>) {
        let function = match branch.kind {
            BranchKind::Call => {
                let to = SymbolLocation::of(&branch.to, outside.names);
                return self.call(to, time, outside);
            }
            BranchKind::Syscall => FunctionId::SYSCALL,
            BranchKind::Return => FunctionId::RETURNED,
            BranchKind::InterruptReturn | BranchKind::SyscallReturn => {
                self.clear(time, outside);
                FunctionId::UNTRACED
            }
            _ => FunctionId::UNTRACED,
        };
        self.call(SymbolLocation::built_in(function, outside.names), time, outside);
    }

    /// Returns; and where OCaml's runtime raises an exception that way, from as many
    /// frames as it has walked over before.
    fn ret_of_ocaml(&mut self, time: Nanos, outside: &mut Outside<'_>) {
        if outside.traps.is_empty() {
            let top = self.stack.frames.last().map(|frame| frame.symbol);
            let name = match top {
                Some(Symbol::Named(name)) => outside.names.text(name),
                _ => "",
            };
            let frames = match name {
                "caml_next_frame_descriptor" | "caml_stash_backtrace" => {
                    self.walked_frames += 1;
                    0
                }
                "caml_raise_exn" => std::mem::take(&mut self.walked_frames).saturating_sub(1),
                "caml_raise_exception" => std::mem::take(&mut self.walked_frames) + 2,
                _ => 0,
            };
            for _ in 0..frames.min(self.stack.frames.len()) {
                self.ret(time, outside);
            }
        }
        self.ret(time, outside);
    }
}

/// OCaml's exception handlers, where their addresses are known.
impl Thread {
    /// What the instructions on the way to the branch did: a handler put in force begins a
    /// stack of its own, with a copy of the frame that it belongs to at the bottom.
    fn follow_traps(&mut self, branch: &Branch, outside: &Outside<'_>) {
        let Some(from) = self.last_ip.replace(branch.to.ip) else { return };
        for change in outside.traps.between(from, branch.from.ip) {
            match (change, &self.stack.frames[..]) {
                (TrapChange::Push, frames) => {
                    let frames = frames.last().copied().into_iter().collect();
                    let fresh = CallStack { frames, create_time: self.stack.create_time };
                    self.inactive.push(std::mem::replace(&mut self.stack, fresh));
                }
                (TrapChange::Pop, [_]) => {
                    if let Some(stack) = self.inactive.pop() {
                        self.stack = stack;
                    }
                }
                // A handler that was never seen coming.
                (TrapChange::Pop, _) => {}
            }
        }
    }

    /// Goes on at a handler: everything above its frame is left.
    fn raise(&mut self, to: SymbolLocation, time: Nanos, outside: &mut Outside<'_>) -> bool {
        if !outside.traps.is_handler(to.ip) {
            return false;
        }
        if !self.stack.frames.is_empty() {
            self.stack.frames.remove(0);
        }
        self.clear(time, outside);
        if let Some(stack) = self.inactive.pop() {
            self.stack = stack;
        }
        true
    }
}
