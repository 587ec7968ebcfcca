//! Files that lie beside the kernel's records: a mark at the beginning, and then records of a
//! kind, a length that counts both, and a content.

use std::io;
use std::path::Path;

/// Longer than any recording should make them.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// The bytes of such a file; nothing where there is none. Of something else, such as a pipe, what
/// it is: that has no mark at its beginning, so that it is told as damaged.
pub(super) fn beside(records: &Path, name: &str) -> Option<Vec<u8>> {
    match spanwise_files::read_regular(&records.with_file_name(name), FILE_BYTES_MAX) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string().into_bytes()),
    }
}

/// Hands over each record; true where the file is another one, or ends in the middle of one.
pub(super) fn each_record(bytes: &[u8], head: &[u8], mut take: impl FnMut(u32, &[u8])) -> bool {
    let Some(mut rest) = bytes.strip_prefix(head) else { return !bytes.is_empty() };
    while let (Some(kind), Some(len)) = (number(rest, 0), number(rest, 4)) {
        let Some((record, behind)) = rest.split_at_checked(len as usize) else { break };
        let Some(body) = record.get(8..) else { break };
        take(kind, body);
        rest = behind;
    }
    !rest.is_empty()
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// A record, for tests.
#[cfg(test)]
pub(super) fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(kind.to_le_bytes());
    bytes.extend((8 + body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}
