//! Where in a file a function begins, for probes of its calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::{Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use spanwise_files::FileBytes;

use super::exits::probe_sites;
use crate::demangle::demangled;
use crate::elf::debug_file;

/// Places in a file, each the first instruction of a function of that name.
///
/// A name is as the linker has it, or as the source has it, with or without what stands in
/// parentheses. A mark for indirect jumps at the beginning (`endbr64`) is passed over: it
/// makes probes expensive. Empty where the file has no such function, or is no program at all.
pub fn function_sites(path: &Path, name: &str) -> Vec<u64> {
    if !path.is_file() || name.is_empty() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    sites(bytes.as_ref(), name).unwrap_or_default()
}

/// Places at which probes note that functions of a name are called, or why none may be set at one;
/// names are those of [`function_sites`].
pub(super) fn function_probe_sites(path: &Path, name: &str) -> Vec<Result<u64, String>> {
    if !path.is_file() || name.is_empty() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return Vec::new() };
    let addresses = addresses_named(&file, name);
    // Without code in the file, as for what is only there to be debugged with.
    let addresses = addresses.into_iter().filter(|&at| file_offset(&file, at).is_some());
    probe_sites(&file, bytes.as_ref(), addresses.collect())
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

/// An offset in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSite {
    pub file: PathBuf,
    pub offset: u64,
}

/// Where a program begins, and what its loader calls once it has mapped all libraries. Scripts
/// begin with their interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartSites {
    pub entry: CodeSite,
    pub loader: LoaderSite,
}

/// Where a program's loader says that it has mapped all libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoaderSite {
    /// The program has no loader.
    None,
    /// It has one that is not understood.
    Unknown,
    At(CodeSite),
}

/// `None` where the file is no program, or must not be probed where it begins.
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
    let offset = file_offset(&file, file.entry())?;
    let first = bytes.get(usize::try_from(offset).ok()?..)?;
    // That an instruction begins there, the file itself says.
    if file.architecture() == Architecture::X86_64 && !spanwise_pt::may_be_probed(first) {
        return None;
    }
    let entry = CodeSite { file: path.to_owned(), offset };
    let loader = match file.section_by_name(".interp") {
        Some(section) => loader_of(&section).map_or(LoaderSite::Unknown, LoaderSite::At),
        None => LoaderSite::None,
    };
    Some(StartSites { entry, loader })
}

fn loader_of(section: &object::Section<'_, '_>) -> Option<CodeSite> {
    let name = section.data().ok()?;
    let name = str::from_utf8(name.strip_suffix(&[0]).unwrap_or(name)).ok()?;
    let file = fs::canonicalize(name).ok()?;
    // A name that debuggers have relied on for decades.
    let sites = function_probe_sites(&file, "_dl_debug_state");
    let offset = sites.into_iter().find_map(Result::ok)?;
    Some(CodeSite { file, offset })
}

/// Where symbols of a file are, by the addresses that its linker gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolAddresses {
    /// In the order of the names.
    pub addresses: Vec<Option<u64>>,
    /// Of the part that holds its code: what to add to an offset in the file for the address.
    pub code_shift: u64,
}

/// Addresses of symbols by their names. `None` where the file is no program.
pub fn symbol_addresses(path: &Path, names: &[&str]) -> Option<SymbolAddresses> {
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
    let code_shift = code.address().wrapping_sub(code.file_range().0);
    Some(SymbolAddresses { addresses, code_shift })
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

fn past_mark(bytes: &[u8], offset: u64) -> u64 {
    let from = usize::try_from(offset).ok();
    let is_marked =
        from.and_then(|from| bytes.get(from..)).is_some_and(|code| code.starts_with(ENDBR64));
    if is_marked { offset + ENDBR64.len() as u64 } else { offset }
}

fn addresses(file: &object::File<'_>, name: &str) -> BTreeSet<u64> {
    // Names of linkers hold the words of the source as they are: few need a closer examination.
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
        assert_eq!(start.entry.file, own);
        assert!(matches!(start.loader, LoaderSite::At(_)), "{start:?}");
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
    fn symbols_have_the_addresses_of_the_linker() {
        let own = std::env::current_exe().expect("this test");
        let found = symbol_addresses(&own, &["main", "no such"]).expect("a program");
        let place = found.addresses[0].map(|address| address.wrapping_sub(found.code_shift));
        let site = function_sites(&own, "main").first().copied();
        // The site may be past a mark for indirect jumps.
        assert!(place == site || place.map(|place| place + 4) == site, "{place:?} {site:?}");
        assert_eq!(found.addresses[1], None);
        assert_eq!(symbol_addresses(Path::new("/"), &[]), None);
    }
}
