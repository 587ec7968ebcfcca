//! What `spanwise compare` says about real traces, held against what is known of them.
//!
//! Traces are those of the large collection in `shared` beside the repository; where one is
//! not at hand, the test says so and passes over it.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::path::{Path, PathBuf};
use std::process::Command;

use spanwise_analyze::{
    Allowance, Cause, CauseKind, ClassRules, CompareBy, CompareOptions, CompareRow, CompareSeries,
    Comparison, Facts, OTHER, Place, Verdict, baseline_text, compare, compare_series,
    parse_baseline,
};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path)
}

fn open(path: &Path) -> Option<Trace> {
    if !path.exists() {
        eprintln!("skipped: {} is not at hand", path.display());
        return None;
    }
    let options = OpenOptions { index: IndexUse::Ignore, threads: 0, progress: None };
    Some(spanwise_read::open(path, &options).expect("a trace"))
}

fn own_trace(name: &str) -> Option<Trace> {
    open(&shared(&format!("traces/{name}.json.gz")))
}

fn series(trace: &Trace, by: CompareBy) -> CompareSeries {
    compare_series(&Facts::new(trace), &ClassRules::standard(), &CompareOptions::by(by))
}

fn compared(base: &Trace, other: &Trace, by: CompareBy) -> Comparison {
    compare(&[series(base, by)], &[series(other, by)], by, &Allowance::default())
}

fn changed(found: &Comparison) -> Vec<(Place, &str)> {
    let changed = found.rows.iter().filter(|row| row.is_changed());
    changed.map(|row| (row.place, row.key.as_str())).collect()
}

#[test]
fn recordings_of_the_same_program_do_not_differ() {
    let traces = (own_trace("pair_base_rep1"), own_trace("pair_base_rep2"));
    let (Some(base), Some(other)) = traces else { return };
    for by in CompareBy::ALL {
        let found = compared(&base, &other, by);
        assert_eq!(changed(&found), [], "{by:?}");
        assert_eq!(found.wall.verdict, Verdict::Same);
        assert!(found.overall.iter().all(|row| row.verdict == Verdict::Same), "{by:?}");
        assert_eq!(found.causes, [], "{by:?}");
    }
}

#[test]
fn the_first_profile_of_a_process_is_slow_on_the_host_alone() {
    let traces = (own_trace("pair_base_rep0"), own_trace("pair_base_rep1"));
    let (Some(base), Some(other)) = traces else { return };
    for by in CompareBy::ALL {
        let found = compared(&base, &other, by);
        let on_gpu = |row: &&(Place, &str)| row.0 == Place::Gpu;
        assert_eq!(changed(&found).iter().find(on_gpu), None, "{by:?}");
        assert_eq!(found.wall.verdict, Verdict::Faster);
        let verdict = |place: Place| {
            found.overall.iter().find(|row| row.place == place).map(|row| row.verdict)
        };
        assert_eq!(verdict(Place::Gpu), Some(Verdict::Same));
        assert_eq!(verdict(Place::Host), Some(Verdict::Faster));
        let is_host = |cause: &Cause| {
            matches!(cause.kind, CauseKind::HostCode { .. } | CauseKind::HostEverywhere { .. })
        };
        assert!(!found.causes.is_empty() && found.causes.iter().all(is_host), "{by:?}");
    }
}

/// The first cause, which must be of this sort, at this line, and cost what the step lost.
#[track_caller]
fn check_cause(other: &str, is_expected: fn(&CauseKind) -> bool, line: &str) {
    let (Some(base), Some(other)) = (own_trace("pair_base_rep1"), own_trace(other)) else {
        return;
    };
    let found = compared(&base, &other, CompareBy::Operator);
    let first = found.causes.first().expect("a cause");
    assert!(is_expected(&first.kind), "{first:?}");
    assert_eq!(first.lines, [None, Some(line.to_owned())]);
    let (low, high) = found.wall.interval_ns.expect("enough steps");
    assert!(first.cost_ns > 50_000 && low <= first.cost_ns && first.cost_ns <= high, "{first:?}");
    // The other way around it is what was saved.
    let back = compared(&other, &base, CompareBy::Operator);
    assert_eq!(back.causes[0].cost_ns, -first.cost_ns);
    assert_eq!(back.causes[0].lines, [Some(line.to_owned()), None]);
}

#[test]
fn what_was_made_worse_is_the_first_cause() {
    check_cause(
        "pair_sync_every_layer",
        |kind| match kind {
            CauseKind::Synchronisation { operator, .. } => operator == "aten::item",
            _ => false,
        },
        "make_traces.py(235): after",
    );
    check_cause(
        "pair_host_roundtrip",
        |kind| matches!(kind, CauseKind::HostCopies { .. }),
        "make_traces.py(252): pre",
    );
    check_cause(
        "pair_slow_python",
        |kind| matches!(kind, CauseKind::HostCode { .. }),
        "make_traces.py(262): slow",
    );
}

#[test]
fn eager_attention_is_several_kernels_against_one() {
    let traces = (own_trace("llama_eager"), own_trace("llama_sdpa"));
    let (Some(base), Some(other)) = traces else { return };
    let found = compared(&base, &other, CompareBy::Operator);
    let attention = found.causes.iter().find_map(|cause| match &cause.kind {
        CauseKind::OtherKernels { module, kernels, time } if module.ends_with("LlamaAttention") => {
            Some((kernels, time))
        }
        _ => None,
    });
    let (kernels, time) = attention.expect("attention runs other kernels");
    let names = |side: usize| kernels[side].iter().map(|(name, _)| name.to_lowercase());
    assert!(names(0).any(|name| name.contains("softmax")), "{kernels:?}");
    let is_flash = |name: String| ["cudnn", "flash", "fmha"].iter().any(|part| name.contains(part));
    assert!(names(1).any(is_flash), "{kernels:?}");
    assert!(kernels[0].len() > kernels[1].len() && time[0].count > time[1].count, "{kernels:?}");
}

#[test]
fn compiled_code_runs_fused_kernels_instead() {
    let traces = (own_trace("llama_sdpa"), own_trace("llama_compiled"));
    let (Some(base), Some(other)) = traces else { return };
    let found = compared(&base, &other, CompareBy::Operator);
    let kernels = found.causes.iter().find_map(|cause| match &cause.kind {
        CauseKind::OtherKernels { kernels, .. } => Some(kernels),
        _ => None,
    });
    let [base, other] = kernels.expect("other kernels run");
    assert!(base.iter().any(|(name, _)| name.contains("elementwise_kernel")), "{base:?}");
    assert!(!base.iter().any(|(name, _)| name.starts_with("triton_")), "{base:?}");
    let is_fused =
        |(name, _): &&(String, u64)| name.starts_with("triton_") && name.contains("_fused_");
    assert!(other.iter().filter(is_fused).count() >= 3, "{other:?}");
}

#[test]
fn classes_match_across_vendors() {
    let models = ["Qwen1.5", "timesformer", "bert-small"];
    let folder = |name: &str| shared(&format!("corpora/tracelens/{name}"));
    let find = |side: &str, model: &str| -> Option<PathBuf> {
        let entries = std::fs::read_dir(folder(side)).ok()?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let is_trace = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.contains(model) && name.ends_with(".json.gz")
        };
        paths.into_iter().find(is_trace)
    };
    for model in models {
        let Some((base, other)) = find("h100", model).zip(find("mi300", model)) else {
            eprintln!("skipped: {model} is not at hand");
            continue;
        };
        let (base, other) = (open(&base).expect("there"), open(&other).expect("there"));
        let found = compared(&base, &other, CompareBy::Class);
        let sides: [fn(&CompareRow) -> i128; 2] =
            [|row| row.base.total_ns, |row| row.other.total_ns];
        for side in sides {
            let all: i128 = found.rows.iter().map(side).sum();
            let of_other = found.rows.iter().filter(|row| row.key == OTHER);
            let matched =
                found.rows.iter().filter(|row| row.base.is_there() && row.other.is_there());
            assert!(of_other.map(side).sum::<i128>() * 20 < all, "{model}");
            assert!(matched.map(side).sum::<i128>() * 100 > all * 95, "{model}");
        }
    }
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

/// Traces of this many bytes and fewer, compressed, are read by the tests of all traces.
const SMALL_BYTES: u64 = 1_300_000;

fn small_traces() -> Vec<(String, Trace)> {
    let files = ["traces", "corpora/hta", "corpora/kineto", "corpora/tracelens"];
    let files = files.iter().flat_map(|folder| files_below(&shared(folder)));
    let is_small = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let is_trace = name.ends_with(".json") || name.ends_with(".json.gz");
        is_trace && path.metadata().is_ok_and(|file| file.len() <= SMALL_BYTES)
    };
    let options = OpenOptions { index: IndexUse::Ignore, threads: 0, progress: None };
    let files: Vec<PathBuf> = files.filter(is_small).collect();
    if files.is_empty() {
        eprintln!("skipped: no traces at hand");
    }
    // Expected results of other tools are JSON too: what is no trace is none.
    let read = |path: PathBuf| {
        Some((path.display().to_string(), spanwise_read::open(&path, &options).ok()?))
    };
    files.into_iter().filter_map(read).collect()
}

/// Swaps what differs when the sides change places.
fn mirrored(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Slower => Verdict::Faster,
        Verdict::Faster => Verdict::Slower,
        same => same,
    }
}

#[test]
fn a_trace_equals_itself_and_swapping_sides_mirrors_everything() {
    let mut last: Option<[CompareSeries; 2]> = None;
    for (name, trace) in small_traces() {
        let groups = [CompareBy::Operator, CompareBy::Kernel];
        let own = groups.map(|by| series(&trace, by));
        let total: i128 = trace
            .spans()
            .ids()
            .filter(|&span| trace.kind(span).is_gpu_work())
            .map(|span| i128::from(trace.spans().dur(span)))
            .sum();
        for (at, by) in groups.into_iter().enumerate() {
            let side = std::slice::from_ref(&own[at]);
            let found = compare(side, side, by, &Allowance::default());
            let all = || found.rows.iter().chain(&found.overall).chain([&found.wall]);
            assert!(all().all(|row| row.change_ns() == 0), "{name}");
            assert!(all().all(|row| row.verdict == Verdict::Same), "{name}");
            assert_eq!(found.causes, [], "{name}");
            // What is compared and what is not are the whole.
            assert_eq!(found.base.gpu_ns + found.base.outside_gpu_ns, total, "{name}");
            let gpu = found.rows.iter().filter(|row| row.place == Place::Gpu);
            let sum: i128 = gpu.map(|row| row.base.total_ns).sum();
            assert_eq!(sum, found.base.gpu_ns, "{name}");
            if let Some(last) = &last {
                check_swapped(&name, std::slice::from_ref(&last[at]), side, by);
            }
        }
        check_baseline(&name, &own[0]);
        last = Some(own);
    }
}

#[track_caller]
fn check_swapped(name: &str, base: &[CompareSeries], other: &[CompareSeries], by: CompareBy) {
    let there = compare(base, other, by, &Allowance::default());
    let back = compare(other, base, by, &Allowance::default());
    let sorted = |rows: &[CompareRow]| {
        let mut rows: Vec<CompareRow> = rows.to_vec();
        rows.sort_by(|a, b| (a.place, &a.key).cmp(&(b.place, &b.key)));
        rows
    };
    let (there_rows, back_rows) = (sorted(&there.rows), sorted(&back.rows));
    assert_eq!(there_rows.len(), back_rows.len(), "{name}");
    let pairs = there_rows.iter().zip(&back_rows).chain([(&there.wall, &back.wall)]);
    for (there, back) in pairs {
        assert_eq!((there.place, &there.key), (back.place, &back.key), "{name}");
        assert_eq!(there.change_ns(), -back.change_ns(), "{name} {}", there.key);
        assert_eq!(there.verdict, mirrored(back.verdict), "{name} {}", there.key);
        let turned = back.interval_ns.map(|(low, high)| (-high, -low));
        assert_eq!(there.interval_ns, turned, "{name} {}", there.key);
    }
}

#[track_caller]
fn check_baseline(name: &str, series: &CompareSeries) {
    let options = CompareOptions::by(CompareBy::Operator);
    let text = baseline_text(std::slice::from_ref(series), &options);
    let (read, read_options) =
        parse_baseline(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((read.as_slice(), read_options), (std::slice::from_ref(series), options), "{name}");
}

const RANKS: [&str; 2] =
    ["testdata/kineto/ddp/ddp_rank0.json.gz", "testdata/kineto/ddp/ddp_rank2.json.gz"];

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.arg("compare").args(["--no-index", "--quiet"]).args(args).current_dir(root);
    let output = command.output().expect("the binary was built for this test");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A rule on two ranks by class: the exit status, and what is found.
#[track_caller]
fn check_rule(rule: &str, exit: i32, found: &str) {
    let (code, out, err) = run(&[RANKS[0], RANKS[1], "--by", "class", "--fail-if", rule]);
    assert_eq!((code, err.as_str()), (Some(exit), ""), "{rule}");
    let row = out.lines().nth(2).unwrap_or_default();
    assert!(row.contains(found) && row.trim_end().ends_with(rule), "{rule}: {row}");
}

#[test]
fn rules_fire_on_verdicts_alone_unless_they_say_otherwise() {
    check_rule("slower > 3%", 0, "ok");
    check_rule("slower > 3% in gemm on gpu", 1, "gemm on gpu: slower");
    check_rule("slower > 1000% in gemm", 0, "gemm on gpu: slower");
    check_rule("slower > 3ms in g*m", 1, "gemm on gpu: slower");
    check_rule("faster in gemm", 0, "ok");
    check_rule("changed in any", 1, "violated");
    check_rule("slower in nothing", 1, "nothing of that name on either side");
    check_rule("unsure", 0, "step: same");
    check_rule("unsure in elementwise", 1, "elementwise on gpu: cannot tell");
    // 3 µs of a step of 140 ms: no change, but a smaller number.
    check_rule("faster", 0, "step: same");
    check_rule("faster measured", 1, "step: same");
    check_rule("slower in backward", 0, "backward: faster");
    check_rule("changed on host", 1, "all work on host: faster");
}

#[test]
fn a_baseline_stands_for_the_traces_it_was_made_of() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = folder.path().join("a.baseline");
    let file = path.to_str().expect("a plain path");
    assert_eq!(run(&[RANKS[0], "--by", "kernel", "--save-baseline", file]).0, Some(0));
    let shown = |args: &[&str]| run(&[args, &["--format", "json"]].concat());
    let direct = shown(&[RANKS[0], RANKS[1], "--by", "kernel"]);
    assert_eq!(direct.0, Some(0));
    assert_eq!(shown(&[RANKS[1], "--baseline", file]), direct);
    let (code, _, error) = run(&[RANKS[1], "--baseline", file, "--by", "op"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("saved with --by kernel"), "{error}");
    let text = std::fs::read_to_string(&path).expect("was written");
    std::fs::write(&path, text.replacen("by kernel", "by op", 1)).expect("can be written");
    let (code, _, error) = run(&[RANKS[1], "--baseline", file]);
    assert!(code == Some(2) && error.contains("the checksum does not match"), "{error}");
}

#[test]
fn a_page_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = folder.path().join("change.html");
    let file = path.to_str().expect("a plain path");
    assert_eq!(run(&[RANKS[0], RANKS[1], "-o", file]), (Some(0), String::new(), String::new()));
    let page = std::fs::read_to_string(&path).expect("was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<span class=\"slower\">slower</span>"));
    let outside = ["<script", "http://", "https://", "src=", "href=", "url("];
    assert!(!outside.iter().any(|part| page.contains(part)), "refers to something outside");
    assert_eq!(run(&[RANKS[0], RANKS[1], "-o", "change.pdf"]).0, Some(2));
}
