//! What to paint, as columns that a page can use without parsing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spanwise_analyze::{Look, Slice};
use spanwise_model::{map_indices, threads_available};

use crate::http::Response;
use crate::route::{Asked, Refusal};
use crate::viewed::Viewed;

/// More rows than a screen has lines are not sent.
const ROWS_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 200;
/// More than such a part of all time is worked on by all cores.
const MUCH: i64 = 64;

pub(crate) fn slices(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let (from, to) = asked.window(viewed)?;
    let look = Look::new(from, to, asked.pixels()?);
    let mut all: Vec<Slice> = Vec::new();
    let mut parts: Vec<Value> = Vec::new();
    let tracks = asked.tracks(viewed)?;
    // Little of a trace is cut up sooner than a thread begins.
    let (first, last) = viewed.trace.window().unwrap_or((0, 0));
    let is_much = to.saturating_sub(from) > last.saturating_sub(first) / MUCH;
    let threads = if is_much { threads_available() } else { 1 };
    let cut = |at: usize| viewed.rows(tracks[at]).slices(look, ROWS_MAX);
    for (track, slices) in tracks.iter().zip(map_indices(tracks.len(), threads, cut)) {
        parts.push(json!({ "id": track.0, "first": all.len(), "len": slices.len() }));
        all.extend(slices);
    }
    let head = json!({ "count": all.len(), "tracks": parts, "names": names(viewed, &all) });
    Ok(Response::binary(columns(viewed, &head.to_string(), &all)))
}

/// The names of what is painted, by their numbers.
fn names(viewed: &Viewed, slices: &[Slice]) -> BTreeMap<u32, String> {
    let (spans, strings) = (viewed.trace.spans(), viewed.trace.strings());
    // Few names stand for many rectangles: a look at a flag is cheaper than one into the map.
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

pub(super) fn short(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// The answer's bytes: docs/viewer-protocol.md.
fn columns(viewed: &Viewed, head: &str, slices: &[Slice]) -> Vec<u8> {
    const SLICE_BYTES: usize = 2 * 8 + 4 * 4 + 4 + 1;
    let spans = viewed.trace.spans();
    // The columns behind it begin at a multiple of 8.
    let head_bytes = (4 + head.len()).next_multiple_of(8) - 4;
    let mut out = Vec::with_capacity(4 + head_bytes + SLICE_BYTES * slices.len());
    out.extend((head_bytes as u32).to_le_bytes());
    out.extend(head.as_bytes());
    out.resize(4 + head_bytes, b' ');
    let zero = i128::from(viewed.zero());
    let dur = |row: &Slice| row.end.saturating_sub(row.start);
    let busy = |row: &Slice| row.covered_ns as f32 / dur(row).max(1) as f32;
    put(&mut out, slices, |row| ((i128::from(row.start) - zero) as f64).to_le_bytes());
    put(&mut out, slices, |row| (dur(row) as f64).to_le_bytes());
    put(&mut out, slices, |row| row.longest.0.to_le_bytes());
    put(&mut out, slices, |row| spans.name(row.longest).0.to_le_bytes());
    put(&mut out, slices, |row| row.count.to_le_bytes());
    put(&mut out, slices, |row| row.row.to_le_bytes());
    put(&mut out, slices, |row| busy(row).to_le_bytes());
    put(&mut out, slices, |row| [viewed.trace.kind(row.longest) as u8]);
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
