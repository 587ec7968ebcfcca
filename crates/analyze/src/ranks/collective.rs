//! Calls in which the ranks of a run meet: what was asked for, how much, when.
//!
//! On a GPU it is the kernels of NCCL and its likes; on the host, where gloo or MPI
//! move the bytes, the annotations of their workers. The host's annotations of NCCL
//! only show when a collective was queued, so they do not count.

use std::sync::Arc;

use spanwise_model::{ArgValue, Nanos, SpanId, SpanKind, Trace};

use super::digest::Once;
use crate::Facts;
use crate::gpu::device::is_communication;

/// What a collective does; it decides how many bytes cross the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveOp {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    SendReceive,
    Barrier,
    Other,
}

/// How names spell operations, after case and everything but letters are gone. The first
/// that occurs counts.
const SPELLINGS: &[(&str, CollectiveOp)] = &[
    ("allreduce", CollectiveOp::AllReduce),
    ("crossdevicereduce", CollectiveOp::AllReduce),
    ("reducescatter", CollectiveOp::ReduceScatter),
    ("allgather", CollectiveOp::AllGather),
    ("alltoall", CollectiveOp::AllToAll),
    ("broadcast", CollectiveOp::Broadcast),
    ("sendrecv", CollectiveOp::SendReceive),
    ("barrier", CollectiveOp::Barrier),
    ("reduce", CollectiveOp::Reduce),
    ("send", CollectiveOp::SendReceive),
    ("recv", CollectiveOp::SendReceive),
];

/// How host annotations of a library that moves the bytes itself begin.
const HOST: &[&str] = &["gloo:", "mpi:", "ucc:"];

/// Every operation under the name that answers have for it.
const NAMES: &[(CollectiveOp, &str)] = &[
    (CollectiveOp::AllReduce, "all-reduce"),
    (CollectiveOp::AllGather, "all-gather"),
    (CollectiveOp::ReduceScatter, "reduce-scatter"),
    (CollectiveOp::AllToAll, "all-to-all"),
    (CollectiveOp::Broadcast, "broadcast"),
    (CollectiveOp::Reduce, "reduce"),
    (CollectiveOp::SendReceive, "send-receive"),
    (CollectiveOp::Barrier, "barrier"),
    (CollectiveOp::Other, "other"),
];

impl CollectiveOp {
    pub fn text(self) -> &'static str {
        NAMES.iter().find(|(op, _)| *op == self).map_or("other", |(_, name)| name)
    }

    /// The operation that has this name.
    pub fn parse(text: &str) -> Option<Self> {
        NAMES.iter().find(|(_, name)| *name == text).map(|&(op, _)| op)
    }

    pub(crate) fn named(name: &str) -> Self {
        let letters: String =
            name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_lowercase();
        let known = SPELLINGS.iter().find(|(spelling, _)| letters.contains(spelling));
        known.map_or(CollectiveOp::Other, |&(_, op)| op)
    }

    /// Bytes on the wire for each byte of the message, as a fraction: what makes
    /// figures of different operations comparable with the speed of the links.
    pub fn wire_factor(self, ranks: u64) -> (u64, u64) {
        let others = ranks.saturating_sub(1);
        match self {
            CollectiveOp::AllReduce => (2 * others, ranks.max(1)),
            CollectiveOp::AllGather | CollectiveOp::ReduceScatter | CollectiveOp::AllToAll => {
                (others, ranks.max(1))
            }
            _ => (1, 1),
        }
    }
}

/// One call on one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveCall {
    pub key: Arc<CollectiveKey>,
    /// On the clock of the rank's own trace.
    pub start: Nanos,
    pub end: Nanos,
}

/// Calls that mean the same on every rank have the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectiveKey {
    pub op: CollectiveOp,
    /// The process group, where the source names it.
    pub group: String,
    /// Size of the message, where the source has it.
    pub bytes: Option<u64>,
}

/// All calls of a trace, in order of time.
pub(super) fn collective_calls(facts: &Facts, keys: &Once<CollectiveKey>) -> Box<[CollectiveCall]> {
    let trace = facts.trace();
    let spans = trace.spans();
    let is_call: Vec<bool> = (0..trace.strings().len() as u32)
        .map(|id| {
            let name = trace.strings().get(spanwise_model::StrId(id));
            is_communication(name) || is_host_call(name)
        })
        .collect();
    let mut calls: Box<[CollectiveCall]> = spans
        .ids()
        .filter(|&span| is_call[spans.name(span).index()] && is_transfer(trace, span))
        .map(|span| CollectiveCall {
            key: keys.of(key(trace, span)),
            start: spans.start(span),
            end: spans.end(span),
        })
        .collect();
    sort_calls(&mut calls);
    calls
}

pub(super) fn sort_calls(calls: &mut [CollectiveCall]) {
    calls.sort_by(|a, b| (a.start, a.end, &a.key).cmp(&(b.start, b.end, &b.key)));
}

fn is_host_call(name: &str) -> bool {
    HOST.iter().any(|begin| name.starts_with(begin))
}

fn is_transfer(trace: &Trace, span: SpanId) -> bool {
    match trace.kind(span) {
        SpanKind::Kernel => is_communication(trace.name(span)),
        SpanKind::Annotation => is_host_call(trace.name(span)),
        _ => false,
    }
}

const KEYS: [&str; 7] = [
    "Process Group Name",
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Input Dims",
    "Input type",
];

fn key(trace: &Trace, span: SpanId) -> CollectiveKey {
    // Arguments that cannot be had leave the key less precise, not the call out.
    let args = trace.pick_args(span, &KEYS).unwrap_or_default();
    let arg = |at: usize| args.get(at).and_then(Option::as_ref);
    let text = |at: usize| arg(at).and_then(ArgValue::as_text);
    let op = match CollectiveOp::named(trace.name(span)) {
        CollectiveOp::Other => CollectiveOp::named(text(1).unwrap_or_default()),
        op => op,
    };
    let elements = |at: usize| arg(at).and_then(ArgValue::as_i64).filter(|&count| count > 0);
    let sent = match op {
        CollectiveOp::AllGather => elements(3).or(elements(2)),
        _ => elements(2).or(elements(3)),
    };
    let bytes = match (sent, text(4)) {
        (Some(count), Some(dtype)) => dtype_bytes(dtype).map(|size| count as u64 * size),
        _ => dims_bytes(arg(5), arg(6)),
    };
    CollectiveKey { op, group: text(0).unwrap_or_default().to_owned(), bytes }
}

/// Bytes of the first tensor among `Input Dims`.
fn dims_bytes(dims: Option<&ArgValue>, types: Option<&ArgValue>) -> Option<u64> {
    let first = |list: Option<&ArgValue>| match list {
        Some(ArgValue::List(values)) => values.first().cloned(),
        _ => None,
    };
    let ArgValue::List(sizes) = first(dims)? else { return None };
    let dtype = first(types)?;
    let size = dtype_bytes(dtype.as_text()?)?;
    sizes
        .iter()
        .try_fold(size, |product, dim| product.checked_mul(u64::try_from(dim.as_i64()?).ok()?))
}

/// Bytes of one element, in any of the spellings of PyTorch and its libraries.
fn dtype_bytes(dtype: &str) -> Option<u64> {
    let word = dtype.trim_start_matches("c10::").to_lowercase();
    match &*word {
        "double" | "long" | "long int" | "int64" | "float64" | "complexfloat" => Some(8),
        "float" | "int" | "int32" | "float32" => Some(4),
        "half" | "bfloat16" | "float16" | "short" | "int16" => Some(2),
        "char" | "byte" | "bool" | "int8" | "uint8" | "unsigned char" | "signed char" => Some(1),
        word if word.starts_with("float8") => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: CollectiveOp) {
        assert_eq!(CollectiveOp::named(name), expected, "{name}");
    }

    #[test]
    fn operations_are_known_in_all_their_spellings() {
        check(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
            CollectiveOp::AllReduce,
        );
        check("ncclKernel_ReduceScatter_RING_LL_Sum_half", CollectiveOp::ReduceScatter);
        check("gloo:all_reduce", CollectiveOp::AllReduce);
        check("all_gather_into_tensor_coalesced", CollectiveOp::AllGather);
        check("ncclDevKernel_SendRecv", CollectiveOp::SendReceive);
        check("ncclDevKernel_Reduce_Sum_f32", CollectiveOp::Reduce);
        check("ncclDevKernel_Generic", CollectiveOp::Other);
    }

    #[test]
    fn names_lead_back_to_operations() {
        for (_, op) in SPELLINGS {
            assert_eq!(CollectiveOp::parse(op.text()), Some(*op));
        }
        assert_eq!(CollectiveOp::parse(CollectiveOp::Other.text()), Some(CollectiveOp::Other));
        assert_eq!(CollectiveOp::parse("gossip"), None);
    }

    #[test]
    fn sizes_of_elements() {
        assert_eq!(dtype_bytes("c10::BFloat16"), Some(2));
        assert_eq!(dtype_bytes("Float8_e4m3fn"), Some(1));
        assert_eq!(dtype_bytes("ScalarList"), None);
    }

    #[test]
    fn bytes_of_dims_do_not_overflow() {
        let list =
            |values: &[i64]| ArgValue::List(values.iter().map(|&v| ArgValue::Int(v)).collect());
        let types = ArgValue::List(vec![ArgValue::Text("float".into())]);
        let bytes =
            |dims: &[i64]| dims_bytes(Some(&ArgValue::List(vec![list(dims)])), Some(&types));
        assert_eq!(bytes(&[3, 5]), Some(60));
        assert_eq!(bytes(&[i64::MAX, i64::MAX]), None);
        assert_eq!(bytes(&[-1]), None);
    }
}
