//! Functions that the compiler put into others, and lines of the source, as the debug
//! information of a file has them.
//!
//! Read with gimli, which unwinding brings along already, and only as far as addresses ask:
//! which addresses a unit is about, then its functions, then the inside of one of them. The
//! crate made for this keeps every range of every function that it has met, and a file that
//! names one long list of ranges over and over makes that as large as it likes. Here the
//! ranges kept are fewer than the bytes read, and all walking together has an end.
//!
//! Debug information that stands in yet another file (`.dwo`, or shared by `dwz`) is not
//! read.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

use gimli::{
    AbbreviationsCacheStrategy, AttributeValue, DW_AT_abstract_origin, DW_AT_call_file,
    DW_AT_call_line, DW_AT_linkage_name, DW_AT_name, DW_AT_specification,
    DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_subprogram, EndianSlice, RunTimeEndian,
    SectionId, UnitHeader, UnitOffset,
};
use object::{CompressionFormat, Object, ObjectSection};
use spanwise_files::FileBytes;

use super::line_table::{LineTable, SourceLine};
use crate::demangle::demangled;
use crate::elf::{Segments, debug_file};
use crate::mapped_files::Files;
use crate::mappings::Mapping;

pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Slice<'a>>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// Entries and ranges that are read for one recording: seconds, where a file is made to
/// take forever; honest ones stay far below.
const WORK_MAX: u64 = 1 << 27;

/// An entry that refers to an entry that refers to an entry: more is a circle.
const REFERENCES_MAX: usize = 16;

/// Debug information shrinks to a fifth or so; what claims to grow by more than this lies.
const GROWTH_MAX: u64 = 64;

/// Bytes that stay where they are while a recording is read: what is made of them points
/// into them.
#[derive(Default)]
pub struct Shelf {
    first: OnceCell<Box<(FileBytes, Shelf)>>,
}

impl Shelf {
    fn keep(&self, bytes: FileBytes) -> &[u8] {
        let mut shelf = self;
        while let Some(kept) = shelf.first.get() {
            shelf = &kept.1;
        }
        shelf.first.get_or_init(|| Box::new((bytes, Shelf::default()))).0.as_ref()
    }
}

/// The debug information of all files, each read when first asked for.
pub struct Inlines<'a> {
    shelf: &'a Shelf,
    files: HashMap<Rc<str>, Option<DebugFile<'a>>>,
    work: Work,
}

impl<'a> Inlines<'a> {
    pub fn new(shelf: &'a Shelf) -> Self {
        Inlines { shelf, files: HashMap::new(), work: Work(WORK_MAX) }
    }

    /// Where the code at this address stands in the source.
    pub fn find(&mut self, files: &mut Files, mapping: &Mapping, ip: u64) -> AddressLines {
        let shelf = self.shelf;
        let file = self.files.entry(Rc::clone(&mapping.path)).or_insert_with(|| {
            let bytes = files.get(&mapping.path)?;
            DebugFile::read(shelf, shelf.keep(bytes), &mut self.work)
        });
        let file_offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        let located = file.as_mut().and_then(|file| file.find(file_offset, &mut self.work));
        located.unwrap_or_default()
    }
}

/// What debug information says about an address.
#[derive(Debug, Default)]
pub struct AddressLines {
    /// Where the function itself stands.
    pub own: SourceLine,
    /// The functions that were put into it, from the outermost on.
    pub inlined: Vec<InlinedCall>,
}

/// A function that the compiler put into another.
#[derive(Debug)]
pub struct InlinedCall {
    pub name: String,
    pub stands: SourceLine,
}

/// Such a function, and where its caller calls it.
struct CallAt {
    name: String,
    file: u64,
    line: u32,
}

/// What may still be done.
pub(super) struct Work(u64);

impl Work {
    /// `None` where all is done that should be.
    pub(super) fn step(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// From, to, and of what.
type Reach<T> = (u64, u64, T);

struct DebugFile<'a> {
    dwarf: Dwarf<'a>,
    segments: Segments,
    /// In the order of the file.
    headers: Vec<UnitHeader<Slice<'a>>>,
    /// Numbers of units, by address.
    reaches: Vec<Reach<u32>>,
    opened: HashMap<u32, Option<Rc<UnitTables<'a>>>>,
    /// How many more ranges may be kept.
    ranges_left: usize,
    /// How many more rows of line tables may be kept.
    rows_left: usize,
}

/// A unit, and its functions and lines by address.
struct UnitTables<'a> {
    unit: Unit<'a>,
    functions: OnceCell<Vec<Reach<UnitOffset>>>,
    lines: OnceCell<LineTable>,
}

impl<'a> DebugFile<'a> {
    fn read(shelf: &'a Shelf, bytes: &'a [u8], work: &mut Work) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let segments = Segments::of(&file);
        let sections = match file.section_by_name(".debug_info") {
            Some(_) => Sections { file, shelf },
            None => {
                let apart = debug_file(file.build_id().ok().flatten()?)?;
                Sections { file: object::File::parse(shelf.keep(apart)).ok()?, shelf }
            }
        };
        let mut bytes_read = 0;
        let mut dwarf = Dwarf::load(|id| {
            let section = sections.get(id);
            bytes_read += section.len();
            Ok::<_, gimli::Error>(section)
        })
        .ok()?;
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        // Where one makes no sense, those before it are good.
        while let Ok(Some(header)) = units.next() {
            headers.push(header);
        }
        let (reaches, opened) = (Vec::new(), HashMap::new());
        let (ranges_left, rows_left) = (bytes_read / 4, bytes_read / 2);
        let mut debug =
            DebugFile { dwarf, segments, headers, reaches, opened, ranges_left, rows_left };
        debug.find_reaches(work);
        Some(debug)
    }

    /// Which addresses each unit is about.
    fn find_reaches(&mut self, work: &mut Work) -> Option<()> {
        for number in 0..self.headers.len() {
            work.step()?;
            let Ok(unit) = self.dwarf.unit(self.headers[number]) else { continue };
            let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                work.step()?;
                // What the linker threw away is left at 0.
                if range.begin != 0 && range.begin < range.end && self.ranges_left > 0 {
                    self.ranges_left -= 1;
                    self.reaches.push((range.begin, range.end, number as u32));
                }
            }
        }
        self.reaches.sort_unstable();
        Some(())
    }

    fn find(&mut self, file_offset: u64, work: &mut Work) -> Option<AddressLines> {
        let address = self.segments.address(file_offset)?;
        let number = at(&self.reaches, address)?;
        let opened = self.open(number)?;
        if opened.functions.get().is_none() {
            let functions = self.functions(&opened.unit, work);
            opened.functions.get_or_init(|| functions);
        }
        if opened.lines.get().is_none() {
            let lines = LineTable::read(&opened.unit, &mut self.rows_left, work);
            opened.lines.get_or_init(|| lines);
        }
        let lines = opened.lines.get()?;
        let mut calls = Vec::new();
        if let Some(function) = at(opened.functions.get()?, address) {
            // What was found before something that makes no sense is good.
            self.walk(&opened.unit, function, address, &mut calls, work);
        }
        let source = |file, line| SourceLine::of(&self.dwarf, &opened.unit, file, line);
        let mut located = AddressLines::default();
        let mut around = None;
        // A caller stands where it called what was put into it; the innermost where the
        // line table says.
        for call in calls {
            let stands = source(call.file, call.line);
            match around.replace(call.name) {
                None => located.own = stands,
                Some(name) => located.inlined.push(InlinedCall { name, stands }),
            }
        }
        let innermost = lines.at(address).map(|row| source(row.file, row.line)).unwrap_or_default();
        match around {
            None => located.own = innermost,
            Some(name) => located.inlined.push(InlinedCall { name, stands: innermost }),
        }
        Some(located)
    }

    fn open(&mut self, number: u32) -> Option<Rc<UnitTables<'a>>> {
        let DebugFile { dwarf, headers, opened, .. } = self;
        let opened = opened.entry(number).or_insert_with(|| {
            let unit = dwarf.unit(*headers.get(number as usize)?).ok()?;
            let (functions, lines) = Default::default();
            Some(Rc::new(UnitTables { unit, functions, lines }))
        });
        opened.clone()
    }

    /// The functions of a unit that have code.
    fn functions(&mut self, unit: &Unit<'a>, work: &mut Work) -> Vec<Reach<UnitOffset>> {
        let mut functions = Vec::new();
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs()
            && work.step().is_some()
        {
            if entry.tag() != DW_TAG_subprogram {
                continue;
            }
            let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) else { continue };
            while let Ok(Some(range)) = ranges.next()
                && work.step().is_some()
                && self.ranges_left > 0
            {
                self.ranges_left -= 1;
                functions.push((range.begin, range.end, entry.offset()));
            }
        }
        functions.sort_unstable();
        functions
    }

    /// Goes through the inside of a function, along the blocks that hold the address.
    fn walk(
        &mut self,
        unit: &Unit<'a>,
        function: UnitOffset,
        address: u64,
        calls: &mut Vec<CallAt>,
        work: &mut Work,
    ) -> Option<()> {
        let mut entries = unit.entries_at_offset(function).ok()?;
        entries.next_dfs().ok()??;
        // Entries deeper than this have nothing to do with the address.
        let mut passed_over = None;
        while let Some(entry) = entries.next_dfs().ok()?.filter(|entry| entry.depth() > 0) {
            work.step()?;
            if passed_over.is_some_and(|depth| entry.depth() > depth) {
                continue;
            }
            let is_inlined = entry.tag() == DW_TAG_inlined_subroutine
                && self.holds(unit, entry, address, work)?;
            let is_inside = is_inlined || entry.tag() == DW_TAG_lexical_block;
            passed_over = (!is_inside).then_some(entry.depth());
            if is_inlined {
                let name = self.name(unit, entry).unwrap_or_else(|| "[unknown]".to_owned());
                let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
                let file = match entry.attr_value(DW_AT_call_file) {
                    Some(AttributeValue::FileIndex(file)) => file,
                    _ => number(DW_AT_call_file).unwrap_or(0),
                };
                let line = number(DW_AT_call_line).and_then(|line| u32::try_from(line).ok());
                calls.push(CallAt { name, file, line: line.unwrap_or(0) });
            }
        }
        Some(())
    }

    fn holds(
        &self,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
        address: u64,
        work: &mut Work,
    ) -> Option<bool> {
        let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) else { return Some(false) };
        while let Ok(Some(range)) = ranges.next() {
            work.step()?;
            if (range.begin..range.end).contains(&address) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The name for linkers, which says where a function belongs; else the plain one.
    fn name(&mut self, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<String> {
        let mut plain = None;
        let mut target = Target::of(unit, entry, &self.dwarf, &mut plain);
        let mut elsewhere: Option<Rc<UnitTables<'a>>> = None;
        for _ in 0..REFERENCES_MAX {
            let offset = match target {
                Target::Linkage(name) => return Some(demangled(&name)),
                Target::Nothing => break,
                Target::Unit(offset) => offset,
                Target::Info(offset) => {
                    let after = self.headers.partition_point(|header| {
                        header.debug_info_offset().is_some_and(|start| start.0 <= offset)
                    });
                    let number = after.checked_sub(1)?;
                    let start = self.headers[number].debug_info_offset()?.0;
                    elsewhere = Some(self.open(number as u32)?);
                    UnitOffset(offset - start)
                }
            };
            let unit = elsewhere.as_ref().map_or(unit, |opened| &opened.unit);
            let Ok(entry) = unit.entry(offset) else { break };
            target = Target::of(unit, &entry, &self.dwarf, &mut plain);
        }
        plain
    }
}

/// Where the name of an entry is.
enum Target {
    Linkage(String),
    Unit(UnitOffset),
    Info(usize),
    Nothing,
}

impl Target {
    /// `plain` is filled where the entry has a name, but not one for linkers.
    fn of<'a>(
        unit: &Unit<'a>,
        entry: &Entry<'a>,
        dwarf: &Dwarf<'a>,
        plain: &mut Option<String>,
    ) -> Target {
        let text = |name| {
            let text = dwarf.attr_string(unit, entry.attr_value(name)?).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        if let Some(name) = text(DW_AT_linkage_name) {
            return Target::Linkage(name);
        }
        if plain.is_none() {
            *plain = text(DW_AT_name);
        }
        let origin = entry.attr_value(DW_AT_abstract_origin);
        match origin.or_else(|| entry.attr_value(DW_AT_specification)) {
            Some(AttributeValue::UnitRef(offset)) => Target::Unit(offset),
            Some(AttributeValue::DebugInfoRef(offset)) => Target::Info(offset.0),
            _ => Target::Nothing,
        }
    }
}

/// The last that begins at or before an address and reaches over it. Ranges overlap
/// only by mistake, so only a few are examined.
fn at<T: Copy>(reaches: &[Reach<T>], address: u64) -> Option<T> {
    let after = reaches.partition_point(|reach| reach.0 <= address);
    let near = reaches[..after].iter().rev().take(16);
    near.filter(|reach| address < reach.1).map(|reach| reach.2).next()
}

/// The sections of a file, unpacked where they are packed.
struct Sections<'a> {
    file: object::File<'a>,
    shelf: &'a Shelf,
}

impl<'a> Sections<'a> {
    fn get(&self, id: SectionId) -> Slice<'a> {
        let order = match self.file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        EndianSlice::new(self.bytes(id.name()).unwrap_or_default(), order)
    }

    fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        let packed = self.file.section_by_name(name)?.compressed_data().ok()?;
        let size = packed.uncompressed_size;
        let mut unpack: Box<dyn Read> = match packed.format {
            CompressionFormat::None => return Some(packed.data),
            CompressionFormat::Zlib => Box::new(flate2::read::ZlibDecoder::new(packed.data)),
            CompressionFormat::Zstandard => Box::new(zstd::Decoder::new(packed.data).ok()?),
            _ => return None,
        };
        if size > (packed.data.len() as u64).saturating_mul(GROWTH_MAX).saturating_add(1 << 16) {
            return None;
        }
        let mut unpacked = Vec::new();
        unpack.by_ref().take(size).read_to_end(&mut unpacked).ok()?;
        Some(self.shelf.keep(unpacked.into()))
    }
}

#[cfg(test)]
mod tests;
