//! Memory of real traces, and of the small one in `testdata/`, held against what is known.
//!
//! The large one is beside the repository, in `shared`; where it is not at hand, and where
//! Go is not installed, the tests say so.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spanwise_analyze::{
    Facts, ProfileOptions, VALUE_TYPES, memory_churn, memory_peak, memory_use, profile,
};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn open(path: &str) -> Option<Arc<Trace>> {
    let path = at_root(path);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Some(spanwise_read::open(&path, &options).expect("it can be read").into())
}

const SMALL: &str = "testdata/kineto/memory.json";
const TRAINING: &str = "../shared/traces/train_slow_loader.json.gz";

/// At every event: what is held of the recording's allocations, found by looking at each of
/// them, and what was there before and is not freed yet, are what the profiler recorded.
#[track_caller]
fn check_every_moment(trace: &Arc<Trace>) {
    for device in &Facts::new(trace).memory().devices {
        let replayed = &device.replayed;
        assert_eq!(replayed.contradictions, 0, "{}", device.name);
        let there = replayed.levels[0].allocated;
        for (at, level) in replayed.levels.iter().enumerate() {
            let held = replayed.allocations.iter().filter(|row| row.is_held_at(at));
            let held: i128 = held.map(|row| i128::from(row.bytes)).sum();
            let freed = replayed.early_frees.iter().filter(|free| free.0 <= at);
            let freed: i128 = freed.map(|free| free.1).sum();
            assert_eq!(held + there - freed, level.allocated, "{} at {at}", device.name);
        }
    }
}

/// The tables and the columns of profiles add up to the peaks and ends of all devices.
#[track_caller]
fn check_sums(trace: &Arc<Trace>) {
    let facts = Facts::new(trace);
    let uses = memory_use(&facts);
    let (peak, churn) = (memory_peak(&facts), memory_churn(&facts));
    for row in &uses {
        let held = peak.iter().filter(|place| place.device == row.device);
        assert_eq!(held.map(|place| place.bytes).sum::<i128>(), row.peak);
        let asked = || churn.iter().filter(|place| place.device == row.device);
        assert_eq!(asked().map(|place| place.bytes).sum::<i128>(), row.allocated);
        assert_eq!(asked().filter_map(|place| place.count).sum::<u64>(), row.allocations);
    }
    let totals = profile(trace, &ProfileOptions::default()).totals();
    let total = |name: &str| {
        let column = VALUE_TYPES.iter().position(|value| value.0 == name);
        totals[column.expect("there is such a column")]
    };
    assert_eq!(total("alloc_space"), uses.iter().map(|row| row.allocated).sum());
    assert_eq!(total("peak_space"), uses.iter().map(|row| row.peak).sum());
    assert_eq!(total("inuse_space"), uses.iter().map(|row| row.at_end).sum());
    let held = uses.iter().filter_map(|row| row.held_at_end).map(i128::from);
    assert_eq!(total("inuse_objects"), held.sum());
}

#[test]
fn held_and_there_before_are_the_recorded_total_at_every_moment() {
    for path in [SMALL, TRAINING] {
        if let Some(trace) = open(path) {
            check_every_moment(&trace);
            check_sums(&trace);
        }
    }
}

#[test]
fn a_training_run_gives_what_its_events_say() {
    let Some(trace) = open(TRAINING) else { return };
    let rows = memory_use(&Facts::new(&trace));
    let [gpu, cpu] = rows.as_slice() else { panic!("two devices, not {}", rows.len()) };
    assert_eq!((&*gpu.device, gpu.peak, gpu.at_end), ("GPU 0", 619_905_536, 222_317_568));
    assert_eq!((&*cpu.device, cpu.peak, cpu.at_end), ("CPU", 19_661_312, 9_830_656));
    assert_eq!((gpu.early_freed, cpu.early_freed), (9_959_424, 0));
    assert_eq!((gpu.allocations, gpu.frees, gpu.allocated), (1_986, 1_986, 11_805_702_144));
    assert_eq!((cpu.allocations, cpu.frees, cpu.allocated), (144, 142, 58_984_968));
    assert_eq!((gpu.short_lived, cpu.short_lived), (Some(1_101), Some(132)));
}

/// Old traces have neither addresses nor totals, others were recorded by others.
#[test]
fn traces_of_others_are_counted_whole() {
    let resnet = "worker0.1623143089861.pt.trace.json.gz";
    let known = [
        (format!("kineto/tb_plugin/samples/resnet50_num_workers_0/{resnet}"), 12_838),
        ("tracelens/h100/Qwen_Qwen1.5-0.5B-Chat.json.gz".to_owned(), 2_450),
        ("tracelens/mi300/gaunernst_bert-small-uncased.json.gz".to_owned(), 236),
    ];
    for (path, events) in known {
        let Some(trace) = open(&format!("../shared/corpora/{path}")) else { continue };
        let rows = memory_use(&Facts::new(&trace));
        let counted: u64 = rows.iter().map(|row| row.allocations + row.frees).sum();
        assert_eq!(counted, events, "{path}");
        check_sums(&trace);
    }
}

#[test]
fn pprofs_client_shows_who_held_the_peak() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: no go");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory_client");
    std::fs::create_dir_all(&folder).expect("the folder for tests is writable");
    let file = folder.join("memory.pb.gz");
    let made = Command::new(env!("CARGO_BIN_EXE_spanwise"))
        .args(["convert", "--quiet", "--no-index", "-o"])
        .args([&file, &at_root(SMALL)])
        .status();
    assert!(made.expect("spanwise runs").success());
    let top = |options: &[&str]| {
        let output = Command::new("go")
            .args(["tool", "pprof", "-top", "-unit=B", "-nodefraction=0"])
            .args(options)
            .arg(&file)
            .env("PPROF_TMPDIR", &folder)
            .env("XDG_CONFIG_HOME", &folder)
            .output()
            .expect("go runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let gpu = top(&["-sample_index=peak_space", "-tagfocus=device=^gpu0$"]);
    let row = |name: &str| gpu.lines().find(|line| line.trim_end().ends_with(name));
    let flat = |name: &str| row(name).and_then(|line| line.split_whitespace().next());
    assert_eq!(flat("[allocated before the recording]"), Some("4194304B"), "{gpu}");
    assert_eq!(flat("aten::empty"), Some("1835008B"), "{gpu}");
    // The peak of this device alone, which the trace records as its total then.
    assert!(gpu.contains("accounting for 6094848B,"), "{gpu}");
}
