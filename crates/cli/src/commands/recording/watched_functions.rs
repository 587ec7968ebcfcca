//! Functions as the reader of programs finds them, in the words of the recorder: neither knows the
//! other.

use std::path::Path;

use spanwise_capture::{
    ExitKind, ExitPlace, FunctionPlaces, StartPlaces, TargetBase, TargetMemory, WatchedFunction,
};
use spanwise_symbols::{FunctionProbes, JumpBase, JumpMemory, LeaveKind, ProbePlaces, StartSites};

pub(in crate::commands) fn watched(function: FunctionProbes) -> WatchedFunction {
    let FunctionProbes { name, is_go, places } = function;
    WatchedFunction { name, is_go, places: places.map(function_places) }
}

/// Where a program can be held until its libraries are watched.
pub(in crate::commands) fn start_of(path: &Path) -> Option<StartPlaces> {
    let StartSites { entry, loader } = spanwise_symbols::start_sites(path)?;
    Some(StartPlaces { entry, loader })
}

fn function_places(places: ProbePlaces) -> FunctionPlaces {
    FunctionPlaces {
        entry: places.entry,
        exits: places.exits.into_iter().map(exit_place).collect(),
    }
}

fn exit_place(exit: spanwise_symbols::ExitPlace) -> ExitPlace {
    let spanwise_symbols::ExitPlace { offset, len, kind, inside } = exit;
    let kind = match kind {
        LeaveKind::Return { popped } => ExitKind::Return { popped },
        LeaveKind::Jump => ExitKind::Jump,
        LeaveKind::Conditional(condition) => ExitKind::Conditional(condition),
        LeaveKind::ThroughRegister(register) => ExitKind::ThroughRegister(register),
        LeaveKind::ThroughMemory(memory) => ExitKind::ThroughMemory(target_memory(memory)),
    };
    ExitPlace { offset, len, kind, inside }
}

fn target_memory(JumpMemory { base, index, displacement }: JumpMemory) -> TargetMemory {
    let base = match base {
        JumpBase::Zero => TargetBase::Zero,
        JumpBase::Register(register) => TargetBase::Register(register),
        JumpBase::NextInstruction => TargetBase::NextInstruction,
    };
    TargetMemory { base, index, displacement }
}
