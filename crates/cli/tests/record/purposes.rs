//! Programs that each do one thing only: what is found first, and shares beside what the program
//! says by its own clocks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spanwise_analyze::{
    Facts, Finding, FindingKind, MetricValue, SpentOn, Thresholds, findings, metrics,
    share_error_percent, start_up,
};
use spanwise_model::Trace;

use crate::bench::{Bench, text};
use crate::python::interpreters;

const SECONDS: &str = "1.5";

/// By how many percent points a share may differ from what the program says.
const TOLERANCE: f64 = 5.0;

/// What the program says of itself, in seconds.
type Clocks = BTreeMap<String, f64>;

struct Recorded {
    trace: Arc<Trace>,
    clocks: Clocks,
}

/// Runs the program for one purpose.
fn record(bench: &Bench, purpose: &str) -> Vec<Recorded> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs/purposes.py");
    record_script(bench, purpose, &script, &[purpose, SECONDS])
}

/// Runs a script by the oldest interpreter and by the newest.
fn record_script(bench: &Bench, name: &str, script: &Path, args: &[&str]) -> Vec<Recorded> {
    let pythons = interpreters();
    let mut ends: Vec<&PathBuf> = by_minor(&pythons);
    ends.dedup();
    let recorded = ends.into_iter().enumerate().map(|(round, python)| {
        let folder = format!("{name}{round}");
        let options = ["run", "--quiet", "--no-decode", "--rate", "999", "--recording", &folder];
        let mut run = bench.spanwise(&options);
        let output = run.arg("--").arg(python).arg(script).args(args).output();
        let output = output.expect("built for this test");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let clocks = serde_json::from_slice(&output.stdout).expect("its clocks");
        Recorded { trace: bench.open(&folder).into(), clocks }
    });
    recorded.collect()
}

/// The first and the last by version.
fn by_minor(pythons: &[PathBuf]) -> Vec<&PathBuf> {
    let minor = |path: &&PathBuf| {
        let text = path.to_string_lossy().into_owned();
        let rest = text.split_once("/3.").map(|(_, rest)| rest.to_owned());
        rest.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok())
    };
    [pythons.iter().min_by_key(minor), pythons.iter().max_by_key(minor)]
        .into_iter()
        .flatten()
        .collect()
}

impl Recorded {
    fn findings(&self) -> Vec<Finding> {
        findings(&Facts::new(&self.trace), &Thresholds::default())
    }

    /// A metric in percent.
    fn share(&self, name: &str) -> Option<f64> {
        let rows = metrics(&Facts::new(&self.trace));
        let row = rows.into_iter().find(|row| row.name == name).expect("a metric of this name");
        match row.value? {
            MetricValue::Share(part, whole) => Some(100.0 * part as f64 / whole as f64),
            MetricValue::Nanos(_) => None,
        }
    }

    /// How far a metric may be off by chance, in percent, as the report says it.
    fn error(&self, name: &str) -> f64 {
        let facts = Facts::new(&self.trace);
        let row = metrics(&facts).into_iter().find(|row| row.name == name);
        let error = row.and_then(|row| row.error);
        error.map_or(0.0, |error| 100.0 * error.ns as f64 / facts.window_ns() as f64)
    }

    /// What the program says, in percent of the recording.
    fn clock_share(&self, clock: &str) -> f64 {
        let facts = Facts::new(&self.trace);
        100e9 * self.clocks[clock] / facts.window_ns() as f64
    }

    #[track_caller]
    fn check_share(&self, name: &str, least: f64, most: f64) {
        let found = self.share(name).expect("it is known");
        eprintln!("{name}: {found:.1} %, by its own clocks {least:.1} to {most:.1} %");
        let tolerance = TOLERANCE + self.error(name);
        let is_near = (least - tolerance..=most + tolerance).contains(&found);
        assert!(is_near, "{name}: {found} of {least} to {most}, {:?}", self.clocks);
    }
}

/// The first finding of each recording is of this kind, and names one of these functions.
#[track_caller]
fn check_first(recorded: &[Recorded], on: Option<SpentOn>, functions: &[&str]) {
    for one in recorded {
        let found = one.findings();
        let first = found.first().map(|finding| &finding.kind);
        let (kind, named, line) = match first {
            Some(FindingKind::CpuSpent(spent)) => {
                (Some(spent.on), spent.function.clone().unwrap_or_default(), spent.line)
            }
            Some(FindingKind::CpuFunction(of)) => (None, of.function.clone(), of.line),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind, on, "{found:?}");
        let name = named.split(' ').next().unwrap_or(&named);
        let name = name.rsplit('.').next().unwrap_or(name);
        assert!(functions.contains(&name) && named.contains("purposes.py"), "{found:?}");
        assert!(line > 0, "{found:?}");
    }
}

#[test]
fn a_program_that_only_awaits_has_the_event_loop_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "asyncio");
    check_first(&recorded, Some(SpentOn::EventLoop), &["do_asyncio"]);
    recorded.iter().for_each(|one| one.check_share("data_loading_overhead", 0.0, 0.0));
}

#[test]
fn a_program_that_only_pickles_has_pickling_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "pickle");
    check_first(&recorded, Some(SpentOn::Serialization), &["do_pickle"]);
    for one in &recorded {
        // What was read is freed by the interpreter itself or by native code, as versions have it.
        let most = one.clock_share("freeing") + one.clock_share("startup");
        one.check_share("python_overhead", 0.0, most);
    }
}

#[test]
fn a_program_that_only_sorts_has_the_function_that_asks_for_it_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "arrays");
    check_first(&recorded, None, &["do_arrays"]);
    for one in &recorded {
        let python = one.clock_share("cpu") - one.clock_share("native");
        one.check_share("python_overhead", python, python + one.clock_share("startup"));
        assert_eq!(one.share("gpu_utilization"), None);
    }
}

#[test]
fn a_program_that_only_allocates_has_allocation_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "allocate");
    check_first(&recorded, Some(SpentOn::Allocation), &["do_allocate"]);
    for one in &recorded {
        let cpu = one.clock_share("cpu");
        one.check_share("memory_allocation_cost", cpu, cpu);
        one.check_share("python_overhead", 0.0, one.clock_share("startup"));
    }
}

#[test]
fn a_program_of_plain_python_is_all_overhead_of_python() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "python");
    for one in &recorded {
        let first = one.findings().into_iter().next().map(|finding| finding.kind);
        let Some(FindingKind::CpuFunction(of)) = first else { panic!("{first:?}") };
        assert!(of.function.starts_with("step") || of.function.starts_with("do_python"), "{of:?}");
        let (cpu, startup) = (one.clock_share("cpu"), one.clock_share("startup"));
        one.check_share("python_overhead", cpu, cpu + startup);
        one.check_share("memory_allocation_cost", 0.0, 0.0);
        one.check_share("data_loading_overhead", 0.0, 0.0);
    }
}

#[test]
fn a_pool_that_is_given_large_arguments_has_pickling_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "pool");
    for one in &recorded {
        let first = one.findings().into_iter().next().map(|finding| finding.kind);
        let Some(FindingKind::CpuSpent(spent)) = &first else { panic!("{first:?}") };
        assert_eq!(spent.on, SpentOn::Serialization, "{first:?}");
    }
}

#[test]
fn a_program_that_loads_data_has_that_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "loading");
    check_first(&recorded, Some(SpentOn::DataLoading), &["__getitem__", "<listcomp>"]);
    for one in &recorded {
        let loading = one.clock_share("loading");
        one.check_share("data_loading_overhead", loading, loading);
    }
}

#[test]
fn who_sleeps_in_an_event_loop_blocks_it() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let recorded = record(&bench, "blocking");
    for one in &recorded {
        let found = one.findings();
        let waits = found.iter().filter_map(|finding| match &finding.kind {
            FindingKind::OffCpu(waits) => Some(waits),
            _ => None,
        });
        let blocking: Vec<_> = waits.filter(|waits| waits.blocks_event_loop).collect();
        let [waits] = blocking[..] else { panic!("{found:?}") };
        assert!(waits.stack.iter().any(|name| name.starts_with("ask_slowly")), "{waits:?}");
    }
}

/// A module that takes its time to load; the program then works for half as long.
const HEAVY: &str = "import time
def build():
    end = time.process_time() + 0.8
    while time.process_time() < end:
        pass
build()
";
const STARTS: &str = "import heavy, json, time
started = time.process_time()
def work():
    end = started + 0.4
    while time.process_time() < end:
        pass
work()
print(json.dumps({'startup': started, 'cpu': time.process_time()}))
";

#[test]
fn a_slow_import_is_first_and_start_up_stands_apart() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    for (name, text) in [("heavy.py", HEAVY), ("starts.py", STARTS)] {
        std::fs::write(bench.path(name), text).expect("writable");
    }
    let script = bench.path("starts.py");
    for one in record_script(&bench, "starts", &script, &[]) {
        let found = one.findings();
        let first = found.first().map(|finding| &finding.kind);
        let Some(FindingKind::CpuSpent(spent)) = first else { panic!("{found:?}") };
        assert_eq!((spent.on, spent.function.as_deref()), (SpentOn::Import, Some("heavy")));
        let facts = Facts::new(&one.trace);
        let start = start_up(&facts).expect("its own code runs");
        let found = 100.0 * start.cpu_ns as f64 / facts.cpu_time().total_ns() as f64;
        let expected = 100.0 * one.clocks["startup"] / one.clocks["cpu"];
        let error = share_error_percent(spent.samples, spent.all_samples).expect("samples");
        eprintln!("start-up: {found:.1} %, by its own clocks {expected:.1} %");
        let is_near = (found - expected).abs() <= TOLERANCE + error;
        assert!(is_near, "{found} of {expected}, {:?}", one.clocks);
    }
    // Where time went stands before what to do about it.
    let report = bench.run(&["report", "--no-index", "starts0"]);
    let report = text(&report.stdout);
    let place = |words: &str| report.find(words).unwrap_or_else(|| panic!("{words}: {report}"));
    let python = place("CPU time by Python function");
    assert!(report[python..].lines().next().is_some_and(|line| line.contains("start-up took")));
    let order = [python, place("CPU time by Python line"), place("CPU time by function")];
    assert!(order.is_sorted() && order[2] < place("Findings"), "{report}");
    assert!(report.contains("for the module heavy."), "{report}");
}
