//! One trace event, as it stands in the text.

use super::decimal::{self, Time};
use super::scan::{self, Piece, Trouble, expect, skip_blanks};
use super::simd::Simd;

/// The fields of an event that decide what becomes of it; all pieces point into
/// the text. Fields that spanwise does not know stay in the text, like arguments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    /// The phase letter; 0 where there is none.
    pub(crate) phase: u8,
    /// The event has a `ph`, whatever it says.
    pub(crate) has_phase: bool,
    pub(crate) name: Piece,
    pub(crate) category: Piece,
    pub(crate) process: Piece,
    pub(crate) thread: Piece,
    pub(crate) id: Piece,
    pub(crate) id2: Piece,
    pub(crate) time: Time,
    pub(crate) duration: Time,
    pub(crate) binds_enclosing: bool,
    /// The value of `args`, brackets included.
    pub(crate) args: Piece,
    /// Came through `lenient`: its arguments must be read that way too.
    pub(crate) is_repaired: bool,
    /// A control character stands in one of the strings.
    pub(crate) has_control: bool,
}

/// A value of an event's field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field {
    Text(Piece),
    Scalar(Piece),
    Container(Piece),
}

impl Field {
    /// The content: a string without its quotes, anything else as it stands.
    #[inline(always)]
    fn piece(self) -> Piece {
        match self {
            Field::Text(piece) | Field::Scalar(piece) | Field::Container(piece) => piece,
        }
    }
}

impl Event {
    /// Takes note of one field.
    #[inline(always)]
    pub(crate) fn set(&mut self, text: &[u8], key: &[u8], field: Field) {
        match key {
            b"ph" => {
                self.has_phase = true;
                let phase = field.piece().of(text);
                self.phase = if phase.len() == 1 { phase[0] } else { 0 };
            }
            b"name" => self.name = field.piece(),
            b"cat" => self.category = field.piece(),
            b"pid" => self.process = field.piece(),
            b"tid" => self.thread = field.piece(),
            b"ts" => self.time = time(text, field),
            b"dur" => self.duration = time(text, field),
            b"id" => self.id = field.piece(),
            b"id2" => self.id2 = field.piece(),
            b"bp" => self.binds_enclosing = field.piece().of(text) == b"e",
            b"args" => {
                if let Field::Container(piece) = field {
                    self.args = piece;
                }
            }
            _ => {}
        }
    }
}

/// A time given as a number, or as a number in quotes.
#[inline(always)]
fn time(text: &[u8], field: Field) -> Time {
    let word = field.piece().of(text);
    match decimal::micros(word) {
        (time, len) if len == word.len() => time,
        _ => Time::NotANumber,
    }
}

/// Reads the well-formed event that opens at `at`; gives the position after it.
#[inline(always)]
pub(crate) fn strict<S: Simd>(text: &[u8], at: usize) -> Result<(Event, usize), Trouble> {
    let mut event = Event::default();
    let mut at = skip_blanks(text, expect(text, at, b'{')?);
    if text.get(at) == Some(&b'}') {
        return Ok((event, at + 1));
    }
    loop {
        let open = expect(text, at, b'"')?;
        let key = scan::string::<S>(text, open, &mut event.has_control)?;
        at = skip_blanks(text, key.to + 1);
        at = skip_blanks(text, expect(text, at, b':')?);
        let field;
        (field, at) = strict_field::<S>(text, at, &mut event.has_control)?;
        event.set(text, key.of(text), field);
        at = skip_blanks(text, at);
        match text.get(at) {
            Some(b',') => at = skip_blanks(text, at + 1),
            Some(b'}') => return Ok((event, at + 1)),
            Some(_) => return Err(Trouble::Syntax(at)),
            None => return Err(Trouble::End),
        }
    }
}

#[inline(always)]
fn strict_field<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<(Field, usize), Trouble> {
    let piece = |to| Piece { from: at, to, escaped: false };
    match text.get(at) {
        Some(b'"') => {
            let string = scan::string::<S>(text, at + 1, control)?;
            Ok((Field::Text(string), string.to + 1))
        }
        Some(b'{' | b'[') => {
            let end = scan::container_end::<S>(text, at, control)?;
            Ok((Field::Container(piece(end)), end))
        }
        Some(_) => {
            let end = scan::scalar_end(text, at)?;
            Ok((Field::Scalar(piece(end)), end))
        }
        None => Err(Trouble::End),
    }
}

/// Looks for integers among the arguments: the values of `keys`, where they are
/// whole numbers. Stops when all are found, or at the first oddity.
#[inline(always)]
pub(crate) fn integers<S: Simd, const N: usize>(
    text: &[u8],
    args: Piece,
    keys: [&[u8]; N],
) -> [Option<u64>; N] {
    let mut found = [None; N];
    let mut left = N;
    let mut control = false;
    let text = &text[..args.to];
    let mut at = skip_blanks(text, args.from + 1);
    while left > 0 && text.get(at) == Some(&b'"') {
        let Ok(key) = scan::string::<S>(text, at + 1, &mut control) else { break };
        at = skip_blanks(text, key.to + 1);
        if text.get(at) != Some(&b':') {
            break;
        }
        at = skip_blanks(text, at + 1);
        let Ok(end) = scan::value_end::<S>(text, at, &mut control) else { break };
        if let Some(slot) = keys.iter().position(|&wanted| wanted == key.of(text)) {
            found[slot] = integer(&text[at..end]);
            left -= 1;
        }
        at = skip_blanks(text, end);
        if text.get(at) != Some(&b',') {
            break;
        }
        at = skip_blanks(text, at + 1);
    }
    found
}

/// A whole number, in quotes or not, of at most 64 bits.
#[inline(always)]
pub(crate) fn integer(word: &[u8]) -> Option<u64> {
    let digits = match word {
        [b'"', digits @ .., b'"'] => digits,
        digits => digits,
    };
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits
        .iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::super::simd::Portable;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<usize, Trouble>) -> Event {
        let got = strict::<Portable>(text.as_bytes(), 0);
        assert_eq!(got.map(|(_, end)| end), expected);
        got.map(|(event, _)| event).unwrap_or_default()
    }

    #[test]
    fn fields_come_in_any_order_and_layout() {
        let text = "{\n \"args\":{\"correlation\": 7 , \"x\":[1]} , \"dur\":1.5,\"ts\":\"2\",\
                    \"tid\":\"stream 7\",\"ph\":\"X\"}";
        let event = check(text, Ok(text.len()));
        assert_eq!(
            (event.phase, event.time, event.duration),
            (b'X', Time::At(2000), Time::At(1500))
        );
        assert_eq!(event.thread.of(text.as_bytes()), b"stream 7");
        let found = integers::<Portable, 2>(text.as_bytes(), event.args, [b"correlation", b"x"]);
        assert_eq!(found, [Some(7), None]);
    }

    #[test]
    fn damage_is_told_from_the_end_of_the_text() {
        check(r#"{"ph": "X", "name": "a"b"}"#, Err(Trouble::Syntax(23)));
        check(r#"{"ph": "X", "dur": N/A}"#, Err(Trouble::Syntax(19)));
        check(r#"{"ph": "X",, "dur": 1}"#, Err(Trouble::Syntax(11)));
        check(r#"{"ph": "X", "name": "a"#, Err(Trouble::End));
        check(r#"{"ph": "X""#, Err(Trouble::End));
    }

    #[test]
    fn integers_of_64_bits_survive() {
        assert_eq!(integer(b"10159970886766084423"), Some(10_159_970_886_766_084_423));
        assert_eq!(integer(b"99999999999999999999"), None);
        assert_eq!(integer(b"-1"), None);
    }
}
