//! Names of functions, from the files that were mapped.
//!
//! A file counts only if it is the one that was recorded: where the recording says its
//! build id, the file must have the same. Programs are replaced, and a wrong name is worse
//! than none.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::source::Bytes;

use super::maps::Mapping;

/// A function that was found: its name and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) is_entry: bool,
}

/// The symbols of one file.
#[derive(Default)]
struct SymbolFile {
    /// Address, end, place and length of the name in the file; by address.
    functions: Vec<(u64, u64, usize, u32)>,
    /// Offset in the file, length, address.
    segments: Vec<(u64, u64, u64)>,
    bytes: Option<Bytes>,
}

/// Symbols of all files, each read when first asked for.
#[derive(Default)]
pub(super) struct Symbols {
    build_ids: HashMap<String, Vec<u8>>,
    files: HashMap<Rc<str>, SymbolFile>,
    kernel: Kernel,
    /// Files that are not the ones recorded, or are not there.
    pub(super) missing: Vec<(Rc<str>, &'static str)>,
}

impl Symbols {
    pub(super) fn new(build_ids: HashMap<String, Vec<u8>>, kernel_release: &str) -> Self {
        let kernel = Kernel::running(kernel_release, build_ids.get(KERNEL_NAME));
        Symbols { build_ids, kernel, ..Symbols::default() }
    }

    pub(super) fn find_kernel(&self, ip: u64) -> Option<Symbol> {
        self.kernel.find(ip)
    }

    /// The function at an address. `ip` is inside of the instruction, so that a call at
    /// the end of a function is not taken for what follows it.
    pub(super) fn find(&mut self, mapping: &Mapping, ip: u64) -> Option<Symbol> {
        if !self.files.contains_key(&mapping.path) {
            let build_id = self.build_ids.get(&*mapping.path);
            let file = match SymbolFile::open(&mapping.path, build_id) {
                Ok(file) => file,
                Err(why) => {
                    self.missing.push((Rc::clone(&mapping.path), why));
                    SymbolFile::default()
                }
            };
            self.files.insert(Rc::clone(&mapping.path), file);
        }
        let file_offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        self.files.get(&mapping.path)?.find(file_offset)
    }
}

impl SymbolFile {
    fn open(path: &str, build_id: Option<&Vec<u8>>) -> Result<SymbolFile, &'static str> {
        // `[vdso]`, `//anon` and the like are no files, and nothing else is opened.
        if !path.starts_with('/') || path.starts_with("//") {
            return Err("it is no file");
        }
        if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return Err("it is not here");
        }
        let bytes = Bytes::open(Path::new(path)).map_err(|_| "it cannot be read")?;
        let file = object::File::parse(bytes.as_ref()).map_err(|_| "it is no ELF file")?;
        let own_id = file.build_id().ok().flatten();
        if build_id.is_some_and(|recorded| own_id != Some(recorded)) {
            return Err("it is another build than was recorded");
        }
        let base = bytes.as_ref().as_ptr().addr();
        let mut functions: Vec<(u64, u64, usize, u32)> = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name_bytes() else { continue };
            if symbol.kind() != SymbolKind::Text || symbol.address() == 0 || name.is_empty() {
                continue;
            }
            let end = symbol.address().saturating_add(symbol.size());
            let place = name.as_ptr().addr().wrapping_sub(base);
            functions.push((symbol.address(), end, place, name.len() as u32));
        }
        functions.sort_unstable();
        functions.dedup_by_key(|function| function.0);
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let segments = segments.collect();
        Ok(SymbolFile { functions, segments, bytes: Some(bytes) })
    }

    fn find(&self, file_offset: u64) -> Option<Symbol> {
        let &(offset, _, address) = self.segments.iter().find(|&&(offset, size, _)| {
            file_offset.checked_sub(offset).is_some_and(|inside| inside < size)
        })?;
        let address = address.wrapping_add(file_offset - offset);
        let after = self.functions.partition_point(|function| function.0 <= address);
        let &(start, end, place, len) = self.functions[..after].last()?;
        // Functions written in assembly often say no size.
        if address >= end && start != end {
            return None;
        }
        let bytes = self.bytes.as_ref()?.as_ref();
        let name = bytes.get(place..place.checked_add(len as usize)?)?;
        Some(Symbol { name: demangled(&String::from_utf8_lossy(name)), is_entry: address == start })
    }
}

/// The name as the source has it.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash at the end.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    // `read@@GLIBC_2.2.5`: the version says nothing here.
    name.split_once('@').map_or(name, |(name, _)| name).to_owned()
}

const KERNEL_NAME: &str = "[kernel.kallsyms]";

/// The symbols of the kernel, where it is the one that runs here.
#[derive(Default)]
struct Kernel {
    functions: Vec<(u64, String)>,
}

impl Kernel {
    /// Addresses differ from start to start, so only the very kernel that was recorded will
    /// do: the same release and, where it is known, the same build id.
    fn running(release: &str, build_id: Option<&Vec<u8>>) -> Kernel {
        let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if release.is_empty() || own.trim_end() != release {
            return Kernel::default();
        }
        let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
        if build_id.is_some_and(|id| memchr::memmem::find(&notes, id).is_none()) {
            return Kernel::default();
        }
        Kernel::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Kernel {
        let function = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            // Hidden from this user: all are 0.
            (is_code && address != 0).then(|| (address, name.to_owned()))
        };
        let mut functions: Vec<(u64, String)> = text.lines().filter_map(function).collect();
        functions.sort();
        Kernel { functions }
    }

    fn find(&self, ip: u64) -> Option<Symbol> {
        let after = self.functions.partition_point(|function| function.0 <= ip);
        let (start, name) = self.functions[..after].last()?;
        Some(Symbol { name: name.clone(), is_entry: *start == ip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        let check = |name: &str, expected: &str| assert_eq!(demangled(name), expected);
        check("main", "main");
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
        check(
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
        );
        check("pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock");
        check("_Znot_a_name", "_Znot_a_name");
    }

    #[test]
    fn kernel_symbols_are_read() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t schedule\n\
                    ffffffff81000200 D data\n0000000000000000 T hidden\n";
        let kernel = Kernel::parse(text);
        let found = kernel.find(0xffff_ffff_8100_0150).expect("schedule");
        assert_eq!((found.name.as_str(), found.is_entry), ("schedule", false));
        assert_eq!(kernel.find(0x1000), None);
    }

    #[test]
    fn only_files_are_opened() {
        for path in ["[vdso]", "//anon", "relative", "/dev/null", "/"] {
            assert!(SymbolFile::open(path, None).is_err(), "{path}");
        }
        let own = std::env::current_exe().expect("this test");
        let own = own.to_string_lossy();
        assert!(SymbolFile::open(&own, None).is_ok_and(|file| !file.functions.is_empty()));
        let other = SymbolFile::open(&own, Some(&vec![1; 20]));
        assert_eq!(other.err(), Some("it is another build than was recorded"));
    }
}
