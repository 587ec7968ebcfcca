//! When the interpreter of Python is at work on Python code, and not on work that it was asked for.
//!
//! The functions of the interpreter itself stand below Python's on a stack: adding, looking up
//! attributes, calling. They are the cost of Python. What a module written in C does is not, nor
//! what builtins do in one piece, such as sorting, nor the kernel.

use spanwise_model::{Frame, FrameKind, StackId, Trace};

/// Native functions of the interpreter that do work of their own.
const BUILTIN_WORK: &[&str] = &[
    "builtin_compile",
    "builtin_sorted",
    "list_sort",
    "list_sort_impl",
    "list.sort",
    "marshal_loads",
    "read_object",
    "_PyParser_ASTFromString",
    "_PyPegen_run_parser",
    "_PyAST_Compile",
    "PyAST_CompileObject",
    "sre_search",
    "sre_ucs1_match",
    "sre_ucs2_match",
    "sre_ucs4_match",
    "sre_ucs1_search",
    "sre_ucs2_search",
    "sre_ucs4_search",
    "pattern_subx",
];

/// How the kernel begins where it was not the program that asked for it.
const INTERRUPTS: &[&str] = &["asm_sysvec_", "asm_common_interrupt", "sysvec_", "common_interrupt"];

/// What a native frame below a Python function means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Interpreter,
    Interrupt,
    Work,
}

/// For every stack whether the interpreter is at work on Python code there.
pub(in crate::cpu::sampled) fn interpreting_stacks(trace: &Trace) -> Vec<bool> {
    let stacks = trace.stacks();
    let below: Vec<Option<Below>> = (0..trace.frames().len() as u32)
        .map(|frame| below(trace, &trace.frames().get(spanwise_model::FrameId(frame))))
        .collect();
    let mut state: Vec<Option<Below>> = vec![None; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let around = state[stacks.parent(id).index()];
        let Some(frame) = stacks.frame(id) else { continue };
        state[stack] = match (below[frame.index()], around) {
            // A function of Python begins anew.
            (None, _) => Some(Below::Interpreter),
            (_, None) => None,
            (Some(_), Some(Below::Work)) => Some(Below::Work),
            (Some(_), Some(Below::Interrupt)) => Some(Below::Interrupt),
            (own, Some(Below::Interpreter)) => own,
        };
    }
    state
        .into_iter()
        .map(|state| matches!(state, Some(Below::Interpreter | Below::Interrupt)))
        .collect()
}

/// `None` for a function of Python.
fn below(trace: &Trace, frame: &Frame) -> Option<Below> {
    let text = |id| trace.strings().get(id);
    let function = text(frame.function);
    let plain = function.split([' ', '@']).next().unwrap_or(function);
    match frame.kind {
        FrameKind::Python => None,
        FrameKind::Kernel => {
            let is_interrupt = INTERRUPTS.iter().any(|begin| plain.starts_with(begin));
            Some(if is_interrupt { Below::Interrupt } else { Below::Work })
        }
        _ if BUILTIN_WORK.contains(&plain) => Some(Below::Work),
        _ => {
            let file = text(frame.mapping).rsplit('/').next().unwrap_or_default();
            Some(if is_interpreter(file) { Below::Interpreter } else { Below::Work })
        }
    }
}

/// The program or library that interprets, and what every program has around it.
fn is_interpreter(file: &str) -> bool {
    const PLAIN: &[&str] =
        &["libc.so", "libc-", "libm.so", "libm-", "libpthread", "ld-linux", "[vdso]"];
    let is_module = file.contains(".cpython-") || file.contains(".abi3.");
    !is_module
        && (file.starts_with("python")
            || file.starts_with("libpython")
            || PLAIN.iter().any(|begin| file.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_not_the_interpreter() {
        let check = |file: &str, expected| assert_eq!(is_interpreter(file), expected, "{file}");
        check("python3.12", true);
        check("libpython3.12.so.1.0", true);
        check("libc.so.6", true);
        check("_json.cpython-312-x86_64-linux-gnu.so", false);
        check("_multiarray_umath.cpython-312-x86_64-linux-gnu.so", false);
        check("libopenblas.so", false);
    }
}
