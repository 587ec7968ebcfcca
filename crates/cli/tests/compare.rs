//! What `spanwise compare` says about real traces, held against what is known of them.
//!
//! Traces are those of the large collection in `shared` beside the repository; where one is
//! not at hand, the test says so and passes over it.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spanwise_analyze::{
    Allowance, Cause, CauseKind, ClassRules, CompareBy, CompareOptions, ComparePlace, CompareRow,
    CompareSeries, Comparison, Facts, KernelSwap, OTHER, Verdict, baseline_text, compare,
    compare_series, fusion, parse_baseline, steps_of,
};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path)
}

fn open(path: &Path) -> Option<Arc<Trace>> {
    if !path.exists() {
        eprintln!("skipped: {} is not at hand", path.display());
        return None;
    }
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Some(spanwise_read::open(path, &options).expect("a trace").into())
}

fn own_trace(name: &str) -> Option<Arc<Trace>> {
    open(&shared(&format!("traces/{name}.json.gz")))
}

fn series(trace: &Arc<Trace>, by: CompareBy) -> CompareSeries {
    compare_series(&Facts::new(trace), &ClassRules::standard(), &CompareOptions::by(by))
}

fn compared(base: &Arc<Trace>, other: &Arc<Trace>, by: CompareBy) -> Comparison {
    compare(&[series(base, by)], &[series(other, by)], by, &Allowance::default())
}

/// With what replaces what, as the command tells it.
fn compared_and_named(base: &Arc<Trace>, other: &Arc<Trace>) -> Comparison {
    let mut found = compared(base, other, CompareBy::Operator);
    name_replaced(&mut found, base, other);
    found
}

fn name_replaced(found: &mut Comparison, base: &Arc<Trace>, other: &Arc<Trace>) {
    let (base, other) = (Facts::new(base), Facts::new(other));
    let steps = [&base, &other].map(|facts| steps_of(facts, None));
    found.name_replaced(&fusion(&base, &other, &ClassRules::standard()), None, steps);
}

fn changed(found: &Comparison) -> Vec<(ComparePlace, &str)> {
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
        let on_gpu = |row: &&(ComparePlace, &str)| row.0 == ComparePlace::Gpu;
        assert_eq!(changed(&found).iter().find(on_gpu), None, "{by:?}");
        assert_eq!(found.wall.verdict, Verdict::Faster);
        let verdict = |place: ComparePlace| {
            found.overall.iter().find(|row| row.place == place).map(|row| row.verdict)
        };
        assert_eq!(verdict(ComparePlace::Gpu), Some(Verdict::Same));
        assert_eq!(verdict(ComparePlace::Host), Some(Verdict::Faster));
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
            CauseKind::Synchronization { operator, .. } => operator == "aten::item",
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
    let of_attention = |found: Comparison| {
        let attention = found.causes.into_iter().find_map(|cause| match cause.kind {
            CauseKind::OtherKernels { module, kernels, time, swaps }
                if module.ends_with("LlamaAttention") =>
            {
                Some((kernels, time, swaps))
            }
            _ => None,
        });
        attention.expect("attention runs other kernels")
    };
    let (kernels, time, _) = of_attention(compared(&base, &other, CompareBy::Operator));
    let names = |side: usize| kernels[side].iter().map(|(name, _)| name.to_lowercase());
    assert!(names(0).any(|name| name.contains("softmax")), "{kernels:?}");
    let is_flash = |name: String| ["cudnn", "flash", "fmha"].iter().any(|part| name.contains(part));
    assert!(names(1).any(is_flash), "{kernels:?}");
    assert!(kernels[0].len() > kernels[1].len() && time[0].count > time[1].count, "{kernels:?}");
    // The one kernel is named with what it replaces.
    let is_attention = |swap: &&KernelSwap| {
        swap.kernels[0].operators.iter().any(|operator| operator.contains("softmax"))
            && swap.kernels[1].names.len() < swap.kernels[0].names.len()
            && swap.kernels[1].names.iter().any(|name| is_flash(name.to_lowercase()))
    };
    let (rest, _, swaps) = of_attention(compared_and_named(&base, &other));
    assert!(swaps.iter().any(|swap| is_attention(&swap)), "{swaps:?}");
    // What is told there is not told again.
    assert!(!rest[1].iter().any(|(name, _)| is_flash(name.to_lowercase())), "{rest:?}");
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
fn fused_kernels_are_named_with_what_they_replace() {
    let traces = (own_trace("llama_eager"), own_trace("llama_compiled"));
    let (Some(base), Some(other)) = traces else { return };
    let found = compared_and_named(&base, &other);
    let swaps = found.causes.iter().find_map(|cause| match &cause.kind {
        CauseKind::OtherKernels { swaps, .. } => Some(swaps),
        _ => None,
    });
    let swaps = swaps.expect("other kernels run");
    // The operators of a norm, in order, against the one kernel that was made of them.
    let norm = swaps.iter().find(|swap| {
        swap.kernels[1].names == ["triton_red_fused__to_copy__unsafe_view_add_mean_mul_pow_rsqrt"]
    });
    let norm = norm.expect("a fused norm");
    let operators = ["add", "copy_", "pow", "mean", "add", "rsqrt", "mul", "copy_", "mul"];
    assert_eq!(norm.kernels[0].operators, operators.map(|name| format!("aten::{name}")));
    assert!(norm.change_ns() < 0 && norm.count > 100, "{norm:?}");
    // The largest change comes first, and the other way around it is what was split.
    assert!(swaps.is_sorted_by_key(|swap| -swap.change_ns().abs()));
    let back = compared_and_named(&other, &base);
    let turned = back.causes.iter().find_map(|cause| match &cause.kind {
        CauseKind::OtherKernels { swaps, .. } => Some(swaps.len()),
        _ => None,
    });
    assert_eq!(turned, Some(swaps.len()));
}

/// Comparing some steps alone names the same as comparing all of them, and times of one step.
#[test]
fn what_replaces_what_does_not_depend_on_which_steps_are_compared() {
    let traces = (own_trace("llama_eager"), own_trace("llama_compiled"));
    let (Some(base), Some(other)) = traces else { return };
    let swaps_of = |found: Comparison| {
        let causes = found.causes.into_iter().filter_map(|cause| match cause.kind {
            CauseKind::OtherKernels { swaps, .. } => Some(swaps),
            _ => None,
        });
        causes.flatten().collect::<Vec<KernelSwap>>()
    };
    let of_all = swaps_of(compared_and_named(&base, &other));
    let by = CompareBy::Operator;
    let options = CompareOptions { steps: Some((3, 6)), ..CompareOptions::by(by) };
    let series = |trace| compare_series(&Facts::new(trace), &ClassRules::standard(), &options);
    let mut found = compare(&[series(&base)], &[series(&other)], by, &Allowance::default());
    assert_eq!(found.base.steps, 4);
    name_replaced(&mut found, &base, &other);
    let of_some = swaps_of(found);
    assert!(!of_some.is_empty());
    assert!(of_some.iter().all(|swap| of_all.contains(swap)), "{of_some:#?}");
}

/// What replaces what by kernels alone, with counts and times: places are named after one of
/// the sides.
type Replaced = BTreeMap<[Vec<String>; 2], (u64, [i128; 2])>;

fn replaced(base: &Arc<Trace>, other: &Arc<Trace>, is_swapped: bool) -> Replaced {
    let found = fusion(&Facts::new(base), &Facts::new(other), &ClassRules::standard());
    let mut sums = Replaced::new();
    for row in &found.changes {
        let mut sides = [&row.base, &row.other];
        if is_swapped {
            sides.reverse();
        }
        let sum = sums.entry(sides.map(|kernels| kernels.names.clone())).or_default();
        sum.0 += row.count;
        sum.1[0] += sides[0].total_ns;
        sum.1[1] += sides[1].total_ns;
    }
    sums
}

#[test]
fn what_replaces_what_is_the_same_both_ways() {
    let makers = two_makers("timesformer").map(|[base, other]| (open(&base), open(&other)));
    let mut pairs: Vec<_> = makers.into_iter().collect();
    for (base, other) in [
        ("llama_eager", "llama_sdpa"),
        ("llama_sdpa", "llama_compiled"),
        ("llama_small_eager", "llama_small"),
        ("train_fast_loader", "train_slow_loader"),
        ("ddp_rank0", "ddp_rank2"),
    ] {
        pairs.push((own_trace(base), own_trace(other)));
    }
    for (base, other) in pairs {
        let (Some(base), Some(other)) = (base, other) else { continue };
        assert_eq!(replaced(&base, &other, false), replaced(&other, &base, true));
        assert_eq!(replaced(&base, &base, false), Replaced::new());
    }
}

/// Recordings of a model on GPUs of two makers.
fn two_makers(model: &str) -> Option<[PathBuf; 2]> {
    let find = |side: &str| -> Option<PathBuf> {
        let entries = std::fs::read_dir(shared(&format!("corpora/tracelens/{side}"))).ok()?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let is_trace = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.contains(model) && name.ends_with(".json.gz")
        };
        paths.into_iter().find(is_trace)
    };
    let found = find("h100").zip(find("mi300"));
    if found.is_none() {
        eprintln!("skipped: {model} is not at hand");
    }
    found.map(|(base, other)| [base, other])
}

/// Words of one maker's world: anywhere in a text, and as words of their own.
const MAKERS: [&str; 9] =
    ["nvidia", "cuda", "nccl", "rccl", "rocm", "cudnn", "cublas", "hipblas", "radeon"];
const MAKERS_ALONE: [&str; 3] = ["amd", "hip", "nv"];

/// Words of an output that name a maker, though no name of the traces holds them.
fn named_makers(output: &str, names: &[String]) -> Vec<String> {
    // A shortened name is two pieces of one, and a name may hold what stands between cells.
    let pieces = output.split(|c: char| c.is_whitespace() || c == '…' || c == ',');
    let names_maker = |piece: &&str| {
        let small = piece.to_lowercase();
        let mut words = small.split(|c: char| !c.is_alphanumeric());
        MAKERS.iter().any(|maker| small.contains(maker))
            || words.any(|word| MAKERS_ALONE.contains(&word))
    };
    let is_own = |piece: &str| {
        let piece = piece.trim_matches(|c: char| ",;.:\"'()[]{}".contains(c));
        let escaped = piece.replace("\\\"", "\"");
        names.iter().any(|name| name.contains(piece) || name.contains(&escaped))
    };
    let found = pieces.filter(names_maker).filter(|piece| !is_own(piece));
    found.map(str::to_owned).collect()
}

#[test]
fn no_text_speaks_of_one_maker() {
    let own = ["my_cuda_kernel<int>".to_owned()];
    assert_eq!(named_makers("the HIP runtime; my_cuda_kernel<int>.", &own), ["HIP"]);
    for model in ["Qwen1.5", "timesformer"] {
        let Some(paths) = two_makers(model) else { continue };
        let mut names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        for path in &paths {
            let trace = open(path).expect("there");
            let spans = trace.spans().ids().map(|span| trace.name(span).to_owned());
            for name in spans.collect::<BTreeSet<_>>() {
                names.push(spanwise_write::short_name(&name).into_owned());
                names.push(name);
            }
        }
        let files = paths.each_ref().map(|path| path.to_str().expect("a plain path"));
        for options in [
            &["compare"][..],
            &["compare", "--by", "class", "--all"],
            &["compare", "--by", "kernel", "--with-stacks", "--top", "0"],
            &["compare", "--by", "module", "--format", "json"],
            &["compare", "--kernels"],
            &["compare", "--kernels", "--format", "csv"],
            &["compare", "--kernels", "--layers"],
        ] {
            for files in [files, [files[1], files[0]]] {
                let (code, out, err) = run_command(&[options, &files].concat());
                assert_eq!((code, err.as_str()), (Some(0), ""), "{options:?}");
                assert_eq!(named_makers(&out, &names), Vec::<String>::new(), "{options:?}");
            }
        }
    }
}

#[test]
fn classes_match_across_vendors() {
    for model in ["Qwen1.5", "timesformer", "bert-small"] {
        let Some([base, other]) = two_makers(model) else { continue };
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
const SMALL_BYTES: u64 = 2_100_000;

fn small_traces() -> Vec<(String, Arc<Trace>)> {
    let files = ["traces", "corpora/hta", "corpora/kineto", "corpora/tracelens"];
    let files = files.iter().flat_map(|folder| files_below(&shared(folder)));
    let is_small = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let is_trace = name.ends_with(".json") || name.ends_with(".json.gz");
        is_trace && path.metadata().is_ok_and(|file| file.len() <= SMALL_BYTES)
    };
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let files: Vec<PathBuf> = files.filter(is_small).collect();
    if files.is_empty() {
        eprintln!("skipped: no traces at hand");
    }
    // Expected results of other tools are JSON too: what is no trace is none.
    let read = |path: PathBuf| {
        Some((path.display().to_string(), spanwise_read::open(&path, &options).ok()?.into()))
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
            let gpu = found.rows.iter().filter(|row| row.place == ComparePlace::Gpu);
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
    run_command(&[&["compare"], args].concat())
}

fn run_command(args: &[&str]) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(args).args(["--no-index", "--quiet"]).current_dir(root);
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
    check_rule("unsure in elementwise", 1, "elementwise on gpu: inconclusive");
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
    let options = ["--by", "kernel", "--steps", "0.."];
    assert_eq!(run(&[&options, &[RANKS[0], "--save-baseline", file][..]].concat()).0, Some(0));
    let shown = |args: &[&str]| {
        let (code, out, err) = run(&[args, &["--format", "json"]].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let mut shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        // What replaces what needs both traces; all else is the same.
        let causes = shown["causes"].as_array_mut().expect("a list of causes");
        let is_told = causes.iter().any(|cause| cause["evidence"].to_string().contains("became"));
        for cause in causes {
            (cause["evidence"], cause["advice"]) = Default::default();
        }
        (is_told, shown)
    };
    let (is_told, direct) = shown(&[&options, &[RANKS[0], RANKS[1]][..]].concat());
    assert!(is_told);
    assert_eq!(shown(&[RANKS[1], "--baseline", file]), (false, direct));
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
    assert_eq!(page.matches("<script").count(), 1, "only that of the flame graph");
    let outside = ["https://", " src=", "url(", "@import"];
    assert!(!outside.iter().any(|part| page.contains(part)), "refers to something outside");
    let links = page.split("href=\"").skip(1);
    assert!(links.into_iter().all(|link| link.starts_with('#')), "links lead outside");
    assert_eq!(run(&[RANKS[0], RANKS[1], "-o", "change.pdf"]).0, Some(2));
}
