//! Functions chosen by patterns of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use spanwise_files::FileBytes;
use spanwise_glob::Glob;

use crate::demangle::demangled;
use crate::elf::debug_file;

/// Functions whose names fit one of the wanted patterns and none of the excluded.
///
/// In a pattern `*` stands for any text and `?` for any character. It is compared with the name
/// that the linker has, the whole name in the source, and that without what is in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionPatterns<'a> {
    pub wanted: &'a [String],
    pub excluded: &'a [String],
}

impl<'a> FunctionPatterns<'a> {
    /// Names in the source of the functions of a file that fit.
    pub fn names_in(&self, path: &Path) -> BTreeSet<String> {
        if !path.is_file() || self.wanted.is_empty() {
            return BTreeSet::new();
        }
        let Ok(bytes) = FileBytes::open_regular(path) else { return BTreeSet::new() };
        let Ok(file) = object::File::parse(bytes.as_ref()) else { return BTreeSet::new() };
        self.addresses_in(&file).into_values().collect()
    }

    /// Takes out of `unmatched` the wanted patterns that a function of this file fits.
    pub fn remove_matched(&self, path: &Path, unmatched: &mut Vec<&'a str>) {
        if unmatched.is_empty() || self.names_in(path).is_empty() {
            return;
        }
        unmatched.retain(|&one| {
            let alone = FunctionPatterns { wanted: &[one.to_owned()], excluded: &[] };
            self.wanted.len() > 1 && alone.names_in(path).is_empty()
        });
    }

    /// Addresses of functions that fit, with the names that they have in the source.
    pub(super) fn addresses_in(&self, file: &object::File<'_>) -> BTreeMap<u64, String> {
        let mut found = BTreeMap::new();
        self.add_addresses(file, &mut found);
        let apart = file.build_id().ok().flatten().and_then(debug_file);
        if let Some(apart) = &apart
            && let Ok(apart) = object::File::parse(apart.as_ref())
        {
            self.add_addresses(&apart, &mut found);
        }
        found
    }

    fn add_addresses(&self, file: &object::File<'_>, found: &mut BTreeMap<u64, String>) {
        let globs = |patterns: &[String]| -> Vec<Glob> {
            patterns.iter().map(|pattern| Glob::new(pattern)).collect()
        };
        let (wanted, excluded) = (globs(self.wanted), globs(self.excluded));
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name_bytes() else { continue };
            let is_function = symbol.kind() == SymbolKind::Text && symbol.address() != 0;
            // What was moved out of a function is jumped to, and never returns.
            if !is_function || memchr::memmem::find(name, b".cold").is_some() {
                continue;
            }
            let name = String::from_utf8_lossy(name);
            let source = demangled(&name);
            let bare = source.split('(').next().unwrap_or(&source);
            let names = [&*name, &source, bare];
            let fits = |glob: &Glob| names.into_iter().any(|name| glob.fits(name));
            if wanted.iter().any(fits) && !excluded.iter().any(fits) {
                // Of several names of one place, always the same one.
                let known = found.entry(symbol.address()).or_insert_with(|| source.clone());
                if (source.len(), &source) < (known.len(), known) {
                    *known = source;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_among_names() {
        let own = std::env::current_exe().expect("this test");
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<_>>();
        let names = |wanted: &[&str], excluded: &[&str]| {
            let (wanted, excluded) = (texts(wanted), texts(excluded));
            FunctionPatterns { wanted: &wanted, excluded: &excluded }.names_in(&own)
        };
        let is_it = |name: &String| name.ends_with("::function_sites");
        let all = names(&["spanwise_symbols::sites::named::*"], &[]);
        assert!(all.iter().any(is_it), "{all:?}");
        let fewer = names(&["spanwise_symbols::sites::named::*"], &["*::function_sites"]);
        assert!(fewer.len() < all.len() && !fewer.iter().any(is_it));
        assert!(names(&[], &[]).is_empty());
    }

    #[test]
    fn patterns_that_fit_nothing_are_left() {
        let own = std::env::current_exe().expect("this test");
        let check = |wanted: &[&str], excluded: &[&str], expected: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<_>>();
            let (wanted, excluded): (Vec<String>, Vec<String>) = (texts(wanted), texts(excluded));
            let patterns = FunctionPatterns { wanted: &wanted, excluded: &excluded };
            let mut unmatched: Vec<&str> = wanted.iter().map(String::as_str).collect();
            patterns.remove_matched(&own, &mut unmatched);
            assert_eq!(unmatched, expected);
        };
        check(&["main"], &[], &[]);
        check(&["main", "no_such_*"], &[], &["no_such_*"]);
        check(&["main"], &["m*"], &["main"]);
        check(&["no_such_*"], &[], &["no_such_*"]);
    }
}
