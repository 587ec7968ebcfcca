//! How near operators come to what the GPU can do: operations and bytes against time.
//!
//! GPU work counts for the innermost operator around its launch that has a model
//! (`costs`), once an operator's call. What has no model, no shapes or no launch is
//! not covered, and how much that is, is reported.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{SpanId, StrId, map_items};

mod costs;
mod devices;

pub use costs::{Cost, NumberType};
use costs::{INPUT_KEYS, Inputs, model_of};
pub(crate) use devices::DeviceText;
pub use devices::{DevicePeaks, Peaks};

use crate::gpu::usage::gpu_work;
use crate::{Facts, TotalNanos};

/// Operators by GPU time, most first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roofline {
    pub rows: Vec<RooflineRow>,
    /// The device, and its limits where they are known.
    pub device: String,
    pub peaks: Option<Peaks>,
    pub work_ns: TotalNanos,
    /// GPU work that is in no row.
    pub uncovered: Uncovered,
}

/// Why GPU work is in no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uncovered {
    /// No launch in the trace.
    pub not_recorded_ns: TotalNanos,
    /// No operator around the launch has a model.
    pub no_model_ns: TotalNanos,
    /// Shapes were not recorded, or do not fit the operator.
    pub no_shapes_ns: TotalNanos,
}

impl Uncovered {
    pub fn total_ns(&self) -> TotalNanos {
        self.not_recorded_ns + self.no_model_ns + self.no_shapes_ns
    }
}

/// Calls of one operator with one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RooflineRow {
    pub operator: String,
    /// Dimensions of its tensors, such as "64x512 512x128".
    pub shape: String,
    pub of: NumberType,
    pub calls: u64,
    pub gpu_ns: TotalNanos,
    pub flops: u128,
    pub bytes: u128,
    /// The time that the device needs at least, and for what; where it is known.
    pub least: Option<Least>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    pub ns: TotalNanos,
    pub bound: Bound,
}

/// What limits an operator on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Compute,
    Memory,
}

/// What one call of an operator launched.
#[derive(Default)]
struct Launched {
    gpu_ns: TotalNanos,
    /// A kernel's name says that it uses TF32.
    is_tf32: bool,
}

pub fn roofline(facts: &Facts, devices: &DevicePeaks) -> Roofline {
    let device = facts.gpu().devices.first().map(|device| device.name.clone()).unwrap_or_default();
    let peaks = devices.of(&device);
    let mut uncovered = Uncovered::default();
    let calls = operator_calls(facts, &mut uncovered);
    let costs = costs_of(facts, &calls);
    let mut rows: BTreeMap<(StrId, String, NumberType), RooflineRow> = BTreeMap::new();
    for ((operator, launched), cost) in calls.iter().zip(costs) {
        let Some((mut cost, shape)) = cost else {
            uncovered.no_shapes_ns += launched.gpu_ns;
            continue;
        };
        if launched.is_tf32 && cost.of == NumberType::Float32 {
            cost.of = NumberType::TensorFloat32;
        }
        let name = facts.trace().spans().name(*operator);
        let row = rows.entry((name, shape.clone(), cost.of)).or_insert_with(|| RooflineRow {
            operator: facts.trace().strings().get(name).to_owned(),
            shape,
            of: cost.of,
            calls: 0,
            gpu_ns: 0,
            flops: 0,
            bytes: 0,
            least: None,
        });
        row.calls += 1;
        row.gpu_ns += launched.gpu_ns;
        row.flops = row.flops.saturating_add(cost.flops);
        row.bytes = row.bytes.saturating_add(cost.bytes);
    }
    let mut rows: Vec<RooflineRow> = rows.into_values().collect();
    for row in &mut rows {
        row.least = peaks.and_then(|peaks| least(row, &peaks));
    }
    // The sort is stable, and rows come in order of operator and shape.
    rows.sort_by_key(|row| std::cmp::Reverse(row.gpu_ns));
    Roofline { rows, device, peaks, work_ns: facts.gpu().work_ns, uncovered }
}

/// Finds the operators that work counts for.
pub(crate) struct ModelledOperators<'a> {
    facts: &'a Facts,
    /// By name.
    has_model: Vec<Option<bool>>,
}

impl<'a> ModelledOperators<'a> {
    pub(crate) fn new(facts: &'a Facts) -> Self {
        ModelledOperators { facts, has_model: vec![None; facts.trace().strings().len()] }
    }

    /// The innermost operator around a call that has a model.
    pub(crate) fn of(&mut self, call: SpanId) -> Option<SpanId> {
        let (trace, spans) = (self.facts.trace(), self.facts.trace().spans());
        let mut operator = self.facts.frames().operator(call);
        while let Some(span) = operator {
            let name = spans.name(span);
            let known = self.has_model[name.index()]
                .get_or_insert_with(|| model_of(trace.strings().get(name)).is_some());
            if *known {
                break;
            }
            operator = spans.parent(span).and_then(|parent| self.facts.frames().operator(parent));
        }
        operator
    }
}

/// Calls of operators that have a model and launched work, in order of rows.
fn operator_calls(facts: &Facts, uncovered: &mut Uncovered) -> Vec<(SpanId, Launched)> {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let mut modelled = ModelledOperators::new(facts);
    let mut calls: BTreeMap<SpanId, Launched> = BTreeMap::new();
    let mut names: HashMap<StrId, bool> = HashMap::new();
    for work in gpu_work(trace) {
        let dur = i128::from(spans.dur(work));
        let Some(call) = spans.launch(work) else {
            uncovered.not_recorded_ns += dur;
            continue;
        };
        let Some(operator) = modelled.of(call) else {
            uncovered.no_model_ns += dur;
            continue;
        };
        let launched = calls.entry(operator).or_default();
        launched.gpu_ns += dur;
        launched.is_tf32 |=
            *names.entry(spans.name(work)).or_insert_with(|| is_tf32(trace.name(work)));
    }
    calls.into_iter().collect()
}

/// cuBLAS, cuDNN and CUTLASS name the type; in CUTLASS 1688 is the shape of a TF32 step.
fn is_tf32(kernel: &str) -> bool {
    kernel.contains("tf32") || kernel.contains("tensorop_s1688")
}

/// Reads shapes on all cores: arguments are most of what a trace holds.
fn costs_of(facts: &Facts, calls: &[(SpanId, Launched)]) -> Vec<Option<(Cost, String)>> {
    map_items(calls, |&(operator, _)| cost_of(facts, operator))
}

/// What a call of an operator has to do at least, and its shapes.
pub(crate) fn cost_of(facts: &Facts, operator: SpanId) -> Option<(Cost, String)> {
    let model = model_of(facts.trace().name(operator))?;
    let args = facts.trace().pick_args(operator, &INPUT_KEYS).ok()?;
    let inputs = Inputs::new(&args)?;
    Some((model.cost(&inputs)?, inputs.shape_text()))
}

/// The longer of the times for arithmetic and for memory.
fn least(row: &RooflineRow, peaks: &Peaks) -> Option<Least> {
    let whole = |value: u128| i128::try_from(value).unwrap_or(i128::MAX);
    let memory_ns = whole(row.bytes / u128::from(peaks.bytes_per_ns()));
    let compute_ns = match peaks.flops_per_ns(row.of) {
        Some(peak) if peak > 0 => whole(row.flops / u128::from(peak)),
        // Without arithmetic its limit does not matter.
        _ if row.flops == 0 => 0,
        _ if matches!(row.of, NumberType::Integer(_)) => 0,
        _ => return None,
    };
    Some(match compute_ns > memory_ns {
        true => Least { ns: compute_ns, bound: Bound::Compute },
        false => Least { ns: memory_ns, bound: Bound::Memory },
    })
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    fn row(flops: u128, bytes: u128, of: NumberType) -> RooflineRow {
        let (operator, shape) = (String::new(), String::new());
        RooflineRow { operator, shape, of, calls: 1, gpu_ns: 10, flops, bytes, least: None }
    }

    #[track_caller]
    fn check(flops: u128, bytes: u128, of: NumberType, expected: Option<(i128, Bound)>) {
        let peaks = DevicePeaks::standard().of("NVIDIA H200").expect("known");
        let found = least(&row(flops, bytes, of), &peaks).map(|least| (least.ns, least.bound));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_slower_of_arithmetic_and_memory_binds() {
        check(9_894_000, 4_800, NumberType::BFloat16, Some((10, Bound::Compute)));
        check(989_400, 48_000, NumberType::BFloat16, Some((10, Bound::Memory)));
        check(0, 48_000, NumberType::Integer(8), Some((10, Bound::Memory)));
    }

    #[test]
    fn what_is_not_covered_is_counted_apart() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Operator, "aten::mm", 0, 10);
        sample.call("1", 1, 1, 1);
        sample.span("1", SpanKind::Operator, "my::op", 20, 10);
        sample.call("1", 21, 1, 2);
        sample.work("7", SpanKind::Kernel, "gemm", (100, 5), 1);
        sample.work("7", SpanKind::Kernel, "mine", (200, 7), 2);
        sample.work("7", SpanKind::Kernel, "before", (300, 9), 99);
        let trace = sample.finish();
        let found = roofline(&Facts::new(&trace), &DevicePeaks::standard());
        let expected = Uncovered { not_recorded_ns: 9, no_model_ns: 7, no_shapes_ns: 5 };
        assert_eq!((found.uncovered, found.work_ns, found.rows.len()), (expected, 21, 0));
    }
}
