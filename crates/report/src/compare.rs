//! Two sides set against each other, as a document and as verdicts.

use std::path::Path;

use spanwise_analyze::{
    Allowance, CompareBy, CompareOptions, CompareRow, CompareSeries, Comparison, Facts, Phase,
    compare, compare_series, fusion, parse_baseline, row_spans, steps_of,
};
use spanwise_model::{SpanId, both};
use spanwise_write::{CompareView, Document, PagePlace, SidePlaces, Top, compare_document};

use crate::ReportError;

/// More is no baseline.
const BASELINE_BYTES_MAX: u64 = 64 << 20;

/// What one trace contributes; an error where nothing of it is left to compare.
pub fn side(
    facts: &Facts,
    file: &str,
    options: &CompareOptions,
) -> Result<CompareSeries, ReportError> {
    let series = compare_series(facts, facts.rules(), options);
    if series.step_count() == 0 {
        let what = nothing_left(options.phase, &series);
        return Err(ReportError::Request(format!("{file}: {what}")));
    }
    Ok(series)
}

/// Why nothing of a trace is left to compare.
fn nothing_left(phase: Option<Phase>, series: &CompareSeries) -> String {
    let names: Vec<&str> = series.phases().iter().map(|phase| phase.text()).collect();
    match (phase, names.as_slice()) {
        (Some(asked), []) => format!("no {} in it: it has no phases", asked.text()),
        (Some(asked), names) if !names.contains(&asked.text()) => {
            format!("no {} in it; it has {}", asked.text(), names.join(", "))
        }
        _ => "no step in it that was asked for".to_owned(),
    }
}

/// Compares two sides; the first trace of each, where there is one, says which kernels do the
/// work of which. Gives also what a reader of that has to know.
pub fn compare_sides(
    [base, other]: [&[CompareSeries]; 2],
    firsts: [Option<&Facts>; 2],
    options: &CompareOptions,
) -> (Comparison, Option<&'static str>) {
    let mut comparison = compare(base, other, options.by, &Allowance::default());
    let unsaid = name_replaced(&mut comparison, firsts, options);
    (comparison, unsaid)
}

fn name_replaced(
    comparison: &mut Comparison,
    firsts: [Option<&Facts>; 2],
    options: &CompareOptions,
) -> Option<&'static str> {
    if !comparison.has_other_kernels() {
        return None;
    }
    let [Some(base), Some(other)] = firsts else {
        return Some(
            "a baseline does not hold where kernels stand: which became which is told where the \
             traces themselves are compared",
        );
    };
    let found = fusion(base, other, base.rules());
    let steps = [base, other].map(|facts| steps_of(facts, options.phase));
    comparison.name_replaced(&found, options.phase, steps);
    options.steps.map(|_| {
        "which kernels became which, and how long they take, is told of all steps, not of \
         those of --steps alone"
    })
}

/// Rows of the table of changes that a page shows.
const PAGE_ROWS: usize = 100;

/// What changed between two traces that are open, as a page shows it, and where the rows of the
/// table of changes are. A trace without steps counts as one step.
pub fn compare_traces(base: &Facts, other: &Facts) -> (Document, SidePlaces) {
    let options = CompareOptions::by(CompareBy::Operator);
    let series = |facts: &Facts| [compare_series(facts, facts.rules(), &options)];
    let (base_series, other_series) = both(|| series(base), || series(other));
    let sides = [&base_series[..], &other_series[..]];
    let (comparison, unsaid) = compare_sides(sides, [Some(base), Some(other)], &options);
    let top = Top::First(PAGE_ROWS);
    let view = CompareView { top, shows_same: false, shows_stacks: false };
    let mut document = compare_document(&comparison, view);
    document.hints.extend(unsaid.map(str::to_owned));
    let rows = comparison.rows.iter().filter(|row| row.change_ns() != 0);
    let rows: Vec<&CompareRow> = rows.take(PAGE_ROWS).collect();
    let places = |facts: &Facts| -> Vec<Option<PagePlace>> {
        let spans = row_spans(facts, facts.rules(), options.by, &rows);
        let place = |span: Option<SpanId>| Some(PagePlace::of(facts.trace(), span?));
        spans.into_iter().map(place).collect()
    };
    let (base, other) = both(|| places(base), || places(other));
    (document, SidePlaces { section: "changes", base, other })
}

/// What `compare --save-baseline` wrote, with the options that it was made with.
pub fn read_baseline(path: &Path) -> Result<(Vec<CompareSeries>, CompareOptions), ReportError> {
    let cannot = |error| ReportError::file(path, "cannot be read", error);
    let not = |what: String| ReportError::Request(format!("{}: {what}", path.display()));
    let bytes = spanwise_files::read_at_most(path, BASELINE_BYTES_MAX).map_err(cannot)?;
    let text =
        String::from_utf8(bytes).map_err(|_| not("not a baseline: it is not text".into()))?;
    parse_baseline(&text).map_err(|error| not(error.to_string()))
}
