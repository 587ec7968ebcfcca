//! Native programs: their own code first, their start-up apart, and functions without symbols.

use std::path::Path;

use spanwise_analyze::{Facts, FunctionBy, SampledFunction, SampledFunctions, cpu_functions};

use crate::bench::{Bench, text};

/// By how many percentage points a share may differ from what the program says, beside the error
/// of its samples.
const TOLERANCE: f64 = 5.0;

/// What the program says of itself, in percent of its CPU time.
struct Clocks {
    constructor: f64,
    first: f64,
    second: f64,
    library: f64,
}

/// Records the program; gives the functions that had CPU time.
fn record(bench: &Bench, program: &Path, folder: &str) -> (SampledFunctions, Clocks) {
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--rate", "999"]);
    let output = run.args(["--recording", folder, "--"]).arg(program).output();
    let output = output.expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found = cpu_functions(&Facts::new(&bench.open(folder).into()), FunctionBy::Function);
    let printed = text(&output.stdout);
    let percent = |ns: &str| 100.0 * ns.parse::<f64>().expect("ns") / found.total as f64;
    let shares: Vec<f64> = printed.split_whitespace().map(percent).collect();
    let [constructor, first, second, library] = shares[..] else { panic!("{printed}") };
    (found, Clocks { constructor, first, second, library })
}

/// A share that so many samples show is what the program says.
#[track_caller]
fn check_share(of: &SampledFunctions, what: &str, ns: i128, samples: u64, expected: f64) {
    let (found, error) = (of.percent(ns), of.error_percent(samples).expect("samples"));
    eprintln!("{what}: {found:.1} % +- {error:.1}, by its own clock {expected:.1} %");
    assert!((found - expected).abs() <= TOLERANCE + error, "{what}: {found} of {expected}");
}

#[test]
fn own_code_is_marked_and_first_and_start_up_stands_apart() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("starts.c", "starts", &["-g", "-O1"]) else { return };
    let (found, clocks) = record(&bench, &program, "r");
    let row = |name: &str| {
        let row = found.rows.iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("{name}: {:#?}", found.rows))
    };
    let prepares = row("prepares");
    assert_eq!(prepares.start_up, prepares.own);
    check_share(&found, "start-up", found.start_up, prepares.samples, clocks.constructor);
    for name in ["works_first", "works_second", "main"] {
        assert!(row(name).is_own_code && row(name).start_up == 0, "{:?}", row(name));
    }
    // The library has most time of all, and is not the program's.
    let library = found.rows.iter().find(|row| row.mapping.contains("libc")).expect("memset");
    check_share(&found, &library.name, library.own, library.samples, clocks.library);
    assert!(!library.is_own_code && library.own > row("works_second").own, "{library:?}");
    let mut report = bench.spanwise(&["report", "--no-index", "--section", "cpu", "r"]);
    let report = report.env("COLUMNS", "200").output().expect("built for this test");
    let report = text(&report.stdout);
    let place = |words: &str| report.find(words).unwrap_or_else(|| panic!("{words}: {report}"));
    let order = [" before main", "works_second", "works_first", &library.name].map(place);
    assert!(order.is_sorted(), "{report}");
}

#[test]
fn functions_of_a_stripped_program_stand_apart() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("starts.c", "bare", &["-s", "-O1"]) else { return };
    let (found, clocks) = record(&bench, &program, "r");
    let of_program = |row: &&SampledFunction| row.mapping.ends_with("/bare") && row.own > 0;
    let rows: Vec<&SampledFunction> = found.rows.iter().filter(of_program).collect();
    assert!(rows.iter().all(|row| row.name.starts_with("bare+0x")), "{rows:#?}");
    let [second, first, constructor, ..] = rows[..] else { panic!("{rows:#?}") };
    for (row, expected) in
        [(second, clocks.second), (first, clocks.first), (constructor, clocks.constructor)]
    {
        check_share(&found, &row.name, row.own, row.samples, expected);
    }
}
