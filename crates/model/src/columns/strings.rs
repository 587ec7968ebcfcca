//! Strings, each stored once (I4).
//!
//! The layout is Arrow's Utf8: one buffer of bytes, one of `i32` offsets. A
//! [`StringsBuilder`] deduplicates by hash; ids follow the order of first use, so
//! that the same input gives the same ids however many threads read it (I7).

use arrow_buffer::{Buffer, ScalarBuffer};
use hashbrown::HashTable;

use crate::base::hash::TextKey;
use crate::count_effort;

/// Number of a string in its trace. `StrId(0)` is the empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StrId(pub u32);

impl StrId {
    /// The empty text (I4).
    pub const EMPTY: StrId = StrId(0);

    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All strings of a trace, frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strings {
    offsets: ScalarBuffer<i32>,
    bytes: Buffer,
}

impl Strings {
    /// Takes buffers in Arrow's Utf8 layout, or says what is wrong with them.
    pub fn from_buffers(offsets: ScalarBuffer<i32>, bytes: Buffer) -> Result<Self, String> {
        if offsets.len() < 2 || offsets[0] != 0 || offsets[1] != 0 {
            return Err("string 0 is not the empty string".into());
        }
        if !offsets.is_sorted() {
            return Err("string offsets do not ascend".into());
        }
        if offsets[offsets.len() - 1] as usize != bytes.len() {
            return Err(format!("string offsets end short of {} bytes", bytes.len()));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        match offsets.iter().find(|&&at| !text.is_char_boundary(at as usize)) {
            Some(at) => Err(format!("a string is cut inside a character at byte {at}")),
            None => Ok(Strings { offsets, bytes }),
        }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Never true: the empty string is always there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of an id.
    pub fn get(&self, id: StrId) -> &str {
        let from = self.offsets[id.index()] as usize;
        let to = self.offsets[id.index() + 1] as usize;
        // SAFETY: both ways to make a `Strings` ensure that the bytes are UTF-8 and
        // that every offset is a character boundary.
        unsafe { std::str::from_utf8_unchecked(&self.bytes[from..to]) }
    }

    /// Where each text starts in [`Strings::bytes`], and the end of the last one.
    pub fn offsets(&self) -> &ScalarBuffer<i32> {
        &self.offsets
    }

    /// All texts, one after the other.
    pub fn bytes(&self) -> &Buffer {
        &self.bytes
    }
}

/// Strings while they are collected.
#[derive(Debug)]
pub struct StringsBuilder {
    key: TextKey,
    table: HashTable<(u32, u32)>,
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    bytes_max: usize,
    left_out: u64,
}

impl Default for StringsBuilder {
    fn default() -> Self {
        StringsBuilder::with_bytes_max(Self::BYTES_MAX)
    }
}

impl StringsBuilder {
    /// What Arrow's 32-bit offsets can address.
    const BYTES_MAX: usize = i32::MAX as usize;

    /// Room for this many bytes of text.
    pub(crate) fn with_bytes_max(bytes_max: usize) -> Self {
        let mut strings = StringsBuilder {
            key: TextKey::default(),
            table: HashTable::new(),
            offsets: vec![0],
            bytes: Vec::new(),
            bytes_max,
            left_out: 0,
        };
        strings.intern("");
        strings
    }

    /// The id of a string that is there already.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<StrId> {
        let hash = self.key.hash(bytes);
        let tag = (hash >> 32) as u32;
        let same = |&(other_tag, id): &(u32, u32)| {
            count_effort(1);
            other_tag == tag && slice(&self.offsets, &self.bytes, id) == bytes
        };
        self.table.find(hash, same).map(|&(_, id)| StrId(id))
    }

    /// The id of `text`, new or known. Text that no longer fits below 2 GiB in all becomes
    /// the empty string, and is counted.
    pub fn intern(&mut self, text: &str) -> StrId {
        if let Some(known) = self.find(text.as_bytes()) {
            return known;
        }
        if self.bytes.len() + text.len() > self.bytes_max {
            self.left_out += 1;
            return StrId::EMPTY;
        }
        let id = self.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.offsets.push(self.bytes.len() as i32);
        let (key, offsets, bytes) = (self.key, &self.offsets, &self.bytes);
        let hash = key.hash(text.as_bytes());
        self.table.insert_unique(hash, ((hash >> 32) as u32, id), |&(_, id)| {
            key.hash(slice(offsets, bytes, id))
        });
        StrId(id)
    }

    /// How often a text was asked for that had no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of an id.
    pub fn get(&self, id: StrId) -> &str {
        std::str::from_utf8(slice(&self.offsets, &self.bytes, id.0)).expect("only str goes in")
    }

    /// The finished column of texts.
    pub fn finish(self) -> Strings {
        Strings { offsets: self.offsets.into(), bytes: self.bytes.into() }
    }
}

fn slice<'a>(offsets: &[i32], bytes: &'a [u8], id: u32) -> &'a [u8] {
    &bytes[offsets[id as usize] as usize..offsets[id as usize + 1] as usize]
}

/// A quick hash for short keys, the same on every machine and in every run.
///
/// Multiply-and-fold over pairs of 8-byte words. Texts that collide are easily made, so no table
/// of texts from a file may use it: those take a key of the process (`hash.rs`).
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a ^ K) * u128::from(b ^ 0xD6E8_FEB8_6659_FD93);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let mut hash = bytes.len() as u64;
    let mut pairs = bytes.chunks_exact(16);
    for pair in &mut pairs {
        hash = fold(hash ^ word(&pair[..8]), word(&pair[8..]));
    }
    let mut last = [0; 16];
    last[..pairs.remainder().len()].copy_from_slice(pairs.remainder());
    fold(fold(hash ^ word(&last[..8]), word(&last[8..])), K)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[&str], ids: &[u32]) {
        let mut builder = StringsBuilder::default();
        let got: Vec<u32> = texts.iter().map(|text| builder.intern(text).0).collect();
        assert_eq!(got, ids);
        let strings = builder.finish();
        for (text, &id) in texts.iter().zip(ids) {
            assert_eq!(strings.get(StrId(id)), *text);
        }
        let again = Strings::from_buffers(strings.offsets().clone(), strings.bytes().clone());
        assert_eq!(again.expect("its own buffers are valid").len(), strings.len());
    }

    #[test]
    fn empty_is_zero() {
        check(&["", "a", ""], &[0, 1, 0]);
    }

    #[test]
    fn each_string_is_stored_once_in_order_of_first_use() {
        check(&["b", "a", "b", "naïve", "a"], &[1, 2, 1, 3, 2]);
    }

    #[test]
    fn text_without_room_is_counted() {
        let mut builder = StringsBuilder::with_bytes_max(5);
        let ids = ["abc", "defg", "de", "defg", "abc"].map(|text| builder.intern(text).0);
        assert_eq!((ids, builder.left_out()), ([1, 0, 2, 0, 1], 2));
    }

    #[test]
    fn cut_characters_are_refused() {
        let offsets = vec![0, 0, 1, 2].into();
        assert!(Strings::from_buffers(offsets, "é".as_bytes().to_vec().into()).is_err());
    }
}
