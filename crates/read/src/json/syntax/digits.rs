//! Runs of digits, read eight at a time.
//!
//! A loop over digits ends wherever a number does, which no processor can foretell; this
//! way takes the same steps for numbers of every length.

use super::simd::Simd;

/// How many digits a block begins with, and the mask of all digits in it.
#[inline(always)]
pub(crate) fn run<S: Simd>(block: S::Block) -> (usize, u64) {
    let digits = S::below(block, b'9' + 1) & !S::below(block, b'0');
    ((!digits).trailing_zeros() as usize, digits)
}

/// More digits than this take a loop.
pub(crate) const QUICK_MAX: usize = 16;

/// The number that the digits `from..to` of a text make, of which there are at most
/// [`QUICK_MAX`].
#[inline(always)]
pub(crate) fn value(text: &[u8], from: usize, to: usize) -> u64 {
    let len = to - from;
    debug_assert!(len <= QUICK_MAX && text[from..to].iter().all(u8::is_ascii_digit));
    let Some(bytes) = text[..to].last_chunk::<QUICK_MAX>() else {
        return text[from..to].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    };
    half(bytes, 0, len.saturating_sub(8)) * 100_000_000 + half(bytes, 8, len.min(8))
}

/// The number of the last `digits` of eight bytes.
#[inline(always)]
fn half(bytes: &[u8; QUICK_MAX], at: usize, digits: usize) -> u64 {
    let word = u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    // What stands before the digits counts nothing.
    let mask = u64::MAX.checked_shl(64 - 8 * digits as u32).unwrap_or(0);
    eight((word ^ 0x3030_3030_3030_3030) & mask)
}

/// The number of eight digits, given as their values from 0 to 9, the first one lowest.
#[inline(always)]
fn eight(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    const PAIR: u64 = 0x0000_00ff_0000_00ff;
    let upper = (pairs & PAIR).wrapping_mul(100 + (1_000_000 << 32));
    let lower = (pairs >> 16 & PAIR).wrapping_mul(1 + (10_000 << 32));
    upper.wrapping_add(lower) >> 32
}

/// A text of nothing but digits, if its number has at most 64 bits.
#[inline(always)]
pub(crate) fn whole_number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    word.iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::syntax::simd::Portable;

    #[test]
    fn numbers_of_every_length_at_every_place() {
        for len in 0..=QUICK_MAX {
            for before in 0..20 {
                let digits: String = (0..len).map(|at| char::from(b'1' + (at % 9) as u8)).collect();
                let text = format!("{}{digits}", "9".repeat(before));
                let expected = digits.parse().unwrap_or(0);
                assert_eq!(value(text.as_bytes(), before, before + len), expected, "{text}");
            }
        }
        assert_eq!(value(b"9999999999999999", 0, 16), 9_999_999_999_999_999);
    }

    #[test]
    fn runs_end_where_digits_do() {
        for (text, expected) in [("12,", 2), ("/1", 0), (":", 0), ("0123456789a", 10), ("", 0)] {
            let mut bytes = [b' '; 64];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            assert_eq!(run::<Portable>(bytes).0, expected, "{text}");
        }
        assert_eq!(run::<Portable>([b'7'; 64]).0, 64);
    }
}
