//! No question takes more than its share of work, whatever the shape of the trace.
//!
//! Each shape is made with n, 2n and 4n events, and what a command does with it is counted: bytes
//! and pieces of memory asked for, and steps (`spanwise_model::effort`). What four times as many
//! events cost beyond twice as many may be little more than double of what twice as many cost
//! beyond once: a square would be four times that. Time is not measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io, process, thread};

use spanwise_analyze::{
    ClassRules, CompareBy, CompareOptions, DiffOptions, Facts, HTA_TABLES, HtaWindow,
    ProfileOptions, TRACELENS_TABLES, hta_tables, profile, profile_diff, step_classes,
    tracelens_tables,
};
use spanwise_model::{Trace, effort, on_one_thread};
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{ReportRequest, compare_sides, compare_traces, report, side};
use spanwise_write::{
    CHART_CLASSES_MAX, CompareView, FlameOptions, Format, PprofOptions, ReportPage, Style, Top,
    TraceFormat, compare_document, compat_section, write_flame, write_folded, write_pprof,
    write_report_page, write_trace,
};

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static PIECES: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of what this thread asks for.
struct Counting;

fn count(bytes: usize) {
    // A thread that ends may still free and ask for memory.
    let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes as u64));
    let _ = PIECES.try_with(|sum| sum.set(sum.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps to the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes, pieces and steps.
type Work = [u64; 3];

const UNITS: [&str; 3] = ["bytes", "pieces of memory", "steps"];

fn counted(work: impl FnOnce()) -> Work {
    let now = || [BYTES.get(), PIECES.get(), effort().unwrap_or(0)];
    let before = now();
    on_one_thread(work);
    let after = now();
    [0, 1, 2].map(|unit| after[unit] - before[unit])
}

/// Events of a trace as PyTorch writes them; times are in microseconds.
struct Json(String);

/// Where a span is.
#[derive(Debug, Clone, Copy)]
struct Extent {
    pid: usize,
    tid: usize,
    ts: usize,
    dur: usize,
}

impl Json {
    fn new() -> Self {
        Json("{\"traceEvents\":[".to_owned())
    }

    fn span(&mut self, category: &str, name: &str, pid: usize, tid: usize, ts: usize, dur: usize) {
        self.with_args(category, name, Extent { pid, tid, ts, dur }, "");
    }

    fn with_args(&mut self, category: &str, name: &str, at: Extent, args: &str) {
        let Extent { pid, tid, ts, dur } = at;
        let comma = if self.0.ends_with('[') { "" } else { "," };
        let _ = write!(
            self.0,
            "{comma}\n{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\
             \"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
        );
    }

    fn launch(&mut self, tid: usize, ts: usize, dur: usize, correlation: usize) {
        let args = format!("\"correlation\":{correlation}");
        self.with_args("cuda_runtime", "cudaLaunchKernel", Extent { pid: 99, tid, ts, dur }, &args);
    }

    fn kernel(
        &mut self,
        name: &str,
        device: usize,
        stream: usize,
        ts: usize,
        dur: usize,
        correlation: usize,
    ) {
        let args = format!("\"device\":{device},\"stream\":{stream},\"correlation\":{correlation}");
        self.with_args("kernel", name, Extent { pid: device, tid: stream, ts, dur }, &args);
    }

    fn finish(mut self) -> String {
        self.0.push_str("\n]}\n");
        self.0
    }
}

/// Kernels that all overlap, and a step for each thread.
fn overlapping_kernels(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 4 {
        let long = 10 * events;
        json.span("user_annotation", &format!("ProfilerStep#{at}"), 99, at, at, long);
        json.span("cpu_op", "aten::mm", 99, at, 100 * at + 1, 50);
        json.launch(at, 100 * at + 10, 5, at + 1);
        json.kernel(&format!("k{at}"), 0, 7, 100 * at + 30, long, at + 1);
    }
    json.finish()
}

fn stairs(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events {
        json.span("cpu_op", &format!("f{}", at % 100), 99, 1, 10 * at, 10 * events);
    }
    json.finish()
}

fn random_overlap(events: usize) -> String {
    let mut json = Json::new();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for at in 0..events {
        let (ts, dur) = (random(10 * events), random(10 * events));
        json.span("cpu_op", &format!("f{}", at % 300), 99, at % 50, ts, dur);
    }
    json.finish()
}

fn one_correlation(events: usize) -> String {
    let mut json = Json::new();
    for step in 0..4 {
        let time = (step * 25 * events, 25 * events);
        json.span("user_annotation", &format!("ProfilerStep#{step}"), 99, 1, time.0, time.1);
    }
    for at in 0..events / 2 {
        json.launch(1, 100 * at + 1, 5, 1);
        json.kernel("k", 0, 7, 100 * at + 20, 50, 1);
    }
    json.finish()
}

fn device_for_each_kernel(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 2 {
        json.launch(1, 100 * at + 1, 5, at + 1);
        json.kernel(&format!("k{}", at % 10), at, 7, 100 * at + 20, 50, at + 1);
    }
    json.finish()
}

fn stream_for_each_kernel(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 2 {
        json.launch(1, 100 * at + 1, 5, at + 1);
        json.kernel(&format!("k{}", at % 10), 0, at, 100 * at + 20, 50, at + 1);
    }
    json.finish()
}

/// Modules inside of each other, with launches in the innermost.
fn deep_modules(events: usize) -> String {
    let mut json = Json::new();
    let deep = events / 2;
    for at in 0..deep {
        let time = (at, 60 * events - 2 * at);
        json.span("python_function", &format!("nn.Module: M{}_0", at % 50), 99, 1, time.0, time.1);
    }
    for at in 0..events / 4 {
        json.launch(1, events + 100 * at, 5, at + 1);
        json.kernel("k", 0, 7, events + 100 * at + 20, 50, at + 1);
    }
    json.finish()
}

/// A stream for each kernel, and calls that wait for all of them.
fn device_waits(events: usize) -> String {
    let mut json = Json::new();
    let half = events / 4;
    for at in 0..half {
        json.launch(1, 100 * at + 1, 5, at + 1);
        json.kernel("k", 0, at, 100 * at + 20, 50, at + 1);
    }
    for at in 0..half {
        let (start, id) = (100 * (half + at), half + at + 1);
        let args = format!("\"correlation\":{id}");
        let call = "cudaDeviceSynchronize";
        json.with_args("cuda_runtime", call, Extent { pid: 99, tid: 1, ts: start, dur: 20 }, &args);
        let args = format!("\"device\":0,\"stream\":-1,\"correlation\":{id}");
        json.with_args(
            "cuda_sync",
            "Context Sync",
            Extent { pid: 0, tid: 0, ts: start, dur: 20 },
            &args,
        );
    }
    json.finish()
}

/// Asynchronous spans that end, each with an arrow to the next.
fn chained_flows(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events {
        json.span("cpu_op", &format!("f{}", at % 50), 99, at % 7, 20 * at, 10);
        for (phase, time) in [("s", 20 * at + 5), ("f", 20 * at + 25)] {
            let tid = if phase == "s" { at } else { at + 1 } % 7;
            let _ = write!(
                json.0,
                ",\n{{\"ph\":\"{phase}\",\"cat\":\"chain\",\"name\":\"next\",\
                 \"id\":{at},\"pid\":99,\"tid\":{tid},\"ts\":{time},\"bp\":\"e\"}}"
            );
        }
    }
    json.finish()
}

/// Threads that wait for locks with ever deeper stacks, as `perf script` prints switches.
fn deep_lock_waits(events: usize) -> String {
    let mut text = String::new();
    let deep = events / 4;
    for at in 0..deep {
        let time = |late: usize| format!("{}.{:06}", at / 1000, at % 1000 * 1000 + late);
        let _ = writeln!(
            text,
            "app 7/7 [000] {}: sched:sched_switch: prev_comm=app prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120",
            time(0)
        );
        let _ = writeln!(text, "\t    1000 __schedule ([kernel.kallsyms])");
        let _ = writeln!(text, "\t    2000 futex_wait ([kernel.kallsyms])");
        let _ = writeln!(text, "\t    3000 pthread_mutex_lock (/lib/libc.so.6)");
        if at == 0 {
            (0..deep).for_each(|depth| {
                let _ = writeln!(text, "\t    {:x} f{depth} (/bin/app)", 0x4000 + 16 * depth);
            });
        }
        let _ = writeln!(
            text,
            "\nswapper 0/0 [000] {}: sched:sched_switch: prev_comm=swapper prev_pid=0 \
             prev_prio=120 prev_state=R ==> next_comm=app next_pid=7 next_prio=120\n",
            time(500)
        );
    }
    text
}

fn flame(trace: &Arc<Trace>) {
    let profile = profile(trace, &ProfileOptions::default());
    let options = FlameOptions {
        title: "growth",
        value: profile.default_value,
        is_icicle: false,
        is_html: false,
        base: None,
    };
    write_flame(&profile, &options, &mut io::sink()).expect("written");
    let options = FlameOptions { base: Some(&profile), ..options };
    write_flame(&profile, &options, &mut io::sink()).expect("written");
}

fn pprof(trace: &Arc<Trace>) {
    let profile = profile(trace, &ProfileOptions::default());
    let options = PprofOptions { program: "growth", is_compressed: false };
    write_pprof(&profile, &options, &mut io::sink()).expect("written");
}

fn folded(trace: &Arc<Trace>) {
    let profile = profile(trace, &ProfileOptions::default());
    write_folded(&profile, profile.default_value, &mut io::sink()).expect("written");
}

fn html(trace: &Arc<Trace>) {
    let facts = Facts::new(trace);
    let document = report(&ReportRequest::new(&facts, "growth", Top::First(30), &[]));
    let profile = profile(trace, &ProfileOptions::default());
    let steps = step_classes(&facts, &ClassRules::standard(), CHART_CLASSES_MAX);
    let page = ReportPage {
        title: "growth",
        document: &document,
        steps: Some(&steps),
        trace: Some(trace),
        profile: Some((&profile, profile.default_value)),
        base: None,
        bytes_max: 5 << 20,
    };
    write_report_page(&page, &mut io::sink()).expect("written");
}

fn html_compare(trace: &Arc<Trace>) {
    let (document, _) = compare_traces(&Facts::new(trace), &Facts::new(trace));
    document.write_html("growth", &mut io::sink()).expect("written");
}

fn diff(trace: &Arc<Trace>) {
    let profile = profile(trace, &ProfileOptions::default());
    let value = profile.default_value;
    let options = DiffOptions { values: [value, value], steps: [1, 1] };
    profile_diff(&profile, &profile, &options);
}

fn compare(trace: &Arc<Trace>) {
    for by in [CompareBy::Operator, CompareBy::Module, CompareBy::Kernel] {
        let (base, other) = (Facts::new(trace), Facts::new(trace));
        let options = CompareOptions::by(by);
        let series = |facts: &Facts| [side(facts, "growth", &options).expect("has steps")];
        let (sides, firsts) = ([&series(&base), &series(&other)], [Some(&base), Some(&other)]);
        let (comparison, _) = compare_sides(sides.map(|side| &side[..]), firsts, &options);
        let view = CompareView { top: Top::First(30), shows_same: true, shows_stacks: true };
        compare_document(&comparison, view);
    }
}

fn report_usual(trace: &Arc<Trace>) {
    write_report(trace, &[]);
}

fn report_all(trace: &Arc<Trace>) {
    write_report(trace, &["all".to_owned()]);
}

fn report_every_critical_item(trace: &Arc<Trace>) {
    write_top(trace, Top::All, &["critical-items".to_owned()]);
}

fn write_report(trace: &Arc<Trace>, named: &[String]) {
    write_top(trace, Top::First(30), named);
}

fn write_top(trace: &Arc<Trace>, top: Top, named: &[String]) {
    let facts = Facts::new(trace);
    let document = report(&ReportRequest::new(&facts, "growth", top, named));
    document
        .write(Format::Text, Style { color: false, width: 100 }, &mut io::sink())
        .expect("written");
}

fn compat(trace: &Arc<Trace>) {
    let keys = |tables: &[(&'static str, &str)]| -> Vec<&'static str> {
        tables.iter().map(|table| table.0).collect()
    };
    let mut tables = hta_tables(trace, &keys(HTA_TABLES), &HtaWindow::default());
    tables.extend(tracelens_tables(&Facts::new(trace), &keys(TRACELENS_TABLES)));
    for table in &tables {
        compat_section(table, Top::First(30));
    }
}

fn perfetto(trace: &Arc<Trace>) {
    write_trace(trace, TraceFormat::Perfetto, false, &mut io::sink()).expect("written");
}

fn other_formats(trace: &Arc<Trace>) {
    write_trace(trace, TraceFormat::Chrome, false, &mut io::sink()).expect("written");
    write_trace(trace, TraceFormat::Fxt, false, &mut io::sink()).expect("written");
}

type Command = (&'static str, fn(&Arc<Trace>));

const COMMANDS: [Command; 13] = [
    ("flame", flame),
    ("convert --to pprof", pprof),
    ("convert --to folded", folded),
    ("html", html),
    ("html --compare", html_compare),
    ("diff", diff),
    ("compare", compare),
    ("report", report_usual),
    ("report --section all", report_all),
    ("report --section critical-items --top all", report_every_critical_item),
    ("report --compat", compat),
    ("convert --to perfetto", perfetto),
    ("convert --to chrome, fxt", other_formats),
];

/// A trace of so many events; the file is gone when it has been read.
fn opened(shape: fn(usize) -> String, events: usize) -> Arc<Trace> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let thread = format!("{:?}", thread::current().id());
    let path = folder.join(format!("growth-{}-{thread}-{events}.json", process::id()));
    fs::write(&path, shape(events)).expect("written");
    let options = OpenOptions { index: IndexUse::Ignore, threads: 1, ..OpenOptions::default() };
    let trace = spanwise_read::open(&path, &options).expect("a trace");
    fs::remove_file(&path).expect("removed");
    trace.into()
}

const EVENTS: usize = 1500;

/// What is proportional grows by 2, what is sorted by little more; a square grows by 4.
const GROWTH_MAX: f64 = 2.7;

/// Less than this for each event is no square, whatever it grows by.
const PER_EVENT_MIN: f64 = 40.0;

#[track_caller]
fn check(shape: fn(usize) -> String) {
    let traces = [1, 2, 4].map(|times| opened(shape, times * EVENTS));
    let mut too_much = String::new();
    for (name, command) in COMMANDS {
        // What is worked out once a process does not count.
        command(&traces[0]);
        let work = traces.each_ref().map(|trace| counted(|| command(trace)));
        for (unit, of) in UNITS.iter().enumerate() {
            let [once, twice, four_times] = work.map(|work| work[unit] as f64);
            let growth = (four_times - twice) / (twice - once).max(1.0);
            if growth > GROWTH_MAX && four_times > PER_EVENT_MIN * 4.0 * EVENTS as f64 {
                let counts = format!("{once} {twice} {four_times}");
                let _ = writeln!(too_much, "{name}: {of} {counts}, growth {growth:.2}");
            }
        }
    }
    assert!(too_much.is_empty(), "\n{too_much}");
}

#[test]
fn overlapping_kernels_with_a_step_for_each_thread() {
    check(overlapping_kernels);
}

#[test]
fn spans_that_overlap_like_stairs() {
    check(stairs);
}

#[test]
fn spans_that_overlap_at_random() {
    check(random_overlap);
}

#[test]
fn one_correlation_id_for_all_launches_and_kernels() {
    check(one_correlation);
}

#[test]
fn a_device_for_each_kernel() {
    check(device_for_each_kernel);
}

#[test]
fn a_stream_for_each_kernel() {
    check(stream_for_each_kernel);
}

#[test]
fn modules_inside_of_each_other() {
    check(deep_modules);
}

#[test]
fn calls_that_wait_for_all_streams() {
    check(device_waits);
}

#[test]
fn spans_that_follow_each_other_by_arrows() {
    check(chained_flows);
}

#[test]
fn waits_for_locks_with_deep_stacks() {
    let trace = opened(deep_lock_waits, EVENTS);
    assert!(!spanwise_analyze::locks(&Facts::new(&trace)).is_empty(), "it has such waits");
    check(deep_lock_waits);
}

#[test]
fn a_report_says_that_marks_are_no_steps() {
    let trace = opened(overlapping_kernels, 4 * EVENTS);
    let facts = Facts::new(&trace);
    let document = report(&ReportRequest::new(&facts, "growth", Top::First(1), &[]));
    let says_so = |hint: &String| hint.contains("1,500 marks of steps");
    assert!(document.hints.iter().any(says_so), "{:?}", document.hints);
}
