//! Small steps over the bytes of a line.

/// Takes spaces off the front, and the tabs that other programs print instead.
#[inline]
pub(crate) fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| matches!(byte, b' ' | b'\t')).count();
    &text[spaces..]
}

/// The first word and what follows it.
#[inline]
pub(crate) fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = skip_spaces(text);
    let end = memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len());
    text.split_at(end)
}

/// The last word and what stands before it.
pub(crate) fn split_last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    let start = memchr::memrchr2(b' ', b'\t', text).map_or(0, |space| space + 1);
    (&text[start..], &text[..start])
}

/// A number in decimal digits and nothing else.
#[inline]
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => Some(value * 10 + u64::from(byte - b'0')),
        _ => None,
    })
}

/// A decimal number that may be negative.
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => i64::try_from(decimal(digits)?).ok().map(|value| -value),
        None => i64::try_from(decimal(text)?).ok(),
    }
}

/// An address in hexadecimal digits and nothing else, with or without `0x`.
#[inline]
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

/// Seconds with a fraction, to nanoseconds; digits beyond the ninth are cut off.
#[inline]
pub(crate) fn seconds(text: &[u8]) -> Option<i64> {
    let point = memchr::memchr(b'.', text)?;
    let (whole, fraction) = (decimal(&text[..point])?, &text[point + 1..]);
    let digits = &fraction[..fraction.len().min(9)];
    let shift = 10u64.pow(9 - digits.len() as u32);
    let nanos = decimal(digits)? * shift;
    if !fraction[digits.len()..].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let total = u128::from(whole) * 1_000_000_000 + u128::from(nanos);
    i64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_nanoseconds() {
        let check = |text: &str, ns| assert_eq!(seconds(text.as_bytes()), ns, "{text}");
        check("47170.086912826", Some(47_170_086_912_826));
        check("7487.728515", Some(7_487_728_515_000));
        check("1.5", Some(1_500_000_000));
        check("1.0000000019", Some(1_000_000_001));
        check("99999999999.0", None);
        check("1.", None);
        check(".5", None);
        check("1.5x", None);
        check("12", None);
    }

    #[test]
    fn addresses_are_hexadecimal() {
        let check = |text: &str, value| assert_eq!(hexadecimal(text.as_bytes()), value, "{text}");
        check("7ffff7ddc140", Some(0x7fff_f7dd_c140));
        check("ffffffffaf001100", Some(0xffff_ffff_af00_1100));
        check("0x40", Some(64));
        check("0", Some(0));
        check("call", None);
        check("", None);
        check("11112222333344445", None);
    }
}
