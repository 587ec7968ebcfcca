//! Operators against what the GPU can do at most.

use spanwise_analyze::{Bound, Roofline, RooflineRow, Uncovered};

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::percent_text;

pub fn roofline_section(roofline: &Roofline, top: Top) -> Section {
    let is_known = roofline.peaks.is_some();
    let count = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        Column::new("gpu", "GPU time", Unit::Nanos),
        Column::new("gpu_share", "of GPU", Unit::Percent),
        count("calls", "calls"),
        count("gflops_per_second", "GFLOP/s"),
        count("gbytes_per_second", "GB/s"),
        Column { in_text: is_known, ..Column::new("of_peak", "of peak", Unit::Percent) },
        Column { in_text: is_known, ..Column::new("bound", "bound by", Unit::Text) },
        Column::hidden("least", Unit::Nanos),
        Column::hidden("flops", Unit::Count),
        Column::hidden("moved", Unit::Bytes),
        Column::new("type", "type", Unit::Text),
        Column::new("operator", "operator", Unit::Text),
        Column::new("shape", "shapes", Unit::Text),
    ]);
    for row in top.of(&roofline.rows) {
        table.push(cells(row, roofline.work_ns));
    }
    let left_out = roofline.rows.len() - table.rows().len();
    if left_out == 0 && !roofline.rows.is_empty() {
        for (ns, why) in reasons(&roofline.uncovered) {
            let mut row = vec![Cell::None; table.columns().len()];
            row[0] = ns.into();
            row[1] = Cell::Share(ns, roofline.work_ns);
            row[11] = why.into();
            table.push(row);
        }
    }
    Section {
        key: "roofline",
        title: title(roofline),
        body: Body::Rows(table),
        when_empty: Some("no operator that launched work has shapes: record_shapes=True adds them"),
        left_out,
    }
}

fn cells(row: &RooflineRow, work_ns: i128) -> Vec<Cell> {
    let int = |value: u128| i128::try_from(value).unwrap_or(i128::MAX);
    // Operations a nanosecond are 10^9 a second.
    let rate = |amount: u128| match row.gpu_ns {
        0 => Cell::None,
        ns => (int(amount) / ns).into(),
    };
    let bound = row.least.map(|least| match least.bound {
        Bound::Compute => "compute",
        Bound::Memory => "memory",
    });
    vec![
        row.gpu_ns.into(),
        Cell::Share(row.gpu_ns, work_ns),
        row.calls.into(),
        rate(row.flops),
        rate(row.bytes),
        row.least.map_or(Cell::None, |least| Cell::Share(least.ns, row.gpu_ns)),
        bound.into(),
        row.least.map(|least| least.ns).into(),
        int(row.flops).into(),
        int(row.bytes).into(),
        row.of.text().into(),
        row.operator.as_str().into(),
        row.shape.as_str().into(),
    ]
}

/// What is not covered, and why.
fn reasons(uncovered: &Uncovered) -> impl Iterator<Item = (i128, &'static str)> {
    let rows = [
        (uncovered.no_model_ns, "[no model of the operator]"),
        (uncovered.no_shapes_ns, "[no shapes that fit the operator]"),
        (uncovered.not_recorded_ns, "[launch not recorded]"),
    ];
    rows.into_iter().filter(|&(ns, _)| ns > 0)
}

fn title(roofline: &Roofline) -> String {
    let covered = roofline.work_ns - roofline.uncovered.total_ns();
    let share = percent_text(covered, roofline.work_ns);
    let device = match (&roofline.peaks, roofline.device.as_str()) {
        (Some(_), device) => format!("against the limits of {device}"),
        (None, "") => "the trace does not name its GPU".to_owned(),
        (None, device) => format!("the limits of {device} are not known"),
    };
    format!("Roofline: {share} of GPU work covered, {device}")
}
