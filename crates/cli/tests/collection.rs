//! What the report says about real traces, held against what is known of them.
//!
//! Traces are those of the large collection in `shared` beside the repository; where
//! one is not at hand, the test says so and passes over it.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spanwise_analyze::{
    Architecture, Batch, ClassUse, Facts, FindingKind, OTHER, Phase, PhaseUse, Thresholds,
    architecture, findings, layer_use,
};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path)
}

fn open(path: &Path) -> Option<Arc<Trace>> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(path, &options).ok().map(Arc::new)
}

/// One of our own traces. A file that is there and cannot be read is no reason to skip.
fn own_trace(name: &str) -> Option<Arc<Trace>> {
    let path = shared(&format!("traces/{name}.json.gz"));
    if !path.exists() {
        eprintln!("skipped: {} is not at hand", path.display());
        return None;
    }
    Some(open(&path).expect("a trace"))
}

/// Files below a folder, without indexes, in order of name.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_index = |path: &Path| path.extension().is_some_and(|ending| ending == "spanwise");
    let inside = |path: PathBuf| match path.is_dir() {
        true if is_index(&path) => Vec::new(),
        true => files_below(&path),
        false => vec![path],
    };
    paths.into_iter().flat_map(inside).collect()
}

/// It repeats what the smaller ones of its model show.
const BIG: &str = "llama_big.json.xz";

fn print_classes(name: &str, used: &ClassUse) {
    let share = |ns: i128| ns as f64 * 100.0 / used.work_ns as f64;
    let shares = used.rows.iter().map(|row| format!("{} {:.1}", row.class, share(row.total_ns)));
    eprintln!("{name}: {}", shares.collect::<Vec<_>>().join(", "));
}

#[test]
fn hardly_any_gpu_time_is_without_a_class() {
    let folders = ["traces", "corpora/hta", "corpora/tracelens", "corpora/kineto"];
    let mut too_much = Vec::new();
    for folder in folders.map(shared) {
        let files = files_below(&folder);
        if files.is_empty() {
            eprintln!("skipped: there are no traces in {}", folder.display());
        }
        for path in files.iter().filter(|path| !path.ends_with(BIG)) {
            let Some(trace) = open(path) else { continue };
            let facts = Facts::new(&trace);
            let used = facts.class_use();
            if used.work_ns == 0 {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            print_classes(&name, used);
            let other = used.rows.iter().find(|row| row.class == OTHER);
            let is_too_much = other.is_some_and(|row| row.total_ns * 20 >= used.work_ns);
            if is_too_much {
                too_much.push(name.into_owned());
            }
        }
    }
    assert!(too_much.is_empty(), "5 % or more is other: {too_much:?}");
}

#[track_caller]
fn phases_of(path: &str) -> Option<PhaseUse> {
    let path = shared(path);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    let trace = open(&path).expect("a trace");
    Some(Facts::new(&trace).phase_use().clone())
}

/// The only step of a serving engine's trace: phase, requests, tokens.
#[track_caller]
fn check_step(path: &str, phase: Phase, requests: u64, tokens: u64) {
    let Some(used) = phases_of(&format!("corpora/tracelens/{path}")) else { return };
    let steps: Vec<_> =
        used.steps.iter().map(|row| (row.phase, row.requests, row.tokens)).collect();
    assert_eq!(steps, [(Some(phase), Some(requests), Some(tokens))], "{path}");
    let row = used.phases.iter().find(|row| row.phase == Some(phase)).expect("a row");
    assert!(row.gpu.work_ns * 100 >= used.work_ns * 99, "{path}: most work is of the phase");
}

#[test]
fn serving_steps_are_what_their_engines_say() {
    check_step("b200/eager_trace.json.gz", Phase::Prefill, 1, 888);
    let piecewise = "inference/vllm_prefilldecode_piecewise/graph_execution.json.gz";
    check_step(piecewise, Phase::Mixed, 9 + 37, 8155 + 37);
    check_step("inference/vllm_decode_full/graph_execution.json.gz", Phase::Decode, 32, 32);
    let extend = "inference/sglang_prefilldecode/sglang_Qwen3-8B_prefilldecode.json.gz";
    check_step(extend, Phase::Prefill, 15, 15360);
    let decode = "inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz";
    check_step(decode, Phase::Decode, 32, 32);
}

/// Steps of our own recordings: one prefill of so many tokens, then decode steps.
#[track_caller]
fn check_llama(name: &str, prompt: u64, decode_steps: usize) {
    let Some(used) = phases_of(&format!("traces/{name}.json.gz")) else { return };
    let steps: Vec<_> = used.steps.iter().map(|row| (row.phase, row.tokens)).collect();
    let mut expected = vec![(Some(Phase::Prefill), Some(prompt))];
    expected.extend(vec![(Some(Phase::Decode), Some(1)); decode_steps]);
    assert_eq!(steps, expected, "{name}");
}

#[test]
fn a_prompt_is_read_then_tokens_are_made() {
    check_llama("llama_small", 64, 4);
    check_llama("llama_eager", 512, 12);
    check_llama("llama_compiled", 512, 12);
    check_llama("llama_nostack", 512, 12);
    check_llama("mixtral_moe", 256, 6);
    check_llama("mamba_ssm", 64, 0);
}

/// Architecture and number of layers, from modules or from repetition.
#[track_caller]
fn check_model(path: &str, expected: Architecture, layers: usize) {
    let path = shared(path);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return;
    }
    let trace = open(&path).expect("a trace");
    let facts = Facts::new(&trace);
    let classes = facts.class_use();
    let found = (architecture(&facts, classes).architecture, layer_use(&facts).rows.len());
    assert_eq!(found, (expected, layers), "{}", path.display());
}

#[test]
fn models_are_known_by_what_they_run() {
    use Architecture::{Convolutional, MoeTransformer, StateSpace, Transformer};
    check_model("traces/llama_sdpa.json.gz", Transformer, 8);
    check_model("traces/llama_nostack.json.gz", Transformer, 8);
    check_model("traces/mixtral_moe.json.gz", MoeTransformer, 4);
    check_model("traces/mamba_ssm.json.gz", StateSpace, 4);
    check_model("traces/train_fast_loader.json.gz", Convolutional, 4);
    check_model("corpora/tracelens/b200/eager_trace.json.gz", MoeTransformer, 36);
}

#[test]
fn a_batch_adds_up() {
    let batch = Batch {
        phase: Phase::Mixed,
        context_requests: Some(9),
        context_tokens: Some(8155),
        generation_requests: Some(37),
        generation_tokens: None,
    };
    assert_eq!((batch.requests(), batch.tokens()), (Some(46), Some(8155)));
}

/// The keys of findings about one of our own traces, each with its line.
#[track_caller]
fn check_findings(trace: &str, expected: &[(&str, &str)], absent: &[&str]) {
    let Some(opened) = own_trace(trace) else { return };
    let found: Vec<(&str, String)> = findings(&Facts::new(&opened), &Thresholds::default())
        .iter()
        .map(|row| (spanwise_report::finding_key(&row.kind), line_of(&row.kind)))
        .collect();
    for (key, line) in expected {
        let is_there = found.iter().any(|row| row.0 == *key && row.1.ends_with(line));
        assert!(is_there, "{trace}: no {key} at {line} in {found:?}");
    }
    for key in absent {
        assert!(!found.iter().any(|row| row.0 == *key), "{trace}: {key} in {found:?}");
    }
}

fn line_of(kind: &FindingKind) -> String {
    let line = match kind {
        FindingKind::Overhead(spent) => &spent.line,
        FindingKind::Synchronization(sync) => &sync.row.line,
        FindingKind::HostCopies(copies) => &copies.line,
        _ => &None,
    };
    line.clone().unwrap_or_default()
}

#[test]
fn what_was_made_slow_is_found_where_it_is() {
    let loader = [("data-loading", ": __getitem__"), ("synchronisation", ": train")];
    check_findings("train_slow_loader", &loader, &[]);
    check_findings("train_fast_loader", &[], &["data-loading", "synchronisation"]);
    check_findings("pair_sync_every_layer", &[("synchronisation", ": after")], &["host-copies"]);
    check_findings("pair_host_roundtrip", &[("host-copies", ": pre")], &["synchronisation"]);
    check_findings("pair_base_rep1", &[], &["synchronisation", "host-copies", "data-loading"]);
}
