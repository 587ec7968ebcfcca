//! A line of the timeline.

use std::fmt;

use spanwise_model::Nanos;

/// A call that begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `None` where it is that of the line before.
    pub time: Option<Nanos>,
    pub is_begin: bool,
    pub name: String,
    /// The call was there when its thread was first seen.
    pub is_inferred: bool,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time.map(length_text).unwrap_or_default();
        let word = if self.is_begin { "BEGIN" } else { "END  " };
        let inferred = if self.is_inferred { " [inferred start time]" } else { "" };
        write!(f, "-> {time:>8} {word} {}{inferred}", self.name)
    }
}

/// In the largest unit that leaves something before the point, with up to 3 decimals.
fn length_text(ns: Nanos) -> String {
    const UNITS: [(u64, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    let found = UNITS.into_iter().find(|&(unit, _)| size >= unit);
    let (unit, name) = found.unwrap_or((1, "ns"));
    // Through a float, as magic-trace does: it decides which way halves go.
    let text = format!("{:.3}", size as f64 / unit as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{sign}{text}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let check = |ns, text: &str| assert_eq!(length_text(ns), text, "{ns}");
        check(0, "0ns");
        check(999, "999ns");
        check(70_970, "70.97us");
        check(112_543_600, "112.544ms");
        check(40_636_500, "40.636ms");
        check(107_696_500, "107.697ms");
        check(1_500_000_000, "1.5s");
        check(90_000_000_000, "1.5m");
        check(-21, "-21ns");
    }

    #[test]
    fn lines_stand_in_columns() {
        let line = Line { time: Some(21), is_begin: true, name: "f".into(), is_inferred: true };
        assert_eq!(line.to_string(), "->     21ns BEGIN f [inferred start time]");
        let line = Line { time: None, is_begin: false, name: "f".into(), is_inferred: false };
        assert_eq!(line.to_string(), "->          END   f");
    }
}
