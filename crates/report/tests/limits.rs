//! What a limit leaves out of an answer is stated in it, with its number, for people and programs.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, process, thread};

use serde_json::Value;
use spanwise_analyze::{CompareBy, CompareOptions, Facts, baseline_text, parse_baseline};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{ReportRequest, compare_sides, report, side};
use spanwise_write::{CompareView, Document, Format, Style, Top, compare_document};

/// Events as PyTorch writes them; times are in microseconds.
#[derive(Default)]
struct Events(String);

impl Events {
    fn span(&mut self, what: &str, thread: (usize, usize), time: (usize, usize), args: &str) {
        let comma = if self.0.is_empty() { "" } else { "," };
        let ((pid, tid), (ts, dur)) = (thread, time);
        let _ = write!(
            self.0,
            "{comma}\n{{\"ph\":\"X\",{what},\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\
             \"dur\":{dur},\"args\":{{{args}}}}}"
        );
    }

    fn launch(&mut self, thread: usize, time: (usize, usize), correlation: usize) {
        let what = "\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\"";
        self.span(what, (99, thread), time, &format!("\"correlation\":{correlation}"));
    }

    fn kernel(&mut self, device: usize, time: (usize, usize), correlation: usize) {
        let what = "\"cat\":\"kernel\",\"name\":\"k\"";
        let args = format!("\"device\":{device},\"stream\":7,\"correlation\":{correlation}");
        self.span(what, (device, 7), time, &args);
    }

    fn opened(self) -> Arc<Trace> {
        let thread = format!("{:?}", thread::current().id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("limits-{}-{thread}.json", process::id()));
        fs::write(&path, format!("{{\"traceEvents\":[{}\n]}}\n", self.0)).expect("written");
        let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
        let trace = spanwise_read::open(&path, &options).expect("a trace");
        fs::remove_file(&path).expect("removed");
        trace.into()
    }
}

fn text(document: &Document) -> String {
    let mut out = Vec::new();
    document.write(Format::Text, Style { color: false, width: 4000 }, &mut out).expect("written");
    String::from_utf8(out).expect("text")
}

fn json(document: &Document) -> Value {
    let mut out = Vec::new();
    document.write(Format::Json, Style { color: false, width: 100 }, &mut out).expect("written");
    serde_json::from_slice(&out).expect("JSON")
}

fn report_of(events: Events, section: &str) -> Document {
    let facts = Facts::new(&events.opened());
    report(&ReportRequest::new(&facts, "limits", Top::All, &[section.to_owned()]))
}

/// A main thread, and GPUs with two kernels each; all gaps have one length.
fn idle_gpus(devices: usize) -> Document {
    let mut events = Events::default();
    events.span("\"cat\":\"cpu_op\",\"name\":\"work\"", (99, 1), (0, 1000), "");
    for device in 0..devices {
        events.kernel(device, (0, 10), 0);
        events.kernel(device, (990, 10), 0);
    }
    report_of(events, "findings")
}

#[track_caller]
fn check_gaps(devices: usize, examined: usize, said: usize) {
    let document = idle_gpus(devices);
    let skipped = format!("examined in the 64 longest gaps of {devices} GPUs only");
    let text = text(&document);
    assert_eq!(text.matches(&skipped).count(), said, "{text}");
    assert_eq!(text.matches("the main thread was mostly in work").count(), examined);
    let json = json(&document);
    let rows = json["findings"].as_array().expect("rows");
    let evidence = |row: &&Value| row["evidence"].as_str().is_some_and(|it| it.contains(&skipped));
    assert_eq!(rows.iter().filter(evidence).count(), said);
}

#[test]
fn as_many_gaps_as_are_examined() {
    check_gaps(64, 64, 0);
}

#[test]
fn gaps_that_are_not_examined() {
    check_gaps(67, 64, 3);
}

/// A thread with many calls, and for each GPU one of its own besides.
fn launched_from_threads(devices: usize, calls: usize) -> Document {
    let mut events = Events::default();
    for at in 0..calls {
        let correlation = if at < devices { at + 1 } else { 0 };
        events.launch(1, (10 * at, 5), correlation);
    }
    for device in 0..devices {
        events.launch(device + 2, (10 * device, 5), devices + device + 1);
        for correlation in [device + 1, devices + device + 1] {
            events.kernel(device, (10 * device + 6, 3), correlation);
        }
    }
    report_of(events, "breakdown")
}

#[test]
fn gpus_whose_threads_are_too_many_to_combine() {
    let (devices, calls) = (100, 2000);
    let document = launched_from_threads(devices, calls);
    let spans = calls + 3 * devices;
    let combined = (16 * spans + (1 << 16)) / (calls + 1);
    let json = json(&document);
    let rows = json["breakdown"].as_array().expect("rows");
    assert_eq!(rows.len(), devices);
    let (skipped, known): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row["host_skipped_threads"] == 2);
    assert_eq!(known.len(), combined);
    assert!(known.iter().all(|row| row["host_only_ns"].is_i64()));
    assert!(known.iter().all(|row| row["host_skipped_threads"].is_null()));
    assert!(skipped.iter().all(|row| row["host_only_ns"].is_null()));
    let note = "host columns are empty: too many threads (2) launched its work to combine them";
    assert_eq!(text(&document).matches(note).count(), skipped.len());
}

#[test]
fn gpus_without_a_recorded_launch_are_not_said_to_be_skipped() {
    let mut events = Events::default();
    events.kernel(0, (0, 10), 1);
    let document = report_of(events, "breakdown");
    let json = json(&document);
    assert!(json["breakdown"][0]["host_only_ns"].is_null());
    assert!(json["breakdown"][0]["host_skipped_threads"].is_null());
    assert!(!text(&document).contains("host columns are empty"));
}

/// Steps of one thread, each with an operator of its own.
fn steps_with_own_names(steps: usize) -> Arc<Trace> {
    let mut events = Events::default();
    for at in 0..steps {
        let step = format!("\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#{at}\"");
        events.span(&step, (99, 1), (100 * at, 100), "");
        let operator = format!("\"cat\":\"cpu_op\",\"name\":\"aten::op{at}\"");
        events.span(&operator, (99, 1), (100 * at + 10, 50), "");
    }
    events.opened()
}

#[track_caller]
fn check_steps(steps: usize, compared: usize, ignored: u64) {
    let facts = Facts::new(&steps_with_own_names(steps));
    let options = CompareOptions::by(CompareBy::Operator);
    let series = [side(&facts, "limits", &options).expect("has steps")];
    // A baseline keeps it too.
    let text_of_series = baseline_text(&series, &options);
    let base = parse_baseline(&text_of_series).expect("as it was written").0;
    assert_eq!(base[0].step_count(), compared);
    let (comparison, _) = compare_sides([&base, &series], [Some(&facts); 2], &options);
    let view = CompareView { top: Top::All, shows_same: false, shows_stacks: false };
    let document = compare_document(&comparison, view);
    let json = json(&document);
    for row in json["sides"].as_array().expect("rows") {
        assert_eq!(row["ignored_steps"], ignored, "{row}");
    }
    let said = format!("{ignored} markers of steps are ignored");
    let count = text(&document).replace(',', "").matches(&said).count();
    assert_eq!(count, if ignored > 0 { 2 } else { 0 });
    let advises = document.hints.iter().any(|hint| hint.contains("call profiler.step()"));
    assert!(!advises, "it has steps");
}

#[test]
fn as_many_steps_as_are_compared() {
    check_steps(100, 100, 0);
}

#[test]
fn steps_that_are_too_many_for_the_rows() {
    check_steps(1000, 1, 1000);
}
