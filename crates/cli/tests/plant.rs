//! Differences that were put into a real trace, through files and the command itself.
//!
//! The traces are those of the collection in `shared` beside the repository; where they are
//! not at hand, the tests say so and pass.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

#[path = "../examples/plant/noise.rs"]
mod noise;
#[path = "../examples/plant/power.rs"]
#[allow(dead_code, reason = "the table is the tool's")]
mod power;
#[path = "../examples/plant/slow.rs"]
mod slow;

use power::{Model, Planted, Setting, Template};
use slow::Plan;

fn path(name: &str) -> PathBuf {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    shared.join(format!("{name}.json.gz"))
}

fn open(name: &str) -> Option<Trace> {
    if !path(name).exists() {
        eprintln!("skipped: {name} is not at hand");
        return None;
    }
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Some(spanwise_read::open(&path(name), &options).expect("a trace"))
}

/// What the command calls slower or faster, between another recording and one in which an
/// operator was slowed.
fn changes(trace: &Arc<Trace>, plan: &Plan<'_>) -> Vec<(String, String, String)> {
    let folder = tempfile::tempdir().expect("a place for files");
    let planted = folder.path().join("planted.json");
    let slowed = slow::slowed(trace, plan).expect("the operator is there");
    let mut file = File::create(&planted).expect("can be written");
    spanwise_write::write_chrome(&slowed, &mut file).expect("can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(["compare", "--no-index", "--top", "0", "--format", "json"]);
    let output = command.arg(path("pair_base_rep2")).arg(&planted).output().expect("it was built");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("").to_owned();
    let rows = found["changes"].as_array().expect("rows").iter();
    let rows = rows.map(|row| (text(row, "verdict"), text(row, "place"), text(row, "key")));
    rows.filter(|row| row.0 == "slower" || row.0 == "faster").collect()
}

#[track_caller]
fn check(trace: &Arc<Trace>, percent: f64, is_on_host: bool, expected: &[(&str, &str)]) {
    for seed in 1..3 {
        let operator = "aten::mm";
        let plan = Plan { operator, percent, is_on_host, noise_percent: 0.3, seed };
        let found = changes(trace, &plan);
        let expected: Vec<_> = expected
            .iter()
            .map(|&(verdict, place)| (verdict.to_owned(), place.to_owned(), operator.to_owned()))
            .collect();
        assert_eq!(found, expected, "{percent} % with seed {seed}");
    }
}

#[test]
fn a_slower_operator_is_found_and_nothing_else() {
    let Some(trace) = open("pair_base_rep1").map(Arc::new) else { return };
    check(&trace, 0.0, false, &[]);
    check(&trace, 3.0, false, &[("slower", "GPU")]);
    check(&trace, -6.0, false, &[("faster", "GPU")]);
    check(&trace, 40.0, true, &[("slower", "host")]);
}

#[test]
fn three_percent_are_found_and_noise_raises_no_alarm() {
    let traces = (open("pair_base_rep1"), open("pair_base_rep2"));
    let (Some(first), Some(second)) = traces else { return };
    let template = Template::new([&first.into(), &second.into()]);
    for model in [Model::Resampled, Model::Normal] {
        let (planted, recordings) = (Planted::Gpu, 1);
        let setting = Setting { model, planted, percent: 3.0, steps: 24, recordings };
        let (found, alarms) = template.trials(setting, 40).expect("what was drawn is read");
        assert!(found >= 37 && alarms <= 4, "{found} found, {alarms} alarms of 40");
    }
}
