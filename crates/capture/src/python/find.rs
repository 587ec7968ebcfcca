//! Finds the interpreter in a process by the files that it has in its memory.

use std::path::Path;

use spanwise_symbols::SymbolAddresses;

use super::debug_offsets::{self, Unreadable};
use super::interpreter::Interpreter;
use super::layout::Layout;
use super::memory::Memory;
use crate::perf::records::Mapping;
use crate::system::processes;

/// The names that are asked for.
pub(crate) const NAMES: [&str; 3] = ["_PyRuntime", "PyCode_Type", "Py_Version"];

/// True for names of files that hold the interpreter: `python3.11`, `libpython3.11.so.1.0`.
pub(crate) fn seems_python(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_prefix("lib").unwrap_or(name);
    name.strip_prefix("python")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What came of looking for an interpreter.
#[derive(Debug)]
pub(crate) enum InterpreterMatch {
    Interpreter(Box<Interpreter>),
    /// There is one, and it cannot be read, for a reason.
    Unknown(String),
    None,
}

/// The interpreter that this file holds, in the memory of a process.
pub(crate) fn find(pid: i32, path: &Path, symbols: &SymbolAddresses) -> InterpreterMatch {
    let [runtime, code_type, version] = symbols.addresses.as_slice() else {
        return InterpreterMatch::None;
    };
    let (Some(runtime), Some(code_type)) = (*runtime, *code_type) else {
        return InterpreterMatch::None;
    };
    let mappings = processes::mappings(pid);
    let is_it = |mapping: &&Mapping| processes::path_of(&mapping.path) == path;
    let Some(mapping) = mappings.iter().find(is_it) else { return InterpreterMatch::None };
    let linked_at = mapping.file_offset.wrapping_add(symbols.code_shift);
    let moved = |address: u64| address.wrapping_add(mapping.start).wrapping_sub(linked_at);
    let memory = Memory { pid };
    let (runtime, code_type) = (moved(runtime), moved(code_type));
    let said = version.and_then(|version| memory.word(moved(version)).ok());
    let said = said.map(|version| (version >> 24 & 0xff, version >> 16 & 0xff));
    let minor = match said {
        Some((3, minor)) => Some(minor as u32),
        Some(_) => None,
        None => minor_of_name(path),
    };
    let layout = match minor {
        Some(minor) if minor < 13 => Layout::of_minor(minor).ok_or(Unreadable::Unknown),
        _ => debug_offsets::layout(memory, runtime),
    };
    match (layout, minor) {
        (Ok(layout), _) => InterpreterMatch::Interpreter(Box::new(Interpreter::new(
            memory, layout, runtime, code_type,
        ))),
        (Err(Unreadable::FreeThreaded), _) => InterpreterMatch::Unknown(format!(
            "process {pid}: its Python functions are not recorded: {} is a free-threaded build \
             of another version than 3.13, which is not supported yet",
            path.display()
        )),
        (Err(Unreadable::Unknown), Some(minor)) => InterpreterMatch::Unknown(format!(
            "process {pid}: its Python functions are not recorded: 3.{minor} is none of the \
             versions that are known (3.8 to 3.15)"
        )),
        (Err(Unreadable::Unknown), None) => InterpreterMatch::Unknown(format!(
            "process {pid}: its Python functions are not recorded: {} does not say its version",
            path.display()
        )),
    }
}

/// Versions before 3.11 say theirs only in the name of the file.
fn minor_of_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let digits = name.split_once("python3.")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_identified_by_the_names_of_their_files() {
        let check = |name: &str, expected: bool, minor: Option<u32>| {
            let path = Path::new("/usr/bin").join(name);
            assert_eq!((seems_python(&path), minor_of_name(&path)), (expected, minor), "{name}");
        };
        check("python", true, None);
        check("python3.8", true, Some(8));
        check("libpython3.10.so.1.0", true, Some(10));
        check("libpython3.13t.so.1.0", true, Some(13));
        check("python-config", false, None);
        check("libc.so.6", false, None);
        check("mypython3.9", false, Some(9));
    }
}
