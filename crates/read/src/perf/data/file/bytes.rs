//! Numbers and texts out of a recording, in the byte order of the machine that made it.
//!
//! Nothing is believed: each read says whether the bytes were there.

/// A place in some bytes, and how numbers are written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8], is_big_endian: bool) -> Self {
        Bytes { rest: bytes, is_big_endian }
    }

    pub(crate) fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes, as they are.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next bytes, to be read on.
    pub(crate) fn take_some(&mut self, len: usize) -> Option<Bytes<'a>> {
        Some(Bytes::new(self.take(len)?, self.is_big_endian))
    }

    pub(crate) fn skip(&mut self, len: usize) -> Option<()> {
        self.take(len).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = self.take(N)?.try_into().ok()?;
        if self.is_big_endian {
            bytes.reverse();
        }
        Some(bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// As many numbers as are asked for, where they are there.
    pub(crate) fn u64s(&mut self, count: u64) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let len = usize::try_from(count).ok()?.checked_mul(8)?;
        let mut numbers = Bytes::new(self.take(len)?, self.is_big_endian);
        Some(std::iter::from_fn(move || numbers.u64()))
    }

    pub(crate) fn with_order(self, is_big_endian: bool) -> Self {
        Bytes { is_big_endian, ..self }
    }

    /// All that is left.
    pub(crate) fn all(&self) -> &'a [u8] {
        self.rest
    }

    /// All that is left, in the same byte order.
    pub(crate) fn rest(&self) -> Bytes<'a> {
        *self
    }

    /// The text up to the first zero of what is left.
    pub(crate) fn text(&self) -> String {
        text_of(self.rest)
    }

    /// A text with its length before it, as header sections hold them.
    pub(crate) fn counted_text(&mut self) -> Option<String> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?).map(text_of)
    }
}

/// The text up to the first zero.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let len = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_read() {
        let check = |is_big_endian, expected| {
            let mut bytes = Bytes::new(&[1, 2, 3, 4, 5, 6], is_big_endian);
            assert_eq!((bytes.u16(), bytes.u32(), bytes.u16()), expected);
        };
        check(false, (Some(0x0201), Some(0x0605_0403), None));
        check(true, (Some(0x0102), Some(0x0304_0506), None));
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        let mut bytes = Bytes::new(&[255; 12], false);
        assert_eq!(bytes.counted_text(), None);
        assert!(bytes.u64s(u64::MAX).is_none());
        assert_eq!(bytes.u64s(1).map(Iterator::count), Some(1));
    }
}
