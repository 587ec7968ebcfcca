//! Where probes can note the calls and the returns of functions, without touching a stack.
//!
//! A return probe replaces the return address on the stack, and whoever walks the stack then finds
//! a stranger there: exceptions end C++ programs, Go ends itself. So a function's own `ret`
//! instructions and its jumps to other functions are found in its code. What is not understood is
//! refused with the reason; nothing is guessed.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SymbolKind};
use spanwise_files::FileBytes;
use spanwise_pt::{CodePart, LeaveKind};

use super::named::{addresses_named, file_offset};
use super::patterns::FunctionPatterns;
use crate::elf::debug_file;

/// A function, and where probes can note its calls and its returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionProbes {
    /// As the source has it.
    pub name: String,
    /// The goroutine is in a register; its stack may move to another place.
    pub is_go: bool,
    /// Or why there are none.
    pub places: Result<ProbePlaces, String>,
}

/// Places of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlaces {
    /// Offset in the file.
    pub entry: u64,
    pub exits: Vec<ExitPlace>,
}

impl ProbePlaces {
    /// The exit that is also the entry: the function is left, or may be, by its first instruction.
    pub fn exit_at_entry(&self) -> Option<&ExitPlace> {
        self.exits.iter().find(|exit| exit.offset == self.entry)
    }
}

/// An instruction by which a function is left, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitPlace {
    /// In the file.
    pub offset: u64,
    /// Of the instruction.
    pub len: u8,
    pub kind: LeaveKind,
    /// Of an indirect jump: the parts of the function, from the instruction on, to the end.
    pub inside: Vec<(i64, i64)>,
}

/// How many symbols may begin between an address and the start of one that is around it.
const OVERLAPS_MAX: usize = 1024;

/// More parts than this no function has.
const PARTS_MAX: usize = 4;

/// Functions of a file by patterns of their names. Empty where the file is no program.
pub fn probes_matching(path: &Path, patterns: FunctionPatterns<'_>) -> Vec<FunctionProbes> {
    if patterns.wanted.is_empty() {
        return Vec::new();
    }
    probes(path, |file| patterns.addresses_in(file).into_iter().collect())
}

/// Functions of a file by their name, as for [`super::function_sites`].
pub fn probes_named(path: &Path, name: &str) -> Vec<FunctionProbes> {
    if name.is_empty() {
        return Vec::new();
    }
    let named = |address| (address, name.to_owned());
    probes(path, |file| addresses_named(file, name).into_iter().map(named).collect())
}

fn probes(
    path: &Path,
    choose: impl FnOnce(&object::File<'_>) -> Vec<(u64, String)>,
) -> Vec<FunctionProbes> {
    if !path.is_file() {
        return Vec::new();
    }
    let Ok(bytes) = FileBytes::open_regular(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return Vec::new() };
    let chosen = choose(&file);
    if chosen.is_empty() {
        return Vec::new();
    }
    let apart = file.build_id().ok().flatten().and_then(debug_file);
    let apart = apart.as_ref().and_then(|apart| object::File::parse(apart.as_ref()).ok());
    let code = CodeFile::new(&file, bytes.as_ref(), apart.as_ref());
    let mut found: Vec<FunctionProbes> = Vec::with_capacity(chosen.len());
    let mut entries = BTreeSet::new();
    for (address, name) in chosen {
        let probes = code.probes_of(address, name);
        // Of two names of one place, one.
        if probes.places.as_ref().is_ok_and(|places| !entries.insert(places.entry)) {
            continue;
        }
        found.push(probes);
    }
    found
}

/// Offsets in a file at which probes note that instructions are executed, or why none may be set.
pub(super) fn probe_sites(
    file: &object::File<'_>,
    bytes: &[u8],
    addresses: BTreeSet<u64>,
) -> Vec<Result<u64, String>> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let apart = file.build_id().ok().flatten().and_then(debug_file);
    let apart = apart.as_ref().and_then(|apart| object::File::parse(apart.as_ref()).ok());
    let code = CodeFile::new(file, bytes, apart.as_ref());
    let sites = addresses.into_iter().map(|address| code.probe_site(address));
    // Of two names of one place, one.
    sites.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Where code of a function is that compilers have moved away from it, from start to end: what it
/// jumps into the middle of. Stripped files have no symbol for that.
pub(crate) fn moved_parts(file: &object::File<'_>, bytes: &[u8], address: u64) -> Vec<(u64, u64)> {
    if file.architecture() != Architecture::X86_64 {
        return Vec::new();
    }
    let parts = CodeFile::new(file, bytes, None).parts_of(address).unwrap_or_default();
    let moved = parts.into_iter().skip(1);
    moved.map(|part| (part.address, part.address + part.code.len() as u64)).collect()
}

/// A function of the symbol table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

struct CodeFile<'a> {
    file: &'a object::File<'a>,
    bytes: &'a [u8],
    /// By address.
    symbols: Vec<Symbol>,
    /// Of each of these, how far it reaches, or one before it.
    reached: Vec<u64>,
    /// Of the functions of a name: parts that were moved away, and whether it has only one owner.
    cold: HashMap<String, Vec<(u64, u64, bool)>>,
    /// Start and length of what unwinding tables describe, by start.
    frames: OnceCell<Vec<(u64, u64)>>,
    go: Option<GoCode>,
}

/// What of a file is Go.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GoCode {
    /// From here to there.
    Range(u64, u64),
    Unknown(&'static str),
}

impl<'a> CodeFile<'a> {
    fn new(
        file: &'a object::File<'a>,
        bytes: &'a [u8],
        apart: Option<&object::File<'_>>,
    ) -> CodeFile<'a> {
        let mut symbols = symbols_of(file);
        symbols.extend(apart.map(symbols_of).unwrap_or_default());
        symbols.sort_unstable();
        symbols.dedup();
        let go = go_code(file, &symbols);
        let cold = cold_parts(&symbols);
        let reached = symbols.iter().scan(0, |reached, symbol| {
            *reached = symbol.address.saturating_add(symbol.size).max(*reached);
            Some(*reached)
        });
        let reached = reached.collect();
        CodeFile { file, bytes, symbols, reached, cold, frames: OnceCell::new(), go }
    }

    fn probes_of(&self, address: u64, name: String) -> FunctionProbes {
        let (is_go, refusal) = match &self.go {
            Some(GoCode::Range(from, to)) if !(*from..*to).contains(&address) => (false, None),
            Some(GoCode::Unknown(why)) => (true, Some((*why).to_owned())),
            Some(GoCode::Range(..)) if name.ends_with(".abi0") => {
                (true, Some("it is written in assembly, without Go's registers".to_owned()))
            }
            Some(GoCode::Range(..)) => (true, None),
            None => (false, None),
        };
        let places = match refusal {
            Some(why) => Err(why),
            None => self.places_of(address, is_go),
        };
        FunctionProbes { name, is_go, places }
    }

    fn places_of(&self, address: u64, is_go: bool) -> Result<ProbePlaces, String> {
        if self.file.architecture() != Architecture::X86_64 {
            return Err("only code of x86-64 is taken apart".to_owned());
        }
        let parts = self.parts_of(address)?;
        let places = spanwise_pt::function_places(&parts, is_go)?;
        // Its own symbol may be in the middle of an instruction of another one's.
        self.probe_place(address)?;
        let relative = |from: u64, to: u64| to.wrapping_sub(from) as i64;
        let exit = |exit: &spanwise_pt::Exit| {
            let is_indirect =
                matches!(exit.kind, LeaveKind::ThroughRegister(_) | LeaveKind::ThroughMemory(_));
            let inside = |part: &CodePart<'_>| {
                let start = relative(exit.address, part.address);
                (start, start + part.code.len() as i64)
            };
            let inside = if is_indirect { parts.iter().map(inside).collect() } else { Vec::new() };
            Ok(ExitPlace {
                offset: self.offset(exit.address)?,
                len: exit.len,
                kind: exit.kind,
                inside,
            })
        };
        let exits = places.exits.iter().map(exit).collect::<Result<Vec<ExitPlace>, String>>()?;
        Ok(ProbePlaces { entry: self.offset(places.entry)?, exits })
    }

    fn offset(&self, address: u64) -> Result<u64, String> {
        let offset = file_offset(self.file, address);
        offset.ok_or_else(|| format!("{address:#x} is not in the file"))
    }

    /// Where a probe notes that the instruction at an address is executed.
    fn probe_site(&self, address: u64) -> Result<u64, String> {
        let place = match self.file.architecture() {
            Architecture::X86_64 => self.probe_place(address)?,
            Architecture::Aarch64 if address.is_multiple_of(4) => address,
            Architecture::Aarch64 => return Err(format!("{address:#x} is no multiple of 4")),
            _ => return Err("only code of x86-64 and ARM64 is known".to_owned()),
        };
        self.offset(place)
    }

    fn probe_place(&self, address: u64) -> Result<u64, String> {
        let around = self.code_around(address)?;
        let places = around.iter().map(|code| {
            let place = spanwise_pt::probe_place(&[self.part(code.address, code.size)?], address);
            place.map_err(|why| match &*code.name {
                "" => why,
                name => format!("{why}, in {name}"),
            })
        });
        let places = places.collect::<Result<BTreeSet<u64>, String>>()?;
        // The mark itself, where one of them does not allow more.
        let first = places.first().copied();
        first.ok_or_else(|| {
            "no symbol or unwinding table says which function it belongs to".to_owned()
        })
    }

    /// All that symbols and unwinding tables describe as one and that is around an address: a
    /// symbol may be in the middle of an instruction of another.
    fn code_around(&self, address: u64) -> Result<Vec<Symbol>, String> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let mut around = Vec::new();
        for at in (0..behind).rev().take_while(|&at| self.reached[at] > address) {
            if behind - at > OVERLAPS_MAX {
                return Err(format!("more than {OVERLAPS_MAX} symbols overlap there"));
            }
            let symbol = &self.symbols[at];
            if address - symbol.address < symbol.size {
                around.push(symbol.clone());
            }
        }
        around.extend(self.frame_at(address).map(|(address, size)| {
            let name = String::new();
            Symbol { address, size, name }
        }));
        // One of those that describe the same.
        around.dedup_by_key(|code| (code.address, code.size));
        Ok(around)
    }

    /// The code of a function: where it begins, and what was moved away from there.
    fn parts_of(&self, address: u64) -> Result<Vec<CodePart<'a>>, String> {
        let own = self.symbols_at(address);
        let size = own.iter().map(|symbol| symbol.size).max().unwrap_or(0);
        let size = match size {
            0 => self.frame_at(address).filter(|frame| frame.0 == address).map(|frame| frame.1),
            size => Some(size),
        };
        let size = size.ok_or("no symbol or unwinding table says how long it is")?;
        let mut parts = vec![self.part(address, size)?];
        let mut cold = self.cold_parts(own);
        while parts.len() < PARTS_MAX {
            let Some(next) = self.next_part(&parts, &mut cold)? else { return Ok(parts) };
            parts.push(next);
        }
        match self.next_part(&parts, &mut cold)? {
            None => Ok(parts),
            Some(_) => Err(format!("it has more than {PARTS_MAX} parts")),
        }
    }

    fn symbols_at(&self, address: u64) -> &[Symbol] {
        let from = self.symbols.partition_point(|symbol| symbol.address < address);
        let len = self.symbols[from..].partition_point(|symbol| symbol.address == address);
        &self.symbols[from..from + len]
    }

    fn part(&self, address: u64, size: u64) -> Result<CodePart<'a>, String> {
        let code = || {
            let from = usize::try_from(file_offset(self.file, address)?).ok()?;
            // All of it in one segment.
            file_offset(self.file, address.checked_add(size)?.checked_sub(1)?)?;
            self.bytes.get(from..from.checked_add(usize::try_from(size).ok()?)?)
        };
        let code =
            code().ok_or_else(|| format!("{size} bytes at {address:#x}: not in the file"))?;
        Ok(CodePart { address, code })
    }

    /// Code that compilers have moved out of these: `name.cold`. The flag says whether there is
    /// only one function of this name.
    fn cold_parts(&self, own: &[Symbol]) -> Vec<(u64, u64, bool)> {
        let parts = own.iter().filter_map(|symbol| self.cold.get(&*symbol.name)).flatten();
        let mut parts: Vec<(u64, u64, bool)> = parts.copied().collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// One more part that belongs to these, if there is one.
    fn next_part(
        &self,
        parts: &[CodePart<'a>],
        cold: &mut Vec<(u64, u64, bool)>,
    ) -> Result<Option<CodePart<'a>>, String> {
        let contains = |part: &CodePart<'_>, at: u64| {
            (part.address..part.address + part.code.len() as u64).contains(&at)
        };
        let entry = parts[0].address;
        // Back into the middle of these.
        let leads_back = |part: CodePart<'_>| {
            let targets = spanwise_pt::jump_targets(part).unwrap_or_default();
            let mut targets = targets.into_iter().filter(|&target| target != entry);
            targets.any(|target| parts.iter().any(|part| contains(part, target)))
        };
        let mut targets: Vec<u64> =
            parts.iter().filter_map(|&part| spanwise_pt::jump_targets(part)).flatten().collect();
        targets.retain(|&target| !parts.iter().any(|part| contains(part, target)));
        for at in 0..cold.len() {
            let (address, size, is_only) = cold[at];
            let part = self.part(address, size)?;
            if is_only || targets.iter().any(|&to| contains(&part, to)) || leads_back(part) {
                cold.remove(at);
                return Ok(Some(part));
            }
        }
        // Where symbols were stripped, tables for unwinding still know of such parts.
        for target in targets {
            let Some((start, size)) = self.frame_at(target) else { continue };
            // A jump to a stub leads to another function; one table describes all stubs.
            if !self.symbols_at(start).is_empty() || self.is_stub(target) {
                continue;
            }
            let Ok(part) = self.part(start, size) else { continue };
            if target != start || leads_back(part) {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Whether this is in a section of stubs that lead to functions of other files.
    fn is_stub(&self, address: u64) -> bool {
        let sections = self.file.sections();
        let mut sections =
            sections.filter(|section| address.wrapping_sub(section.address()) < section.size());
        sections.any(|section| section.name().is_ok_and(|name| name.starts_with(".plt")))
    }

    /// What the unwinding tables describe as one, where that is around an address.
    fn frame_at(&self, address: u64) -> Option<(u64, u64)> {
        let frames = self.frames.get_or_init(|| frames_of(self.file).unwrap_or_default());
        let at = frames.partition_point(|frame| frame.0 <= address).checked_sub(1)?;
        let (start, len) = frames[at];
        (address - start < len).then_some((start, len))
    }
}

fn symbols_of(file: &object::File<'_>) -> Vec<Symbol> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text);
    let functions = functions.filter(|symbol| symbol.address() != 0);
    functions
        .filter_map(|symbol| {
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            Some(Symbol { address: symbol.address(), size: symbol.size(), name })
        })
        .collect()
}

/// Parts that symbols call `name.cold` or `name.cold.0`, by the name of the function.
fn cold_parts(symbols: &[Symbol]) -> HashMap<String, Vec<(u64, u64, bool)>> {
    let mut cold: HashMap<String, Vec<(u64, u64, bool)>> = HashMap::new();
    for symbol in symbols.iter().filter(|symbol| symbol.size > 0) {
        let Some((name, rest)) = symbol.name.split_once(".cold") else { continue };
        if rest.bytes().all(|c| c == b'.' || c.is_ascii_digit()) {
            cold.entry(name.to_owned()).or_default().push((symbol.address, symbol.size, true));
        }
    }
    let mut owner: HashMap<&str, u64> = HashMap::new();
    for symbol in symbols {
        let first = *owner.entry(&symbol.name).or_insert(symbol.address);
        if let Some(parts) = cold.get_mut(&symbol.name).filter(|_| first != symbol.address) {
            parts.iter_mut().for_each(|part| part.2 = false);
        }
    }
    cold
}

fn frames_of(file: &object::File<'_>) -> Option<Vec<(u64, u64)>> {
    let section = file.section_by_name(".eh_frame")?;
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let text = file.section_by_name(".text").map_or(0, |text| text.address());
    let bases = bases.set_text(text);
    let table = EhFrame::new(section.data().ok()?, LittleEndian);
    let mut entries = table.entries(&bases);
    let mut frames = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(frame) = partial.parse(EhFrame::cie_from_offset) {
            frames.push((frame.initial_address(), frame.len()));
        }
    }
    frames.sort_unstable();
    Some(frames)
}

/// Tables of Go 1.18 and later: from then on a register holds the goroutine everywhere.
const GO_TABLES: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

fn go_code(file: &object::File<'_>, symbols: &[Symbol]) -> Option<GoCode> {
    let tables = [".gopclntab", ".data.rel.ro.gopclntab"];
    let table = tables.iter().find_map(|name| file.section_by_name(name));
    let Some(table) = table else {
        file.section_by_name(".go.buildinfo")?;
        return Some(GoCode::Unknown("a Go program without the table of its functions"));
    };
    let magic = table.data().ok().and_then(|data| data.first_chunk().copied());
    if !magic.is_some_and(|magic| GO_TABLES.contains(&u32::from_le_bytes(magic))) {
        return Some(GoCode::Unknown("a Go program of another version than 1.18 and later"));
    }
    let address = |name: &str| symbols.iter().find(|symbol| symbol.name == name);
    Some(match (address("runtime.text"), address("runtime.etext")) {
        (Some(from), Some(to)) => GoCode::Range(from.address, to.address),
        _ => GoCode::Unknown("a Go program without symbols"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_have_places() {
        let own = std::env::current_exe().expect("this test");
        let [found] = &probes_named(&own, "spanwise_symbols::sites::exits::frames_of")[..] else {
            panic!("one function");
        };
        let places = found.places.as_ref().expect("it can be watched");
        assert!(!found.is_go && !places.exits.is_empty(), "{found:?}");
        assert_eq!(probes_named(&own, "no_such_function_anywhere"), []);
        assert_eq!(probes_named(Path::new("/"), "main"), []);
        let all = ["spanwise_symbols::sites::exits::*".to_owned()];
        let patterns = FunctionPatterns { wanted: &all, excluded: &[] };
        assert!(probes_matching(&own, patterns).len() > 3);
    }

    #[test]
    fn addresses_within_instructions_are_refused() {
        let own = std::env::current_exe().expect("this test");
        let bytes = FileBytes::open_regular(&own).expect("this test");
        let file = object::File::parse(bytes.as_ref()).expect("a program");
        let name = "spanwise_symbols::sites::exits::frames_of";
        let address = *addresses_named(&file, name).first().expect("a function");
        let check = |at| probe_sites(&file, bytes.as_ref(), BTreeSet::from([at]))[0].clone();
        assert!(check(address).is_ok());
        let inside = (address..address + 64).filter_map(|at| check(at).err()).collect::<Vec<_>>();
        assert!(!inside.is_empty() && inside.len() < 63, "{inside:?}");
        assert!(inside[0].contains("in the middle of an instruction"), "{inside:?}");
        assert!(check(8).is_err(), "no code is there");
    }

    /// Most functions of a library that everybody has can be watched; the others say why not.
    #[test]
    fn functions_of_the_c_library_have_places() {
        let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
        let every = FunctionPatterns { wanted: &["*".to_owned()], excluded: &[] };
        let all = probes_matching(path, every);
        if all.is_empty() {
            return;
        }
        let refused: Vec<&FunctionProbes> =
            all.iter().filter(|probes| probes.places.is_err()).collect();
        assert!(refused.len() * 10 < all.len(), "{} of {}", refused.len(), all.len());
        for name in ["malloc", "free", "qsort", "printf"] {
            let found = all.iter().find(|probes| probes.name == name).expect(name);
            assert!(
                found.places.as_ref().is_ok_and(|places| !places.exits.is_empty()),
                "{found:?}"
            );
        }
    }
}
