//! Where in a file a function begins, for those who want to be told when it is called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use spanwise_files::FileBytes;

use crate::demangle::demangled;
use crate::elf::debug_file;

/// Places in a file, each the first instruction of a function of that name.
///
/// A name is as the linker has it, or as the source has it, with or without what stands in
/// parentheses. A mark for indirect jumps at the beginning (`endbr64`) is passed over: it
/// makes probes dear. Empty where the file has no such function, or is no program at all.
pub fn function_sites(path: &Path, name: &str) -> Vec<u64> {
    if !path.is_file() || name.is_empty() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    sites(bytes.as_ref(), name).unwrap_or_default()
}

/// Where in a file functions of a name begin, and how long they are, as far as the file says.
///
/// Names are those of [`function_sites`]; these begin with their very first instruction.
pub fn function_ranges(path: &Path, name: &str) -> Vec<(u64, u64)> {
    if !path.is_file() || name.is_empty() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return Vec::new() };
    let wanted = addresses(&file, name);
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let ranges: BTreeSet<(u64, u64)> = symbols
        .filter(|symbol| symbol.size() > 0 && wanted.contains(&symbol.address()))
        .filter_map(|symbol| Some((file_offset(&file, symbol.address())?, symbol.size())))
        .collect();
    ranges.into_iter().collect()
}

/// Where a program begins, as a file and an offset in it, and the same of what its loader calls
/// once it has mapped all libraries. Scripts begin with their interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartSites {
    pub entry: (PathBuf, u64),
    pub loader: Option<(PathBuf, u64)>,
}

/// `None` where the file is no program.
pub fn start_sites(path: &Path) -> Option<StartSites> {
    // As deep as the kernel goes.
    const SCRIPTS_MAX: usize = 5;
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let bytes = path.is_file().then(|| FileBytes::open_regular(&path).ok())??;
        let Some(line) = bytes.as_ref().strip_prefix(b"#!") else {
            return start_of(&path, bytes.as_ref());
        };
        let line = &line[..line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len())];
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        path = fs::canonicalize(str::from_utf8(words.next()?).ok()?).ok()?;
    }
    None
}

fn start_of(path: &Path, bytes: &[u8]) -> Option<StartSites> {
    let file = object::File::parse(bytes).ok()?;
    let entry = (path.to_owned(), file_offset(&file, file.entry())?);
    let loader = file.section_by_name(".interp").and_then(|section| {
        let name = section.data().ok()?;
        let name = str::from_utf8(name.strip_suffix(&[0]).unwrap_or(name)).ok()?;
        let loader = fs::canonicalize(name).ok()?;
        // A name that debuggers have relied on for decades.
        let place = function_sites(&loader, "_dl_debug_state").first().copied()?;
        Some((loader, place))
    });
    Some(StartSites { entry, loader })
}

/// Addresses of symbols as the linker gave them, in the order of the names, and what to add to
/// a place in the file for the address of the code there. `None` where the file is no program.
pub fn symbol_addresses(path: &Path, names: &[&str]) -> Option<(Vec<Option<u64>>, u64)> {
    if !path.is_file() {
        return None;
    }
    let bytes = FileBytes::open_regular(path).ok()?;
    let file = object::File::parse(bytes.as_ref()).ok()?;
    let code = file.segments().find(|segment| segment.permissions().executable())?;
    let mut addresses = vec![None; names.len()];
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        let Ok(found) = symbol.name_bytes() else { continue };
        let wanted = names.iter().position(|name| name.as_bytes() == found);
        if let Some(at) = wanted.filter(|_| symbol.address() != 0) {
            addresses[at] = Some(symbol.address());
        }
    }
    Some((addresses, code.address().wrapping_sub(code.file_range().0)))
}

/// Functions of a file whose names fit one of the patterns and none of the others: where they
/// begin, as for [`function_sites`], and what they are called in the source.
///
/// In a pattern `*` stands for any text and `?` for any character. It is held against the name
/// that the linker has, the whole name in the source, and that without what is in parentheses.
pub fn functions_matching(path: &Path, wanted: &[String], not: &[String]) -> Vec<(u64, String)> {
    if !path.is_file() || wanted.is_empty() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    matching(bytes.as_ref(), wanted, not).unwrap_or_default()
}

fn matching(bytes: &[u8], wanted: &[String], not: &[String]) -> Option<Vec<(u64, String)>> {
    let file = object::File::parse(bytes).ok()?;
    let found = addresses_matching(&file, wanted, not);
    let place = |(address, name)| Some((past_mark(bytes, file_offset(&file, address)?), name));
    let mut places: Vec<(u64, String)> = found.into_iter().filter_map(place).collect();
    places.sort();
    places.dedup_by_key(|place| place.0);
    Some(places)
}

/// Addresses of functions that fit, with the names that they have in the source.
pub(super) fn addresses_matching(
    file: &object::File<'_>,
    wanted: &[String],
    not: &[String],
) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let mut add = |file: &object::File<'_>| {
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
            let fits = |pattern: &String| {
                [&*name, &*source, bare].into_iter().any(|name| is_match(pattern, name))
            };
            if wanted.iter().any(fits) && !not.iter().any(fits) {
                // Of several names of one place, always the same one.
                let known = found.entry(symbol.address()).or_insert_with(|| source.to_string());
                if source.len() < known.len() || source.len() == known.len() && *source < **known {
                    *known = source.to_string();
                }
            }
        }
    };
    add(file);
    let apart = file.build_id().ok().flatten().and_then(debug_file);
    if let Some(apart) = &apart
        && let Ok(apart) = object::File::parse(apart.as_ref())
    {
        add(&apart);
    }
    found
}

/// Whether a name fits a pattern with `*` and `?`.
fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the latest `*` stands, and up to where it reaches.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, reached)) => {
                    star = Some((at, reached + 1));
                    (p, n) = (at + 1, reached + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

fn sites(bytes: &[u8], name: &str) -> Option<Vec<u64>> {
    let file = object::File::parse(bytes).ok()?;
    let place = |address| file_offset(&file, address).map(|offset| past_mark(bytes, offset));
    Some(addresses_named(&file, name).into_iter().filter_map(place).collect())
}

/// Addresses of functions of a name, also by the debug file of this one.
pub(super) fn addresses_named(file: &object::File<'_>, name: &str) -> BTreeSet<u64> {
    let mut addresses = addresses(file, name);
    let apart = file.build_id().ok().flatten().and_then(debug_file);
    if let Some(apart) = &apart
        && let Ok(apart) = object::File::parse(apart.as_ref())
    {
        addresses.extend(self::addresses(&apart, name));
    }
    addresses
}

/// Where in a file the code of an address is.
pub(super) fn file_offset(file: &object::File<'_>, address: u64) -> Option<u64> {
    let inside = |(start, len): (u64, u64)| address.checked_sub(start).filter(|at| *at < len);
    let mut segments = file.segments().map(|segment| {
        let (offset, len) = segment.file_range();
        inside((segment.address(), len)).and_then(|at| at.checked_add(offset))
    });
    segments.find_map(|offset| offset)
}

pub(super) fn past_mark(bytes: &[u8], offset: u64) -> u64 {
    let from = usize::try_from(offset).ok();
    let is_marked =
        from.and_then(|from| bytes.get(from..)).is_some_and(|code| code.starts_with(ENDBR64));
    if is_marked { offset + ENDBR64.len() as u64 } else { offset }
}

fn addresses(file: &object::File<'_>, name: &str) -> BTreeSet<u64> {
    // Names of linkers hold the words of the source as they are: few need a closer look.
    let head = name.split('(').next().unwrap_or(name);
    let word = head.rsplit("::").next().unwrap_or(head);
    let word = word.split('<').next().unwrap_or(word).as_bytes();
    let finder = memchr::memmem::Finder::new(word);
    let is_wanted = |found: &[u8]| {
        if finder.find(found).is_none() {
            return false;
        }
        let found = String::from_utf8_lossy(found);
        let source = demangled(&found);
        found == name || source == name || source.split('(').next() == Some(name)
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter(|symbol| symbol.name_bytes().is_ok_and(is_wanted))
        .map(|symbol| symbol.address())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_names() {
        let own = std::env::current_exe().expect("this test");
        assert_eq!(function_sites(&own, "main").len(), 1);
        let name = "spanwise_symbols::sites::named::function_sites";
        assert!(!function_sites(&own, name).is_empty());
        assert_eq!(function_sites(&own, "no_such_function_anywhere"), [0; 0]);
        assert_eq!(function_sites(&own, ""), [0; 0]);
        assert_eq!(function_sites(Path::new("/"), "main"), [0; 0]);
    }

    #[test]
    fn programs_and_scripts_have_a_beginning() {
        let own = std::env::current_exe().expect("this test");
        let start = start_sites(&own).expect("a program");
        assert_eq!(start.entry.0, own);
        assert_eq!(start_sites(Path::new("/")), None);
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        fs::write(&script, format!("#! {} -x\n", own.display())).expect("writable");
        assert_eq!(start_sites(&script), Some(start));
        fs::write(&script, format!("#!{}\n", script.display())).expect("writable");
        assert_eq!(start_sites(&script), None);
    }

    #[test]
    fn functions_have_lengths() {
        let own = std::env::current_exe().expect("this test");
        let site = function_sites(&own, "main")[0];
        let ranges = function_ranges(&own, "main");
        assert!(matches!(ranges[..], [(at, len)] if (at..at + len).contains(&site)), "{ranges:?}");
        assert_eq!(function_ranges(&own, "no_such_function_anywhere"), [(0, 0); 0]);
    }

    #[test]
    fn patterns_choose_among_names() {
        let own = std::env::current_exe().expect("this test");
        let texts =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let names = |wanted: &[&str], not: &[&str]| {
            let found = functions_matching(&own, &texts(wanted), &texts(not));
            found.into_iter().map(|(_, name)| name).collect::<Vec<String>>()
        };
        let all = names(&["spanwise_symbols::sites::named::*"], &[]);
        assert!(all.iter().any(|name| name.ends_with("::function_sites")), "{all:?}");
        let fewer = names(&["spanwise_symbols::sites::named::*"], &["*::function_sites"]);
        assert!(
            fewer.len() < all.len() && !fewer.iter().any(|name| name.ends_with("::function_sites"))
        );
        assert_eq!(names(&[], &[]), [""; 0]);
        let check = |pattern, name, expected| {
            assert_eq!(is_match(pattern, name), expected, "{pattern} {name}");
        };
        check("f?o*", "fooled", true);
        check("*a*b", "xaybzb", true);
        check("*a*b", "xaybz", false);
        check("", "", true);
        check("", "f", false);
        check("**", "f", true);
        check("f", "ff", false);
    }

    #[test]
    fn symbols_have_the_addresses_of_the_linker() {
        let own = std::env::current_exe().expect("this test");
        let (addresses, shift) = symbol_addresses(&own, &["main", "no such"]).expect("a program");
        let place = addresses[0].map(|address| address.wrapping_sub(shift));
        let site = function_sites(&own, "main").first().copied();
        // The site may be past a mark for indirect jumps.
        assert!(place == site || place.map(|place| place + 4) == site, "{place:?} {site:?}");
        assert_eq!(addresses[1], None);
        assert_eq!(symbol_addresses(Path::new("/"), &[]), None);
    }
}
