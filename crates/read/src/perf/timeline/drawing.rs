//! Which samples are drawn on the timeline as calls.
//!
//! All of them count. But of many millions no screen shows each, and calls that are drawn take ten
//! times the space of samples: so of such recordings a part is drawn, each for as long as all that
//! it stands for.

/// Samples of about this many words are drawn: a sample has a word for each frame, and each frame
/// may begin a call.
pub(crate) const DRAWN_WORDS_MAX: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Drawing {
    one_in: i64,
    /// Samples so far.
    count: u64,
    left_out: u64,
}

impl Default for Drawing {
    fn default() -> Self {
        Drawing { one_in: 1, count: 0, left_out: 0 }
    }
}

impl Drawing {
    /// Of samples that have `words` words in all, about `words_max` are drawn.
    pub(crate) fn of(words: u64, words_max: u64) -> Self {
        let one_in = i64::try_from(words.div_ceil(words_max)).unwrap_or(i64::MAX).max(1);
        Drawing { one_in, ..Drawing::default() }
    }

    /// How many samples one that is drawn stands for.
    pub(crate) fn one_in(&self) -> i64 {
        self.one_in
    }

    /// How many were not drawn so far.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Chosen by number as if at random: processors take turns, and so would a fixed distance.
    pub(crate) fn draws_next(&mut self) -> bool {
        self.count += 1;
        let mixed = self.count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let draws = self.one_in == 1 || (mixed >> 32).is_multiple_of(self.one_in.unsigned_abs());
        self.left_out += u64::from(!draws);
        draws
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: u64, one_in: u64) {
        let mut drawing = Drawing::of(words, 1000);
        let drawn: Vec<u64> = (0..20_000).filter(|_| drawing.draws_next()).collect();
        let expected = 20_000 / one_in;
        assert!((drawn.len() as u64).abs_diff(expected) <= expected / 10, "{}", drawn.len());
        assert_eq!(drawing.left_out() + drawn.len() as u64, 20_000);
        // Whatever takes turns with others has its part.
        let odd = drawn.iter().filter(|&number| number % 2 == 1).count() as u64;
        assert!(odd.abs_diff(expected / 2) <= expected / 10, "{odd} odd ones");
    }

    #[test]
    fn samples_are_drawn_as_long_as_there_is_room() {
        check(0, 1);
        check(1000, 1);
        check(1001, 2);
        check(7000, 7);
        check(30_000, 30);
    }
}
