//! Flame graphs of a trace, of a stretch of it, of one track.

use spanwise_analyze::{ProfileOptions, profile};
use spanwise_model::{Selection, select, threads_available};
use spanwise_write::write_flame_nodes;

use crate::http::Response;
use crate::route::{Asked, Refusal};

/// Narrower than this part of the whole cannot be seen.
const NODES_MAX: i128 = 4000;

pub(crate) fn flame(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = asked.trace()?;
    let trace = &viewed.trace;
    let value = match asked.text("value").unwrap_or("wall") {
        "wall" => "wall",
        "gpu" => "gpu",
        "count" => "samples",
        "bytes" => "alloc_space",
        other => return Err(Refusal::wrong(format!("value is none of wall, gpu, …: {other:.40}"))),
    };
    let track = asked.number("track")?.map(|id| asked.track(viewed, id)).transpose()?;
    let is_whole = asked.text("from").is_none() && asked.text("to").is_none() && track.is_none();
    let mut out = Vec::new();
    let write = |made: &spanwise_model::Profile, out: &mut Vec<u8>| {
        write_flame_nodes(made, value, NODES_MAX, out)
    };
    let written = if is_whole {
        write(viewed.profile(), &mut out)
    } else {
        // GPU work stands on the stack of its launch, which another track holds.
        let tracks = trace.tracks().iter().map(|(id, row)| {
            track.is_none_or(|wanted| id == wanted)
                || row.kind == spanwise_model::TrackKind::GpuStream
        });
        let selection = Selection {
            tracks: tracks.collect(),
            windows: Some(vec![asked.window(viewed)?]),
            keeps_span: &|_| true,
        };
        let part = select(trace, &selection, threads_available());
        write(&profile(&part, &ProfileOptions::default()), &mut out)
    };
    written.map_err(|error| Refusal::wrong(error.to_string()))?;
    Ok(Response::json(String::from_utf8_lossy(&out).into_owned()))
}
