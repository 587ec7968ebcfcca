//! Small traces side by side.

use std::sync::Arc;

use std::collections::BTreeSet;

use proptest::prelude::*;
use spanwise_model::{SpanKind, Trace};

use super::*;
use crate::base::sample::Sample;

/// What a trace launches: operators and modules, which hold others, and kernels.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Kernel(&'static str),
    Inside(SpanKind, &'static str, Vec<Part>),
}

pub(crate) use Part::{Inside, Kernel};

pub(crate) fn operator(name: &'static str, parts: Vec<Part>) -> Part {
    Inside(SpanKind::Operator, name, parts)
}

pub(crate) fn module(name: &'static str, parts: Vec<Part>) -> Part {
    Inside(SpanKind::Python, name, parts)
}

pub(crate) fn trace(parts: &[Part]) -> Arc<Trace> {
    let (mut sample, mut clock, mut key) = (Sample::default(), 0, 0);
    add(&mut sample, parts, &mut clock, &mut key);
    sample.finish()
}

fn add(sample: &mut Sample, parts: &[Part], clock: &mut i64, key: &mut u64) {
    for part in parts {
        *clock += 1;
        match part {
            Kernel(name) => {
                *key += 1;
                sample.call("1", *clock, 1, *key);
                sample.work("7", SpanKind::Kernel, name, (*clock + 1_000_000, 1), *key);
            }
            Inside(kind, name, parts) => {
                let start = *clock;
                add(sample, parts, clock, key);
                *clock += 1;
                sample.span("1", *kind, name, start, *clock - start + 1);
            }
        }
        *clock += 1;
    }
}

/// Groups as "path: kernels | kernels".
fn shown(base: &Arc<Trace>, other: &Arc<Trace>) -> Vec<String> {
    let found = alignment(&Facts::new(base), &Facts::new(other));
    let names = |trace: &Arc<Trace>, work: &[SpanId]| -> String {
        work.iter().map(|&work| trace.name(work)).collect::<Vec<_>>().join(" ")
    };
    let group = |group: &AlignedGroup| {
        let path = group.path.join("/");
        format!("{path}: {} | {}", names(base, &group.base), names(other, &group.other))
    };
    found.groups.iter().map(group).collect()
}

#[track_caller]
fn check(base: &[Part], other: &[Part], expected: &[&str]) {
    assert_eq!(shown(&trace(base), &trace(other)), expected);
}

#[test]
fn work_is_grouped_by_the_innermost_operator_of_both() {
    let linear =
        |kernels: Vec<Part>| operator("aten::linear", vec![operator("aten::addmm", kernels)]);
    check(
        &[linear(vec![Kernel("gemm")]), operator("aten::gelu", vec![Kernel("gelu")])],
        &[linear(vec![Kernel("memset"), Kernel("other_gemm")]), Kernel("alone")],
        &[": gelu | alone", "aten::linear/aten::addmm: gemm | memset other_gemm"],
    );
}

#[test]
fn a_wrapper_on_one_side_is_opened() {
    let product = || operator("aten::mm", vec![Kernel("gemm")]);
    check(
        &[module("nn.Module: Linear_0", vec![operator("aten::linear", vec![product()])])],
        &[operator("Torch-Compiled Region: 0/0", vec![Kernel("triton"), product()])],
        &[":  | triton", "Linear/aten::linear/aten::mm: gemm | gemm"],
    );
}

#[test]
fn modules_correspond_by_class_and_order() {
    let layer = |name, kernel| module(name, vec![Kernel(kernel)]);
    check(
        &[layer("nn.Module: Layer_0", "a"), layer("nn.Module: Layer_1", "b")],
        &[layer("nn.Module: Layer_7", "c"), layer("nn.Module: Layer_8", "d")],
        &["Layer: a | c", "Layer: b | d"],
    );
}

#[test]
fn steps_correspond_by_phase() {
    let step = |name, kernel| Inside(SpanKind::Annotation, name, vec![Kernel(kernel)]);
    check(
        &[
            step("execute_context_1(9)_generation_0(0)", "p"),
            step("execute_context_0(0)_generation_1(1)", "d"),
        ],
        &[step("execute_context_0(0)_generation_4(4)", "d2")],
        &[": p | ", "decode: d | d2"],
    );
}

pub(crate) fn parts() -> impl Strategy<Value = Vec<Part>> {
    // Some list operators in their names, and some are attention or parts of it: these join
    // neighbors.
    let names = vec![
        "k",
        "l",
        "m",
        "gemm",
        "softmax_warp_forward",
        "flash_fwd_kernel",
        "triton_poi_fused_a_0",
        "triton_red_fused_b_c_1",
    ];
    let kernel = prop::sample::select(names).prop_map(Kernel);
    let part = kernel.prop_recursive(4, 24, 5, |inner| {
        let names = prop::sample::select(vec!["aten::a", "aten::b", "aten::c"]);
        let operators = (names, prop::collection::vec(inner.clone(), 0..5));
        let classes = prop::sample::select(vec!["nn.Module: A_1", "nn.Module: B_2"]);
        let modules = (classes, prop::collection::vec(inner, 0..5));
        prop_oneof![
            operators.prop_map(|(name, parts)| operator(name, parts)),
            modules.prop_map(|(name, parts)| module(name, parts)),
        ]
    });
    prop::collection::vec(part, 0..6)
}

type Sets = BTreeSet<(Vec<String>, Vec<SpanId>, Vec<SpanId>)>;

fn sets(found: &Alignment) -> Sets {
    let groups = found.groups.iter();
    groups.map(|group| (group.path.clone(), group.base.clone(), group.other.clone())).collect()
}

proptest! {
    #[test]
    fn every_piece_of_work_is_in_one_group(base in parts(), other in parts()) {
        let (base, other) = (trace(&base), trace(&other));
        let (base, other) = (Facts::new(&base), Facts::new(&other));
        let found = alignment(&base, &other);
        for (facts, side) in [(&base, 0), (&other, 1)] {
            let work = |group: &AlignedGroup| [&group.base, &group.other][side].clone();
            let mut listed: Vec<SpanId> = found.groups.iter().flat_map(work).collect();
            listed.sort_unstable();
            let all: Vec<SpanId> = crate::gpu::usage::gpu_work(facts.trace()).collect();
            prop_assert_eq!(listed, all);
        }
    }

    #[test]
    fn swapping_the_sides_swaps_the_groups(base in parts(), other in parts()) {
        let (base, other) = (trace(&base), trace(&other));
        let (base, other) = (Facts::new(&base), Facts::new(&other));
        // Paths are those of the base, whose wrappers may be others.
        let work = |sets: Sets| -> BTreeSet<[Vec<SpanId>; 2]> {
            sets.into_iter().map(|(_, base, other)| [base, other]).collect()
        };
        let there = work(sets(&alignment(&base, &other)));
        let back = work(sets(&alignment(&other, &base)));
        prop_assert_eq!(there, back.into_iter().map(|[a, b]| [b, a]).collect());
    }

    #[test]
    fn a_trace_is_like_itself(parts in parts()) {
        let trace = trace(&parts);
        let facts = Facts::new(&trace);
        let found = alignment(&facts, &facts);
        prop_assert!(found.groups.iter().all(|group| group.base == group.other));
    }
}
