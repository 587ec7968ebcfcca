//! Numbers as people read them. Integers until the last step.

const TIME_UNITS: [(&str, i128); 4] =
    [("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

const BYTE_UNITS: [(&str, i128); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// "1.235 ms", "870 ns": the largest unit that leaves a whole part.
pub fn nanos_text(ns: i128) -> String {
    scaled(ns, &TIME_UNITS, 3)
}

/// "1.24 ms", "401 ms", "870 ns": three significant digits, for sentences. Seconds stay whole.
pub fn nanos_rounded_text(ns: i128) -> String {
    let digits = digits(ns).clamp(3, 12);
    let last = 10_i128.pow(digits - 3);
    let ns = rounded(ns, last, 0).saturating_mul(last);
    scaled(ns, &TIME_UNITS, decimals_of_three(ns))
}

/// How many decimals show three digits, in the unit with 1 to 3 whole ones.
fn decimals_of_three(ns: i128) -> u32 {
    match digits(ns) {
        13.. => 0,
        digits => 2 - (digits - 1) % 3,
    }
}

fn digits(number: i128) -> u32 {
    number.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1)
}

/// "12.3 MiB".
pub fn bytes_text(bytes: i128) -> String {
    scaled(bytes, &BYTE_UNITS, 1)
}

/// "1,234,567".
pub fn count_text(count: i128) -> String {
    let digits = count.unsigned_abs().to_string();
    let mut text = if count < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "12.3 %", or a dash where there is no whole.
pub fn percent_text(part: i128, whole: i128) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{} %", decimal(part.saturating_mul(100), whole, 1)),
    }
}

fn scaled(value: i128, units: &[(&str, i128)], decimals: u32) -> String {
    let mut text = String::new();
    for (at, &(unit, size)) in units.iter().enumerate() {
        // The smallest unit is whole.
        let decimals = if at == 0 { 0 } else { decimals };
        text = format!("{} {unit}", decimal(value, size, decimals));
        let limit = units.get(at + 1).map(|&(_, next)| next / size);
        // Rounding may reach the next unit: 999.9996 µs is 1.000 ms.
        let rounded = rounded(value, size, decimals) / 10_i128.pow(decimals);
        if limit.is_none_or(|limit| rounded.abs() < limit) {
            break;
        }
    }
    text
}

/// `value / size` in units of `10^-decimals`, half away from zero.
pub(crate) fn rounded(value: i128, size: i128, decimals: u32) -> i128 {
    let scaled = value.unsigned_abs().saturating_mul(10_u128.pow(decimals));
    let size = size.unsigned_abs();
    let whole = i128::try_from(scaled / size).unwrap_or(i128::MAX);
    let up = i128::from(scaled % size >= size.div_ceil(2));
    if value < 0 { -(whole + up) } else { whole + up }
}

/// `value / size` with a fixed number of decimals.
pub fn decimal(value: i128, size: i128, decimals: u32) -> String {
    let scaled = rounded(value, size, decimals);
    if decimals == 0 {
        return scaled.to_string();
    }
    let one = 10_u128.pow(decimals);
    let sign = if scaled < 0 { "-" } else { "" };
    let (whole, rest) = (scaled.unsigned_abs() / one, scaled.unsigned_abs() % one);
    format!("{sign}{whole}.{rest:0width$}", width = decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_nanos(ns: i128, expected: &str) {
        assert_eq!(nanos_text(ns), expected);
    }

    #[test]
    fn times_take_the_largest_unit_with_a_whole_part() {
        check_nanos(0, "0 ns");
        check_nanos(999, "999 ns");
        check_nanos(1_000, "1.000 µs");
        check_nanos(1_234_567, "1.235 ms");
        check_nanos(12_345_678_901, "12.346 s");
        check_nanos(-1_500, "-1.500 µs");
    }

    #[test]
    fn rounding_may_reach_the_next_unit() {
        check_nanos(999_999, "999.999 µs");
        check_nanos(999_999_900, "1.000 s");
    }

    #[test]
    fn times_in_sentences_have_three_digits() {
        let check = |ns, expected: &str| assert_eq!(nanos_rounded_text(ns), expected);
        check(0, "0 ns");
        check(7, "7 ns");
        check(999, "999 ns");
        check(1_000, "1.00 µs");
        check(9_996, "10.0 µs");
        check(400_815_322, "401 ms");
        check(95_720_595, "95.7 ms");
        check(999_600_000, "1.00 s");
        check(1_673_000_000, "1.67 s");
        check(61_234_000_000, "61.2 s");
        check(1_234_567_000_000, "1235 s");
        check(-1_673_000_000, "-1.67 s");
    }

    #[test]
    fn bytes_and_counts() {
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1536), "1.5 KiB");
        assert_eq!(count_text(1_234_567), "1,234,567");
        assert_eq!(count_text(-12), "-12");
        assert_eq!(count_text(123), "123");
    }

    #[test]
    fn percentages() {
        assert_eq!(percent_text(1, 3), "33.3 %");
        assert_eq!(percent_text(1, 0), "-");
    }
}
