//! JSON string content to text.

use std::borrow::Cow;

/// What decoding a string had to put up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StringDamage {
    pub(crate) invalid_escape: bool,
    pub(crate) invalid_utf8: bool,
}

/// Resolves escapes. An invalid one (a Windows path, say) is kept as it stands.
pub(crate) fn decode<'t>(raw: &'t [u8], odd: &mut StringDamage) -> Cow<'t, str> {
    let text = match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            odd.invalid_utf8 = true;
            String::from_utf8_lossy(raw)
        }
    };
    if !text.contains('\\') {
        return text;
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        decoded.push_str(&rest[..at]);
        match escape(&rest[at..]) {
            Some((character, len)) => {
                decoded.push(character);
                rest = &rest[at + len..];
            }
            None => {
                odd.invalid_escape = true;
                decoded.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// The character of the escape at the start of `text`, and its length.
fn escape(text: &str) -> Option<(char, usize)> {
    let simple = |character| Some((character, 2));
    match text.as_bytes().get(1)? {
        b'"' => simple('"'),
        b'\\' => simple('\\'),
        b'/' => simple('/'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'u' => unicode_escape(text),
        _ => None,
    }
}

fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let first = unit(2)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    // A surrogate: the other half must follow.
    let second = unit(8).filter(|_| text.get(6..8) == Some("\\u"))?;
    if !(0xD800..0xDC00).contains(&first) || !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    char::from_u32(code).map(|character| (character, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &str, invalid_escape: bool) {
        let mut odd = StringDamage::default();
        assert_eq!(decode(raw.as_bytes(), &mut odd), expected);
        assert_eq!(odd, StringDamage { invalid_escape, invalid_utf8: false });
    }

    #[test]
    fn escapes_are_resolved() {
        check(r#"a\"b\\c\/d\n\u00e9\ud83d\ude00"#, "a\"b\\c/d\né😀", false);
    }

    #[test]
    fn what_is_no_escape_stays() {
        check(r"C:\Users\x", r"C:\Users\x", true);
        check(r"\ud83d alone", r"\ud83d alone", true);
        check(r"end\", r"end\", true);
        check(r"\u12", r"\u12", true);
    }

    #[test]
    fn other_encodings_are_replaced_and_said() {
        let mut odd = StringDamage::default();
        assert_eq!(decode(b"caf\xe9", &mut odd), "caf\u{fffd}");
        assert!(odd.invalid_utf8);
    }
}
