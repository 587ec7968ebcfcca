//! What commands do with a trace.

use std::io;
use std::sync::Arc;

use spanwise_analyze::{
    ClassRules, CompareBy, CompareOptions, DiffOptions, Facts, HTA_TABLES, HtaWindow, NamePattern,
    ProfileOptions, RankDigester, Rows, TRACELENS_TABLES, Viewport, correlate, find_named, fusion,
    hta_tables, latency, layer_view, match_steps, observe_run, observe_steps, outcomes, profile,
    profile_diff, range_use, ranks, step_classes, tracelens_tables,
};
use spanwise_model::{MeasuredRow, Measurements, Trace};
use spanwise_report::{
    ALL, RanksRequest, ReportRequest, compare_sides, compare_traces, histogram_section,
    latency_section, ranks_report, report, side, slowest_section,
};
use spanwise_write::{
    CHART_CLASSES_MAX, CompareView, FlameOptions, Format, PprofOptions, ReportPage, Style, Top,
    TraceFormat, compare_document, compat_section, correlate_document, fusion_document,
    fusion_layers_document, write_flame, write_folded, write_pprof, write_report_page, write_trace,
};

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
    let steps = step_classes(&facts, CHART_CLASSES_MAX);
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

/// What `compare --kernels` shows, with and without layers.
fn compare_kernels(trace: &Arc<Trace>) {
    let (base, other) = (Facts::new(trace), Facts::new(trace));
    let rules = ClassRules::standard();
    let fused = fusion(&base, &other, &rules);
    fusion_document(["base", "other"], &fused, Top::First(30));
    let layers = layer_view(&base, &other, &rules);
    fusion_layers_document(["base", "other"], &layers, Top::First(30));
}

/// Steps against a metric of each, where there are steps, and else the trace as a run.
fn correlated(trace: &Arc<Trace>) {
    let facts = Facts::new(trace);
    observe_run(&facts);
    let seen = observe_steps(&facts);
    let steps: Vec<i64> = seen.iter().filter_map(|seen| seen.step).collect();
    let row = |(at, step): (usize, &i64)| MeasuredRow {
        place: at as u64 + 2,
        cells: vec![Some(step.to_string()), Some((at % 17).to_string())],
    };
    let table = Measurements {
        columns: vec!["step".to_owned(), "loss".to_owned()],
        rows: steps.iter().enumerate().map(row).collect(),
    };
    let Ok(matching) = match_steps(&table, &steps) else { return };
    let outcomes = outcomes(&table, &matching, &[]).expect("a column of numbers");
    let found = correlate(&seen, &outcomes, Some(30));
    correlate_document(&found, &matching);
}

/// Every function that has calls, by a pattern that all names fit.
fn report_function(trace: &Arc<Trace>) {
    let facts = Facts::new(trace);
    let Some(latency) = latency(&facts, &NamePattern::new("*"), 10) else { return };
    latency_section(&latency);
    histogram_section(&latency, true);
    slowest_section(&latency);
}

fn report_ranks(trace: &Arc<Trace>) {
    let digester = RankDigester::default();
    let digest = |rank: i64| {
        let name = format!("rank{rank}.json");
        digester.digest(&Facts::new(trace), &name, Some(rank))
    };
    let ranks = ranks((0..4).map(digest).collect());
    let sections = [ALL.to_owned()];
    ranks_report(&RanksRequest { ranks: &ranks, unread: &[], top: Top::All, sections: &sections });
}

/// What a page asks for: what to draw of every track, as a whole and in part, names, a time range.
fn viewer(trace: &Arc<Trace>) {
    const PIXELS: u32 = 1000;
    let (from, to) = trace.window().expect("events");
    let middle = from + (to - from) / 2;
    for track in trace.tracks().rows() {
        let rows = Rows::of(trace, track);
        for (from, to) in [(from, to), (middle, to), (middle, middle + 1000)] {
            rows.slices(Viewport::new(from, to, PIXELS), 512);
        }
    }
    find_named(trace, "f", (from, to), 200);
    find_named(trace, "k", (middle, to), 200);
    range_use(trace, (from, middle));
}

pub(crate) type Command = (&'static str, fn(&Arc<Trace>));

pub(crate) const COMMANDS: [Command; 18] = [
    ("flame", flame),
    ("convert --to pprof", pprof),
    ("convert --to folded", folded),
    ("html", html),
    ("html --compare", html_compare),
    ("diff", diff),
    ("compare", compare),
    ("compare --kernels", compare_kernels),
    ("correlate", correlated),
    ("report --function", report_function),
    ("report of ranks", report_ranks),
    ("view", viewer),
    ("report", report_usual),
    ("report --section all", report_all),
    ("report --section critical-items --top all", report_every_critical_item),
    ("report --compat", compat),
    ("convert --to perfetto", perfetto),
    ("convert --to chrome, fxt", other_formats),
];
