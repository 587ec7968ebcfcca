//! What to paint, as columns that a page can use without parsing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spanwise_analyze::{Look, Slice};

use crate::http::Response;
use crate::route::{Asked, Refusal};
use crate::viewed::Viewed;

/// More rows than a screen has lines are not sent.
const ROWS_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 200;

pub(crate) fn slices(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let (from, to) = asked.window(viewed)?;
    let look = Look::new(from, to, asked.pixels()?);
    let mut all: Vec<Slice> = Vec::new();
    let mut parts: Vec<Value> = Vec::new();
    for track in asked.tracks(viewed)? {
        let slices = viewed.rows(track).slices(&viewed.trace, look, ROWS_MAX);
        parts.push(json!({ "id": track.0, "first": all.len(), "len": slices.len() }));
        all.extend(slices);
    }
    let head = json!({ "count": all.len(), "tracks": parts, "names": names(viewed, &all) });
    Ok(Response::binary(columns(viewed, &head.to_string(), &all)))
}

/// The names of what is painted, by their numbers.
fn names(viewed: &Viewed, slices: &[Slice]) -> BTreeMap<u32, String> {
    let spans = viewed.trace.spans();
    let mut names = BTreeMap::new();
    for slice in slices {
        let name = spans.name(slice.longest);
        names.entry(name.0).or_insert_with(|| short(viewed.trace.strings().get(name)));
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
    out.extend(slices.iter().flat_map(|row| (viewed.told(row.start) as f64).to_le_bytes()));
    let dur = |row: &Slice| row.end.saturating_sub(row.start);
    out.extend(slices.iter().flat_map(|row| (dur(row) as f64).to_le_bytes()));
    out.extend(slices.iter().flat_map(|row| row.longest.0.to_le_bytes()));
    out.extend(slices.iter().flat_map(|row| spans.name(row.longest).0.to_le_bytes()));
    out.extend(slices.iter().flat_map(|row| row.count.to_le_bytes()));
    out.extend(slices.iter().flat_map(|row| row.row.to_le_bytes()));
    let busy = |row: &Slice| row.covered_ns as f32 / dur(row).max(1) as f32;
    out.extend(slices.iter().flat_map(|row| busy(row).to_le_bytes()));
    out.extend(slices.iter().map(|row| viewed.trace.kind(row.longest) as u8));
    out
}
