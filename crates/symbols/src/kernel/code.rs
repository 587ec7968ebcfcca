//! The code of the kernel, as `perf record --kcore` keeps it in a folder.

use std::path::Path;

use object::{Object, ObjectSegment};
use spanwise_files::FileBytes;

/// Kernels have some 20 MB of names.
const SYMBOLS_BYTES_MAX: u64 = 256 << 20;

/// The kernel's memory that holds code, and its symbols.
pub struct KernelCode {
    bytes: FileBytes,
    /// Address, place in the file, length.
    segments: Vec<(u64, usize, usize)>,
    /// As in `/proc/kallsyms`.
    pub symbols: String,
}

impl KernelCode {
    /// What is in such a folder, if anything.
    pub fn in_folder(folder: &Path) -> Option<KernelCode> {
        let bytes = FileBytes::open_beside(&folder.join("kcore")).ok()?;
        let symbols = spanwise_files::read_regular(&folder.join("kallsyms"), SYMBOLS_BYTES_MAX);
        let symbols = symbols.ok().and_then(|text| String::from_utf8(text).ok());
        let symbols = symbols.unwrap_or_default();
        KernelCode::new(bytes, symbols)
    }

    fn new(bytes: FileBytes, symbols: String) -> Option<KernelCode> {
        let file = object::File::parse(bytes.as_ref()).ok()?;
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, len) = segment.file_range();
            let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
            let is_kernel = segment.address() >> 63 == 1;
            let is_there = offset.checked_add(len)? <= bytes.as_ref().len();
            (is_kernel && is_there).then_some((segment.address(), offset, len))
        };
        let segments = file.segments().filter_map(segment).collect();
        Some(KernelCode { bytes, segments, symbols })
    }

    /// Addresses, and the bytes there.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bytes: &[u8] = self.bytes.as_ref();
        self.segments.iter().map(|&(at, offset, len)| (at, &bytes[offset..offset + len]))
    }
}
