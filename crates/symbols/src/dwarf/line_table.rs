//! The line of the source that an address belongs to.

use std::rc::Rc;

use super::inlines::{Dwarf, Unit, Work};

/// A place in the source. Empty, with line 0, where it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceLine {
    pub file: Rc<str>,
    pub line: u32,
}

/// From an address on, until the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineRow {
    address: u64,
    pub file: u64,
    /// 0 where there is no code, or none that the source has.
    pub line: u32,
}

/// The line table of a unit, by address.
#[derive(Debug, Default)]
pub(super) struct LineTable(Vec<LineRow>);

impl LineTable {
    /// Reads no more rows than are left.
    pub(super) fn read(unit: &Unit<'_>, rows_left: &mut usize, work: &mut Work) -> LineTable {
        let mut found: Vec<LineRow> = Vec::new();
        let Some(program) = unit.line_program.clone() else { return LineTable::default() };
        let mut rows = program.rows();
        let mut before: Option<LineRow> = None;
        while let Ok(Some((_, row))) = rows.next_row()
            && work.step().is_some()
            && *rows_left > 0
        {
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
            let line = if row.end_sequence() { 0 } else { line.unwrap_or(0) };
            let next = LineRow { address: row.address(), file: row.file_index(), line };
            let goes_on = before.is_some_and(|last| (last.file, last.line) == (next.file, line));
            before = (!row.end_sequence()).then_some(next);
            if !goes_on {
                *rows_left -= 1;
                found.push(next);
            }
        }
        // Of two rows at one address the later one holds.
        found.sort_by_key(|row| row.address);
        LineTable(found)
    }

    pub(super) fn at(&self, address: u64) -> Option<LineRow> {
        let after = self.0.partition_point(|row| row.address <= address);
        self.0[..after].last().copied().filter(|row| row.line > 0)
    }
}

impl SourceLine {
    /// A file of a unit by its number, and a line.
    pub(super) fn of(dwarf: &Dwarf<'_>, unit: &Unit<'_>, file: u64, line: u32) -> SourceLine {
        let path = path_of(dwarf, unit, file).unwrap_or_default();
        SourceLine { file: path.into(), line }
    }
}

fn path_of(dwarf: &Dwarf<'_>, unit: &Unit<'_>, number: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(number)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    let mut path = text(file.path_name())?;
    let folder = file.directory(header).and_then(text).unwrap_or_default();
    let start = unit.comp_dir.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    for outer in [folder, start] {
        if !path.starts_with('/') && !outer.is_empty() {
            path = format!("{outer}/{path}");
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_line_of_the_row_before_it() {
        let row = |address, line| LineRow { address, file: 1, line };
        let lines = LineTable(vec![row(10, 5), row(14, 6), row(20, 0), row(30, 9)]);
        let line = |address| lines.at(address).map(|row| row.line);
        assert_eq!(
            [9, 10, 13, 14, 19, 20, 29, 31].map(line),
            [None, Some(5), Some(5), Some(6), Some(6), None, None, Some(9)]
        );
    }
}
