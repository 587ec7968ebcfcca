//! The clock of a recording of our own, which its description has.

use std::path::Path;

use spanwise_model::{BOOT_PROPERTY, SourceInfo};
use spanwise_recording::{AboutClock, RECORDS_FILE};

/// Adds what the description beside the records of our own recording says of their clock; gives
/// what is wrong with it.
pub(crate) fn add_clock(records: &Path, info: &mut SourceInfo) -> Option<String> {
    let folder = records.parent().filter(|_| records.file_name() == Some(RECORDS_FILE.as_ref()))?;
    match AboutClock::read(folder) {
        Ok(clock) => add_clock_of(clock?, info),
        Err(error) => return Some(format!("recording.json: {error}")),
    }
    None
}

fn add_clock_of(clock: AboutClock, info: &mut SourceInfo) {
    if !clock.is_monotonic {
        return;
    }
    if let Some(start) = clock.start {
        info.base_time_ns = start.since_1970_ns.checked_sub(start.monotonic_ns);
    }
    if !clock.boot.is_empty() {
        info.properties.insert(BOOT_PROPERTY.to_owned(), clock.boot);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_clock_of_a_recording_is_in_its_description() {
        let root = tempfile::tempdir().expect("a folder");
        let check = |about: &str, base: Option<i64>, boot: Option<&str>| {
            fs::write(root.path().join("recording.json"), about).expect("writable");
            let mut info = SourceInfo::default();
            add_clock(&root.path().join(RECORDS_FILE), &mut info);
            let found = info.properties.get(BOOT_PROPERTY).map(String::as_str);
            assert_eq!((info.base_time_ns, found), (base, boot), "{about}");
        };
        let clock = r#""clock": "CLOCK_MONOTONIC""#;
        let times = r#""start_ns": 5, "start_since_1970_ns": 105"#;
        check(&format!(r#"{{{clock}, {times}, "boot": "b"}}"#), Some(100), Some("b"));
        check(&format!(r#"{{{clock}, {times}, "boot": ""}}"#), Some(100), None);
        check(&format!(r#"{{{clock}, "boot": "b"}}"#), None, Some("b"));
        check(&format!(r#"{{"clock": "TSC", {times}, "boot": "b"}}"#), None, None);
        check("{", None, None);
        let mut info = SourceInfo::default();
        add_clock(&root.path().join("other.data"), &mut info);
        assert_eq!(info, SourceInfo::default());
    }
}
