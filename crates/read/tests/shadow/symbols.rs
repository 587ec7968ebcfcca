//! Functions of the programs that were stepped, read from their files by other means than the
//! reader's.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};

use crate::stepping::Code;

/// A function by its first address; code without a name by the number of its mapping.
pub(crate) type Function = u64;

const NAMELESS: u64 = 1 << 63;

#[derive(Default)]
pub(crate) struct Symbols {
    /// First address, the one behind the last, all names; by address.
    rows: Vec<(u64, u64, Vec<String>)>,
    mappings: Vec<(u64, u64, String)>,
}

impl Symbols {
    pub(crate) fn of(code: &[Code]) -> Symbols {
        let mut symbols = Symbols::default();
        for code in code {
            let end = code.start + code.bytes.len() as u64;
            symbols.mappings.push((code.start, end, code.file.clone()));
            if code.file.starts_with('/') || code.file == "[vdso]" {
                symbols.add_file(code);
            }
        }
        symbols.rows.sort();
        symbols.rows.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.max(next.1);
                kept.2.append(&mut next.2);
            }
            is_same
        });
        symbols
    }

    fn add_file(&mut self, code: &Code) {
        let bytes = match &*code.file {
            "[vdso]" => code.bytes.clone(),
            file => std::fs::read(file).expect("it was mapped"),
        };
        // What a runtime writes down is none.
        let Ok(file) = object::File::parse(&*bytes) else { return };
        let apart = file.build_id().ok().flatten().and_then(debug_file);
        let apart = apart.as_ref().map(|bytes| object::File::parse(&**bytes).expect("symbols"));
        let end = code.start + code.bytes.len() as u64;
        // Mappings are whole pages, so that they begin before their part of the file.
        let mapped = file.segments().find_map(|segment| {
            let (offset, _) = segment.file_range();
            let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
            let at = offset.checked_sub(code.file_offset)?.checked_add(code.start)?;
            (p_flags.0 & 1 == 1 && at < end).then(|| at.wrapping_sub(segment.address()))
        });
        let Some(moved) = mapped else { return };
        let table = apart.as_ref().unwrap_or(&file);
        for symbol in table.symbols().chain(table.dynamic_symbols()) {
            let (Ok(name), at) = (symbol.name(), symbol.address().wrapping_add(moved)) else {
                continue;
            };
            let is_code = symbol.kind() == SymbolKind::Text && symbol.address() != 0;
            if is_code && !name.is_empty() && (code.start..end).contains(&at) {
                let size = match (symbol.size(), symbol.section_index()) {
                    (0, Some(section)) => {
                        let section = table.section_by_index(section).expect("its section");
                        section.address() + section.size() - symbol.address()
                    }
                    (size, _) => size,
                };
                self.rows.push((at, at + size, vec![demangled(name)]));
            }
        }
        for section in table.sections() {
            let at = section.address().wrapping_add(moved);
            let name = section.name().expect("a name");
            if name.starts_with(".plt") && (code.start..end).contains(&at) {
                self.rows.push((at, at + section.size(), vec![name.to_owned()]));
            }
        }
    }

    /// A function that no file names.
    pub(crate) fn add(&mut self, start: u64, len: u64, name: &str) {
        self.rows.push((start, start + len, vec![name.to_owned()]));
        self.rows.sort();
    }

    /// The function at an address; parts that are rarely run belong to their function.
    pub(crate) fn find(&self, ip: u64) -> Function {
        let after = self.rows.partition_point(|row| row.0 <= ip);
        let mapping =
            |at: u64| self.mappings.iter().position(|mapping| (mapping.0..mapping.1).contains(&at));
        let here = mapping(ip);
        let last = self.rows[..after].last().filter(|row| mapping(row.0) == here);
        match last {
            Some(&(start, end, ref names)) if ip < end || start == end => {
                let whole = names.iter().find_map(|name| name.split_once(".cold"));
                let Some((whole, _)) = whole else { return start };
                let is_whole = |row: &&(u64, u64, Vec<String>)| {
                    mapping(row.0) == here && row.2.iter().any(|name| name == whole)
                };
                self.rows.iter().find(is_whole).map_or(start, |row| row.0)
            }
            _ => NAMELESS + here.map_or(0, |here| here as u64 + 1),
        }
    }

    pub(crate) fn is_entry(&self, ip: u64) -> bool {
        self.rows.binary_search_by_key(&ip, |row| row.0).is_ok()
    }

    /// All that a function may be called.
    pub(crate) fn names(&self, function: Function) -> Vec<String> {
        if let Ok(row) = self.rows.binary_search_by_key(&function, |row| row.0) {
            return self.rows[row].2.clone();
        }
        let file = function.checked_sub(NAMELESS + 1).map(|at| &self.mappings[at as usize].2);
        match file.filter(|file| file.starts_with('/') || *file == "[vdso]") {
            Some(file) => vec![format!("[unknown] ({file})")],
            None => vec!["[unknown]".to_owned()],
        }
    }
}

fn debug_file(build_id: &[u8]) -> Option<Vec<u8>> {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    std::fs::read(path).ok()
}

fn demangled(name: &str) -> String {
    if let Some((whole, _)) = name.split_once(".cold") {
        return demangled(whole) + ".cold";
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    let cpp = cpp.and_then(|symbol| symbol.demangle().ok());
    cpp.unwrap_or_else(|| name.split('@').next().unwrap_or(name).to_owned())
}
