//! Files beside the kernel's records: a mark at the start, then records of a kind, a length that
//! counts both, and a content. Numbers are little-endian, and readers pass over kinds that they
//! do not know.

use std::io;
use std::path::Path;

/// A file of a recording: its name, and what it starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideFile {
    pub name: &'static str,
    pub head: &'static [u8; 16],
}

/// Longer than any recording should make them.
const FILE_BYTES_MAX: u64 = 4 << 30;

impl SideFile {
    /// The bytes of this file beside the records; nothing where there is none. Of something else,
    /// such as a pipe, what it is: that has no mark at its start, so that it reads as damaged.
    pub fn beside(&self, records: &Path) -> Option<Vec<u8>> {
        match spanwise_files::read_regular(&records.with_file_name(self.name), FILE_BYTES_MAX) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error.to_string().into_bytes()),
        }
    }
}

/// Hands over kind and content of each record; true where the file is another one, or ends in the
/// middle of one.
pub(crate) fn each_record(bytes: &[u8], head: &[u8], mut take: impl FnMut(u32, &[u8])) -> bool {
    let Some(records) = bytes.strip_prefix(head) else { return !bytes.is_empty() };
    let mut whole = 0;
    for record in whole_records(records) {
        take(record.kind, record.body());
        whole += record.bytes.len();
    }
    whole < records.len()
}

/// One record, with its kind and length in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideRecord<'a> {
    pub kind: u32,
    pub bytes: &'a [u8],
}

impl<'a> SideRecord<'a> {
    pub fn body(self) -> &'a [u8] {
        &self.bytes[HEAD_BYTES..]
    }
}

/// Kind and length of a record.
const HEAD_BYTES: usize = 8;

/// The whole records at the start of some bytes.
pub fn whole_records(mut bytes: &[u8]) -> impl Iterator<Item = SideRecord<'_>> {
    std::iter::from_fn(move || {
        let (kind, len) = (number(bytes, 0)?, number(bytes, 4)? as usize);
        let (record, rest) = bytes.split_at_checked(len).filter(|_| len >= HEAD_BYTES)?;
        bytes = rest;
        Some(SideRecord { kind, bytes: record })
    })
}

#[inline]
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// A name, after its length at a place, and what follows it.
pub(crate) fn two_texts(bytes: &[u8], at: usize) -> Option<(String, String)> {
    let len = number(bytes, at)? as usize;
    let (first, second) = bytes.get(at + 4..)?.split_at_checked(len)?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some((text(first), text(second)))
}

/// A record of several parts.
pub fn record(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
    let len = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(kind.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Words as bytes.
pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
