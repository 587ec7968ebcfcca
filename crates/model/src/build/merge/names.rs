//! Ids and names of the processes of several parts, made distinct.

use std::collections::HashMap;

use super::MergePart;
use crate::{StrId, TrackKind};

/// Ids of processes that keep the parts apart.
///
/// Viewers want numbers, so numbers stay numbers: those of later parts get further digits
/// in front, and end as they did. Other texts get the name of the part in front.
pub(super) struct ProcessIds {
    /// A power of ten above every number.
    step: u64,
}

impl ProcessIds {
    const STEP_MIN: u64 = 1000;
    /// Up to here every program reads a number exactly.
    const NUMBER_MAX: u64 = 999_999_999_999_999;

    pub(super) fn of(parts: &[MergePart]) -> Self {
        let processes = parts.iter().flat_map(|part| {
            part.trace.tracks.rows().iter().map(|track| part.trace.strings.get(track.process))
        });
        let largest = processes.filter_map(number).max().unwrap_or(0);
        // Numbers end far below where this could overflow.
        let mut step = Self::STEP_MIN;
        while step <= largest {
            step *= 10;
        }
        ProcessIds { step }
    }

    /// The id of a process of the part at a place.
    pub(super) fn apart(&self, process: &str, place: usize, part: &str) -> String {
        if place == 0 {
            return process.to_owned();
        }
        let moved =
            number(process).and_then(|id| self.step.checked_mul(place as u64)?.checked_add(id));
        match moved {
            Some(moved) if moved <= Self::NUMBER_MAX => moved.to_string(),
            _ => format!("{part}/{process}"),
        }
    }
}

/// A number in its usual notation, and small enough to grow.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number <= ProcessIds::NUMBER_MAX && number.to_string() == text).then_some(number)
}

/// The names of a part's processes by their ids, that of the part before each. A process
/// without a name is shown by the id that it had, and so is a GPU: recorders call it after
/// the program that used it.
pub(super) fn process_names(part: &MergePart) -> HashMap<StrId, String> {
    let trace = &part.trace;
    let mut known: HashMap<StrId, (StrId, bool)> = HashMap::new();
    for track in trace.tracks.rows() {
        let (name, has_gpu) = known.entry(track.process).or_default();
        if *name == StrId::EMPTY {
            *name = track.process_name;
        }
        *has_gpu |= track.kind == TrackKind::GpuStream;
    }
    let shown = known.into_iter().map(|(process, (name, has_gpu))| {
        let id = trace.strings.get(process);
        let shown = match trace.strings.get(name) {
            "" if has_gpu => format!(" · GPU {id}"),
            "" if number(id).is_some() => format!(" · process {id}"),
            "" if id.is_empty() => String::new(),
            "" => format!(" · {id}"),
            name if has_gpu && !name.starts_with("GPU") => format!(" · GPU {id} ({name})"),
            name => format!(" · {name}"),
        };
        (process, format!("{}{shown}", part.name))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers_and_end_as_they_did() {
        let check = |step, process, place, expected: &str| {
            assert_eq!(ProcessIds { step }.apart(process, place, "rank 2"), expected, "{process}");
        };
        check(1000, "414", 0, "414");
        check(1000, "414", 2, "2414");
        check(10_000, "0", 3, "30000");
        check(1000, "Spans", 0, "Spans");
        check(1000, "Spans", 2, "rank 2/Spans");
        check(1000, "-1", 2, "rank 2/-1");
        check(1000, "007", 2, "rank 2/007");
        check(1_000_000_000_000_000, "7", 2, "rank 2/7");
    }
}
