//! What replaces what between two traces: sides, same kernels, changes, opportunities.

use spanwise_analyze::{
    Confidence, Fusion, FusionNote, FusionSide, Kernels, Opportunity, Replacement, ReplacementKind,
    SameKernel,
};

use crate::document::sectioned::{Document, Section, section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{decimal, nanos_text};
use crate::{Top, count_text};

pub fn fusion_document(files: [&str; 2], fusion: &Fusion, top: Top) -> Document {
    let sections = vec![
        sides_section(files, fusion),
        same_section(&fusion.same, top),
        changes_section(&fusion.changes, top),
        opportunities_section(&fusion.opportunities, top),
    ];
    Document { sections, hints: fusion.notes.iter().map(note_text).collect() }
}

fn sides_section(files: [&str; 2], fusion: &Fusion) -> Section {
    let mut table = Table::new([
        Column::new("side", "side", Unit::Text),
        Column::new("gpu", "GPU work", Unit::Nanos),
        Column::new("kernels", "launches", Unit::Count),
        Column::new("steps", "steps", Unit::Count),
        Column::new("paired_steps", "paired", Unit::Count),
        Column::new("same", "same kernels", Unit::Nanos),
        Column::new("same_share", "of GPU", Unit::Percent),
        Column::hidden("unpaired", Unit::Nanos),
        Column::new("file", "trace", Unit::Text),
    ]);
    let mut push = |name: &str, file: &str, side: &FusionSide| {
        table.push([
            name.into(),
            side.work_ns.into(),
            side.kernels.into(),
            side.steps.into(),
            side.paired_steps.into(),
            side.same_ns.into(),
            Cell::Share(side.same_ns, side.work_ns),
            side.unpaired_ns.into(),
            file.into(),
        ]);
    };
    push("base", files[0], &fusion.base);
    push("other", files[1], &fusion.other);
    section("sides", "Sides", table, 2)
}

fn same_section(rows: &[SameKernel], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("change", "change", Unit::Nanos),
        Column::new("ratio", "ratio", Unit::Count),
        Column::new("base_mean", "base each", Unit::Nanos),
        Column::new("other_mean", "other each", Unit::Nanos),
        Column::new("count", "count", Unit::Count),
        Column::hidden("base", Unit::Nanos),
        Column::hidden("other", Unit::Nanos),
        Column::new("kernel", "kernel", Unit::Text),
    ]);
    for row in top.of(rows) {
        let count = i128::from(row.count.max(1));
        table.push([
            Cell::Change(row.other_ns - row.base_ns),
            ratio(row.base_ns, row.other_ns),
            (row.base_ns / count).into(),
            (row.other_ns / count).into(),
            row.count.into(),
            row.base_ns.into(),
            row.other_ns.into(),
            row.name.as_str().into(),
        ]);
    }
    let title =
        "The same kernel at the same place; ratio: time on the other side by that on the base";
    Section { when_empty: Some("none"), ..section("same", title, table, rows.len()) }
}

/// The other side's time by the base's.
fn ratio(base_ns: i128, other_ns: i128) -> Cell {
    match base_ns {
        0 => Cell::None,
        base_ns => Cell::Decimal(decimal(other_ns, base_ns, 3)),
    }
}

fn changes_section(rows: &[Replacement], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("kind", "kind", Unit::Text),
        Column::new("confidence", "sure", Unit::Text),
        Column::new("change", "change", Unit::Nanos),
        Column::new("base", "base", Unit::Nanos),
        Column::new("other", "other", Unit::Nanos),
        Column::new("count", "times", Unit::Count),
        Column::new("base_kernels", "from", Unit::Count),
        Column::new("other_kernels", "to", Unit::Count),
        Column::new("phase", "phase", Unit::Text),
        Column::new("place", "place", Unit::Text),
        Column::hidden("base_names", Unit::Text),
        Column::hidden("other_names", Unit::Text),
        Column::hidden("base_operators", Unit::Text),
        Column::hidden("other_operators", Unit::Text),
    ]);
    for row in top.of(rows) {
        let cells = [
            kind_key(row.kind).into(),
            confidence_key(row.confidence).into(),
            Cell::Change(row.change_ns()),
            row.base.total_ns.into(),
            row.other.total_ns.into(),
            row.count.into(),
            (row.base.names.len() as u64).into(),
            (row.other.names.len() as u64).into(),
            row.phase.as_str().into(),
            row.place.as_str().into(),
            row.base.names.join("; ").into(),
            row.other.names.join("; ").into(),
            row.base.operators.join("; ").into(),
            row.other.operators.join("; ").into(),
        ];
        table.push_with_note(cells, arrow(&row.base, &row.other));
    }
    let title = "What else corresponds, and what one side alone has; change: other − base";
    Section { when_empty: Some("none"), ..section("changes", title, table, rows.len()) }
}

fn opportunities_section(rows: &[Opportunity], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("side", "side", Unit::Text),
        Column::new("basis", "saves", Unit::Text),
        Column::new("saving", "", Unit::Nanos),
        Column::new("now", "of", Unit::Nanos),
        Column::new("count", "times", Unit::Count),
        Column::new("kernels", "kernels", Unit::Count),
        Column::new("place", "place", Unit::Text),
        Column::hidden("names", Unit::Text),
        Column::hidden("operators", Unit::Text),
        Column::hidden("shown_by", Unit::Text),
    ]);
    for row in top.of(rows) {
        let basis = if row.shown_by.is_some() { "measured" } else { "at most" };
        let cells = [
            if row.is_base { "base" } else { "other" }.into(),
            basis.into(),
            row.saving_ns.into(),
            row.kernels.total_ns.into(),
            row.count.into(),
            (row.kernels.names.len() as u64).into(),
            row.place.as_str().into(),
            row.kernels.names.join("; ").into(),
            row.kernels.operators.join("; ").into(),
            row.shown_by.as_ref().map(|kernels| kernels.names.join("; ")).into(),
        ];
        let note = match &row.shown_by {
            Some(kernels) => arrow(&row.kernels, kernels),
            None => listed(&row.kernels),
        };
        table.push_with_note(cells, note);
    }
    let title = "Kernels that could be fewer: as the other side does it, or in a row in one module";
    Section { when_empty: Some("none"), ..section("opportunities", title, table, rows.len()) }
}

fn arrow(base: &Kernels, other: &Kernels) -> String {
    match (listed(base), listed(other)) {
        (base, other) if other.is_empty() => base,
        (base, other) if base.is_empty() => other,
        (base, other) => format!("{base} → {other}"),
    }
}

/// "mul, copy_ × 2, add".
pub(crate) fn listed(kernels: &Kernels) -> String {
    kernel_words(kernels).join(", ")
}

/// Few kernels are listed by name, many by purpose; equal ones in a row once.
pub(crate) fn kernel_words(kernels: &Kernels) -> Vec<String> {
    const NAMED_MAX: usize = 2;
    let is_named = kernels.names.len() <= NAMED_MAX;
    let mut words: Vec<(String, u64)> = Vec::new();
    for (name, operator) in kernels.names.iter().zip(&kernels.operators) {
        let word = match operator.rsplit("::").next() {
            Some(operator) if !is_named && !operator.is_empty() => operator.to_owned(),
            _ => short_kernel(name).to_owned(),
        };
        match words.last_mut() {
            Some((last, count)) if *last == word => *count += 1,
            _ => words.push((word, 1)),
        }
    }
    let word = |(word, count): &(String, u64)| match count {
        1 => word.clone(),
        count => format!("{word} × {}", count_text((*count).into())),
    };
    words.iter().map(word).collect()
}

/// The function's own name: without return type, namespaces, template and parameters.
fn short_kernel(name: &str) -> &str {
    let named = name.strip_prefix("void ").unwrap_or(name);
    let named = named.trim_start_matches("(anonymous namespace)::");
    // "Memcpy HtoD (Pageable -> Device)" is no function.
    if !named.contains("::") && !named.contains('<') {
        return named;
    }
    let head = named.split(['<']).next().unwrap_or(named);
    let head = head.split("(anonymous namespace)::").last().unwrap_or(head);
    let head = head.split('(').next().unwrap_or(head);
    head.rsplit("::").next().filter(|short| !short.is_empty()).unwrap_or(named)
}

pub(crate) fn kind_key(kind: ReplacementKind) -> &'static str {
    match kind {
        ReplacementKind::Fused => "fused",
        ReplacementKind::Split => "split",
        ReplacementKind::Replaced => "replaced",
        ReplacementKind::OnlyBase => "only base",
        ReplacementKind::OnlyOther => "only other",
        ReplacementKind::UnpairedBase => "unpaired base",
        ReplacementKind::UnpairedOther => "unpaired other",
    }
}

fn confidence_key(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

fn note_text(note: &FusionNote) -> String {
    let side = |is_base: bool| if is_base { "base" } else { "other side" };
    match *note {
        FusionNote::NoGpuWork { is_base } => {
            format!("The {} has no GPU work: record the activity of the GPU too.", side(is_base))
        }
        FusionNote::NoSteps { is_base } => format!(
            "The {} has no steps, so all of its work is taken for one: call profiler.step() in \
             the loop, or annotate steps, to have them compared phase by phase.",
            side(is_base)
        ),
        FusionNote::UnpairedSteps { is_base, steps } => format!(
            "{} of the {} have no counterpart of the same phase; their work stands apart as \
             unpaired. Record as many steps of each phase on both sides.",
            plural(steps, "step", "steps"),
            side(is_base)
        ),
        FusionNote::OtherPhases { steps } => format!(
            "{} of the base stand beside steps of another phase, such as prefill beside decode: \
             record the same phases on both sides to compare like with like.",
            plural(steps, "step", "steps")
        ),
        FusionNote::NoModules { is_base } => format!(
            "The {} has no modules, so places are operators: record with with_stack=True (and \
             with_modules=True) to see layers and modules.",
            side(is_base)
        ),
        FusionNote::NoOperators { is_base } => format!(
            "The {} has no operators, so kernels are identified by order and name alone: record \
             with ProfilerActivity.CPU.",
            side(is_base)
        ),
        FusionNote::LaunchesNotRecorded { is_base, work_ns } => format!(
            "{} of GPU work of the {} was launched outside of the recording and cannot be placed: \
             let the profiler warm up for a step, or synchronize before it starts.",
            nanos_text(work_ns),
            side(is_base)
        ),
        FusionNote::Unclassified { is_base, work_ns } => format!(
            "{} of GPU work of the {} is of no known class, which makes it harder to align: give \
             rules of your own with --classes.",
            nanos_text(work_ns),
            side(is_base)
        ),
        FusionNote::Bounded => {
            "Parts of the traces are too long and too different to be aligned as \
             well as possible; steps, modules and operators in both would help."
                .to_owned()
        }
    }
}

fn plural(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", count_text(count.into()), if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(short_kernel(name), expected);
    }

    #[test]
    fn kernels_are_named_without_their_types() {
        check(
            "void at::native::vectorized_elementwise_kernel<4, f(a::b)>(int)",
            "vectorized_elementwise_kernel",
        );
        check(
            "void (anonymous namespace)::softmax_warp_forward<float, 3>(float*)",
            "softmax_warp_forward",
        );
        check(
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<int>(int)",
            "CatArrayBatchedCopy",
        );
        check("nvjet_sm90_tst_128x64", "nvjet_sm90_tst_128x64");
        check("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)");
        check("ns::", "ns::");
    }
}
