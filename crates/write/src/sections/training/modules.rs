//! Time by module and by layer, and what sort of model ran.

use spanwise_analyze::{ArchitectureUse, Evidence, LayerUse, LayersFrom, ModuleTime, ModuleUse};

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{count_text, percent_text};
use crate::sections::overview::info::record;

const NO_MODULES: &str =
    "the trace has no modules: record with with_stack=True and with_modules=True";

pub fn modules_section(modules: &ModuleUse, top: Top) -> Section {
    let has_backward = modules.rows.iter().any(|row| row.gpu.backward_ns > 0);
    let mut table = Table::new([
        Column::new("gpu", "GPU time", Unit::Nanos),
        Column::new("gpu_share", "of GPU", Unit::Percent),
        Column::new("gpu_self", "own", Unit::Nanos).optional(),
        Column { in_text: has_backward, ..Column::new("gpu_backward", "backward", Unit::Nanos) },
        Column::new("host", "host time", Unit::Nanos),
        Column::new("launches", "launches", Unit::Count).optional(),
        Column::new("calls", "calls", Unit::Count),
        Column::hidden("instances", Unit::Count),
        Column::hidden("depth", Unit::Count),
        Column::hidden("path", Unit::Text),
        Column::new("module", "module", Unit::Text),
    ]);
    for row in top.of(&modules.rows) {
        let indent = "  ".repeat(row.depth);
        let several = match row.instances {
            1 => String::new(),
            count => format!(" × {}", count_text(count.into())),
        };
        table.push([
            row.gpu.work_ns.into(),
            Cell::Share(row.gpu.work_ns, modules.work_ns),
            row.gpu_self_ns.into(),
            row.gpu.backward_ns.into(),
            row.host_ns.into(),
            row.gpu.launches.into(),
            row.calls.into(),
            row.instances.into(),
            (row.depth as u64).into(),
            row.path.as_str().into(),
            format!("{indent}{}{several}", row.class).into(),
        ]);
    }
    let left_out = modules.rows.len() - table.rows().len();
    if left_out == 0 && !modules.rows.is_empty() && modules.outside.launches > 0 {
        table.push(outside_row(&modules.outside, modules.work_ns));
    }
    Section {
        key: "modules",
        title: "Modules: GPU time launched inside, and host time".to_owned(),
        body: Body::Rows(table),
        when_empty: Some(NO_MODULES),
        left_out,
    }
}

fn outside_row(outside: &ModuleTime, work_ns: i128) -> Vec<Cell> {
    vec![
        outside.work_ns.into(),
        Cell::Share(outside.work_ns, work_ns),
        outside.work_ns.into(),
        Cell::None,
        Cell::None,
        outside.launches.into(),
        Cell::None,
        Cell::None,
        Cell::None,
        Cell::None,
        "[launched outside of modules]".into(),
    ]
}

pub fn layers_section(layers: &LayerUse, top: Top) -> Section {
    let is_known = matches!(layers.found, LayersFrom::Modules { .. });
    let has_backward = layers.rows.iter().any(|row| row.backward_ns > 0);
    let mut table = Table::new([
        Column::new("layer", "layer", Unit::Count),
        Column::new("gpu", "GPU time", Unit::Nanos),
        Column::new("gpu_share", "of GPU", Unit::Percent),
        Column { in_text: has_backward, ..Column::new("gpu_backward", "backward", Unit::Nanos) },
        Column { in_text: is_known, ..Column::new("host", "host time", Unit::Nanos) },
        Column::new("launches", "launches", Unit::Count),
        Column { in_text: is_known, ..Column::new("calls", "calls", Unit::Count) },
        Column::hidden("found_by", Unit::Text),
        Column::new("name", if is_known { "module" } else { "first kernel" }, Unit::Text),
    ]);
    let found_by = match layers.found {
        LayersFrom::Modules { .. } => "modules",
        LayersFrom::Repetition { .. } => "repetition",
        LayersFrom::Nothing => "nothing",
    };
    for row in top.of(&layers.rows) {
        table.push([
            row.number.into(),
            row.gpu_ns.into(),
            Cell::Share(row.gpu_ns, layers.work_ns),
            row.backward_ns.into(),
            row.host_ns.into(),
            row.launches.into(),
            row.calls.into(),
            found_by.into(),
            row.name.as_str().into(),
        ]);
    }
    let left_out = layers.rows.len() - table.rows().len();
    Section {
        key: "layers",
        title: layers_title(&layers.found),
        body: Body::Rows(table),
        when_empty: Some("no modules were recorded, and no sequence of kernels repeats"),
        left_out,
    }
}

fn layers_title(found: &LayersFrom) -> String {
    match found {
        LayersFrom::Nothing => "Layers".to_owned(),
        LayersFrom::Modules { class } => format!("Layers: modules of class {class}"),
        LayersFrom::Repetition { step, kernels, repeats, covered, all } => {
            let place = match step.as_str() {
                "" => "the recording".to_owned(),
                step => format!("the busiest step ({step})"),
            };
            let share = percent_text(*covered as i128, *all as i128);
            format!(
                "Layers, guessed: {kernels} kernels repeat {repeats} times in {place}, {share} of \
                 its kernels"
            )
        }
    }
}

pub fn architecture_section(found: &ArchitectureUse) -> Section {
    let text = |row: &Evidence| match row.gpu_ns {
        Some(ns) => {
            format!("{} by {} ({} of GPU)", row.of, row.name, percent_text(ns, found.work_ns))
        }
        None => format!("{} by module {}", row.of, row.name),
    };
    let evidence: Vec<String> = found.evidence.iter().map(text).collect();
    let evidence = match evidence.is_empty() {
        true => Cell::None,
        false => evidence.join("; ").into(),
    };
    let fields = vec![
        (Column::new("architecture", "architecture", Unit::Text), found.architecture.text().into()),
        (Column::new("evidence", "evidence", Unit::Text), evidence),
    ];
    Section {
        key: "architecture",
        title: "Model".to_owned(),
        body: Body::Record(record(fields)),
        when_empty: None,
        left_out: 0,
    }
}
