//! Quick hashes for tables that are only asked by key.
//!
//! Both begin with numbers that nobody knows before the process runs. So no file can be made
//! whose keys all fall into one slot, which would take hours to read. Nothing that is shown or
//! stored may depend on them (I7): [`crate::hash_bytes`] is for that.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A table by numbers, which are looked up by the million. Never to be walked: its order
/// means nothing, and differs from run to run.
pub type QuickMap<K, V> = HashMap<K, V, QuickState>;

/// A random number of this process.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Hashes text, with a key of this process.
///
/// Both factors of every multiplication hold a secret number: with a known factor, text can be
/// chosen that makes the other one zero, and then whatever stands beside it does not count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextKey {
    first: u64,
    second: u64,
}

impl Default for TextKey {
    fn default() -> Self {
        static KEY: OnceLock<TextKey> = OnceLock::new();
        *KEY.get_or_init(|| TextKey { first: random(), second: random() })
    }
}

impl TextKey {
    #[inline]
    pub(crate) fn hash(self, bytes: &[u8]) -> u64 {
        let mut hash = self.second ^ bytes.len() as u64;
        let mut pairs = bytes.chunks_exact(16);
        for pair in &mut pairs {
            hash = fold(word(&pair[..8]) ^ self.first, word(&pair[8..]) ^ hash);
        }
        let mut last = [0; 16];
        last[..pairs.remainder().len()].copy_from_slice(pairs.remainder());
        let hash = fold(word(&last[..8]) ^ self.first, word(&last[8..]) ^ hash);
        fold(hash ^ self.second, GOLDEN)
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// Begins every hash with a secret number of this process.
#[derive(Debug, Clone, Copy)]
pub struct QuickState {
    seed: u64,
}

impl Default for QuickState {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        QuickState { seed: *SEED.get_or_init(random) }
    }
}

impl BuildHasher for QuickState {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.seed)
    }
}

/// Mixes a few numbers, or text; what it holds is secret from the start.
#[derive(Debug, Clone, Copy)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = TextKey { first: self.0, second: self.0.rotate_left(32) }.hash(bytes);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0 ^ value, GOLDEN);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    fn hash(value: impl Hash) -> u64 {
        QuickState::default().hash_one(value)
    }

    /// A table takes its slot from the low bits and a tag from the high ones: neighbors
    /// must differ in both.
    #[test]
    fn neighbors_spread_over_low_and_high_bits() {
        let mut slots = std::collections::BTreeSet::new();
        let mut tags = std::collections::BTreeSet::new();
        for pair in (0..64_u32).flat_map(|a| (0..64_u32).map(move |b| (a, b))) {
            slots.insert(hash(pair) & 0xfff);
            tags.insert(hash(pair) >> 57);
        }
        // 4096 keys thrown at 4096 slots by chance fill 63 % of them.
        assert!(slots.len() > 2000, "{}", slots.len());
        assert!(tags.len() > 100, "{}", tags.len());
    }

    /// Names that [`crate::hash_bytes`] does not distinguish: the third word makes a factor zero,
    /// so that the fourth does not count.
    fn colliding_names(count: u64) -> Vec<[u8; 32]> {
        const K: u64 = GOLDEN;
        let folded = |a: u64, b: u64| fold(a ^ K, b ^ 0xD6E8_FEB8_6659_FD93);
        let letters =
            |number: u64| (0..8).fold(0, |word, at| word << 8 | (0x61 + (number >> (4 * at) & 15)));
        let name = |tries: u64| {
            let second = letters(tries);
            (second, folded(32 ^ second, second) ^ K)
        };
        let is_text = |&(_, third): &(u64, u64)| third & 0x8080_8080_8080_8080 == 0;
        let (second, third) = (0..10_000).map(name).find(is_text).expect("one of 256 is text");
        let names = (0..count).map(|at| {
            let words = [second, second, third, letters(at)];
            let mut name = [0; 32];
            for (part, word) in name.chunks_mut(8).zip(words) {
                part.copy_from_slice(&word.to_le_bytes());
            }
            name
        });
        names.collect()
    }

    #[test]
    fn names_that_were_chosen_to_collide_do_not() {
        let names = colliding_names(2000);
        let unkeyed: std::collections::BTreeSet<u64> =
            names.iter().map(|name| crate::hash_bytes(name)).collect();
        assert_eq!(unkeyed.len(), 1, "the attack is one");
        let mut hashes: Vec<u64> = names.iter().map(|name| TextKey::default().hash(name)).collect();
        hashes.extend(names.iter().map(hash));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 2 * names.len());
    }

    #[test]
    fn interning_names_that_were_chosen_to_collide_takes_no_more_steps() {
        let steps = |names: &[[u8; 32]]| {
            let mut strings = crate::StringsBuilder::default();
            let before = crate::effort();
            for name in names {
                strings.intern(std::str::from_utf8(name).expect("ASCII"));
            }
            assert_eq!(strings.len(), names.len() + 1);
            crate::effort().zip(before).map_or(0, |(after, before)| after - before)
        };
        // A table compares with a wrong name about once in sixteen times.
        assert!(steps(&colliding_names(4000)) < 4000);
    }

    #[test]
    fn what_differs_hashes_differently() {
        assert_ne!(hash((1_u32, 2_u32)), hash((2_u32, 1_u32)));
        assert_ne!(hash(Some(0_i64)), hash(None::<i64>));
        assert_ne!(hash("ab"), hash("ba"));
    }
}
