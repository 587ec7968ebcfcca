//! TraceLens's results on its own traces: timeline and kernels.
//!
//! The corpus is not part of the repository; where it is absent, the test says so.

#![allow(clippy::print_stderr, reason = "a test says what it compared and what it skipped")]

mod corpus;
mod csv;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use corpus::{close, corpus};
use csv::Texts;
use spanwise_analyze::{CompatValue, Facts, tracelens_tables};
use spanwise_read::{IndexUse, OpenOptions};

/// Expected files that lie elsewhere than beside their trace.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "inference/sglang_prefilldecode/perf_csvs/",
        "inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz",
    ),
    (
        "inference/vllm_prefilldecode_piecewise/perf_csvs/",
        "inference/vllm_prefilldecode_piecewise/graph_execution.json.gz",
    ),
    ("inference/xdit_sd_3.5/perf_csvs/", "inference/xdit_sd_3.5/profile_trace_rank_0.json.gz"),
    (
        "mi210/gpu_only_trace/gpu_only_trace_perf_report_csvs/",
        "mi210/gpu_only_trace/gpu_only_trace.json.gz",
    ),
];

#[test]
fn timelines_agree() {
    check("gpu_timeline", &["type"], &["time ms", "percent"]);
}

#[test]
fn kernels_agree() {
    let keys = ["Parent cpu_op", "Kernel name", "Kernel stream"];
    let numbers = [
        "Kernel duration (µs)_sum",
        "Kernel duration (µs)_count",
        "Percent of kernels time (%)",
        "Percent of total time (%)",
    ];
    check("kernel_summary", &keys, &numbers);
}

/// Compares every number of every expected file of one table; rows with the same key
/// are added up, since TraceLens also tells categories of operators apart.
fn check(table: &'static str, keys: &[&str], numbers: &[&str]) {
    let Some(folder) = corpus("tracelens") else { return };
    let mut files = Vec::new();
    collect(&folder, &format!("{table}.csv"), &mut files);
    files.sort();
    assert!(!files.is_empty(), "no {table}.csv in {}", folder.display());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(&folder).expect("below it").to_string_lossy().into_owned();
        // It splits the run by what is computed again, which these tables do not.
        if name.contains("recompute") {
            eprintln!("{name}: skipped, split by recomputation");
            continue;
        }
        let expected =
            summed(&csv::rows(&fs::read_to_string(&file).expect("readable")), keys, numbers);
        let found = summed(&computed(&folder.join(trace_of(&name, table)), table), keys, numbers);
        let mut compared = 0;
        for (key, values) in &expected {
            let none = vec![0.0; numbers.len()];
            let found = found.get(key).unwrap_or(&none);
            for ((number, expected), found) in numbers.iter().zip(values).zip(found) {
                compared += 1;
                if !close(*expected, *found, 1e-3, 1e-3) {
                    wrong.push(format!("{name}: {key:?} {number}: {found}, expected {expected}"));
                }
            }
        }
        if expected.len() != found.len() {
            wrong.push(format!("{name}: {} rows, expected {}", found.len(), expected.len()));
        }
        eprintln!("{name}: {compared} values");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, such as\n{}",
        wrong.len(),
        wrong[..wrong.len().min(9)].join("\n")
    );
}

fn trace_of(name: &str, table: &str) -> String {
    match ELSEWHERE.iter().find(|(begin, _)| name.starts_with(begin)) {
        Some((_, trace)) => (*trace).to_owned(),
        None => name.replace(&format!(".{table}.csv"), ".json.gz"),
    }
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            collect(&path, ending, files);
        } else if path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
}

fn computed(path: &Path, table: &'static str) -> Texts {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(path, &options).expect("a trace");
    let table = tracelens_tables(&Facts::new(&trace.into()), &[table]).pop().expect("asked for");
    let mut rows = vec![table.columns.iter().map(|&column| column.to_owned()).collect()];
    let text = |value: &CompatValue| match value {
        CompatValue::Text(text) => text.clone(),
        CompatValue::Int(value) => value.to_string(),
        CompatValue::Float(value) => value.to_string(),
    };
    rows.extend(table.rows.iter().map(|row| row.iter().map(text).collect()));
    rows
}

/// Numbers added up by key.
fn summed(texts: &Texts, keys: &[&str], numbers: &[&str]) -> BTreeMap<Vec<String>, Vec<f64>> {
    let header = &texts[0];
    let place = |name: &&str| header.iter().position(|column| column == name);
    let mut sums: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    for row in &texts[1..] {
        // A trace of the GPU alone has no operators, and its table no such column.
        let key = keys.iter().map(|key| place(key).map_or("", |at| &row[at]).to_owned()).collect();
        let sum = sums.entry(key).or_insert_with(|| vec![0.0; numbers.len()]);
        for (sum, number) in sum.iter_mut().zip(numbers) {
            let at = place(number).unwrap_or_else(|| panic!("no column {number}"));
            *sum += row[at].parse::<f64>().unwrap_or(f64::NAN);
        }
    }
    sums
}
