//! Names of functions, from the files that were mapped and from the running kernel.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::source::Bytes;

use super::files::Files;
use super::maps::Mapping;

/// A function that was found: its name and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) is_entry: bool,
}

/// Address, end; place and length of the name in the file.
type Function = (u64, u64, usize, u32);

/// The symbols of one file.
#[derive(Default)]
struct SymbolFile {
    /// By address.
    functions: Vec<Function>,
    segments: Segments,
    bytes: Option<Bytes>,
}

/// Where the parts of a file are in memory: offset in the file, length, address.
#[derive(Default)]
pub(super) struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    pub(super) fn of(file: &object::File<'_>) -> Segments {
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Segments(segments.collect())
    }

    pub(super) fn address(&self, file_offset: u64) -> Option<u64> {
        let &(offset, _, address) = self.0.iter().find(|&&(offset, size, _)| {
            file_offset.checked_sub(offset).is_some_and(|inside| inside < size)
        })?;
        Some(address.wrapping_add(file_offset - offset))
    }

    fn file_offset(&self, address: u64) -> Option<u64> {
        let &(offset, _, start) = self.0.iter().find(|&&(_, size, start)| {
            address.checked_sub(start).is_some_and(|inside| inside < size)
        })?;
        offset.checked_add(address - start)
    }
}

/// Symbols of all files, each read when first asked for.
#[derive(Default)]
pub(super) struct Symbols {
    files: HashMap<Rc<str>, SymbolFile>,
    kernel_release: String,
    kernel: OnceCell<Kernel>,
}

impl Symbols {
    /// `kernel` are the symbols of the kernel that was recorded, where they were kept.
    pub(super) fn new(kernel_release: String, kernel: Option<&str>) -> Self {
        let kernel = kernel.map(Kernel::parse).map_or_else(OnceCell::new, OnceCell::from);
        Symbols { kernel_release, kernel, ..Symbols::default() }
    }

    /// Where functions of the kernel begin.
    pub(super) fn kernel_starts(&self, files: &Files) -> Vec<u64> {
        let kernel = self.kernel(files);
        kernel.map(|kernel| kernel.functions.iter().map(|row| row.0).collect()).unwrap_or_default()
    }

    fn kernel(&self, files: &Files) -> Option<&Kernel> {
        if files.are_closed() {
            return self.kernel.get();
        }
        let running = || Kernel::running(&self.kernel_release, files.kernel_build_id());
        Some(self.kernel.get_or_init(running))
    }

    pub(super) fn find_kernel(&self, files: &Files, ip: u64) -> Option<Symbol> {
        self.kernel(files)?.find(ip)
    }

    /// The function at an address. `ip` is inside of the instruction, so that a call at
    /// the end of a function is not taken for what follows it.
    pub(super) fn find(&mut self, files: &mut Files, mapping: &Mapping, ip: u64) -> Option<Symbol> {
        let file = self.file(files, mapping);
        let file_offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        file.find(file_offset)
    }

    /// Where the functions of a mapping begin and end, by address.
    pub(super) fn ranges(&mut self, files: &mut Files, mapping: &Mapping) -> Vec<(u64, u64)> {
        let file = self.file(files, mapping);
        let in_memory = |address: u64| {
            let inside = file.segments.file_offset(address)?.checked_sub(mapping.file_offset)?;
            let at = mapping.start.checked_add(inside)?;
            (at < mapping.end).then_some(at)
        };
        let range = |&(start, end, ..): &Function| {
            let at = in_memory(start)?;
            Some((at, at.saturating_add(end - start)))
        };
        file.functions.iter().filter_map(range).collect()
    }

    fn file(&mut self, files: &mut Files, mapping: &Mapping) -> &SymbolFile {
        let file = self.files.entry(Rc::clone(&mapping.path));
        file.or_insert_with(|| {
            files.get(&mapping.path).and_then(SymbolFile::read).unwrap_or_default()
        })
    }
}

impl SymbolFile {
    fn read(bytes: Bytes) -> Option<SymbolFile> {
        let file = object::File::parse(bytes.as_ref()).ok()?;
        let segments = Segments::of(&file);
        // Distributions keep the full table apart.
        let apart = file.build_id().ok().flatten().and_then(debug_file);
        let apart = apart.and_then(|bytes| Some((functions_of(&bytes)?, bytes)));
        let (functions, bytes) = match apart {
            Some(apart) => apart,
            None => (functions_of(&bytes)?, bytes),
        };
        Some(SymbolFile { functions, segments, bytes: Some(bytes) })
    }

    fn find(&self, file_offset: u64) -> Option<Symbol> {
        let address = self.segments.address(file_offset)?;
        let after = self.functions.partition_point(|function| function.0 <= address);
        let &(start, end, place, len) = self.functions[..after].last()?;
        // Of some neither size nor section is known.
        if address >= end && start != end {
            return None;
        }
        let bytes = self.bytes.as_ref()?.as_ref();
        let name = bytes.get(place..place.checked_add(len as usize)?)?;
        Some(Symbol { name: demangled(&String::from_utf8_lossy(name)), is_entry: address == start })
    }
}

/// Where Debian and its likes put what was stripped from a file.
pub(super) fn debug_file(build_id: &[u8]) -> Option<Bytes> {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    let path = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
    Bytes::open_regular(Path::new(&path)).ok()
}

/// The sections that hold stubs.
const STUBS: [&str; 3] = [".plt", ".plt.got", ".plt.sec"];

/// Where the section of a symbol ends.
fn section_end<'a>(file: &object::File<'a>, symbol: &impl ObjectSymbol<'a>) -> Option<u64> {
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    section.address().checked_add(section.size())
}

/// The functions of an ELF file, by address; `None` where it has no table of them.
fn functions_of(bytes: &Bytes) -> Option<Vec<Function>> {
    let file = object::File::parse(bytes.as_ref()).ok()?;
    let base = bytes.as_ref().as_ptr().addr();
    let mut functions: Vec<Function> = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let Ok(name) = symbol.name_bytes() else { continue };
        if symbol.kind() != SymbolKind::Text || symbol.address() == 0 || name.is_empty() {
            continue;
        }
        let end = match symbol.size() {
            // Those written in assembly often say no size, but reach no further than their section.
            0 => section_end(&file, &symbol).unwrap_or(symbol.address()),
            size => symbol.address().saturating_add(size),
        };
        let place = name.as_ptr().addr().wrapping_sub(base);
        functions.push((symbol.address(), end, place, name.len() as u32));
    }
    // Calls of other files go through stubs that no table names.
    for section in STUBS.iter().filter_map(|name| file.section_by_name(name)) {
        let Ok(name) = section.name_bytes() else { continue };
        let (start, end) = (section.address(), section.address().saturating_add(section.size()));
        let place = name.as_ptr().addr().wrapping_sub(base);
        functions.push((start, end, place, name.len() as u32));
    }
    functions.sort_unstable();
    functions.dedup_by_key(|function| function.0);
    (!functions.is_empty()).then_some(functions)
}

/// The name as the source has it.
pub(super) fn demangled(name: &str) -> String {
    // What is rarely run stands apart from its function; demanglers would bury the mark.
    if let Some((whole, number)) = name.split_once(".cold")
        && number.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
    {
        return format!("{}.cold{number}", demangled(whole));
    }
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

/// The symbols of the kernel, where it is the one that runs here.
#[derive(Default)]
struct Kernel {
    functions: Vec<(u64, String)>,
}

impl Kernel {
    /// Addresses differ from start to start, so only the very kernel that was recorded will
    /// do: the same release and, where it is known, the same build id.
    fn running(release: &str, build_id: Option<&[u8]>) -> Kernel {
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
        check("_ZL4diveiPi.cold", "dive(int, int*).cold");
        check("run.cold.12", "run.cold.12");
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
}
