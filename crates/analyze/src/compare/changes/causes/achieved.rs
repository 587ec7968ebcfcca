//! How fast operators ran whose bytes and arithmetic are known, of a sample of their calls.
//!
//! At the same shapes a lower rate says that the same work was done more slowly, whatever
//! the number of kernels that did it. Bytes and arithmetic are those of the roofline.

use std::collections::HashMap;

use spanwise_model::SpanId;

use crate::compare::changes::sides::sums::{Kind, PlacedWork};
use crate::gpu::roofline::{ModelledOperators, cost_of};
use crate::{Facts, TotalNanos};

/// What sampled calls had to do, and the GPU time of all that they launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::compare::changes) struct Achieved {
    pub(in crate::compare::changes) bytes: TotalNanos,
    pub(in crate::compare::changes) flops: TotalNanos,
    pub(in crate::compare::changes) ns: TotalNanos,
}

/// More operations than this for each byte, and arithmetic is what counts.
const FLOPS_PER_BYTE: i128 = 100;

impl Achieved {
    pub(in crate::compare::changes) fn add(&mut self, other: &Achieved) {
        // A baseline keeps what fits 64 bits, and shapes may be anything.
        let sum = |a: TotalNanos, b: TotalNanos| a.saturating_add(b).min(u64::MAX.into());
        self.bytes = sum(self.bytes, other.bytes);
        self.flops = sum(self.flops, other.flops);
        self.ns = sum(self.ns, other.ns);
    }

    /// Whether arithmetic counts rather than memory.
    pub(in crate::compare::changes) fn is_arithmetic(&self) -> bool {
        self.flops > self.bytes.saturating_mul(FLOPS_PER_BYTE)
    }

    /// Operations or bytes a second.
    pub(in crate::compare::changes) fn rate(&self, is_arithmetic: bool) -> Option<TotalNanos> {
        let amount = if is_arithmetic { self.flops } else { self.bytes };
        amount.saturating_mul(1_000_000_000).checked_div(self.ns).filter(|&rate| rate > 0)
    }
}

/// For each kind of work what the calls behind its samples achieved.
pub(in crate::compare::changes) fn achieved(
    facts: &Facts,
    kinds: &[Kind],
    work: &[PlacedWork],
) -> Vec<Achieved> {
    let spans = facts.trace().spans();
    let mut modelled = ModelledOperators::new(facts);
    let mut operator_of = |work: SpanId| modelled.of(spans.launch(work)?);
    let sampled: Vec<Vec<SpanId>> = kinds
        .iter()
        .map(|kind| kind.sampled.iter().filter_map(|&work| operator_of(work)).collect())
        .collect();
    // Looked up only.
    let mut calls: HashMap<SpanId, Achieved> = HashMap::new();
    for &operator in sampled.iter().flatten() {
        calls.entry(operator).or_insert_with(|| match cost_of(facts, operator) {
            Some((cost, _)) => {
                let amount = |value: u128| value.min(u64::MAX.into()) as TotalNanos;
                Achieved { bytes: amount(cost.bytes), flops: amount(cost.flops), ns: 0 }
            }
            None => Achieved::default(),
        });
    }
    for &PlacedWork { work, .. } in work {
        let call = operator_of(work).and_then(|operator| calls.get_mut(&operator));
        if let Some(call) = call {
            call.ns += i128::from(spans.dur(work));
        }
    }
    let sum = |operators: &Vec<SpanId>| {
        let mut sum = Achieved::default();
        let known = operators.iter().filter_map(|operator| calls.get(operator));
        known.filter(|call| call.bytes > 0).for_each(|call| sum.add(call));
        sum
    };
    sampled.iter().map(sum).collect()
}
