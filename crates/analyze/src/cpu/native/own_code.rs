//! Which functions are the program's own: those of its executable and of what came with it.
//!
//! Identified by where files are. A C library that is compiled into a program counts as its own
//! code: a search by names would also match the program's own functions of the same names.

use spanwise_model::{Frame, FrameKind, Trace};

use crate::cpu::python::{is_entry_script, is_library_file};

/// Where systems keep the libraries that all programs share; a folder below these, other than
/// that of a machine's libraries, is of one program.
const SYSTEM_FOLDERS: &[&str] =
    &["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/"];

/// How the names of the C and C++ libraries begin, wherever they are.
const RUNTIMES: &[&str] = &[
    "ld-linux",
    "ld-musl",
    "libc.so",
    "libc-2",
    "libm.so",
    "libm-2",
    "libpthread",
    "libdl",
    "librt",
    "libstdc++",
    "libgcc_s",
    "libc++",
    "libgomp",
];

/// Whether a frame is the program's own code. In a program of Python that is Python code that was
/// not installed: the interpreter and its modules are everybody's.
pub(crate) fn is_own_code(trace: &Trace, frame: &Frame, has_python: bool) -> bool {
    let text = |id| trace.strings().get(id);
    match frame.kind {
        FrameKind::Python => {
            let file = text(frame.file);
            !file.is_empty() && !is_library_file(file) && !is_entry_script(file)
        }
        FrameKind::Native => !has_python && is_own_file(text(frame.mapping)),
        FrameKind::Jit | FrameKind::Script => !has_python,
        FrameKind::Kernel | FrameKind::Gpu => false,
    }
}

/// Whether a trace has frames of Python.
pub(crate) fn has_python(trace: &Trace) -> bool {
    let kinds = &trace.frames().kind;
    kinds.contains(&(FrameKind::Python as u8))
}

fn is_own_file(path: &str) -> bool {
    let Some((_, name)) = path.rsplit_once('/').filter(|_| path.starts_with('/')) else {
        // `[vdso]`, and code of which no file is known.
        return false;
    };
    let is_runtime = RUNTIMES.iter().any(|begin| name.starts_with(begin));
    let is_library = name.ends_with(".so") || name.contains(".so.");
    !(is_runtime || is_library && is_shared_by_all(path))
}

/// Whether a library lies where all programs look for it.
fn is_shared_by_all(path: &str) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| {
        path.strip_prefix(folder).is_some_and(|inside| match inside.split_once('/') {
            None => true,
            // The libraries of a machine, such as `x86_64-linux-gnu`.
            Some((first, _)) => first.contains("-linux-"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_and_what_lies_beside_them_are_own() {
        let check = |path: &str, expected| assert_eq!(is_own_file(path), expected, "{path}");
        check("/usr/bin/redis-server", true);
        check("/usr/lib/postgresql/15/bin/postgres", true);
        check("/usr/lib/postgresql/15/lib/plpgsql.so", true);
        check("/home/me/app/libwork.so.2", true);
        check("/usr/local/lib/libjemalloc.so.2", false);
        check("/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", false);
        check("/usr/lib/x86_64-linux-gnu/perl/5.36/auto/List/Util/Util.so", false);
        check("/lib64/libssl.so.3", false);
        check("/opt/conda/lib/libstdc++.so.6", false);
        check("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", false);
        check("[vdso]", false);
        check("", false);
    }
}
