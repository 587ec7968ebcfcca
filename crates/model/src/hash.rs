//! A quick hash for tables that are only asked by key.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A table by numbers, which are looked up by the million. Never to be walked: its order
/// means nothing, and differs from run to run.
pub type QuickMap<K, V> = HashMap<K, V, QuickState>;

/// Begins every hash with a number that nobody knows before the program runs: a file made
/// to have all of its keys in one slot would take hours to read.
#[derive(Debug, Clone, Copy)]
pub struct QuickState {
    seed: u64,
}

impl Default for QuickState {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        QuickState { seed: *SEED.get_or_init(|| RandomState::new().build_hasher().finish()) }
    }
}

impl BuildHasher for QuickState {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.seed)
    }
}

/// Mixes a few numbers; text goes through [`crate::hash_bytes`].
#[derive(Debug, Clone, Copy)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(crate::hash_bytes(bytes));
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
        let product = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
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

    /// A table takes its slot from the low bits and a tag from the high ones: neighbours
    /// must differ in both.
    #[test]
    fn neighbours_spread_over_low_and_high_bits() {
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

    #[test]
    fn what_differs_hashes_differently() {
        assert_ne!(hash((1_u32, 2_u32)), hash((2_u32, 1_u32)));
        assert_ne!(hash(Some(0_i64)), hash(None::<i64>));
        assert_ne!(hash("ab"), hash("ba"));
    }
}
