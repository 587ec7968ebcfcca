//! Classifies 64 bytes at a time: which of them are quotes, brackets, and so on.
//!
//! The scanner is generic over [`Simd`] and compiled once per instruction set
//! inside a function that enables it ([`dispatch`]); everything on the way is
//! `inline(always)`, or the masks would become calls. The portable version is
//! what other machines run and what the tests compare the others with.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::layout::Line;

/// Masks over a block of 64 bytes; bit `i` speaks of byte `i`.
pub(crate) trait Simd: Copy {
    type Block: Copy;

    fn load(bytes: &[u8; 64]) -> Self::Block;
    fn eq(block: Self::Block, byte: u8) -> u64;
    fn below(block: Self::Block, limit: u8) -> u64;

    /// Whether bytes begin as a line says.
    fn agrees(here: &[u8; Line::BYTES_MAX], line: &Line) -> bool;

    /// Bit `i` is the parity of the bits `0..=i`: from quotes to "inside a string".
    fn prefix_xor(mask: u64) -> u64;
}

/// Plain Rust, for every machine.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type Block = [u8; 64];

    #[inline(always)]
    fn load(bytes: &[u8; 64]) -> [u8; 64] {
        *bytes
    }

    #[inline(always)]
    fn eq(block: [u8; 64], byte: u8) -> u64 {
        mask_of(block, |other| other == byte)
    }

    #[inline(always)]
    fn below(block: [u8; 64], limit: u8) -> u64 {
        mask_of(block, |other| other < limit)
    }

    #[inline(always)]
    fn agrees(here: &[u8; Line::BYTES_MAX], line: &Line) -> bool {
        let len = usize::from(line.len);
        len > 0 && here[..len] == line.bytes[..len]
    }

    #[inline(always)]
    fn prefix_xor(mask: u64) -> u64 {
        (0..6).fold(mask, |mask, step| mask ^ mask << (1 << step))
    }
}

#[inline(always)]
fn mask_of(block: [u8; 64], test: impl Fn(u8) -> bool) -> u64 {
    let bits = block.iter().enumerate();
    bits.fold(0, |mask, (bit, &byte)| mask | u64::from(test(byte)) << bit)
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type Block = [__m256i; 2];

    #[inline(always)]
    fn load(bytes: &[u8; 64]) -> Self::Block {
        // SAFETY: 64 readable bytes, unaligned loads; `dispatch` saw AVX2.
        unsafe {
            let at = bytes.as_ptr().cast();
            [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))]
        }
    }

    #[inline(always)]
    fn eq(block: Self::Block, byte: u8) -> u64 {
        // SAFETY: `dispatch` saw AVX2.
        let half = |half| unsafe {
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8))) as u32
        };
        u64::from(half(block[0])) | u64::from(half(block[1])) << 32
    }

    #[inline(always)]
    fn below(block: Self::Block, limit: u8) -> u64 {
        // SAFETY: `dispatch` saw AVX2. There is no unsigned comparison: a byte is
        // below the limit when the smaller of it and `limit - 1` is itself.
        let half = |half| unsafe {
            let most = _mm256_set1_epi8(limit.wrapping_sub(1) as i8);
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(half, most), half)) as u32
        };
        u64::from(half(block[0])) | u64::from(half(block[1])) << 32
    }

    #[inline(always)]
    fn agrees(here: &[u8; Line::BYTES_MAX], line: &Line) -> bool {
        // SAFETY: 32 readable bytes each, unaligned loads; `dispatch` saw AVX2.
        unsafe {
            let here = _mm256_loadu_si256(here.as_ptr().cast());
            let line_bytes = _mm256_loadu_si256(line.bytes.as_ptr().cast());
            let same = _mm256_movemask_epi8(_mm256_cmpeq_epi8(here, line_bytes)) as u32;
            !same & line.mask == 0
        }
    }

    #[inline(always)]
    fn prefix_xor(mask: u64) -> u64 {
        carryless_prefix_xor(mask)
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type Block = __m512i;

    #[inline(always)]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 readable bytes, unaligned load; `dispatch` saw AVX-512BW.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn eq(block: __m512i, byte: u8) -> u64 {
        // SAFETY: `dispatch` saw AVX-512BW.
        unsafe { _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    fn below(block: __m512i, limit: u8) -> u64 {
        // SAFETY: `dispatch` saw AVX-512BW.
        unsafe { _mm512_cmplt_epu8_mask(block, _mm512_set1_epi8(limit as i8)) }
    }

    #[inline(always)]
    fn agrees(here: &[u8; Line::BYTES_MAX], line: &Line) -> bool {
        // SAFETY: 32 readable bytes each, unaligned loads; `dispatch` saw AVX-512BW and VL.
        unsafe {
            let here = _mm256_loadu_si256(here.as_ptr().cast());
            let line_bytes = _mm256_loadu_si256(line.bytes.as_ptr().cast());
            _mm256_mask_cmpneq_epi8_mask(line.mask, here, line_bytes) == 0
        }
    }

    #[inline(always)]
    fn prefix_xor(mask: u64) -> u64 {
        carryless_prefix_xor(mask)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn carryless_prefix_xor(mask: u64) -> u64 {
    // SAFETY: `dispatch` saw PCLMULQDQ.
    unsafe {
        let ones = _mm_set1_epi8(-1);
        let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, mask as i64), ones);
        _mm_cvtsi128_si64(product) as u64
    }
}

/// Work that wants to run with the best instructions this machine has.
pub(crate) trait Work {
    type Output;
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `work` compiled for the best instruction set at hand.
pub(crate) fn dispatch<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        let common = is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if common && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: every feature named there was just seen.
            return unsafe { run_avx512(work) };
        }
        if common && is_x86_feature_detected!("avx2") {
            // SAFETY: every feature named there was just seen.
            return unsafe { run_avx2(work) };
        }
    }
    work.run::<Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,pclmulqdq,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run::<Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,pclmulqdq,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run::<Avx2>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks<S: Simd>(bytes: &[u8; 64]) -> [u64; 4] {
        let block = S::load(bytes);
        let quotes = S::eq(block, b'"');
        [quotes, S::below(block, 0x20), S::prefix_xor(quotes), S::below(block, 0x80)]
    }

    struct Masks<'a>(&'a [u8; 64]);

    impl Work for Masks<'_> {
        type Output = [u64; 4];

        #[inline(always)]
        fn run<S: Simd>(self) -> [u64; 4] {
            masks::<S>(self.0)
        }
    }

    #[test]
    fn this_machines_instructions_agree_with_plain_rust() {
        let mut seed = 1u64;
        for _ in 0..1000 {
            let bytes = std::array::from_fn(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                [b'"', b'{', 0x1f, 0x20, 0x7f, 0x80, 0xff, (seed >> 40) as u8]
                    [(seed >> 61) as usize]
            });
            assert_eq!(dispatch(Masks(&bytes)), masks::<Portable>(&bytes));
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the features were just seen (the rest come with AVX2).
                let avx2 = unsafe { run_avx2(Masks(&bytes)) };
                assert_eq!(avx2, masks::<Portable>(&bytes));
            }
        }
    }
}
