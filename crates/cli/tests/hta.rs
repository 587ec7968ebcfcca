//! HTA's results on its own traces, number by number.
//!
//! The corpus is not part of the repository; where it is absent, the test says so.

#![allow(clippy::print_stderr, reason = "a test says what it compared and what it skipped")]

mod corpus;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use corpus::{close, corpus};
use serde_json::Value;
use spanwise_analyze::{CompatTable, CompatValue, HtaWindow, hta_tables};
use spanwise_read::{IndexUse, OpenOptions};

/// Beginning of the expected files, and the trace they are about.
const TRACES: [(&str, &str); 6] = [
    ("amd_trace", "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    (
        "critical_path_alexnet",
        "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    ),
    ("nccl_parser_config", "nccl_parser_config/nccl_data.json.gz"),
    ("ns_resolution_trace", "ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"),
    ("trace_diff_control", "trace_diff/control/control.json.gz"),
    ("trace_diff_test", "trace_diff/test/test.json.gz"),
];

/// Which of our tables an expected file is about.
fn table_of(file: &str) -> &'static str {
    match file {
        "temporal_breakdown" => "temporal_breakdown",
        "comm_comp_overlap" => "comm_comp_overlap",
        "kernel_breakdown.0" => "kernel_types",
        "kernel_breakdown.1" => "kernels",
        "idle_time_breakdown.0" => "idle_time",
        "idle_time_breakdown.1" => "idle_intervals",
        "queue_summary" => "queue_length",
        "membw_summary" => "memory_bandwidth",
        "gpu_user_anno" => "gpu_user_annotations",
        launches if launches.starts_with("launch_stats.rank") => "launch_stats",
        other => panic!("{other}: an expected file that nothing is compared with"),
    }
}

#[test]
fn every_expected_number_is_found() {
    let Some(folder) = corpus("hta") else { return };
    let files = fs::read_dir(folder.join("expected")).expect("a folder");
    let mut names: Vec<String> = files
        .map(|file| file.expect("readable").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    let mut tables: BTreeMap<&str, Vec<CompatTable>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for name in &names {
        let about = TRACES.iter().find(|(begin, _)| name.starts_with(begin));
        let &(begin, trace) = about.unwrap_or_else(|| panic!("{name}: of which trace?"));
        let tables = tables.entry(begin).or_insert_with(|| computed(&folder.join(trace)));
        let file = name[begin.len() + 1..].trim_end_matches(".json");
        let found = tables.iter().find(|table| table.key == table_of(file)).expect("all asked for");
        let text = fs::read_to_string(folder.join("expected").join(name)).expect("readable");
        let expected: Value = serde_json::from_str(&text).expect("JSON");
        let (compared, near, differences) = compare(&expected, found);
        eprintln!("{name}: {compared} values, {near} of them near, {} wrong", differences.len());
        wrong.extend(differences.iter().take(3).map(|difference| format!("{name}: {difference}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names.len() >= 50, "{} expected files", names.len());
}

fn computed(path: &Path) -> Vec<CompatTable> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(path, &options).expect("a trace");
    let keys: Vec<&str> = spanwise_analyze::HTA_TABLES.iter().map(|row| row.0).collect();
    hta_tables(&trace, &keys, &HtaWindow::default())
}

/// How many values were compared, how many are only near, and which are wrong.
fn compare(expected: &Value, found: &CompatTable) -> (usize, usize, Vec<String>) {
    // No table at all stands for one without rows.
    let none = Vec::new();
    let rows = expected.as_array().unwrap_or(&none);
    let mut differences = Vec::new();
    if rows.len() != found.rows.len() {
        differences.push(format!("{} rows, expected {}", found.rows.len(), rows.len()));
    }
    let (mut compared, mut near) = (0, 0);
    for (place, (row, found_row)) in rows.iter().zip(&found.rows).enumerate() {
        for (key, expected) in row.as_object().expect("an object").iter() {
            let key = plain_key(key);
            // The number of the row, which a table without an index does not have.
            if key == "index" {
                continue;
            }
            compared += 1;
            let column = found.columns.iter().position(|&column| column == key);
            let column = column.unwrap_or_else(|| panic!("{}: no column {key}", found.key));
            let value = &found_row[column];
            if is_same(expected, value) {
                continue;
            }
            match is_near(found.key, expected, value) {
                true => near += 1,
                false => {
                    differences.push(format!("row {place} {key}: {value:?}, expected {expected}"))
                }
            }
        }
    }
    (compared, near, differences)
}

/// "queue_length_mean" of "('queue_length', 'mean')".
fn plain_key(key: &str) -> String {
    match key.strip_prefix("('") {
        None => key.to_owned(),
        Some(pair) => {
            let plain = pair.trim_end_matches("')").replace("', '", "_");
            plain.trim_end_matches('_').to_owned()
        }
    }
}

fn is_same(expected: &Value, found: &CompatValue) -> bool {
    match (expected, found) {
        (Value::String(expected), CompatValue::Text(found)) => expected == found,
        (Value::Null, CompatValue::Float(found)) => found.is_nan(),
        (Value::Number(expected), CompatValue::Int(found)) => {
            expected.as_f64() == Some(*found as f64)
        }
        (Value::Number(expected), CompatValue::Float(found)) => {
            close(expected.as_f64().expect("a number"), *found, 1e-6, 1e-9)
        }
        _ => false,
    }
}

/// Summaries over time see the order of events of one microsecond, which HTA's sort
/// leaves to the processor: no two machines need agree on them.
fn is_near(table: &str, expected: &Value, found: &CompatValue) -> bool {
    match (table, expected.as_f64(), found) {
        ("queue_length", Some(expected), CompatValue::Float(found)) => {
            close(expected, *found, 0.011, 0.0)
        }
        ("memory_bandwidth", Some(expected), CompatValue::Float(found)) => {
            close(expected, *found, 0.08, 0.01)
        }
        _ => false,
    }
}
