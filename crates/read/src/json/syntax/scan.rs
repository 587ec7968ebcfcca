//! Walks over well-formed JSON quickly, and says at once where it is not.
//!
//! Strict in what shapes an event (quotes, colons, commas, brackets), careless in
//! what lies deeper: arguments are skipped bracket by bracket, since nobody has
//! asked for them yet. What fails here goes to `repair`.

use super::digits;
use super::simd::Simd;

/// Why a strict walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanStop {
    /// The text ended first.
    End,
    /// Something at this position is not what JSON wants there.
    Syntax(usize),
}

/// A piece of text between two positions, as it stands in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Piece {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// How many of its bytes are backslashes that take out the next one; a whole word, for
    /// copying one of which only a byte was written waits for it.
    pub(crate) escapes: usize,
}

impl Piece {
    #[inline(always)]
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.from..self.to]
    }

    pub(crate) fn is_empty(self) -> bool {
        self.from == self.to
    }
}

/// A container longer than this is not walked in one go: were a bracket missing,
/// the walk would cross the whole file, once for each such event.
pub(crate) const CONTAINER_BYTES_MAX: usize = 4 << 20;

/// Brackets deeper than this are no arguments of a trace event.
pub(crate) const DEPTH_MAX: u32 = 512;

/// The 64 bytes at `at`; past the end of the text, blanks.
#[inline(always)]
pub(crate) fn block_at<S: Simd>(text: &[u8], at: usize) -> S::Block {
    if let Some(bytes) = text[at..].first_chunk::<64>() {
        return S::load(bytes);
    }
    let mut bytes = [b' '; 64];
    bytes[..text.len() - at].copy_from_slice(&text[at..]);
    S::load(&bytes)
}

#[inline(always)]
pub(crate) fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

#[inline(always)]
pub(crate) fn expect(text: &[u8], at: usize, byte: u8) -> Result<usize, ScanStop> {
    match text.get(at) {
        Some(&found) if found == byte => Ok(at + 1),
        Some(_) => Err(ScanStop::Syntax(at)),
        None => Err(ScanStop::End),
    }
}

/// The string whose opening quote is at `at - 1`; its end is at the closing one.
///
/// `control` is set when a control character stands inside.
#[inline(always)]
pub(crate) fn string<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<Piece, ScanStop> {
    let mut piece = Piece { from: at, to: at, escapes: 0 };
    let mut at = at;
    while at < text.len() {
        let block = block_at::<S>(text, at);
        let quotes = S::eq(block, b'"');
        let stops = quotes | S::eq(block, b'\\');
        let controls = S::below(block, 0x20);
        let first = stops.trailing_zeros() as usize;
        if controls != 0 {
            *control |= (controls.trailing_zeros() as usize) < first;
        }
        if first == 64 {
            at += 64;
            continue;
        }
        at += first;
        if quotes >> first & 1 == 1 {
            piece.to = at;
            return Ok(piece);
        }
        piece.escapes += 1;
        at += 2;
    }
    Err(ScanStop::End)
}

/// The end of the object or array that opens at `at`: the position after its
/// closing bracket. Counts brackets outside strings, without distinguishing `{` from `[`
/// except for the outermost pair.
///
/// `control` is set when a control character or a brace stands inside a string: where
/// quotes are missing from two events, both may read as one, with what is between
/// them as text.
#[inline(always)]
pub(crate) fn container_end<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<usize, ScanStop> {
    let limit = text.len().min(at + CONTAINER_BYTES_MAX);
    let mut block_start = at;
    let mut depth = 0u32;
    let mut in_string = 0u64;
    let mut escape_carry = false;
    while block_start < limit {
        let block = block_at::<S>(text, block_start);
        let backslashes = S::eq(block, b'\\');
        let mut quotes = S::eq(block, b'"');
        if backslashes != 0 || escape_carry {
            quotes &= !escaped_bytes(backslashes, &mut escape_carry);
        }
        let strings = S::prefix_xor(quotes) ^ in_string;
        in_string = (strings as i64 >> 63) as u64;
        let braces = S::eq(block, b'{');
        let opens = (braces | S::eq(block, b'[')) & !strings;
        let closes = (S::eq(block, b'}') | S::eq(block, b']')) & !strings;
        // Zeros, as a hole in a file leaves them, are odd anywhere.
        let odd = (S::below(block, 0x20) | braces) & strings | S::below(block, b'\t');
        if closes.count_ones() < depth {
            depth = depth + opens.count_ones() - closes.count_ones();
        } else if let Some(bit) = closing_bit(opens, closes, &mut depth) {
            // What follows the bracket is not ours to judge.
            *control |= odd << (63 - bit) != 0;
            let end = block_start + bit + 1;
            // A bracket is missing: the container would end where an outer one does.
            let is_pair = text[end - 1] == text[at] + (b'}' - b'{');
            return if is_pair { Ok(end) } else { Err(ScanStop::Syntax(end)) };
        }
        *control |= odd != 0;
        if depth > DEPTH_MAX {
            return Err(ScanStop::Syntax(block_start));
        }
        block_start += 64;
    }
    match block_start >= text.len() {
        true => Err(ScanStop::End),
        false => Err(ScanStop::Syntax(limit)),
    }
}

/// Bytes that a backslash before them takes out of the game.
#[inline(always)]
fn escaped_bytes(backslashes: u64, carry: &mut bool) -> u64 {
    let mut escaped = u64::from(*carry);
    let mut rest = backslashes & !escaped;
    *carry = false;
    while rest != 0 {
        let bit = rest.trailing_zeros();
        if bit == 63 {
            *carry = true;
            break;
        }
        escaped |= 1 << (bit + 1);
        rest &= rest - 1;
        rest &= !escaped;
    }
    escaped
}

/// Walks the brackets of a block in order; the bit at which depth 0 is reached.
#[inline(always)]
fn closing_bit(opens: u64, closes: u64, depth: &mut u32) -> Option<usize> {
    let mut brackets = opens | closes;
    while brackets != 0 {
        let bit = brackets.trailing_zeros();
        if closes >> bit & 1 == 0 {
            *depth += 1;
        } else {
            *depth -= 1;
            if *depth == 0 {
                return Some(bit as usize);
            }
        }
        brackets &= brackets - 1;
    }
    None
}

/// The end of a number, `true`, `false` or `null` at `at`; anything else is an error.
#[inline(always)]
pub(crate) fn scalar_end<S: Simd>(text: &[u8], at: usize) -> Result<usize, ScanStop> {
    let (len, _) = digits::run::<S>(block_at::<S>(text, at));
    if let Some(b',' | b'}' | b']' | b' ' | b'\n') = text.get(at + len)
        && len > 0
    {
        return Ok(at + len);
    }
    scalar_word_end(text, at)
}

#[inline(never)]
fn scalar_word_end(text: &[u8], at: usize) -> Result<usize, ScanStop> {
    let mut end = at;
    while let Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'E') = text.get(end) {
        end += 1;
    }
    if end == text.len() {
        return Err(ScanStop::End);
    }
    let word = &text[at..end];
    let is_number = matches!(word.first(), Some(b'0'..=b'9' | b'-'))
        && word[1..].iter().all(|byte| !byte.is_ascii_lowercase() || *byte == b'e')
        && word.last().is_some_and(u8::is_ascii_digit);
    if is_number || matches!(word, b"true" | b"false" | b"null") {
        return Ok(end);
    }
    Err(ScanStop::Syntax(at))
}

/// The end of any value that begins at `at`.
#[inline(always)]
pub(crate) fn value_end<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<usize, ScanStop> {
    match text.get(at) {
        Some(b'"') => Ok(string::<S>(text, at + 1, control)?.to + 1),
        Some(b'{' | b'[') => container_end::<S>(text, at, control),
        Some(_) => scalar_end::<S>(text, at),
        None => Err(ScanStop::End),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::syntax::simd::Portable;

    #[track_caller]
    fn check(text: &str, expected: Result<usize, ScanStop>) {
        // Shifted through all positions of a block, so that carries are met.
        for shift in 0..130 {
            let shifted = format!("{}{text}", " ".repeat(shift));
            let got = value_end::<Portable>(shifted.as_bytes(), shift, &mut false);
            let got = match got {
                Ok(end) => Ok(end - shift),
                Err(ScanStop::Syntax(at)) => Err(ScanStop::Syntax(at - shift)),
                Err(ScanStop::End) => Err(ScanStop::End),
            };
            assert_eq!(got, expected, "shifted by {shift}");
        }
    }

    #[test]
    fn strings_end_at_their_quote() {
        check(r#""abc", "#, Ok(5));
        check(r#""a\"c\\" "#, Ok(8));
        check(r#""a\\\\\"" "#, Ok(9));
        check(r#""abc"#, Err(ScanStop::End));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        check(r#"{"a]}\"}": ["}", {"b": "]\\"}]} ,"#, Ok(31));
        check(r#"[[1, 2], []], "#, Ok(12));
        check(r#"[[1, 2], []"#, Err(ScanStop::End));
    }

    #[test]
    fn scalars_are_numbers_or_known_words() {
        check("-1.5e+3,", Ok(7));
        check("null}", Ok(4));
        check("nan,", Err(ScanStop::Syntax(0)));
        check("N/A,", Err(ScanStop::Syntax(0)));
        check("12", Err(ScanStop::End));
    }

    #[test]
    fn a_bracket_too_many_does_not_cross_the_file() {
        let text = format!("[{}", "{},".repeat(CONTAINER_BYTES_MAX));
        let got = container_end::<Portable>(text.as_bytes(), 0, &mut false);
        assert_eq!(got, Err(ScanStop::Syntax(CONTAINER_BYTES_MAX)));
        let deep = "[".repeat(1000);
        let got = container_end::<Portable>(deep.as_bytes(), 0, &mut false);
        assert!(matches!(got, Err(ScanStop::Syntax(_))));
    }
}
