//! Durations as people write them, such as `300ms` and `1.5 s`.

use spanwise_model::Nanos;

/// The units, and how many decimal places of each are nanoseconds.
const UNITS: [(&str, usize); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];

/// A number and its unit, without a float. `None` for anything else, as for parts of a nanosecond.
pub fn parse_duration(text: &str) -> Option<Nanos> {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let digits = text.len() - text.trim_start_matches(is_of_number).len();
    let (number, unit) = text.split_at(digits);
    let places = UNITS.iter().find(|(known, _)| *known == unit.trim())?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > places || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    format!("{whole}{fraction:0<places$}").parse().ok()
}

/// Whether a word is the unit of a duration.
pub(crate) fn is_unit(word: &str) -> bool {
    UNITS.iter().any(|(unit, _)| *unit == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Nanos>) {
        assert_eq!(parse_duration(text), expected, "{text}");
    }

    #[test]
    fn durations_have_a_unit() {
        check("7ns", Some(7));
        check("500us", Some(500_000));
        check("1.5 µs", Some(1_500));
        check("300ms", Some(300_000_000));
        check(".5s", Some(500_000_000));
        check("2.s", Some(2_000_000_000));
        check("", None);
        check("s", None);
        check(".ms", None);
        check("2", None);
        check("2m", None);
        check("-2ms", None);
        check("1e3ms", None);
    }

    #[test]
    fn durations_are_whole_nanoseconds() {
        check("0.5ns", None);
        check("1.0005us", None);
        check("9223372036854775807ns", Some(i64::MAX));
        check("9223372036854775808ns", None);
        check("9300000000s", None);
    }
}
