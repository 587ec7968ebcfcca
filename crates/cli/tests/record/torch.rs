//! PyTorch's own profiler in a program that is started, with as much of PyTorch as a recorder
//! sees of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use spanwise_model::{SpanKind, Trace};

use crate::bench::{Bench, text};

/// Runs Python code that finds the small PyTorch, and its own start-up file.
fn run(bench: &Bench, args: &[&str], code: &str) -> Option<Output> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no Python");
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs/fake_torch");
    let own = bench.path("own");
    fs::create_dir_all(&own).expect("writable");
    fs::write(own.join("sitecustomize.py"), "print('own start-up')\n").expect("writable");
    fs::write(bench.path("program.py"), code).expect("writable");
    let mut run = bench.spanwise(&["run", "--torch", "--recording", "r", "--no-decode"]);
    run.args(args).args(["--", "python3", "program.py"]);
    let path = format!("{}:{}", own.display(), sources.display());
    let output = run.env("PYTHONPATH", path).output().expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Python itself looks for it where the program said.
    assert!(text(&output.stdout).contains("own start-up"), "{}", text(&output.stdout));
    Some(output)
}

fn spans_of(trace: &Trace, kind: SpanKind) -> Vec<(i64, i64)> {
    let all = trace.tracks().iter().flat_map(|(_, track)| track.span_ids());
    let wanted = all.filter(|&span| trace.kind(span) == kind);
    wanted.map(|span| (trace.spans().start(span), trace.spans().end(span))).collect()
}

const TIMED: &str = "
import time, torch
now = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC)
def step():
    began = now()
    torch.work(0.05)
    print(began, now())
for _ in range(4):
    step()
    time.sleep(0.05)
";

#[test]
fn kernels_and_samples_lie_on_one_clock() {
    let Some(bench) = Bench::with("(--torch)") else { return };
    let Some(output) = run(&bench, &["--python-rate", "500"], TIMED) else { return };
    let said = text(&output.stderr);
    assert!(said.contains("1 trace of PyTorch"), "{said}");
    let trace = bench.open("r");
    let within = trace.info().properties.get(spanwise_read::TORCH_CLOCK_PROPERTY);
    let within: i64 = within.and_then(|within| within.parse().ok()).expect("both ends are known");
    // The program's own times are of the kernel's monotonic clock: all differ by the same.
    let lines = text(&output.stdout);
    let times: Vec<(i64, i64)> = lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)))
        .collect();
    let kernels = spans_of(&trace, SpanKind::Kernel);
    assert_eq!((times.len(), kernels.len()), (4, 4), "{lines}");
    let base = trace.info().base_time_ns.expect("both parts have one");
    let about = fs::read_to_string(bench.path("r/recording.json")).expect("written");
    let number = |key: &str| -> i64 {
        let value = about.split_once(&format!("\"{key}\": ")).expect("it is there").1;
        value.split([',', '\n']).next().expect("a value").trim().parse().expect("a number")
    };
    let monotonic = number("start_since_1970_ns") - number("start_ns");
    for ((from, to), (start, end)) in times.iter().zip(kernels) {
        let [start, end] = [start, end].map(|time| time + base - monotonic);
        assert!(from - within <= start && end <= to + within, "{from} {start} {end} {to}");
    }
    // Samples of the function that waits for them overlap each.
    let names = |span| trace.strings().get(trace.spans().name(span));
    let steps: Vec<(i64, i64)> = trace
        .tracks()
        .iter()
        .flat_map(|(_, track)| track.span_ids())
        .filter(|&span| names(span).starts_with("step ("))
        .map(|span| (trace.spans().start(span), trace.spans().end(span)))
        .collect();
    for (start, end) in spans_of(&trace, SpanKind::Kernel) {
        assert!(steps.iter().any(|&(from, to)| from < end && start < to), "{steps:?}");
    }
}

#[test]
fn a_program_without_torch_is_as_it_was() {
    let Some(bench) = Bench::with("(--torch)") else { return };
    let code = "import sys\nprint(sorted(name for name in sys.modules if 'spanwise' in name))\n";
    let Some(output) = run(&bench, &[], code) else { return };
    assert!(text(&output.stdout).contains("[]"), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("--torch: no trace of PyTorch"), "{said}");
    assert!(!bench.open("r").info().properties.contains_key("torch_clock_within_ns"));
}

#[test]
fn a_programs_own_profiler_comes_first() {
    let Some(bench) = Bench::with("(--torch)") else { return };
    let code = "
import torch, torch.profiler
torch.work(0.01)
profiler = torch.profiler.profile()
profiler.start()
torch.work(0.01)
torch.work(0.01)
profiler.stop()
print(len(profiler.profiler.events), 'of its own')
";
    let Some(output) = run(&bench, &[], code) else { return };
    assert!(text(&output.stdout).contains("2 of its own"), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("the program uses PyTorch's profiler itself"), "{said}");
    assert_eq!(spans_of(&bench.open("r"), SpanKind::Kernel).len(), 1);
}

#[test]
fn forked_processes_leave_it_alone() {
    let Some(bench) = Bench::with("(--torch)") else { return };
    let code = "
import os, torch
torch.work(0.01)
if os.fork() == 0:
    torch.work(0.01)
    raise SystemExit
os.wait()
torch.work(0.01)
";
    if run(&bench, &[], code).is_some() {
        assert_eq!(spans_of(&bench.open("r"), SpanKind::Kernel).len(), 2);
    }
}

#[test]
fn a_recording_that_ends_before_the_program_has_what_was_there() {
    let Some(bench) = Bench::with("(--torch)") else { return };
    let code = "
import time, torch
end = time.time() + 6
while time.time() < end:
    torch.work(0.01)
";
    if run(&bench, &["--duration", "3s"], code).is_some() {
        let trace = bench.open("r");
        let kernels = spans_of(&trace, SpanKind::Kernel);
        assert!(!kernels.is_empty());
        let traces = fs::read_dir(bench.path("r")).expect("a folder").flatten();
        let traces =
            traces.filter(|entry| entry.file_name().to_string_lossy().starts_with("torch-"));
        assert_eq!(traces.filter(|entry| entry.path().is_file()).count(), 1, "one, of its time");
    }
}
