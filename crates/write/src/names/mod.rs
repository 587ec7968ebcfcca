//! Names of functions and kernels for people: `elementwise add (vec4)` instead of 300 characters
//! of C++ templates.
//!
//! Programs and hovering readers get the whole name; nothing parses a short one. A name keeps
//! what distinguishes it among its neighbors: the operation, types, tile sizes. A short name
//! that is already readable stays as it is.

mod cpp;
mod kernels;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use crate::document::text::shortened;

/// Names up to this many bytes are readable as they are.
const READABLE_MAX: usize = 48;
/// Longer ones are left as they are.
const DEMANGLED_MAX: usize = 1 << 16;

/// The name as people read it.
pub fn short_name(name: &str) -> Cow<'_, str> {
    let is_readable = name.len() <= READABLE_MAX && !name.starts_with("_Z");
    if is_readable || name.len() > DEMANGLED_MAX {
        return Cow::Borrowed(name);
    }
    if let Some((path, rest)) = python_frame(name) {
        return Cow::Owned(format!("{}{rest}", package_path(path)));
    }
    if let Some(short) = kernels::library_kernel(name) {
        return Cow::Owned(short);
    }
    let demangled = demangled(name);
    let whole = demangled.as_deref().unwrap_or(name);
    match cpp::Function::parse(whole) {
        Some(function) => {
            Cow::Owned(kernels::phrase(&function).unwrap_or_else(|| function.short()))
        }
        None => demangled.map_or(Cow::Borrowed(name), Cow::Owned),
    }
}

/// The file of `a/b.py(12): f`, and the rest.
fn python_frame(name: &str) -> Option<(&str, &str)> {
    let at = name.find(".py(").map(|at| at + ".py".len())?;
    name[at..].contains("): ").then(|| name.split_at(at))
}

/// The path from the package on: `torch/nn/modules/module.py`.
fn package_path(path: &str) -> &str {
    const ROOTS: [&str; 2] = ["site-packages/", "dist-packages/"];
    let installed =
        ROOTS.iter().filter_map(|root| path.rfind(root).map(|at| at + root.len())).max();
    let standard = || {
        let at = path.rfind("/lib/python")? + "/lib/python".len();
        let version = path[at..].find('/')?;
        Some(at + version + 1)
    };
    installed.or_else(standard).map_or(path, |at| &path[at..])
}

/// The name as its source has it, if it is mangled. A short mangled name can stand for an
/// arbitrarily long one, so there is a limit.
fn demangled(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut text = BoundedText(String::new());
    symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).ok()?;
    Some(text.0)
}

/// Text that takes no more than a name can have.
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > DEMANGLED_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// The names of a column as people read them. Names that would read the same, though they
/// differ, stay whole.
pub(crate) fn short_names<'a>(names: &[&'a str]) -> Vec<Cow<'a, str>> {
    let short: Vec<Cow<'a, str>> = names.iter().map(|name| short_name(name)).collect();
    let mut whole: HashMap<&str, Option<&str>> = HashMap::new();
    for (short, name) in short.iter().zip(names) {
        let first = whole.entry(short.as_ref()).or_insert(Some(*name));
        if *first != Some(*name) {
            *first = None;
        }
    }
    let is_ambiguous: Vec<bool> =
        short.iter().map(|short| whole[short.as_ref()].is_none()).collect();
    let pairs = short.into_iter().zip(names).zip(is_ambiguous);
    pairs.map(|((short, name), is)| if is { Cow::Borrowed(*name) } else { short }).collect()
}

/// A name for a sentence or a cell: short, and at most `width` columns wide.
pub fn fitted_name(name: &str, width: usize) -> String {
    shortened(&short_name(name), width)
}

#[cfg(test)]
mod tests;
