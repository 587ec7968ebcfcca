//! What fuzzing calls, and the replay of its corpus: any text to a baseline that can be
//! written, read again and compared, or to an error. Not part of the interface.

use spanwise_model::hash_bytes;

use crate::{Allowance, Verdict, baseline_text, compare, parse_baseline};

/// Reads `input` as a baseline, as it is and with a checksum that fits.
pub fn baseline(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    read(text);
    let body = match text.ends_with('\n') {
        true => text.to_owned(),
        false => format!("{text}\n"),
    };
    read(&format!("{body}end {:016x}\n", hash_bytes(body.as_bytes())));
}

fn read(text: &str) {
    let Ok((series, options)) = parse_baseline(text) else { return };
    let again = parse_baseline(&baseline_text(&series, &options));
    assert_eq!(again.as_ref(), Ok(&(series.clone(), options)), "written and read");
    let found = compare(&series, &series, options.by, &Allowance::default());
    let rows = found.rows.iter().chain(&found.overall).chain([&found.wall]);
    rows.for_each(|row| assert_eq!((row.change_ns(), row.verdict), (0, Verdict::Same), "itself"));
}
