//! Small files that somebody names: rules, tables, limits.

use std::io;
use std::path::Path;

/// What people write by hand is far smaller.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The text of a file or a pipe.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let bytes = spanwise_files::read_at_most(path, TEXT_BYTES_MAX)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}
