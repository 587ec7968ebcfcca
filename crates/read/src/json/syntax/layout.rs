//! What stood between values before, and most likely stands there again.
//!
//! Events of one producer are the same to the byte between their values (`, "cat": "`).
//! Comparing with what stood there before is several times quicker than reading blanks,
//! quotes, key and colon again. A few memories a place suffice: producers alternate
//! between few sorts of events.

use super::simd::Simd;

/// Up to 32 bytes that are expected, so that comparing needs no loop.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) bytes: [u8; Line::BYTES_MAX],
    /// A bit for each byte that counts.
    pub(crate) mask: u32,
    /// 0 for none; such a line agrees with nothing.
    pub(crate) len: u8,
}

impl Line {
    pub(crate) const BYTES_MAX: usize = 32;
    const NONE: Line = Line { bytes: [0; Self::BYTES_MAX], mask: u32::MAX, len: 0 };

    pub(crate) fn new(text: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Line { bytes, mask: u32::MAX >> (Self::BYTES_MAX - text.len()), len: text.len() as u8 }
    }
}

/// What may stand between the end of one value and the start of the next.
#[derive(Clone, Copy)]
struct Step<T> {
    between: Line,
    leads_to: Option<T>,
}

/// For each of some places what followed it so far, and what that leads to.
pub(crate) struct Layout<T, const PLACES: usize> {
    after: [[Step<T>; MEMORIES]; PLACES],
}

const MEMORIES: usize = 4;

impl<T: Copy, const PLACES: usize> Layout<T, PLACES> {
    pub(crate) fn new() -> Self {
        let none = Step { between: Line::NONE, leads_to: None };
        Layout { after: [[none; MEMORIES]; PLACES] }
    }

    /// What the text at `at` leads to and where that begins, if it is as before.
    #[inline(always)]
    pub(crate) fn predict<S: Simd>(
        &self,
        text: &[u8],
        at: usize,
        place: usize,
    ) -> Option<(T, usize)> {
        let here = text[at..].first_chunk::<{ Line::BYTES_MAX }>()?;
        for step in &self.after[place] {
            if S::agrees(here, &step.between) {
                return Some((step.leads_to?, at + usize::from(step.between.len)));
            }
        }
        None
    }

    pub(crate) fn learn(&mut self, between: &[u8], place: usize, leads_to: T) {
        if between.is_empty() || between.len() > Line::BYTES_MAX {
            return;
        }
        let steps = &mut self.after[place];
        steps.rotate_right(1);
        steps[0] = Step { between: Line::new(between), leads_to: Some(leads_to) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::syntax::simd::Portable;

    fn predict(layout: &Layout<u8, 2>, text: &str, place: usize) -> Option<(u8, usize)> {
        layout.predict::<Portable>(text.as_bytes(), 0, place)
    }

    #[test]
    fn the_last_few_are_remembered() {
        let mut layout = Layout::<u8, 2>::new();
        let long = " ".repeat(Line::BYTES_MAX);
        assert_eq!(predict(&layout, &format!("abc{long}"), 0), None);
        assert_eq!(predict(&layout, &"\0".repeat(40), 0), None);
        for (leads_to, text) in ["abc", "b", &long, "d"].iter().enumerate() {
            layout.learn(text.as_bytes(), 0, leads_to as u8);
        }
        assert_eq!(predict(&layout, &format!("abc{long}"), 0), Some((0, 3)));
        assert_eq!(predict(&layout, &format!("abc{long}"), 1), None);
        assert_eq!(predict(&layout, &long, 0), Some((2, 32)));
        assert_eq!(predict(&layout, "abc", 0), None, "too short to compare in one go");
        layout.learn(b"e", 0, 4);
        assert_eq!(predict(&layout, &format!("abc{long}"), 0), None, "forgotten");
        assert_eq!(predict(&layout, &format!("e{long}"), 0), Some((4, 1)));
    }
}
