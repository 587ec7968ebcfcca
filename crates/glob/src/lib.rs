//! Patterns over names: `*` is any text, `?` any one character.
//!
//! Names of functions, operators and kernels are chosen by these everywhere, in options, rules and
//! tables. What a pattern is compared with is up to those who have the names.
//!
//! ```
//! use spanwise_glob::Glob;
//!
//! let pattern = Glob::new("aten::conv?d*");
//! assert!(pattern.fits("aten::conv2d_backward"));
//! assert!(!pattern.fits("aten::convolution"));
//! ```

#![warn(missing_docs)]

/// A pattern, taken apart at its stars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// Before the first star, between stars, after the last one.
    pieces: Vec<String>,
}

impl Glob {
    /// A pattern for names as they are.
    pub fn new(pattern: &str) -> Self {
        Glob { pieces: pattern.split('*').map(str::to_owned).collect() }
    }

    /// A pattern for names that are in small letters already: one name meets hundreds of
    /// patterns, and is converted once.
    pub fn in_small_letters(pattern: &str) -> Self {
        Glob::new(&pattern.to_lowercase())
    }

    /// Whether the pattern is the whole name.
    pub fn fits(&self, name: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return after_prefix(name, &self.pieces[0]).is_some_and(str::is_empty);
        };
        let Some(mut rest) = after_prefix(name, first) else { return false };
        for piece in middle {
            match after_found(rest, piece) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        ends_with(rest, last)
    }
}

/// What follows `piece` at the beginning of `text`.
fn after_prefix<'a>(text: &'a str, piece: &str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.strip_prefix(piece);
    }
    let mut rest = text.chars();
    for wanted in piece.chars() {
        let found = rest.next()?;
        if wanted != '?' && wanted != found {
            return None;
        }
    }
    Some(rest.as_str())
}

/// What follows the first place where `piece` stands in `text`.
fn after_found<'a>(text: &'a str, piece: &str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.split_once(piece).map(|(_, after)| after);
    }
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.filter_map(|at| after_prefix(&text[at..], piece)).next()
}

fn ends_with(text: &str, piece: &str) -> bool {
    if !piece.contains('?') {
        return text.ends_with(piece);
    }
    let count = piece.chars().count();
    let Some(skip) = text.chars().count().checked_sub(count) else { return false };
    let at = text.char_indices().nth(skip).map_or(text.len(), |(at, _)| at);
    after_prefix(&text[at..], piece).is_some_and(str::is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, fits: &[&str], fits_not: &[&str]) {
        let glob = Glob::new(pattern);
        for name in fits {
            assert!(glob.fits(name), "{pattern} {name}");
        }
        for name in fits_not {
            assert!(!glob.fits(name), "{pattern} {name}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        check("*gemm*", &["gemm", "sgemm_nt", "a gemm"], &["gem m", ""]);
        check("aten::mm", &["aten::mm"], &["aten::mma", "xaten::mm", ""]);
        check("triton_*_rsqrt", &["triton_red_rsqrt"], &["triton_rsqrt", "triton_red_rsqrt_2"]);
        check("*", &["", "x"], &[]);
        check("a*b*b", &["abb", "axbxb"], &["ab"]);
        check("a*b*c", &["a1b2c"], &["a1c2b"]);
        check("*a*b", &["xaybzb"], &["xaybz"]);
        check("**", &["f", ""], &[]);
        check("", &[""], &["f"]);
    }

    #[test]
    fn question_marks_stand_for_one_character() {
        check("aten::conv?d", &["aten::conv2d"], &["aten::convd", "aten::conv22d"]);
        check("*pool?d*", &["max_pool2d_x", "poolßd"], &["poold"]);
        check("*sm??", &["x_sm90"], &["sm9"]);
        check("f?o*", &["fooled"], &["fo"]);
    }

    #[test]
    fn case_counts_unless_names_are_in_small_letters() {
        check("*FillFunctor*", &["a FillFunctor<float>"], &["fillfunctor<float>"]);
        assert!(Glob::in_small_letters("*FillFunctor*").fits("fillfunctor<float>"));
    }

    /// The definition, by trying everything.
    fn fits_slowly(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), _) => (0..=name.len()).any(|at| fits_slowly(rest, &name[at..])),
            (Some((&wanted, rest)), Some((&found, after))) => {
                (wanted == '?' || wanted == found) && fits_slowly(rest, after)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn fits_as_by_trying_everything(pattern in "[ab?*]{0,6}", name in "[abß]{0,8}") {
            let pattern_chars: Vec<char> = pattern.chars().collect();
            let name_chars: Vec<char> = name.chars().collect();
            let expected = fits_slowly(&pattern_chars, &name_chars);
            prop_assert_eq!(Glob::new(&pattern).fits(&name), expected);
        }
    }
}
