//! Where the parts of an ELF file are: in the file, in memory, and in the file of its symbols.

use std::path::Path;

use object::{Object, ObjectSegment};
use spanwise_files::FileBytes;

/// Where the parts of a file are in memory: offset in the file, length, address.
#[derive(Default)]
pub(crate) struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    pub(crate) fn of(file: &object::File<'_>) -> Segments {
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Segments(segments.collect())
    }

    pub(crate) fn address(&self, file_offset: u64) -> Option<u64> {
        let &(offset, _, address) = self.0.iter().find(|&&(offset, size, _)| {
            file_offset.checked_sub(offset).is_some_and(|inside| inside < size)
        })?;
        Some(address.wrapping_add(file_offset - offset))
    }

    pub(crate) fn file_offset(&self, address: u64) -> Option<u64> {
        let &(offset, _, start) = self.0.iter().find(|&&(_, size, start)| {
            address.checked_sub(start).is_some_and(|inside| inside < size)
        })?;
        offset.checked_add(address - start)
    }
}

/// Where Debian and its likes put what was stripped from a file.
pub(crate) fn debug_file(build_id: &[u8]) -> Option<FileBytes> {
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    let path = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
    FileBytes::open_regular(Path::new(&path)).ok()
}
