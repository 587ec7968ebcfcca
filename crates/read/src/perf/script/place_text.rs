//! `IP NAME+0xOFFSET (FILE)`: an instruction as perf prints it.

use spanwise_callstack::{FunctionId, Location, Names};
use spanwise_symbols::JitMap;

use crate::perf::words::{hexadecimal, skip_spaces, split_word};

/// The parts of the text, before any lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceText<'a> {
    pub(crate) ip: u64,
    /// Empty where there is none.
    pub(crate) name: &'a [u8],
    pub(crate) is_entry: bool,
    pub(crate) file: &'a [u8],
    /// All of it, from the address on.
    pub(crate) whole: &'a [u8],
}

impl<'a> PlaceText<'a> {
    pub(crate) fn read(text: &'a [u8]) -> Option<PlaceText<'a>> {
        let whole = skip_spaces(text).trim_ascii_end();
        let (ip, rest) = split_word(whole);
        let ip = hexadecimal(ip)?;
        let (symbol, file) = split_file(rest.trim_ascii());
        let (name, is_entry) = split_offset(symbol);
        Some(PlaceText { ip, name, is_entry, file, whole })
    }

    /// Two places of one function have these in common.
    #[inline]
    pub(crate) fn is_same_function(&self, other: &PlaceText<'_>) -> bool {
        self.name == other.name && self.file == other.file && self.name != UNKNOWN
    }

    pub(crate) fn resolve(&self, names: &mut Names, map: &JitMap) -> Location {
        let is_inlined = self.file == b"inlined";
        let file = if is_inlined || self.file == UNKNOWN { b"" } else { self.file };
        let function = match self.name {
            b"" | UNKNOWN => match map.find(self.ip) {
                Some(name) => names.function(name, &String::from_utf8_lossy(file)),
                None => names.unknown(&String::from_utf8_lossy(file)),
            },
            name => known_function(names, name, file),
        };
        Location { ip: self.ip, function, is_entry: self.is_entry, is_inlined, ..Location::NOWHERE }
    }
}

const UNKNOWN: &[u8] = b"[unknown]";

fn known_function(names: &mut Names, name: &[u8], file: &[u8]) -> FunctionId {
    match names.find(name, file) {
        Some(known) => known,
        None => names.function(&String::from_utf8_lossy(name), &String::from_utf8_lossy(file)),
    }
}

/// Takes the file in brackets off the end. Names and files may hold brackets too.
fn split_file(text: &[u8]) -> (&[u8], &[u8]) {
    let Some(inside) = text.strip_suffix(b")") else { return (text, b"") };
    // The file of a running program may have been replaced since.
    let searched = inside.strip_suffix(b" (deleted)").unwrap_or(inside);
    for bracket in memchr::memrchr_iter(b'(', searched) {
        match text[..bracket].last() {
            Some(b' ') => return (text[..bracket].trim_ascii_end(), &inside[bracket + 1..]),
            None => return (b"", &inside[bracket + 1..]),
            Some(_) => {}
        }
    }
    (text, b"")
}

/// Takes `+0x1f` off the end, and says whether it is 0. perf prints offsets of any size
/// where its symbols are at odds.
fn split_offset(symbol: &[u8]) -> (&[u8], bool) {
    if let Some(plus) = memchr::memrchr(b'+', symbol)
        && let Some(digits) = symbol[plus + 1..].strip_prefix(b"0x")
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_hexdigit)
    {
        return (&symbol[..plus], digits.iter().all(|&digit| digit == b'0'));
    }
    (symbol, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(u64, &str, bool, &str)>) {
        let read = PlaceText::read(text.as_bytes());
        let utf8 = |bytes| std::str::from_utf8(bytes).expect("a test's own text");
        let found =
            read.map(|place| (place.ip, utf8(place.name), place.is_entry, utf8(place.file)));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn places_are_taken_apart() {
        check("  40ac3f f+0xef (a.so)", Some((0x40ac3f, "f", false, "a.so")));
        check("40 f+0x0 (a.so)", Some((0x40, "f", true, "a.so")));
        check("0 [unknown] ([unknown])", Some((0, "[unknown]", false, "[unknown]")));
        check(
            "40 f::operator()(int)+0x1 (a.so)",
            Some((0x40, "f::operator()(int)", false, "a.so")),
        );
        check("40 f (int) const+0x1 (a.so)", Some((0x40, "f (int) const", false, "a.so")));
        check("40 a => b+0x10 (a b.so)", Some((0x40, "a => b", false, "a b.so")));
        check("40 f+0x1 (/bin/x (deleted))", Some((0x40, "f", false, "/bin/x (deleted)")));
        check("40 f+0x1 (/opt/a(1)/x)", Some((0x40, "f", false, "/opt/a(1)/x")));
        check("40 memcpy@plt+0xffffffffffffff00ff (a)", Some((0x40, "memcpy@plt", false, "a")));
        check("40 f+0x1", Some((0x40, "f", false, "")));
        check("40", Some((0x40, "", false, "")));
        check("40 (a.so)", Some((0x40, "", false, "a.so")));
        check("call", None);
        check("", None);
    }
}
