//! Names of functions, from the files that were mapped and from the running kernel.
//!
//! Of files without symbols the tables for unwinding still tell functions apart: those are called
//! by their file and address, such as `gzip+0x3a10`. One row for the whole file would hide which of
//! its loops is hot.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use gimli::{BaseAddresses, CieOrFde, EhFrame, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use spanwise_files::FileBytes;

use crate::demangle::demangled;
use crate::elf::{Segments, debug_file};
use crate::kernel::symbols::KernelSymbols;
use crate::mapped_files::Files;
use crate::mappings::Mapping;
use crate::sites::moved_parts;

/// A function that was found: its name and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub is_entry: bool,
}

/// Address, end; place and length of the name in the file.
type Function = (u64, u64, usize, u32);

/// The symbols of one file.
#[derive(Default)]
struct SymbolFile {
    /// By address.
    functions: Vec<Function>,
    segments: Segments,
    /// Of the names.
    bytes: Option<FileBytes>,
    /// The file that was mapped.
    own: Option<FileBytes>,
    /// Functions without names, by address; read when first asked for.
    unnamed: OnceCell<Vec<Range<u64>>>,
}

/// Symbols of all files, each read when first asked for.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<Rc<str>, SymbolFile>,
    kernel_release: String,
    kernel: OnceCell<KernelSymbols>,
}

impl Symbols {
    /// `kernel` are the symbols of the kernel that was recorded, where they were kept.
    pub fn new(kernel_release: String, kernel: Option<&str>) -> Self {
        let kernel = kernel.map(KernelSymbols::parse).map_or_else(OnceCell::new, OnceCell::from);
        Symbols { kernel_release, kernel, ..Symbols::default() }
    }

    /// Where functions of the kernel begin.
    pub fn kernel_starts(&self, files: &Files) -> Vec<u64> {
        let kernel = self.kernel(files);
        kernel.map(|kernel| kernel.functions.iter().map(|row| row.0).collect()).unwrap_or_default()
    }

    fn kernel(&self, files: &Files) -> Option<&KernelSymbols> {
        if files.are_closed() {
            return self.kernel.get();
        }
        let running = || KernelSymbols::running(&self.kernel_release, files.kernel_build_id());
        Some(self.kernel.get_or_init(running))
    }

    pub fn find_kernel(&self, files: &Files, ip: u64) -> Option<Symbol> {
        self.kernel(files)?.find(ip)
    }

    /// The function at an address. `ip` is inside of the instruction, so that a call at
    /// the end of a function is not taken for what follows it.
    pub fn find(&mut self, files: &mut Files, mapping: &Mapping, ip: u64) -> Option<Symbol> {
        let file = self.file(files, mapping);
        let file_offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        file.find(file_offset)
    }

    /// What a function without a symbol is called: its file, and where it begins in that by the
    /// tables for unwinding.
    pub fn find_unnamed(
        &mut self,
        files: &mut Files,
        mapping: &Mapping,
        ip: u64,
    ) -> Option<String> {
        let file = self.file(files, mapping);
        let file_offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        file.find_unnamed(file_offset, &mapping.path)
    }

    /// Where the functions of a mapping begin and end, by address.
    pub fn ranges(&mut self, files: &mut Files, mapping: &Mapping) -> Vec<(u64, u64)> {
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
    fn read(bytes: FileBytes) -> Option<SymbolFile> {
        let file = object::File::parse(bytes.as_ref()).ok()?;
        let segments = Segments::of(&file);
        // Distributions keep the full table apart.
        let apart = file.build_id().ok().flatten().and_then(debug_file);
        let apart = apart.and_then(|bytes| Some((functions_of(&bytes)?, bytes)));
        let own = bytes.clone();
        let (functions, bytes) = match apart {
            Some(apart) => apart,
            None => (functions_of(&bytes).unwrap_or_default(), bytes),
        };
        let (bytes, own) = (Some(bytes), Some(own));
        Some(SymbolFile { functions, segments, bytes, own, unnamed: OnceCell::new() })
    }

    /// The function at a place of which no name is known.
    fn find_unnamed(&self, file_offset: u64, path: &str) -> Option<String> {
        let address = self.segments.address(file_offset)?;
        let own = self.own.as_ref()?;
        let unnamed = self.unnamed.get_or_init(|| unwound_functions(own).unwrap_or_default());
        let after = unnamed.partition_point(|range| range.start <= address);
        let range = unnamed[..after].last().filter(|range| range.contains(&address))?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let file = path.rsplit('/').next().unwrap_or(path);
        Some(format!("{file}+{:#x}", range.start))
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

/// The sections that hold stubs.
const STUBS: [&str; 3] = [".plt", ".plt.got", ".plt.sec"];

/// Where the section of a symbol ends.
fn section_end<'a>(file: &object::File<'a>, symbol: &impl ObjectSymbol<'a>) -> Option<u64> {
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    section.address().checked_add(section.size())
}

/// Where functions are by the tables for unwinding, by address.
fn unwound_functions(bytes: &FileBytes) -> Option<Vec<Range<u64>>> {
    let file = object::File::parse(bytes.as_ref()).ok()?;
    let section = file.section_by_name(".eh_frame")?;
    let order = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut table = EhFrame::new(section.data().ok()?, order);
    table.set_address_size(if file.is_64() { 8 } else { 4 });
    let start = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(start(".text"))
        .set_got(start(".got"));
    let mut found = Vec::new();
    let mut entries = table.entries(&bases);
    // Of a damaged table what stands before the damage is good.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(|table, bases, at| table.cie_from_offset(bases, at))
        else {
            continue;
        };
        let start = function.initial_address();
        if let Some(end) = start.checked_add(function.len()).filter(|&end| start > 0 && end > start)
        {
            found.push(start..end);
        }
    }
    found.sort_unstable_by_key(|range| (range.start, range.end));
    Some(found)
}

/// Functions whose parts have to be known even where names of parts are stripped: most of this one
/// is not at its symbol, and Python's stacks are joined with native ones by it. Others would take
/// long to find, and nothing depends on them.
const WITH_PARTS: &[u8] = b"_PyEval_EvalFrameDefault";

/// Parts of such functions, by the names of these.
fn stripped_parts(file: &object::File<'_>, bytes: &[u8], known: &[Function]) -> Vec<Function> {
    let is_one = |&&(_, _, place, len): &&Function| {
        bytes.get(place..).is_some_and(|rest| rest.get(..len as usize) == Some(WITH_PARTS))
    };
    let whole = known.iter().filter(is_one);
    let parts = whole.flat_map(|&(address, _, place, len)| {
        let moved = moved_parts(file, bytes, address).into_iter();
        moved.map(move |(start, end)| (start, end, place, len))
    });
    parts.collect()
}

/// The functions of an ELF file, by address; `None` where it has no table of them.
fn functions_of(bytes: &FileBytes) -> Option<Vec<Function>> {
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
    if file.symbols().next().is_none() {
        functions.extend(stripped_parts(&file, bytes.as_ref(), &functions));
    }
    functions.sort_unstable();
    functions.dedup_by_key(|function| function.0);
    (!functions.is_empty()).then_some(functions)
}

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::print_stderr, reason = "a test that skips something says so")]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const PROGRAM: &str = "__attribute__((cold, noinline)) void rare(long *x) { *x *= 3; }
        __attribute__((noinline)) long _PyEval_EvalFrameDefault(long *x) {
            for (long i = 0; i < 9; i++) { if (*x == i) { rare(x); rare(x); } *x += i; }
            return *x;
        }
        int main(int count, char **words) { long x = count; return _PyEval_EvalFrameDefault(&x); }";

    fn read(path: &Path) -> (FileBytes, Vec<Function>) {
        let bytes = FileBytes::open_regular(path).expect("it was compiled");
        let functions = functions_of(&bytes).expect("it has functions");
        (bytes, functions)
    }

    #[test]
    fn parts_of_the_interpreter_are_found_where_their_names_are_stripped() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        std::fs::write(&source, PROGRAM).expect("writable");
        let flags = ["-O2", "-rdynamic", "-freorder-blocks-and-partition", "-o"];
        let compiled = Command::new("gcc").args(flags).args([&program, &source]).status();
        if !compiled.is_ok_and(|status| status.success()) {
            return eprintln!("skipped: there is no gcc");
        }
        let (bytes, functions) = read(&program);
        let name = |bytes: &FileBytes, &(_, _, place, len): &Function| {
            let name = &bytes.as_ref()[place..place + len as usize];
            String::from_utf8_lossy(name).into_owned()
        };
        let is_cold = |one: &&Function| name(&bytes, one) == "_PyEval_EvalFrameDefault.cold";
        let &(start, end, ..) = functions.iter().find(is_cold).expect("gcc moves what is rare");
        let status = Command::new("strip").arg(&program).status().expect("it comes with gcc");
        assert!(status.success());
        let (bytes, functions) = read(&program);
        let part = functions.iter().find(|one| one.0 == start).expect("the part is known");
        assert_eq!((part.1, name(&bytes, part).as_str()), (end, "_PyEval_EvalFrameDefault"));
    }
}
