//! Places in a file by line of the source, or by address.

use std::collections::BTreeSet;
use std::path::Path;

use gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection};
use spanwise_files::FileBytes;

use super::exits::probe_sites;
use super::named::file_offset;

/// Places where the code of a line begins, by the file's debug information, or why one must not be
/// probed. The file of the source is named by the end of its path. Empty where nothing is known of
/// it.
pub fn line_sites(path: &Path, source: &str, line: u64) -> Vec<Result<u64, String>> {
    let Some(bytes) = program(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return Vec::new() };
    let addresses = line_addresses(&file, source, line).unwrap_or_default();
    probe_sites(&file, bytes.as_ref(), addresses.into_iter().collect())
}

/// The place of an address as the linker gave it, in a program and not in a library; none where
/// the file is no program or does not hold it.
///
/// A breakpoint within an instruction would change what the program does, so an address at which
/// no instruction is known to begin is refused, with the reason.
pub fn address_site(path: &Path, address: u64) -> Result<Option<u64>, String> {
    let Some(bytes) = program(path) else { return Ok(None) };
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return Ok(None) };
    let is_program = file.kind() == object::ObjectKind::Executable || is_moved_program(&file);
    if !is_program || file_offset(&file, address).is_none() {
        return Ok(None);
    }
    probe_sites(&file, bytes.as_ref(), BTreeSet::from([address])).into_iter().next().transpose()
}

/// Programs that may lie anywhere in memory have the type of libraries, but say what they are.
fn is_moved_program(file: &object::File<'_>) -> bool {
    const FLAGS_1: u64 = 0x6fff_fffb;
    const IS_PROGRAM: u64 = 0x0800_0000;
    let section = file.section_by_name(".dynamic");
    let data = section.and_then(|section| section.data().ok()).unwrap_or_default();
    let word = |bytes: &[u8]| {
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        if file.is_little_endian() { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    };
    file.is_64()
        && data
            .chunks_exact(16)
            .any(|row| word(row) == FLAGS_1 && word(&row[8..]) & IS_PROGRAM != 0)
}

fn program(path: &Path) -> Option<FileBytes> {
    if path.is_file() { FileBytes::open_regular(path).ok() } else { None }
}

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

fn line_addresses(file: &object::File<'_>, source: &str, line: u64) -> gimli::Result<Vec<u64>> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: SectionId| -> gimli::Result<Reader<'_>> {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), endian))
    };
    let dwarf = Dwarf::load(load)?;
    let mut addresses = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        // What one unit says wrong is no reason to pass over the others.
        let _ = in_unit(&dwarf, header, source, line, &mut addresses);
    }
    Ok(addresses)
}

fn in_unit(
    dwarf: &Dwarf<Reader<'_>>,
    header: gimli::UnitHeader<Reader<'_>>,
    source: &str,
    line: u64,
    addresses: &mut Vec<u64>,
) -> gimli::Result<()> {
    let unit = dwarf.unit(header)?;
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut rows = program.rows();
    let mut line_before = None;
    while let Some((header, row)) = rows.next_row()? {
        let here = row.line().map(|line| line.get());
        // A line that goes on is not begun again.
        if here == Some(line) && line_before != here && row.is_stmt() && !row.end_sequence() {
            let file = row.file(header);
            let name = file.map(|file| dwarf.attr_string(&unit, file.path_name())).transpose()?;
            let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let folder = file.and_then(|file| file.directory(header));
            let folder = folder.map(|folder| dwarf.attr_string(&unit, folder)).transpose()?;
            let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
            let whole = format!("{}/{name}", folder.unwrap_or_default());
            if Path::new(&whole).ends_with(source) {
                addresses.push(row.address());
            }
        }
        line_before = if row.end_sequence() { None } else { here };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::named::function_sites;

    #[test]
    fn lines_of_this_test_are_found_where_it_has_debug_information() {
        let own = std::env::current_exe().expect("this test");
        let line = u64::from(line!()) - 1;
        let sites = line_sites(&own, "sites/lines.rs", line);
        if sites.is_empty() {
            // Built without it, or packed.
            return;
        }
        assert!(line_sites(&own, "no_such_file.rs", line).is_empty());
        assert!(line_sites(&own, "sites/lines.rs", 1_000_000).is_empty());
    }

    #[test]
    fn addresses_are_those_of_programs() {
        let own = std::env::current_exe().expect("this test");
        let bytes = program(&own).expect("a file");
        let file = object::File::parse(bytes.as_ref()).expect("a program");
        let site = address_site(&own, file.entry()).expect("it begins with an instruction");
        let start = function_sites(&own, "_start").first().copied();
        assert!(site.is_some());
        assert_eq!(start.map(|at| at & !7), site.map(|at| at & !7));
        assert_eq!(address_site(&own, u64::MAX), Ok(None));
        assert_eq!(address_site(Path::new("/"), 1), Ok(None));
    }
}
