//! The arguments of several sources.
//!
//! Some arguments are ids that tie events together; programs that read a written copy
//! join by them. So ids of later parts get further digits in front, and end as they did.

use crate::{ArgValue, ArgsSource, NO_OFFSET, Trace};

/// What ties events of one part together. Zero and less stand for "none".
const LINKS: [&str; 6] = [
    "correlation",
    "External id",
    "Record function id",
    "Sequence number",
    "graph node id",
    "wait_on_cuda_event_record_corr_id",
];

/// The same, of Python frames: readers pack two of these into 64 bits.
const PYTHON_LINKS: [&str; 2] = ["Python id", "Python parent id"];

/// Producers number with 32 bits.
const LINK_STEP: i64 = 10_000_000_000;
const PYTHON_STEP: i64 = 100_000_000;

/// Sources one behind the other: each begins at the offset where the one before ended.
#[derive(Default)]
pub(super) struct SeveralSources {
    parts: Vec<Source>,
}

struct Source {
    first_offset: u64,
    last_offset: u64,
    place: usize,
    args: Option<Box<dyn ArgsSource>>,
}

impl SeveralSources {
    pub(super) fn next_offset(&self) -> u64 {
        self.parts.last().map_or(0, |source| source.last_offset.saturating_add(1))
    }

    pub(super) fn push(&mut self, part: Trace, place: usize) {
        let offsets = part.spans.offset.iter().chain(part.instants.offset.iter());
        let last = offsets.copied().filter(|&offset| offset != NO_OFFSET).max().unwrap_or(0);
        let first_offset = self.next_offset();
        let last_offset = first_offset.saturating_add(last);
        self.parts.push(Source { first_offset, last_offset, place, args: part.args });
    }
}

impl ArgsSource for SeveralSources {
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        let after = self.parts.partition_point(|source| source.first_offset <= offset);
        let Some(source) = after.checked_sub(1).map(|at| &self.parts[at]) else {
            return Ok(Vec::new());
        };
        let Some(args) = &source.args else { return Ok(Vec::new()) };
        let mut args = args.args(offset - source.first_offset)?;
        for (key, value) in &mut args {
            keep_apart(key, value, source.place);
        }
        Ok(args)
    }
}

fn keep_apart(key: &str, value: &mut ArgValue, place: usize) {
    let step = match key {
        key if LINKS.contains(&key) => LINK_STEP,
        key if PYTHON_LINKS.contains(&key) => PYTHON_STEP,
        _ => return,
    };
    if let ArgValue::Int(id) = value
        && (1..step).contains(id)
    {
        *id = id.saturating_add(step.saturating_mul(place as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_end_as_they_did_and_other_arguments_stay() {
        let check = |key, id, place, expected| {
            let mut value = ArgValue::Int(id);
            keep_apart(key, &mut value, place);
            assert_eq!(value, ArgValue::Int(expected), "{key}");
        };
        check("correlation", 77, 0, 77);
        check("correlation", 77, 3, 30_000_000_077);
        check("correlation", 0, 3, 0);
        check("correlation", -1, 3, -1);
        check("Python id", 5, 2, 200_000_005);
        check("device", 1, 3, 1);
    }
}
