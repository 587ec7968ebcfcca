//! A stack of native code and one of Python, made one.
//!
//! Each call of the C function that interprets stands for one or more frames of Python, so the two
//! stacks are joined from the outermost call on.

use spanwise_callstack::Location;

/// What a function of C means for the join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// It interprets.
    Interprets,
    /// A stack that begins with it is whole.
    Begins,
    Other,
}

impl Call {
    pub(super) fn of(name: &str) -> Call {
        let name = name.split('@').next().unwrap_or(name);
        match name.trim_start_matches('_') {
            "PyEval_EvalFrameDefault" | "PyEval_EvalFrameDefault.cold" => Call::Interprets,
            "start" | "clone" | "clone3" | "start_thread" => Call::Begins,
            name if name.starts_with("libc_start") => Call::Begins,
            _ => Call::Other,
        }
    }
}

/// A frame of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PythonPlace {
    pub(super) place: Location,
    /// A call of the C function that interprets begins with it.
    pub(super) is_entry: bool,
}

/// Frames of Python by call of the C function that interprets.
fn groups(python: &[PythonPlace]) -> Vec<&[PythonPlace]> {
    let mut groups = Vec::new();
    let mut from = 0;
    for at in 1..=python.len() {
        if at == python.len() || python[at].is_entry {
            groups.push(&python[from..at]);
            from = at;
        }
    }
    groups
}

/// How often a stack calls the C function that interprets; not known where it lacks its outermost
/// frames.
pub(super) fn interpreting(calls: &[Call]) -> Option<u32> {
    let count = calls.iter().filter(|&&call| call == Call::Interprets).count();
    is_whole(calls).then(|| u32::try_from(count).unwrap_or(u32::MAX))
}

/// The outermost frames of deep stacks are not copied, and code without frame pointers hides
/// them.
fn is_whole(calls: &[Call]) -> bool {
    calls.iter().take(3).any(|&call| call == Call::Begins)
}

/// Both stacks, outermost first. Where `is_cut`, Python's lacks its outermost frames.
pub(super) fn joined(
    native: &[Location],
    calls: &[Call],
    python: &[PythonPlace],
    is_cut: bool,
) -> Vec<Location> {
    let groups = groups(python);
    let interpreting = calls.iter().filter(|&&call| call == Call::Interprets).count();
    let is_whole = is_whole(calls);
    if interpreting == 0 && is_whole {
        return native.to_vec();
    }
    let further_out = groups.len().saturating_sub(interpreting);
    let unseen = if is_whole && !is_cut { 0 } else { further_out };
    let mut unknown = if is_cut { interpreting.saturating_sub(groups.len()) } else { 0 };
    let places = |group: &&[PythonPlace]| group.iter().map(|of| of.place).collect::<Vec<_>>();
    let mut stack: Vec<Location> = groups[..unseen].iter().flat_map(places).collect();
    let mut groups = groups[unseen..].iter();
    let mut is_inside = false;
    for (place, call) in native.iter().zip(calls) {
        // What the compiler put into the function that interprets is part of interpreting.
        if is_inside && place.is_inlined {
            continue;
        }
        let is_known = *call == Call::Interprets && unknown == 0;
        unknown -= usize::from(*call == Call::Interprets && unknown > 0);
        let group = if is_known { groups.next() } else { None };
        is_inside = group.is_some();
        match group {
            Some(group) => stack.extend(places(group)),
            None => stack.push(*place),
        }
    }
    stack
}
