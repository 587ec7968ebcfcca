//! Small traces, and what replaces what in them.

use std::sync::Arc;

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanwise_model::{SpanKind, Trace};

use super::*;
use crate::compare::align::tests::{Inside, Kernel, Part, module, operator, parts, trace};

fn found(base: &Arc<Trace>, other: &Arc<Trace>) -> Fusion {
    fusion(&Facts::new(base), &Facts::new(other), &ClassRules::standard())
}

fn kind_text(kind: ReplacementKind) -> &'static str {
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

/// Changes as "kind, how sure, times, place: kernels | kernels".
#[track_caller]
fn check(base: &[Part], other: &[Part], expected: &[&str]) {
    let found = found(&trace(base), &trace(other));
    let row = |row: &Replacement| {
        let (kind, names) = (kind_text(row.kind), [&row.base, &row.other]);
        let [base, other] = names.map(|kernels| kernels.names.join(" "));
        let Replacement { confidence, count, place, .. } = row;
        format!("{kind} {confidence:?} {count} {place}: {base} | {other}")
    };
    assert_eq!(found.changes.iter().map(row).collect::<Vec<_>>(), expected);
}

fn linear(kernel: &'static str) -> Part {
    operator("aten::linear", vec![operator("aten::mm", vec![Kernel(kernel)])])
}

fn attention(inside: Vec<Part>) -> Part {
    let mut parts = vec![linear("gemm_qkv")];
    parts.extend(inside);
    parts.push(linear("gemm_out"));
    module("nn.Module: Attention_0", parts)
}

#[test]
fn attention_in_one_piece_replaces_its_parts() {
    let softmax = || operator("aten::softmax", vec![Kernel("softmax_warp_forward")]);
    let product = || operator("aten::bmm", vec![Kernel("gemm_batched")]);
    let flash = || operator("aten::scaled_dot_product_attention", vec![Kernel("flash_fwd_kernel")]);
    let expected = "fused High 1 Attention: gemm_batched softmax_warp_forward gemm_batched | \
                    flash_fwd_kernel";
    check(
        &[attention(vec![product(), softmax(), product()])],
        &[attention(vec![flash()])],
        &[expected],
    );
    let expected = "split High 1 Attention/aten::scaled_dot_product_attention: flash_fwd_kernel | \
                    gemm_batched softmax_warp_forward gemm_batched";
    check(
        &[attention(vec![flash()])],
        &[attention(vec![product(), softmax(), product()])],
        &[expected],
    );
}

#[test]
fn a_compiled_kernel_is_named_with_what_it_replaces_even_across_a_product() {
    let silu = || operator("aten::silu", vec![Kernel("silu_kernel")]);
    let mul = || operator("aten::mul", vec![Kernel("mul_kernel")]);
    let fused = || Kernel("triton_poi_fused_mul_silu_3");
    let product = |name| operator("aten::mm", vec![Kernel(name)]);
    check(
        &[module(
            "nn.Module: MLP_0",
            vec![linear("gemm_gate"), silu(), linear("gemm_up"), mul(), linear("gemm_down")],
        )],
        &[operator(
            "Torch-Compiled Region: 0/0",
            vec![product("gemm_gate"), product("gemm_up"), fused(), product("gemm_down")],
        )],
        &["fused High 1 MLP: silu_kernel mul_kernel | triton_poi_fused_mul_silu"],
    );
}

#[test]
fn one_operator_is_one_replacement() {
    let addmm = |kernels: Vec<Part>| operator("aten::addmm", kernels);
    check(
        &[addmm(vec![Kernel("gemm_a")]), addmm(vec![Kernel("gemm_a")])],
        &[
            addmm(vec![Kernel("gemm_b"), Kernel("splitk_reduce")]),
            addmm(vec![Kernel("gemm_b"), Kernel("splitk_reduce")]),
        ],
        &["split High 2 aten::addmm: gemm_a | gemm_b splitk_reduce"],
    );
    check(
        &[addmm(vec![Kernel("gemm_a")])],
        &[addmm(vec![Kernel("gemm_b")])],
        &["replaced High 1 aten::addmm: gemm_a | gemm_b"],
    );
    check(
        &[addmm(vec![Kernel("gemm_a"), Kernel("extra")])],
        &[addmm(vec![Kernel("gemm_a")])],
        &["only base Low 1 aten::addmm: extra | "],
    );
}

#[test]
fn steps_without_a_counterpart_stand_apart() {
    let step = |name, kernel| Inside(SpanKind::Annotation, name, vec![Kernel(kernel)]);
    let base = [step("ProfilerStep#1", "k"), step("ProfilerStep#2", "k")];
    check(&base, &base[..1], &["unpaired base Low 1 : k | "]);
    let found = found(&trace(&base), &trace(&base[..1]));
    assert_eq!((found.base.steps, found.base.paired_steps, found.base.unpaired_ns), (2, 1, 1));
    assert!(found.notes.contains(&FusionNote::UnpairedSteps { is_base: true, steps: 1 }));
}

#[test]
fn chains_are_kernels_in_a_row_in_one_module() {
    let kernel = |name| operator("aten::mul", vec![Kernel(name)]);
    let parts = [module(
        "nn.Module: Norm_0",
        vec![kernel("elementwise_kernel_a"), kernel("elementwise_kernel_b"), linear("gemm")],
    )];
    let trace = trace(&parts);
    let found = found(&trace, &trace);
    let chains: Vec<_> = found
        .opportunities
        .iter()
        .map(|row| (row.is_base, row.place.as_str(), row.kernels.names.len(), row.saving_ns))
        .collect();
    assert_eq!(chains, [(true, "Norm", 2, 1), (false, "Norm", 2, 1)]);
}

#[test]
fn a_model_without_modules_has_the_layers_of_the_other() {
    let layer = |name| {
        let norm = operator("aten::mul", vec![Kernel("elementwise_kernel")]);
        module(name, vec![norm, linear("gemm")])
    };
    let base = [layer("nn.Module: Layer_0"), layer("nn.Module: Layer_1")];
    let product = || operator("aten::mm", vec![Kernel("gemm")]);
    let fused = || Kernel("triton_poi_fused_mul_0");
    let other = [fused(), product(), fused(), product()];
    let (base, other) = (trace(&base), trace(&other));
    let rules = ClassRules::standard();
    let view = layer_view(&Facts::new(&base), &Facts::new(&other), &rules);
    assert_eq!((view.base.layers, view.other.layers, &view.other.found), (2, 2, &None));
    assert_eq!(view.rows.iter().map(|row| row.kernels).collect::<Vec<_>>(), [[2, 2], [2, 2]]);
    let kernels = view.kernels.iter().map(|row| (row.kind, row.count)).collect::<Vec<_>>();
    assert_eq!(kernels, [(Some(ReplacementKind::Replaced), 2), (None, 2)]);
}

fn mirrored(kind: ReplacementKind) -> ReplacementKind {
    match kind {
        ReplacementKind::Fused => ReplacementKind::Split,
        ReplacementKind::Split => ReplacementKind::Fused,
        ReplacementKind::Replaced => ReplacementKind::Replaced,
        ReplacementKind::OnlyBase => ReplacementKind::OnlyOther,
        ReplacementKind::OnlyOther => ReplacementKind::OnlyBase,
        ReplacementKind::UnpairedBase => ReplacementKind::UnpairedOther,
        ReplacementKind::UnpairedOther => ReplacementKind::UnpairedBase,
    }
}

type Sums = BTreeMap<(ReplacementKind, [Vec<String>; 2]), (u64, [TotalNanos; 2])>;

/// By kernels alone: places are named after one of the sides.
fn sums(found: &Fusion, is_swapped: bool) -> Sums {
    let mut sums = Sums::new();
    for row in &found.changes {
        let (mut sides, mut kind) = ([&row.base, &row.other], row.kind);
        if is_swapped {
            sides.reverse();
            kind = mirrored(kind);
        }
        let key = (kind, sides.map(|kernels| kernels.names.clone()));
        let sum = sums.entry(key).or_default();
        sum.0 += row.count;
        for (sum, side) in sum.1.iter_mut().zip(sides) {
            *sum += side.total_ns;
        }
    }
    sums
}

proptest! {
    #[test]
    fn rows_add_up_to_all_work(base in parts(), other in parts()) {
        let (base, other) = (trace(&base), trace(&other));
        let found = found(&base, &other);
        let same = |side: fn(&SameKernel) -> TotalNanos| found.same.iter().map(side).sum::<i128>();
        let rest = |side: fn(&Replacement) -> &Kernels| {
            found.changes.iter().map(|row| side(row).total_ns).sum::<i128>()
        };
        prop_assert_eq!(same(|row| row.base_ns) + rest(|row| &row.base), found.base.work_ns);
        prop_assert_eq!(same(|row| row.other_ns) + rest(|row| &row.other), found.other.work_ns);
        let count = |side: fn(&Replacement) -> &Kernels| -> u64 {
            let rows = found.changes.iter();
            let all = rows.map(|row| row.count * side(row).names.len() as u64).sum::<u64>();
            all + found.same.iter().map(|row| row.count).sum::<u64>()
        };
        prop_assert_eq!(count(|row| &row.base), found.base.kernels);
        prop_assert_eq!(count(|row| &row.other), found.other.kernels);
    }

    #[test]
    fn swapping_the_sides_mirrors_the_rows(base in parts(), other in parts()) {
        let (base, other) = (trace(&base), trace(&other));
        prop_assert_eq!(sums(&found(&base, &other), false), sums(&found(&other, &base), true));
    }

    #[test]
    fn a_trace_has_nothing_to_replace_in_itself(parts in parts()) {
        let trace = trace(&parts);
        let found = found(&trace, &trace);
        prop_assert_eq!(found.changes, []);
        prop_assert_eq!(found.base.same_ns, found.base.work_ns);
    }
}
