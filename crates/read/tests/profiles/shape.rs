//! Formats that are not read here: whether they hold together.

use proptest::prelude::*;
use serde_json::Value;
use spanwise_model::Profile;
use spanwise_write::{ProfileView, write_firefox, write_profile_csv};

use crate::random::profile;

/// Tables of a thread in Firefox Profiler's format.
const TABLES: [&str; 7] = [
    "samples",
    "stackTable",
    "frameTable",
    "funcTable",
    "markers",
    "resourceTable",
    "nativeSymbols",
];

/// Columns that number the rows of another table.
const LINKS: [(&str, &str, &str); 6] = [
    ("samples", "stack", "stackTable"),
    ("stackTable", "frame", "frameTable"),
    ("stackTable", "prefix", "stackTable"),
    ("frameTable", "func", "funcTable"),
    ("funcTable", "name", "stringArray"),
    ("funcTable", "fileName", "stringArray"),
];

fn firefox(profile: &Profile, value: usize) -> Value {
    let mut bytes = Vec::new();
    let view = ProfileView { name: "train.py", value };
    write_firefox(profile, &view, &mut bytes).expect("a vector takes everything");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn length(thread: &Value, table: &str) -> u64 {
    match &thread[table] {
        Value::Array(texts) => texts.len() as u64,
        table => table["length"].as_u64().expect("a length"),
    }
}

/// Panics where a column has another length than its table, or points outside.
fn check_thread(thread: &Value, category_count: u64) {
    for table in TABLES {
        let columns = thread[table].as_object().expect("a table");
        for (name, column) in columns {
            if let Value::Array(column) = column {
                assert_eq!(column.len() as u64, length(thread, table), "{table}.{name}");
            }
        }
    }
    for (table, column, target) in LINKS {
        for (row, link) in thread[table][column].as_array().expect("a column").iter().enumerate() {
            let Some(link) = link.as_u64() else {
                assert!(link.is_null(), "{table}.{column} {row}: {link}");
                continue;
            };
            assert!(link < length(thread, target), "{table}.{column} {row}: {link}");
            assert!(column != "prefix" || link < row as u64, "a parent stands before: {row}");
        }
    }
    for category in thread["stackTable"]["category"].as_array().expect("a column") {
        assert!(category.as_u64().expect("a number") < category_count);
    }
    let times = thread["samples"]["time"].as_array().expect("a column");
    assert!(times.iter().map(|time| time.as_f64().expect("a number")).is_sorted());
}

/// The sum of all weights, in millionths.
fn weight(document: &Value) -> i128 {
    let weights = |thread: &Value| thread["samples"]["weight"].as_array().cloned();
    let threads = document["threads"].as_array().expect("threads");
    let weights = threads.iter().filter_map(weights).flatten();
    weights.map(|weight| millionths(&weight.to_string())).sum()
}

fn millionths(number: &str) -> i128 {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    format!("{whole}{decimals:0<6}").parse().expect("a number")
}

proptest! {
    #[test]
    fn firefox_tables_hold_together(
        profile in profile(-1_000_000_000_000i64..1_000_000_000_000),
        value in 0usize..3,
    ) {
        let document = firefox(&profile, value);
        let categories = document["meta"]["categories"].as_array().expect("categories").len();
        let threads = document["threads"].as_array().expect("threads");
        let selected = document["meta"]["initialSelectedThreads"][0].as_u64().expect("a number");
        prop_assert!(selected < threads.len() as u64);
        for thread in threads {
            check_thread(thread, categories as u64);
        }
        // Nanoseconds are millionths of the milliseconds there.
        let unit = if profile.value_types[value].unit == "nanoseconds" { 1 } else { 1_000_000 };
        prop_assert_eq!(weight(&document), profile.totals()[value] * unit);
    }

    #[test]
    fn csv_has_a_field_for_every_column(profile in profile(any::<i64>())) {
        let mut bytes = Vec::new();
        write_profile_csv(&profile, &mut bytes).expect("a vector takes everything");
        let text = String::from_utf8(bytes).expect("text");
        let rows = csv_rows(&text);
        prop_assert_eq!(rows.len(), profile.samples.len() + 1);
        for row in &rows {
            prop_assert_eq!(row.len(), rows[0].len());
        }
        for (sample, row) in rows[1..].iter().enumerate() {
            let values: Vec<String> =
                profile.values_of(sample).iter().map(i64::to_string).collect();
            prop_assert_eq!(&row[row.len() - values.len()..], values.as_slice());
        }
    }
}

/// Fields of RFC 4180.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut characters) = (false, text.chars().peekable());
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                field.extend(characters.next());
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    rows
}
