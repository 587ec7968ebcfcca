//! A time as people write it.

/// Nanoseconds since 1970 as "2026-10-01 12:57:06 UTC".
pub(crate) fn utc_text(since_1970_ns: i128) -> String {
    let seconds = since_1970_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
///
/// Counts from 1 March of the year 0, so that the leap day ends a year and whole
/// cycles of 400 years (146,097 days) repeat.
fn date(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, again and again.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_cycle + 400 * cycle + i128::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: i128, expected: &str) {
        assert_eq!(utc_text(seconds * 1_000_000_000), expected);
    }

    #[test]
    fn dates_follow_the_calendar() {
        check(0, "1970-01-01 00:00:00 UTC");
        check(-1, "1969-12-31 23:59:59 UTC");
        check(951_782_400, "2000-02-29 00:00:00 UTC");
        check(1_709_251_199, "2024-02-29 23:59:59 UTC");
        check(4_107_542_400, "2100-03-01 00:00:00 UTC");
        check(1_790_857_026, "2026-10-01 12:17:06 UTC");
    }
}
