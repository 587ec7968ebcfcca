//! Counters and instants, thinned to what a screen can show.

use serde_json::{Value, json};
use spanwise_analyze::Viewport;
use spanwise_model::{Column, StrId, TrackId};

use super::slices::short;
use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};

pub(crate) fn counters(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let (from, to) = asked.window(viewed)?;
    let viewport = Viewport::new(from, to, asked.pixels()?);
    let mut tracks: Vec<Value> = Vec::new();
    for id in asked.track_numbers() {
        let id = id?;
        let series = u32::try_from(id).ok().and_then(|id| viewed.counter(id));
        let (times, values) =
            series.ok_or_else(|| Refusal::missing(format!("there is no track {id}")))?;
        let seen = times.partition_point(|&time| time < from);
        let end = times.partition_point(|&time| time < to);
        let mut points: Vec<Value> = Vec::new();
        // What it was before still is.
        if let Some(before) = seen.checked_sub(1) {
            let value = values[before];
            points.push(json!([viewed.to_page_time(times[before]) as f64, value, value, value]));
        }
        let mut at = seen;
        while at < end {
            let next = end_of_pixel(times, viewport, at, end);
            let pixel = &values[at..next];
            let least = pixel.iter().copied().fold(f64::INFINITY, f64::min);
            let most = pixel.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let time = viewed.to_page_time(times[at]) as f64;
            points.push(json!([time, least, most, pixel[pixel.len() - 1]]));
            at = next;
        }
        tracks.push(json!({ "id": id, "points": points }));
    }
    Ok(Response::json(json!({ "tracks": tracks }).to_string()))
}

pub(crate) fn marks(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let (from, to) = asked.window(viewed)?;
    let viewport = Viewport::new(from, to, asked.pixels()?);
    let instants = viewed.trace.instants();
    let mut names: Vec<u32> = Vec::new();
    let mut tracks: Vec<Value> = Vec::new();
    for track in asked.tracks(viewed)? {
        let rows = rows_of(&instants.track, track);
        let times = &instants.time[rows.clone()];
        let ids = &instants.name[rows];
        let mut at = times.partition_point(|&time| time < from);
        let end = times.partition_point(|&time| time < to);
        let mut marks: Vec<Value> = Vec::new();
        while at < end {
            let next = end_of_pixel(times, viewport, at, end);
            let name = names.iter().position(|&known| known == ids[at]).unwrap_or_else(|| {
                names.push(ids[at]);
                names.len() - 1
            });
            marks.push(json!([viewed.to_page_time(times[at]) as f64, next - at, name]));
            at = next;
        }
        tracks.push(json!({ "id": track.0, "marks": marks }));
    }
    let text = |&id: &u32| short(viewed.trace.strings().get(StrId(id)));
    let names: Vec<&str> = names.iter().map(text).collect();
    Ok(Response::json(json!({ "names": names, "tracks": tracks }).to_string()))
}

/// The rows of a track; rows ascend by track.
fn rows_of(tracks: &Column<u32>, track: TrackId) -> std::ops::Range<usize> {
    let begin = tracks.partition_point(|&row| row < track.0);
    begin..tracks.partition_point(|&row| row <= track.0)
}

/// Behind the last entry that shares the pixel of the one at `at`.
fn end_of_pixel(times: &[i64], viewport: Viewport, at: usize, end: usize) -> usize {
    let pixel_end = times[at].saturating_add(viewport.pixel_ns);
    at + times[at..end].partition_point(|&time| time < pixel_end).max(1)
}
