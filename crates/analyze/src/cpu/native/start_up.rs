//! The start-up of native programs, apart from what they do then: the loader that maps and
//! relocates libraries, and constructors that run before `main`.
//!
//! Identified by stacks: what the loader does for a running program (lazy binding, `dlopen`) is
//! inside the program's own functions and is not start-up.

use spanwise_model::{FrameId, FrameKind, StackId, Trace};

/// What calls constructors.
const CONSTRUCTOR_CALLERS: &[&str] = &["call_init", "_dl_init", "__libc_csu_init", "_init"];

/// What the loader does while a program runs; the outermost frame only where a stack is cut off.
const LATER: &[&str] = &[
    "_dl_fixup",
    "_dl_runtime_resolve",
    "_dl_lookup_symbol_x",
    "do_lookup_x",
    "check_match",
    "__tls_get_addr",
    "_dl_tlsdesc",
    "_dl_sym",
    "_dl_open",
];

/// Where a stack has come to, frame by frame from the outermost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StackProgress {
    /// No frame of the program yet.
    Nowhere,
    /// In the C library's function that calls constructors, and then `main`.
    BeforeMain,
    StartUp,
    Program,
}

/// For every stack whether the program was being started there.
pub(crate) fn start_up_stacks(trace: &Trace) -> Vec<bool> {
    let stacks = trace.stacks();
    let meanings: Vec<Meaning> =
        (0..trace.frames().len() as u32).map(|frame| Meaning::of(trace, FrameId(frame))).collect();
    let mut places = vec![StackProgress::Nowhere; stacks.len()];
    for stack in (1..stacks.len()).map(|stack| StackId(stack as u32)) {
        let around = places[stacks.parent(stack).index()];
        let meaning = stacks.frame(stack).map_or(Meaning::Program, |frame| meanings[frame.index()]);
        places[stack.index()] = match (around, meaning) {
            (StackProgress::StartUp | StackProgress::Program, _) => around,
            (_, Meaning::Kernel) => around,
            (StackProgress::Nowhere, Meaning::Loader) => StackProgress::StartUp,
            (StackProgress::Nowhere | StackProgress::BeforeMain, Meaning::Entry) => {
                StackProgress::BeforeMain
            }
            (StackProgress::BeforeMain, Meaning::CallsConstructors) => StackProgress::StartUp,
            _ => StackProgress::Program,
        };
    }
    places.into_iter().map(|place| place == StackProgress::StartUp).collect()
}

/// What a frame means for where a stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Kernel,
    /// The dynamic loader.
    Loader,
    /// The first functions of a program: `_start`, `__libc_start_main`.
    Entry,
    CallsConstructors,
    Program,
}

impl Meaning {
    fn of(trace: &Trace, frame: FrameId) -> Meaning {
        let frame = trace.frames().get(frame);
        let text = |id| trace.strings().get(id);
        let function = text(frame.function);
        let file = text(frame.mapping).rsplit('/').next().unwrap_or_default();
        let is_loader = file.starts_with("ld-linux") || file.starts_with("ld-musl");
        let is_later = LATER.iter().any(|begin| function.starts_with(begin));
        let is_entry = function == "_start" || function.starts_with("__libc_start_");
        match frame.kind {
            FrameKind::Kernel => Meaning::Kernel,
            FrameKind::Native if is_loader && !is_later => Meaning::Loader,
            FrameKind::Native if is_entry => Meaning::Entry,
            FrameKind::Native if is_constructor_caller(function) => Meaning::CallsConstructors,
            _ => Meaning::Program,
        }
    }
}

/// Also constructors themselves, as compilers name them: their caller has no name where the C
/// library is stripped.
fn is_constructor_caller(function: &str) -> bool {
    CONSTRUCTOR_CALLERS.contains(&function)
        || function.starts_with("_GLOBAL__sub_I_")
        || function.starts_with("__static_initialization_and_destruction")
        || function == "frame_dummy"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(stack: &[&str], expected: bool) {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(1));
        sample.taken("1", "1", clock, 1, 0, stack);
        let trace = sample.finish();
        let found = start_up_stacks(&trace)[trace.samples().stack[0] as usize];
        assert_eq!(found, expected, "{stack:?}");
    }

    const LOADER: &str = "%ld-linux-x86-64.so.2";

    #[test]
    fn what_runs_before_main_is_start_up() {
        let loader = |name: &str| format!("{name}{LOADER}");
        let (start, relocate) = (loader("_dl_start"), loader("_dl_relocate_object"));
        check(&[&start, &relocate], true);
        check(&[&loader("ld-linux-x86-64.so.2+0x1000")], true);
        check(&[&start, "call_init", "prepares"], true);
        check(&["_start", "__libc_start_main_impl", "call_init", "prepares"], true);
        check(&["_start", "__libc_start_main", "_GLOBAL__sub_I_table", "prepares"], true);
        check(&["_start", "__libc_start_main", "main", "works"], false);
    }

    #[test]
    fn what_the_loader_does_for_a_running_program_is_not() {
        let loader = |name: &str| format!("{name}{LOADER}");
        let relocate = loader("_dl_relocate_object");
        check(&["_start", "main", "dlopen", &relocate, "call_init"], false);
        check(&["clone3", "start_thread", "works", &loader("_dl_fixup")], false);
        check(&[&loader("_dl_runtime_resolve_xsavec"), &loader("_dl_fixup")], false);
    }
}
