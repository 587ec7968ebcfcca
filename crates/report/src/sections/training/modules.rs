//! Time by module and by layer, and what type of model ran.

use spanwise_analyze::{
    ArchitectureUse, Evidence, LayerRow, LayerUse, LayersFrom, ModuleRow, ModuleUse, architecture,
    layer_use, module_use,
};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, count_text, percent_text};

use crate::sections::{SectionDef, Shown};

const NO_MODULES: &str =
    "the trace has no modules: record with with_stack=True and with_modules=True";

pub(in crate::sections) const MODULES: SectionDef = SectionDef {
    key: "modules",
    title: "Modules: GPU time launched inside, and host time",
    about: "GPU and host time by module of the model, as a tree",
    shown: Shown::OnRequest,
    method: "modules",
    content: |request| modules(&module_use(request.facts), request.top),
};

fn modules(modules: &ModuleUse, top: Top) -> Content {
    let has_backward = modules.rows.iter().any(|row| row.gpu.backward_ns > 0);
    let mut content = Columns::<ModuleRow>::new()
        .add(Column::nanos("gpu", "GPU time"), |row| row.gpu.work_ns.into())
        .add(Column::percent("gpu_share", "of GPU"), |row| {
            Cell::Share(row.gpu.work_ns, modules.work_ns)
        })
        .add(Column::nanos("gpu_self", "own").optional(), |row| row.gpu_self_ns.into())
        .add(Column::nanos("gpu_backward", "backward").in_text_if(has_backward), |row| {
            row.gpu.backward_ns.into()
        })
        .add(Column::nanos("host", "host time"), |row| row.host_ns.into())
        .add(Column::count("launches", "launches").optional(), |row| row.gpu.launches.into())
        .add(Column::count("calls", "calls"), |row| row.calls.into())
        .add(Column::hidden("instances", Unit::Count), |row| row.instances.into())
        .add(Column::hidden("depth", Unit::Count), |row| (row.depth as u64).into())
        .add(Column::hidden("path", Unit::Text), |row| row.path.as_str().into())
        .add(Column::text("module", "module"), |row| module_text(row).into())
        .content(&modules.rows, top)
        .when_empty(NO_MODULES);
    let outside = &modules.outside;
    if content.left_out == 0 && !modules.rows.is_empty() && outside.launches > 0 {
        content.push([
            ("gpu", outside.work_ns.into()),
            ("gpu_share", Cell::Share(outside.work_ns, modules.work_ns)),
            ("gpu_self", outside.work_ns.into()),
            ("launches", outside.launches.into()),
            ("module", "[launched outside of modules]".into()),
        ]);
    }
    content
}

fn module_text(row: &ModuleRow) -> String {
    let indent = "  ".repeat(row.depth);
    let several = match row.instances {
        1 => String::new(),
        count => format!(" × {}", count_text(count.into())),
    };
    format!("{indent}{}{several}", row.class)
}

pub(in crate::sections) const LAYERS: SectionDef = SectionDef {
    key: "layers",
    title: "Layers",
    about: "GPU and host time of each layer",
    shown: Shown::OnRequest,
    method: "layers",
    content: |request| layers(&layer_use(request.facts), request.top),
};

fn layers(layers: &LayerUse, top: Top) -> Content {
    let is_known = matches!(layers.found, LayersFrom::Modules { .. });
    let has_backward = layers.rows.iter().any(|row| row.backward_ns > 0);
    let name = if is_known { "module" } else { "first kernel" };
    let found_by = match layers.found {
        LayersFrom::Modules { .. } => "modules",
        LayersFrom::Repetition { .. } => "repetition",
        LayersFrom::Nothing => "nothing",
    };
    Columns::<LayerRow>::new()
        .add(Column::count("layer", "layer"), |row| row.number.into())
        .add(Column::nanos("gpu", "GPU time"), |row| row.gpu_ns.into())
        .add(Column::percent("gpu_share", "of GPU"), |row| Cell::Share(row.gpu_ns, layers.work_ns))
        .add(Column::nanos("gpu_backward", "backward").in_text_if(has_backward), |row| {
            row.backward_ns.into()
        })
        .add(Column::nanos("host", "host time").in_text_if(is_known), |row| row.host_ns.into())
        .add(Column::count("launches", "launches"), |row| row.launches.into())
        .add(Column::count("calls", "calls").in_text_if(is_known), |row| row.calls.into())
        .add(Column::hidden("found_by", Unit::Text), |_| found_by.into())
        .add(Column::text("name", name), |row| row.name.as_str().into())
        .content(&layers.rows, top)
        .titled(layers_title(&layers.found))
        .when_empty("no modules were recorded, and no sequence of kernels repeats")
}

fn layers_title(found: &LayersFrom) -> String {
    match found {
        LayersFrom::Nothing => LAYERS.title.to_owned(),
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

pub(in crate::sections) const ARCHITECTURE: SectionDef = SectionDef {
    key: "architecture",
    title: "Model",
    about: "what sort of model ran, and what shows it",
    shown: Shown::OnRequest,
    method: "architecture",
    content: |request| model(&architecture(request.facts, request.facts.class_use())),
};

fn model(found: &ArchitectureUse) -> Content {
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
        (Column::text("architecture", "architecture"), found.architecture.text().into()),
        (Column::text("evidence", "evidence"), evidence),
    ];
    Content::record(fields)
}
