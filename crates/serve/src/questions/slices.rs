//! What to paint, as columns that a page can use without parsing.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};
use spanwise_analyze::{Slice, Viewport};
use spanwise_model::{Nanos, StrId, map_indices, threads_available};

use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};
use crate::viewed::TraceView;

/// More rows than a screen has lines are not sent.
const ROWS_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 200;
/// More than such a part of all time is worked on by all cores.
const MUCH: i64 = 64;

pub(crate) fn slices(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let (from, to) = asked.window(viewed)?;
    let viewport = Viewport::new(from, to, asked.pixels()?);
    let mut all: Vec<Slice> = Vec::new();
    let mut parts: Vec<Value> = Vec::new();
    let tracks = asked.tracks(viewed)?;
    // Little of a trace is cut up sooner than a thread begins.
    let (first, last) = viewed.trace.window().unwrap_or((0, 0));
    let is_much = to.saturating_sub(from) > last.saturating_sub(first) / MUCH;
    // To ask the system takes 22 calls, since groups of processes have limits of their own.
    static THREADS: OnceLock<usize> = OnceLock::new();
    let threads = if is_much { *THREADS.get_or_init(threads_available) } else { 1 };
    let cut = |at: usize| viewed.rows(tracks[at]).slices(viewport, ROWS_MAX);
    for (track, slices) in tracks.iter().zip(map_indices(tracks.len(), threads, cut)) {
        parts.push(json!({ "id": track.0, "first": all.len(), "len": slices.len() }));
        all.extend(slices);
    }
    // Names are most of it, and as values of JSON each would be copied twice more.
    let names = names(viewed, &all);
    let labels = serde_json::to_string(&labels(viewed, &names));
    let names = serde_json::to_string(&names);
    let wrong = |error: serde_json::Error| Refusal::wrong(error.to_string());
    let (labels, names) = (labels.map_err(wrong)?, names.map_err(wrong)?);
    let (count, parts) = (all.len(), Value::from(parts));
    let head = format!(r#"{{"count":{count},"names":{names},"labels":{labels},"tracks":{parts}}}"#);
    Ok(Response::binary(columns(viewed, &head, &all)))
}

/// The names of what is painted, by their numbers.
fn names<'a>(viewed: &'a TraceView, slices: &[Slice]) -> BTreeMap<u32, &'a str> {
    let (spans, strings) = (viewed.trace.spans(), viewed.trace.strings());
    // Few names stand for many rectangles: reading a flag is cheaper than a map lookup.
    let mut is_named = vec![false; strings.len()];
    let mut names = BTreeMap::new();
    for slice in slices {
        let name = spans.name(slice.longest);
        if !std::mem::replace(&mut is_named[name.index()], true) {
            names.insert(name.0, short(strings.get(name)));
        }
    }
    names
}

/// What to paint instead of names that are long and could be said in a few words.
fn labels(viewed: &TraceView, names: &BTreeMap<u32, &str>) -> BTreeMap<u32, String> {
    let labels = viewed.labels(names.keys().map(|&name| StrId(name)));
    labels.into_iter().map(|(name, label)| (name.0, short(&label).to_owned())).collect()
}

/// Nearly all names are short, which their length in bytes shows without reading them.
pub(super) fn short(name: &str) -> &str {
    let end = match name.len() <= NAME_CHARS_MAX {
        true => None,
        false => name.char_indices().nth(NAME_CHARS_MAX),
    };
    end.map_or(name, |(end, _)| &name[..end])
}

/// The answer's bytes: docs/reference/formats/viewer-protocol.md.
fn columns(viewed: &TraceView, head: &str, slices: &[Slice]) -> Vec<u8> {
    const SLICE_BYTES: usize = 2 * 8 + 4 * 4 + 4 + 1;
    let spans = viewed.trace.spans();
    // The columns behind it begin at a multiple of 8.
    let head_bytes = (4 + head.len()).next_multiple_of(8) - 4;
    let mut out = Vec::with_capacity(4 + head_bytes + SLICE_BYTES * slices.len());
    out.extend((head_bytes as u32).to_le_bytes());
    out.extend(head.as_bytes());
    out.resize(4 + head_bytes, b' ');
    let zero = viewed.zero();
    // Numbers of 128 bits take a function to convert, and are needed for few traces only.
    let since = |time: Nanos| match time.checked_sub(zero) {
        Some(since) => since as f64,
        None => (i128::from(time) - i128::from(zero)) as f64,
    };
    let dur = |row: &Slice| row.end.saturating_sub(row.start);
    let busy = |row: &Slice| row.covered_ns as f32 / dur(row).max(1) as f32;
    put(&mut out, slices, |row| since(row.start).to_le_bytes());
    put(&mut out, slices, |row| (dur(row) as f64).to_le_bytes());
    put(&mut out, slices, |row| row.longest.0.to_le_bytes());
    put(&mut out, slices, |row| spans.name(row.longest).0.to_le_bytes());
    put(&mut out, slices, |row| row.count.to_le_bytes());
    put(&mut out, slices, |row| row.row.to_le_bytes());
    put(&mut out, slices, |row| busy(row).to_le_bytes());
    put(&mut out, slices, |row| [viewed.kind(row.longest)]);
    out
}

/// One column, behind what is there.
fn put<const BYTES: usize>(
    out: &mut Vec<u8>,
    slices: &[Slice],
    value: impl Fn(&Slice) -> [u8; BYTES],
) {
    let begin = out.len();
    out.resize(begin + BYTES * slices.len(), 0);
    for (place, slice) in out[begin..].chunks_exact_mut(BYTES).zip(slices) {
        place.copy_from_slice(&value(slice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        let check = |name: &str, expected: usize| {
            assert_eq!(short(name), &name[..expected], "{name:.20}");
        };
        check("", 0);
        check("a name", 6);
        check(&"x".repeat(NAME_CHARS_MAX), NAME_CHARS_MAX);
        check(&"x".repeat(NAME_CHARS_MAX + 1), NAME_CHARS_MAX);
        check(&"ü".repeat(NAME_CHARS_MAX), 2 * NAME_CHARS_MAX);
        check(&"ü".repeat(NAME_CHARS_MAX + 1), 2 * NAME_CHARS_MAX);
    }
}
