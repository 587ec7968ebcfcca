//! `recording.json`: how a recording was made.

use std::io;
use std::path::Path;

use serde_json::Value;
use spanwise_files::Folder;

pub(crate) const ABOUT_FILE: &str = "recording.json";

/// Descriptions have some hundred bytes.
const ABOUT_BYTES_MAX: u64 = 16 << 20;

/// The only clock that other programs can read as well.
const MONOTONIC: &str = "CLOCK_MONOTONIC";

/// Facts about a recording, as a JSON object whose keys stand in the given order.
#[derive(Debug, Default)]
pub struct About {
    rows: Vec<(&'static str, String)>,
}

impl About {
    pub fn text(&mut self, key: &'static str, value: &str) {
        self.rows.push((key, Value::from(value).to_string()));
    }

    pub fn number(&mut self, key: &'static str, value: impl Into<i128>) {
        self.rows.push((key, value.into().to_string()));
    }

    pub fn flag(&mut self, key: &'static str, value: bool) {
        self.rows.push((key, value.to_string()));
    }

    pub fn numbers(&mut self, key: &'static str, values: &[i32]) {
        self.list(key, values.iter().map(i32::to_string));
    }

    pub fn texts(&mut self, key: &'static str, values: &[String]) {
        self.list(key, values.iter().map(|value| Value::from(value.as_str()).to_string()));
    }

    fn list(&mut self, key: &'static str, values: impl Iterator<Item = String>) {
        let values: Vec<String> = values.collect();
        self.rows.push((key, format!("[{}]", values.join(", "))));
    }

    /// The clock of the records, and what it had at the start and the end.
    pub fn clock(&mut self, clock: &AboutClock) {
        self.text("clock", if clock.is_monotonic { MONOTONIC } else { "the kernel's own" });
        if let (Some(start), Some(end), true) = (clock.start, clock.end, clock.is_monotonic) {
            self.number("start_ns", start.monotonic_ns);
            self.number("end_ns", end.monotonic_ns);
        }
        self.text("boot", &clock.boot);
        if let (Some(start), Some(end)) = (clock.start, clock.end) {
            self.number("start_since_1970_ns", start.since_1970_ns);
            self.number("end_since_1970_ns", end.since_1970_ns);
        }
    }

    pub fn write(&self, folder: &Folder) -> io::Result<()> {
        let rows: Vec<String> =
            self.rows.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
        let text = format!("{{\n{}\n}}\n", rows.join(",\n"));
        folder.replace_file(ABOUT_FILE, text.as_bytes())
    }
}

/// When a recording was made, by the clock of its records and by the calendar.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AboutClock {
    /// Records have the monotonic clock of the machine since `boot`.
    pub is_monotonic: bool,
    /// Empty where it is not known.
    pub boot: String,
    pub start: Option<ClockReading>,
    pub end: Option<ClockReading>,
}

/// What two clocks had at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub monotonic_ns: i64,
    pub since_1970_ns: i64,
}

impl AboutClock {
    /// What the description in the folder of a recording says; nothing where there is none.
    pub fn read(folder: &Path) -> io::Result<Option<AboutClock>> {
        let text = match spanwise_files::read_regular(&folder.join(ABOUT_FILE), ABOUT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(about) = serde_json::from_slice::<Value>(&text) else { return Ok(None) };
        let reading = |monotonic: &str, calendar: &str| {
            let monotonic_ns = about[monotonic].as_i64()?;
            Some(ClockReading { monotonic_ns, since_1970_ns: about[calendar].as_i64()? })
        };
        Ok(Some(AboutClock {
            is_monotonic: about["clock"] == MONOTONIC,
            boot: about["boot"].as_str().unwrap_or_default().to_owned(),
            start: reading("start_ns", "start_since_1970_ns"),
            end: reading("end_ns", "end_since_1970_ns"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn written(about: &About) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().expect("a folder");
        about.write(&Folder::open(folder.path()).expect("there")).expect("writable");
        let text = fs::read_to_string(folder.path().join(ABOUT_FILE)).expect("a file");
        (folder, text)
    }

    #[test]
    fn a_clock_is_read_as_it_was_written() {
        let reading = |monotonic_ns, since_1970_ns| ClockReading { monotonic_ns, since_1970_ns };
        let (start, end) = (Some(reading(5, 105)), Some(reading(50, 151)));
        let clock = AboutClock { is_monotonic: true, boot: "b".to_owned(), start, end };
        let mut about = About::default();
        about.clock(&clock);
        let (folder, _) = written(&about);
        assert_eq!(AboutClock::read(folder.path()).expect("readable"), Some(clock.clone()));
        let mut about = About::default();
        about.clock(&AboutClock { is_monotonic: false, ..clock });
        let (folder, _) = written(&about);
        let (boot, start, end) = ("b".to_owned(), None, None);
        let expected = AboutClock { is_monotonic: false, boot, start, end };
        assert_eq!(AboutClock::read(folder.path()).expect("readable"), Some(expected));
    }

    #[test]
    fn what_is_no_description_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(AboutClock::read(folder.path()).expect("nothing"), None);
        let check = |text: &str, expected: Option<AboutClock>| {
            fs::write(folder.path().join(ABOUT_FILE), text).expect("writable");
            assert_eq!(AboutClock::read(folder.path()).expect("readable"), expected, "{text}");
        };
        check("{", None);
        check("[]", Some(AboutClock::default()));
        check(r#"{"start_ns": 5}"#, Some(AboutClock::default()));
    }

    #[test]
    fn keys_stand_in_order_and_texts_may_hold_anything() {
        let mut about = About::default();
        about.text("z", "a\"b\\c\n");
        about.texts("y", &["é".to_owned(), String::new()]);
        about.numbers("x", &[7, -1]);
        about.number("w", u64::MAX);
        about.flag("v", true);
        let expected = "{\n  \"z\": \"a\\\"b\\\\c\\n\",\n  \"y\": [\"é\", \"\"],\n  \
                        \"x\": [7, -1],\n  \"w\": 18446744073709551615,\n  \"v\": true\n}\n";
        assert_eq!(written(&about).1, expected);
    }
}
