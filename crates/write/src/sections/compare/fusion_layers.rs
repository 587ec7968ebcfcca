//! Layers of two traces side by side.

use spanwise_analyze::{LayerKernels, LayerPair, LayerSide, LayerView, LayersFrom};

use crate::document::sectioned::{Document, Section, section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::decimal;
use crate::sections::compare::fusion::{kind_key, listed};
use crate::{Top, count_text};

pub fn fusion_layers_document(files: [&str; 2], view: &LayerView, top: Top) -> Document {
    let sections = vec![
        sides_section(files, view),
        layers_section(&view.rows, top),
        kernels_section(&view.kernels, top),
    ];
    Document { sections, hints: hints(view) }
}

fn sides_section(files: [&str; 2], view: &LayerView) -> Section {
    let mut table = Table::new([
        Column::new("side", "side", Unit::Text),
        Column::new("layers", "layers", Unit::Count),
        Column::new("known_from", "known from", Unit::Text),
        Column::new("step", "step", Unit::Text),
        Column::new("file", "trace", Unit::Text),
    ]);
    for (name, file, side) in [("base", files[0], &view.base), ("other", files[1], &view.other)] {
        let known_from = match &side.found {
            None => "the layers of the other".to_owned(),
            Some(LayersFrom::Nothing) => "nothing".to_owned(),
            Some(LayersFrom::Modules { class }) => format!("modules: {class}"),
            Some(LayersFrom::Repetition { kernels, covered, all, .. }) => format!(
                "repetition: {} kernels, {} of {}",
                count_text(*kernels as i128),
                count_text(*covered as i128),
                count_text(*all as i128)
            ),
        };
        table.push([
            name.into(),
            side.layers.into(),
            known_from.into(),
            side.step.as_str().into(),
            file.into(),
        ]);
    }
    section("sides", "Sides, in the step that launched most work", table, 2)
}

fn layers_section(rows: &[LayerPair], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("layer", "layer", Unit::Count),
        Column::new("change", "change", Unit::Nanos),
        Column::new("ratio", "ratio", Unit::Count),
        Column::new("base", "base", Unit::Nanos),
        Column::new("other", "other", Unit::Nanos),
        Column::new("base_kernels", "kernels", Unit::Count),
        Column::new("other_kernels", "kernels", Unit::Count),
        Column::new("base_name", "base", Unit::Text),
        Column::new("other_name", "other", Unit::Text),
    ]);
    for row in top.of(rows) {
        let is_there = |side: usize| row.kernels[side] > 0;
        let has_both = is_there(0) && is_there(1);
        table.push([
            row.number.into(),
            if has_both { Cell::Change(row.change_ns()) } else { Cell::None },
            match row.gpu_ns {
                [0, _] => Cell::None,
                _ if !has_both => Cell::None,
                [base, other] => Cell::Decimal(decimal(other, base, 3)),
            },
            is_there(0).then_some(row.gpu_ns[0]).into(),
            is_there(1).then_some(row.gpu_ns[1]).into(),
            is_there(0).then_some(row.kernels[0]).into(),
            is_there(1).then_some(row.kernels[1]).into(),
            row.names[0].clone().into(),
            row.names[1].clone().into(),
        ]);
    }
    let empty = Some("no layers: neither modules nor a sequence of kernels that repeats");
    let title = "Layers side by side";
    Section { when_empty: empty, ..section("layers", title, table, rows.len()) }
}

fn kernels_section(rows: &[LayerKernels], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("kind", "kind", Unit::Text),
        Column::new("change", "change", Unit::Nanos),
        Column::new("base", "base", Unit::Nanos),
        Column::new("other", "other", Unit::Nanos),
        Column::new("count", "times", Unit::Count),
        Column::new("base_kernels", "from", Unit::Count),
        Column::new("other_kernels", "to", Unit::Count),
        Column::new("kernels", "kernels", Unit::Text),
        Column::hidden("base_names", Unit::Text),
        Column::hidden("other_names", Unit::Text),
    ]);
    for row in top.of(rows) {
        let cells = [
            row.kind.map_or("same", kind_key).into(),
            Cell::Change(row.other.total_ns - row.base.total_ns),
            row.base.total_ns.into(),
            row.other.total_ns.into(),
            row.count.into(),
            (row.base.names.len() as u64).into(),
            (row.other.names.len() as u64).into(),
            listed(if row.base.names.is_empty() { &row.other } else { &row.base }).into(),
            row.base.names.join("; ").into(),
            row.other.names.join("; ").into(),
        ];
        let is_pair = !row.base.names.is_empty() && !row.other.names.is_empty();
        let note = match row.kind {
            Some(_) if is_pair => format!("→ {}", listed(&row.other)),
            _ => String::new(),
        };
        table.push_with_note(cells, note);
    }
    section("layer_kernels", "A layer, kernel by kernel, over all layers", table, rows.len())
}

fn hints(view: &LayerView) -> Vec<String> {
    let mut hints = Vec::new();
    for (name, side) in [("base", &view.base), ("other side", &view.other)] {
        hints.extend(side_hint(name, side));
    }
    if view.base.layers != view.other.layers && view.base.layers.min(view.other.layers) > 0 {
        hints.push(
            "The sides do not have as many layers; they are paired by number from the first on."
                .to_owned(),
        );
    }
    if view.is_bounded {
        hints.push(
            "Layers are too long and too different to be aligned as well as possible.".to_owned(),
        );
    }
    hints
}

fn side_hint(name: &str, side: &LayerSide) -> Option<String> {
    match &side.found {
        Some(LayersFrom::Modules { .. }) => None,
        None => Some(format!(
            "The {name} has no modules, so its work was given to the layers that it was aligned \
             with: record with with_stack=True and with_modules=True, and without a compiler."
        )),
        Some(LayersFrom::Nothing) => Some(format!(
            "The {name} has no layers to be found: record with with_stack=True and \
             with_modules=True."
        )),
        Some(LayersFrom::Repetition { .. }) => Some(format!(
            "The layers of the {name} are what repeats in its kernels, and may begin elsewhere \
             than a layer of the model: record with with_stack=True and with_modules=True."
        )),
    }
}
