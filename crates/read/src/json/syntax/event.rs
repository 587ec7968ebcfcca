//! One trace event, as it stands in the text.

use super::decimal;
use super::decimal::Time;
use super::digits;
use super::layout::Layout;
use super::scan;
use super::scan::{Piece, ScanStop, expect, skip_blanks};
use super::simd::{Portable, Simd};

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

/// The fields that matter; everything else is [`FieldId::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FieldId {
    /// The opening bracket of an event, as what the first key follows.
    Open,
    Phase,
    Name,
    Category,
    Process,
    Thread,
    Time,
    Duration,
    Id,
    Id2,
    Binding,
    Args,
    Other,
    /// The closing bracket, as what may follow a value.
    Close,
}

impl FieldId {
    #[inline(always)]
    fn of(key: &[u8]) -> Self {
        match key {
            b"ph" => FieldId::Phase,
            b"name" => FieldId::Name,
            b"cat" => FieldId::Category,
            b"pid" => FieldId::Process,
            b"tid" => FieldId::Thread,
            b"ts" => FieldId::Time,
            b"dur" => FieldId::Duration,
            b"id" => FieldId::Id,
            b"id2" => FieldId::Id2,
            b"bp" => FieldId::Binding,
            b"args" => FieldId::Args,
            _ => FieldId::Other,
        }
    }
}

/// The layout of events: what followed each of their fields.
pub(crate) type EventLayout = Layout<FieldId, { FieldId::Close as usize + 1 }>;

impl Event {
    /// Takes note of one field.
    #[inline(always)]
    fn set(&mut self, text: &[u8], id: FieldId, piece: Piece) {
        match id {
            FieldId::Phase => {
                self.has_phase = true;
                self.phase = if piece.to - piece.from == 1 { text[piece.from] } else { 0 };
            }
            FieldId::Name => self.name = piece,
            FieldId::Category => self.category = piece,
            FieldId::Process => self.process = piece,
            FieldId::Thread => self.thread = piece,
            FieldId::Time => self.time = time(piece.of(text)),
            FieldId::Duration => self.duration = time(piece.of(text)),
            FieldId::Id => self.id = piece,
            FieldId::Id2 => self.id2 = piece,
            FieldId::Binding => self.binds_enclosing = piece.of(text) == b"e",
            FieldId::Args => {
                // Anything but an object has no arguments to find.
                if text.get(piece.from) == Some(&b'{') {
                    self.args = piece;
                }
            }
            FieldId::Open | FieldId::Other | FieldId::Close => {}
        }
    }

    /// Takes note of a field by its key; `piece` is the value, without quotes.
    pub(crate) fn set_by_key(&mut self, text: &[u8], key: &[u8], piece: Piece) {
        self.set(text, FieldId::of(key), piece);
    }
}

/// A time given as a number, or as a number in quotes.
fn time(word: &[u8]) -> Time {
    match decimal::plain_micros(word) {
        (time, len) if len == word.len() => time,
        _ => Time::NotANumber,
    }
}

/// Reads the well-formed event that opens at `at` into `event`, whatever that held
/// before; gives the position after it.
#[inline(always)]
pub(crate) fn strict<S: Simd>(
    text: &[u8],
    at: usize,
    layout: &mut EventLayout,
    event: &mut Event,
) -> Result<usize, ScanStop> {
    *event = Event::default();
    let mut at = expect(text, at, b'{')?;
    let mut last = FieldId::Open;
    loop {
        let id;
        (id, at) = match layout.predict::<S>(text, at, last as usize) {
            Some(predicted) => predicted,
            None => next_field::<S>(text, at, last, layout, &mut event.has_control)?,
        };
        at = match id {
            FieldId::Close => return Ok(at),
            FieldId::Time => {
                let (time, end) = strict_time::<S>(text, at, &mut event.has_control)?;
                event.time = time;
                end
            }
            FieldId::Duration => {
                let (time, end) = strict_time::<S>(text, at, &mut event.has_control)?;
                event.duration = time;
                end
            }
            _ => {
                let (piece, end) = strict_value::<S>(text, at, &mut event.has_control)?;
                event.set(text, id, piece);
                end
            }
        };
        last = id;
    }
}

/// Reads what stands between two values: comma, key, colon; or the closing bracket.
#[inline(never)]
fn next_field<S: Simd>(
    text: &[u8],
    from: usize,
    last: FieldId,
    layout: &mut EventLayout,
    control: &mut bool,
) -> Result<(FieldId, usize), ScanStop> {
    let mut at = skip_blanks(text, from);
    let is_first = last == FieldId::Open;
    if text.get(at) == Some(&b'}') {
        layout.learn(&text[from..at + 1], last as usize, FieldId::Close);
        return Ok((FieldId::Close, at + 1));
    }
    if !is_first {
        at = skip_blanks(text, expect(text, at, b',')?);
    }
    let mut is_odd = false;
    let key = scan::string::<S>(text, expect(text, at, b'"')?, &mut is_odd)?;
    at = skip_blanks(text, key.to + 1);
    at = skip_blanks(text, expect(text, at, b':')?);
    let id = FieldId::of(key.of(text));
    // An odd key is reported each time: it must not be predicted.
    *control |= is_odd;
    if !is_odd {
        layout.learn(&text[from..at], last as usize, id);
    }
    Ok((id, at))
}

/// A time: mostly a plain number, and then read in one go.
#[inline(always)]
fn strict_time<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<(Time, usize), ScanStop> {
    let (micros, len) = decimal::micros::<S>(text, at);
    if let (Time::At(_), Some(b',' | b'}' | b' ' | b'\n')) = (micros, text.get(at + len)) {
        return Ok((micros, at + len));
    }
    let (piece, end) = strict_value::<S>(text, at, control)?;
    Ok((time(piece.of(text)), end))
}

/// Any value: its content (a string without quotes) and the position after it.
#[inline(always)]
fn strict_value<S: Simd>(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<(Piece, usize), ScanStop> {
    match text.get(at) {
        Some(b'"') => {
            let string = scan::string::<S>(text, at + 1, control)?;
            Ok((string, string.to + 1))
        }
        Some(b'{' | b'[') => {
            let end = scan::container_end::<S>(text, at, control)?;
            Ok((Piece { from: at, to: end, escapes: 0 }, end))
        }
        Some(b' ' | b'\n' | b'\r' | b'\t') => value_after_blanks(text, at, control),
        Some(_) => {
            let end = scan::scalar_end::<S>(text, at)?;
            Ok((Piece { from: at, to: end, escapes: 0 }, end))
        }
        None => Err(ScanStop::End),
    }
}

/// A value that stands further off than the layout remembers.
#[cold]
#[inline(never)]
fn value_after_blanks(
    text: &[u8],
    at: usize,
    control: &mut bool,
) -> Result<(Piece, usize), ScanStop> {
    let at = skip_blanks(text, at);
    let end = scan::value_end::<Portable>(text, at, control)?;
    let (from, to) = match text[at] {
        b'"' => (at + 1, end - 1),
        _ => (at, end),
    };
    let escapes = text[from..to].iter().filter(|&&byte| byte == b'\\').count();
    Ok((Piece { from, to, escapes }, end))
}

/// What an argument of an event may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgId {
    PythonId,
    PythonParent,
    Correlation,
    Other,
    /// The bracket that closes the arguments.
    Close,
}

impl ArgId {
    pub(crate) fn of(key: &[u8]) -> Self {
        match key {
            b"Python id" => ArgId::PythonId,
            b"Python parent id" => ArgId::PythonParent,
            b"correlation" => ArgId::Correlation,
            _ => ArgId::Other,
        }
    }
}

/// The layout of arguments. They are distinguished by their place: few of them have a name
/// that matters here, and all of one sort of event come in the same order.
pub(crate) type ArgLayout = Layout<ArgId, ARG_PLACES>;

/// Arguments further back share the last place.
const ARG_PLACES: usize = 12;

/// Finds integers among the arguments: the values of `wanted`, where they are
/// whole numbers. Stops when all are found, or at the first anomaly.
#[inline(always)]
pub(crate) fn integers<S: Simd, const N: usize>(
    text: &[u8],
    args: Piece,
    wanted: [ArgId; N],
    layout: &mut ArgLayout,
) -> [Option<u64>; N] {
    let mut found = [None; N];
    let mut left = N;
    let (mut at, mut place) = (args.from, 0);
    while left > 0 {
        let next = match layout.predict::<S>(text, at, place) {
            Some(predicted) => Some(predicted),
            None => next_arg::<S>(text, at, place, layout),
        };
        let Some((id, from)) = next.filter(|next| next.0 != ArgId::Close) else { break };
        // What is well-formed ends where the arguments do.
        let Ok((piece, end)) = strict_value::<S>(text, from, &mut false) else { break };
        if end >= args.to {
            break;
        }
        if let Some(slot) = wanted.iter().position(|&wanted| wanted == id) {
            found[slot] = integer_at::<S>(text, piece);
            left -= 1;
        }
        at = end;
        place = (place + 1).min(ARG_PLACES - 1);
    }
    found
}

/// Reads what stands between two arguments; `None` at anything odd.
#[inline(never)]
fn next_arg<S: Simd>(
    text: &[u8],
    from: usize,
    place: usize,
    layout: &mut ArgLayout,
) -> Option<(ArgId, usize)> {
    let mut at = skip_blanks(text, from);
    if text.get(at) == Some(&b'}') {
        return Some((ArgId::Close, at + 1));
    }
    let before = if from > 0 && place == 0 { b'{' } else { b',' };
    at = skip_blanks(text, expect(text, at, before).ok()?);
    let mut is_odd = false;
    let key = scan::string::<S>(text, expect(text, at, b'"').ok()?, &mut is_odd).ok()?;
    at = skip_blanks(text, key.to + 1);
    at = skip_blanks(text, expect(text, at, b':').ok()?);
    let id = ArgId::of(key.of(text));
    if !is_odd {
        layout.learn(&text[from..at], place, id);
    }
    Some((id, at))
}

/// Equality of short texts, without the call that comparing slices makes.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    match (a.first_chunk(), a.last_chunk(), b.first_chunk(), b.last_chunk()) {
        (Some(a_first), Some(a_last), Some(b_first), Some(b_last)) if a.len() <= 16 => {
            word(a_first) == word(b_first) && word(a_last) == word(b_last)
        }
        (Some(_), ..) => a == b,
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

/// The value of an argument, where it is a whole number.
#[inline(always)]
fn integer_at<S: Simd>(text: &[u8], piece: Piece) -> Option<u64> {
    let (len, _) = digits::run::<S>(scan::block_at::<S>(text, piece.from));
    match len {
        1..=digits::QUICK_MAX if len == piece.to - piece.from => {
            Some(digits::value(text, piece.from, piece.to))
        }
        _ => integer(piece.of(text)),
    }
}

/// A whole number, in quotes or not, of at most 64 bits.
#[inline(always)]
pub(crate) fn integer(word: &[u8]) -> Option<u64> {
    let digits = match word {
        [b'"', digits @ .., b'"'] => digits,
        digits => digits,
    };
    digits::whole_number(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<usize, ScanStop>) -> Event {
        let mut event = Event::default();
        let got = strict::<Portable>(text.as_bytes(), 0, &mut EventLayout::new(), &mut event);
        assert_eq!(got, expected);
        event
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
        let mut layout = ArgLayout::new();
        let wanted = [ArgId::Correlation, ArgId::PythonId];
        for _ in 0..2 {
            let found = integers::<Portable, 2>(text.as_bytes(), event.args, wanted, &mut layout);
            assert_eq!(found, [Some(7), None]);
        }
    }

    #[test]
    fn damage_is_distinguished_from_the_end_of_the_text() {
        check(r#"{"ph": "X", "name": "a"b"}"#, Err(ScanStop::Syntax(23)));
        check(r#"{"ph": "X", "dur": N/A}"#, Err(ScanStop::Syntax(19)));
        check(r#"{"ph": "X",, "dur": 1}"#, Err(ScanStop::Syntax(11)));
        check(r#"{"ph": "X", "name": "a"#, Err(ScanStop::End));
        check(r#"{"ph": "X""#, Err(ScanStop::End));
    }

    #[test]
    fn integers_of_64_bits_survive() {
        assert_eq!(integer(b"10159970886766084423"), Some(10_159_970_886_766_084_423));
        assert_eq!(integer(b"99999999999999999999"), None);
        assert_eq!(integer(b"-1"), None);
    }
}
