//! What moves with measured figures: a table a metric for people, one for programs.

use spanwise_analyze::{
    Association, CorrelatedFeature, Correlations, FeatureGroup, MatchedBy, Matching, SAMPLES_MIN,
};

use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{count_text, nanos_text};

/// For people: how rows were matched, then a section a metric.
pub fn correlate_document(found: &Correlations, matching: &Matching) -> Document {
    let mut sections = vec![matching_section(found, matching)];
    if found.samples >= SAMPLES_MIN {
        sections.extend(found.outcomes.iter().map(moved_section));
    }
    let samples = match (matching.by, found.samples) {
        (MatchedBy::Step, 1) => "step",
        (MatchedBy::Step, _) => "steps",
        (_, 1) => "run",
        _ => "runs",
    };
    let hint = if found.samples < SAMPLES_MIN {
        format!(
            "Of {} {samples} nothing can be said: {SAMPLES_MIN} at least are needed, better 10.",
            found.samples
        )
    } else {
        format!(
            "rho: 1 where the order is the same, -1 where it is reversed. p: how likely that \
             is by chance; adj.: adjusted for {} pairs. What moves together need not be cause \
             and effect.",
            count_text(found.pairs as i128)
        )
    };
    Document { sections, hints: vec![hint] }
}

/// For programs: both tables in JSON.
pub fn correlate_json(found: &Correlations, matching: &Matching) -> Document {
    let rows = Section {
        key: "correlations",
        title: String::new(),
        body: Body::Rows(correlate_table(found)),
        when_empty: None,
        left_out: 0,
    };
    Document { sections: vec![matching_section(found, matching), rows], hints: Vec::new() }
}

/// Every row of every metric.
pub fn correlate_table(found: &Correlations) -> Table {
    let mut columns = vec![Column::new("metric", "metric", Unit::Text)];
    columns.extend(columns_of_rows());
    let mut table = Table::new(columns);
    for moved in &found.outcomes {
        for row in moved.with.iter().chain(&moved.against) {
            let mut cells = vec![Cell::from(moved.name.as_str())];
            cells.extend(cells_of(row));
            table.push(cells);
        }
    }
    table
}

fn matching_section(found: &Correlations, matching: &Matching) -> Section {
    let count = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        Column::new("matched_by", "matched by", Unit::Text),
        count("samples", "samples"),
        count("samples_alone", "without a row"),
        count("rows_alone", "rows without one"),
        Column::new("constant", "constant metrics", Unit::Text),
        count("features", "features"),
        count("features_constant", "of them constant"),
        count("features_small", "below 0.1 %"),
        count("pairs", "pairs compared"),
    ]);
    let number = |count: usize| Cell::Int(count as i128);
    let constant = match found.constant.as_slice() {
        [] => Cell::None,
        names => names.join(", ").into(),
    };
    table.push([
        matched_text(matching).into(),
        number(found.samples),
        number(matching.samples_alone),
        number(matching.rows_alone),
        constant,
        number(found.features),
        number(found.features_constant),
        number(found.features_small),
        number(found.pairs),
    ]);
    Section {
        key: "matching",
        title: "Traces and metrics".to_owned(),
        body: Body::Record(table),
        when_empty: None,
        left_out: 0,
    }
}

fn matched_text(matching: &Matching) -> String {
    let by = match matching.by {
        MatchedBy::Step => "step",
        MatchedBy::Path => "path",
        MatchedBy::FileName => "file name",
        MatchedBy::RunName => "name of the run",
        MatchedBy::Folder => "folder",
        MatchedBy::Order => "order: first row, first trace",
    };
    match &matching.column {
        Some(column) => format!("{by} (column {column})"),
        None => by.to_owned(),
    }
}

fn columns_of_rows() -> [Column; 12] {
    [
        Column::new("direction", "moves", Unit::Text),
        Column::new("rho", "rho", Unit::Count),
        Column::new("n", "n", Unit::Count),
        Column::new("p", "p", Unit::Count).optional(),
        Column::new("p_adjusted", "p adj.", Unit::Count),
        Column::new("slope", "slope", Unit::Count),
        Column::new("slope_per", "per", Unit::Text),
        Column::new("range", "from … to", Unit::Text).optional(),
        Column::hidden("from", Unit::Count),
        Column::hidden("to", Unit::Count),
        Column::new("group", "what", Unit::Text),
        Column::new("name", "name", Unit::Text),
    ]
}

fn cells_of(row: &CorrelatedFeature) -> [Cell; 12] {
    let (from, to) = row.range;
    let is_time = row.feature.group.is_time();
    let shown = |value: f64| match is_time {
        true => nanos_text(value.round() as i128),
        false => format!("{value:.1} %"),
    };
    [
        if row.rho > 0.0 { "with it" } else { "against it" }.into(),
        Cell::Decimal(format!("{:.3}", row.rho)),
        (row.samples as u64).into(),
        Cell::Decimal(significant(row.p)),
        Cell::Decimal(significant(row.p_adjusted)),
        row.slope.map_or(Cell::None, |slope| Cell::Decimal(significant(slope))),
        if is_time { "ms" } else { "% point" }.into(),
        format!("{} … {}", shown(from), shown(to)).into(),
        Cell::Decimal(significant(from)),
        Cell::Decimal(significant(to)),
        group_text(row.feature.group).into(),
        row.feature.name.as_str().into(),
    ]
}

/// Three digits that count, as JSON and people both read: 0.00123, 4.56, 7890, 1.2e-9.
fn significant(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if size >= 1000.0 {
        format!("{value:.0}")
    } else if size < 1e-4 {
        format!("{value:.2e}")
    } else {
        let decimals = (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
        format!("{value:.decimals$}")
    }
}

fn group_text(group: FeatureGroup) -> &'static str {
    match group {
        FeatureGroup::Share | FeatureGroup::Time => "metric",
        FeatureGroup::Phase => "phase, host",
        FeatureGroup::PhaseWork => "phase, GPU",
        FeatureGroup::Class => "class",
        FeatureGroup::Work(kind) | FeatureGroup::Function(kind) => kind.text(),
    }
}

fn moved_section(moved: &Association) -> Section {
    let mut table = Table::new(columns_of_rows());
    for row in moved.with.iter().chain(&moved.against) {
        table.push(cells_of(row));
    }
    Section {
        key: "metric",
        title: format!("What moves with {} (n = {})", moved.name, moved.samples),
        body: Body::Rows(table),
        when_empty: Some("too few samples have both this metric and something that varies"),
        left_out: moved.left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        assert_eq!(significant(value), expected);
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        check(0.0, "0");
        check(0.001_234, "0.00123");
        check(-4.5678, "-4.57");
        check(123.4, "123");
        check(7890.4, "7890");
        check(2.5e-7, "2.50e-7");
    }
}
