//! Decimal text to whole nanoseconds, exactly (I1).
//!
//! Times stand in traces as microseconds with decimals. Through a double, an
//! absolute time such as 1712195495519689.047 loses its last digits and false
//! overlaps appear; digit by digit nothing is lost. Digits below a nanosecond are
//! cut off.

use super::digits;
use super::simd::Simd;

/// A time as found in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Time {
    #[default]
    Absent,
    At(i64),
    /// A number, but not in 64 bits of nanoseconds.
    OutOfRange,
    NotANumber,
}

/// Parses microseconds at `at`; also says how many bytes they took.
///
/// The usual forms, with three decimals or none, are done without a loop.
#[inline(always)]
pub(crate) fn micros<S: Simd>(text: &[u8], at: usize) -> (Time, usize) {
    if let Some(bytes) = text[at..].first_chunk::<64>() {
        let (whole, digits) = digits::run::<S>(S::load(bytes));
        if (1..=WHOLE_MAX).contains(&whole) {
            let decimals = (!(digits >> (whole + 1))).trailing_zeros();
            let value = digits::value(text, at, at + whole) * 1000;
            match (bytes[whole], bytes[whole + 4]) {
                (b'.', b',' | b'}' | b' ' | b'\n') if decimals == 3 => {
                    let decimals = bytes[whole + 1..whole + 4].iter();
                    let decimals = decimals.fold(0, |all, byte| all * 10 + u64::from(byte - b'0'));
                    return (Time::At((value + decimals) as i64), whole + 4);
                }
                (b',' | b'}' | b' ' | b'\n', _) => return (Time::At(value as i64), whole),
                _ => {}
            }
        }
    }
    plain_micros(&text[at..])
}

/// This many digits and 3 decimals stay below 2^63; longer ones take the careful way.
const WHOLE_MAX: usize = 15;

/// Parses microseconds at the start of `text`; also says how many bytes they took.
///
/// Digits with up to three decimals are done in one pass.
pub(crate) fn plain_micros(text: &[u8]) -> (Time, usize) {
    let is_negative = text.first() == Some(&b'-');
    let mut at = usize::from(is_negative);
    let first_digit = at;
    let mut value = 0u64;
    while let Some(&digit @ b'0'..=b'9') = text.get(at) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        at += 1;
    }
    if at == first_digit || at - first_digit > WHOLE_MAX {
        return careful_micros(text);
    }
    value *= 1000;
    if text.get(at) == Some(&b'.') {
        at += 1;
        for scale in [100, 10, 1] {
            let Some(&digit @ b'0'..=b'9') = text.get(at) else { break };
            value += u64::from(digit - b'0') * scale;
            at += 1;
        }
    }
    if let Some(b'0'..=b'9' | b'e' | b'E' | b'.' | b'+' | b'-') = text.get(at) {
        return careful_micros(text);
    }
    (Time::At(if is_negative { -(value as i64) } else { value as i64 }), at)
}

/// Any decimal number, with exponent and any number of digits.
#[cold]
#[inline(never)]
fn careful_micros(text: &[u8]) -> (Time, usize) {
    let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let len = text.iter().take_while(is_part).count();
    (nanos_of_decimal(&text[..len]), len)
}

/// Microseconds in any decimal notation, as nanoseconds.
pub(crate) fn nanos_of_decimal(word: &[u8]) -> Time {
    let (is_negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &b"0"[..]),
    };
    let exponent = std::str::from_utf8(exponent).ok().and_then(|text| text.parse::<i64>().ok());
    let Some(exponent) = exponent else { return Time::NotANumber };
    let mut parts = mantissa.splitn(2, |&byte| byte == b'.');
    let whole = parts.next().unwrap_or_default();
    let fraction = parts.next().unwrap_or_default();
    let all_digits = || whole.iter().chain(fraction);
    if all_digits().next().is_none() || !all_digits().all(u8::is_ascii_digit) {
        return Time::NotANumber;
    }
    // How many of the digits stand before the point once counted in nanoseconds.
    let point = (whole.len() as i64).saturating_add(exponent).saturating_add(3);
    let mut value = 0i128;
    let mut rest = all_digits();
    for position in 0..point.max(0) {
        let Some(digit) = rest.next() else {
            match scaled(value, point - position) {
                Some(scaled) => value = scaled,
                None => return Time::OutOfRange,
            }
            break;
        };
        value = value * 10 + i128::from(digit - b'0');
        if value > i128::from(i64::MAX) + 1 {
            return Time::OutOfRange;
        }
    }
    match i64::try_from(if is_negative { -value } else { value }) {
        Ok(nanos) => Time::At(nanos),
        Err(_) => Time::OutOfRange,
    }
}

fn scaled(value: i128, zeros: i64) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let scale = 10i128.checked_pow(u32::try_from(zeros).ok()?)?;
    value.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::syntax::simd::Portable;

    #[track_caller]
    fn check(text: &str, expected: Time, len: usize) {
        assert_eq!(plain_micros(text.as_bytes()), (expected, len));
        for (before, after) in [("", ""), ("123", ", \"dur\": 1"), ("[ ", "}")] {
            // Also with enough behind it for the quick way.
            let follows = if text.ends_with(|c: char| c.is_ascii_digit()) { after } else { "" };
            for room in ["", &" ".repeat(64)] {
                let shifted = format!("{before}{text}{follows}{room}");
                let got = micros::<Portable>(shifted.as_bytes(), before.len());
                assert_eq!(got, (expected, len), "{shifted}");
            }
        }
        if len == text.len() {
            assert_eq!(nanos_of_decimal(text.as_bytes()), expected, "the careful way");
        }
    }

    #[test]
    fn three_decimals_are_nanoseconds() {
        check("12.345", Time::At(12_345), 6);
        check("12.3", Time::At(12_300), 4);
        check("0", Time::At(0), 1);
        check("-7.001,", Time::At(-7_001), 6);
    }

    #[test]
    fn absolute_times_keep_their_last_digit() {
        check("1712195495519689.047", Time::At(1_712_195_495_519_689_047), 20);
    }

    #[test]
    fn digits_below_a_nanosecond_are_cut() {
        check("1.9999999", Time::At(1_999), 9);
    }

    #[test]
    fn exponents_are_exact() {
        check("1.5e3", Time::At(1_500_000), 5);
        check("15E-1", Time::At(1_500), 5);
        check("1e-30", Time::At(0), 5);
        check("0e999999999999", Time::At(0), 14);
    }

    #[test]
    fn too_large_is_said() {
        check("9223372036854775.807", Time::At(i64::MAX), 20);
        check("9223372036854775.808", Time::OutOfRange, 20);
        check("1e400", Time::OutOfRange, 5);
        check("123456789012345678901234567890", Time::OutOfRange, 30);
    }

    #[test]
    fn what_is_no_number_is_said() {
        check("", Time::NotANumber, 0);
        check("1.2.3", Time::NotANumber, 5);
        check("-", Time::NotANumber, 1);
    }
}
