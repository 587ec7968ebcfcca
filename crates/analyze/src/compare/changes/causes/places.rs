//! Where in a trace the rows of a comparison are: for each the longest span that counts there.

use std::collections::HashMap;

use spanwise_model::{SpanId, TrackKind};

use crate::compare::changes::CompareRow;
use crate::compare::changes::sides::keys::{KeyId, Keyer};
use crate::compare::changes::sides::series::{CompareBy, ComparePlace};
use crate::gpu::launching_frame::Launchers;
use crate::{ClassRules, Facts};

/// A span for each row, in the order of the rows; none where this trace has no such work, and
/// for rows that are not about spans.
pub fn row_spans(
    facts: &Facts,
    rules: &ClassRules,
    by: CompareBy,
    rows: &[&CompareRow],
) -> Vec<Option<SpanId>> {
    let mut longest: Vec<Option<SpanId>> = vec![None; rows.len()];
    // A step is a time range, not a kind of span.
    if by == CompareBy::Step {
        return longest;
    }
    let launchers = Launchers::new(facts.trace(), facts.frames(), facts.names());
    let mut keyer = Keyer::new(facts, by, false, &launchers, rules);
    let numbered = rows.iter().enumerate();
    let wanted: HashMap<(ComparePlace, &str), usize> =
        numbered.map(|(at, row)| ((row.place, &*row.key), at)).collect();
    // Looked up only.
    let mut known: HashMap<(ComparePlace, KeyId), Option<usize>> = HashMap::new();
    let spans = facts.trace().spans();
    for span in spans.ids() {
        let Some((place, key)) = key_of(&mut keyer, by, span) else { continue };
        let row = known
            .entry((place, key))
            .or_insert_with(|| wanted.get(&(place, &*keyer.text(key))).copied());
        let Some(row) = *row else { continue };
        if longest[row].is_none_or(|known| spans.dur(span) > spans.dur(known)) {
            longest[row] = Some(span);
        }
    }
    longest
}

/// What a span is counted under.
fn key_of(keyer: &mut Keyer<'_>, by: CompareBy, span: SpanId) -> Option<(ComparePlace, KeyId)> {
    let facts = keyer.facts();
    let trace = facts.trace();
    let kind = trace.kind(span);
    if kind.is_gpu_work() {
        return Some((ComparePlace::Gpu, keyer.gpu(by, span, 0)));
    }
    let track = trace.tracks().get(trace.spans().track(span));
    if track.kind != TrackKind::Thread || !kind.is_on_stack() {
        return None;
    }
    let place = match facts.waits().kind(span) {
        Some(_) => ComparePlace::Waiting,
        None => ComparePlace::Host,
    };
    Some((place, keyer.host(by, span, 0)?))
}
