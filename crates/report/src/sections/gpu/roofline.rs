//! Operators against what the GPU can do at most.

use spanwise_analyze::{Bound, Roofline, RooflineRow, Uncovered, roofline};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, percent_text};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const ROOFLINE: SectionDef = SectionDef {
    key: "roofline",
    title: "Roofline",
    about: "operators against what the GPU can do: FLOP/s, GB/s, by shape",
    shown: Shown::OnRequest,
    method: "roofline",
    content: |request| operators(&roofline(request.facts, &request.devices), request.top),
};

fn operators(roofline: &Roofline, top: Top) -> Content {
    let is_known = roofline.peaks.is_some();
    let int = |value: u128| i128::try_from(value).unwrap_or(i128::MAX);
    // Operations a nanosecond are 10^9 a second.
    let rate = |row: &RooflineRow, amount: u128| match row.gpu_ns {
        0 => Cell::None,
        ns => (int(amount) / ns).into(),
    };
    let mut content = Columns::<RooflineRow>::new()
        .add(Column::nanos("gpu", "GPU time"), |row| row.gpu_ns.into())
        .add(Column::percent("gpu_share", "of GPU"), |row| {
            Cell::Share(row.gpu_ns, roofline.work_ns)
        })
        .add(Column::count("calls", "calls"), |row| row.calls.into())
        .add(Column::count("gflops_per_second", "GFLOP/s"), |row| rate(row, row.flops))
        .add(Column::count("gbytes_per_second", "GB/s"), |row| rate(row, row.bytes))
        .add(Column::percent("of_peak", "of peak").in_text_if(is_known), |row| {
            row.least.map_or(Cell::None, |least| Cell::Share(least.ns, row.gpu_ns))
        })
        .add(Column::text("bound", "bound by").in_text_if(is_known), |row| {
            row.least.map(|least| bound_key(least.bound)).into()
        })
        .add(Column::hidden("least", Unit::Nanos), |row| row.least.map(|least| least.ns).into())
        .add(Column::hidden("flops", Unit::Count), |row| int(row.flops).into())
        .add(Column::hidden("moved", Unit::Bytes), |row| int(row.bytes).into())
        .add(Column::text("type", "type"), |row| row.of.text().into())
        .add(Column::text("operator", "operator"), |row| row.operator.as_str().into())
        .add(Column::text("shape", "shapes"), |row| row.shape.as_str().into())
        .content(&roofline.rows, top)
        .titled(title(roofline))
        .when_empty("no operator that launched work has shapes: record_shapes=True adds them");
    if content.left_out == 0 && !roofline.rows.is_empty() {
        for (ns, why) in reasons(&roofline.uncovered) {
            let share = Cell::Share(ns, roofline.work_ns);
            content.push([("gpu", ns.into()), ("gpu_share", share), ("operator", why.into())]);
        }
    }
    content
}

fn bound_key(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "compute",
        Bound::Memory => "memory",
    }
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
    format!("{}: {share} of GPU work covered, {device}", ROOFLINE.title)
}
