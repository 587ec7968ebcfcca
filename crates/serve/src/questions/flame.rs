//! Flame graphs of a trace, of a time range, of one track; in groups; against another trace.

use std::borrow::Cow;
use std::collections::BTreeMap;

use spanwise_analyze::{
    DiffOptions, ProfileOptions, base_and_other, is_communication, profile, profile_by_label,
    profiles_side_by_side, step_count,
};
use spanwise_model::{
    Profile, ProfileFrame, Selection, SpanKind, Trace, TrackKind, select, threads_available,
};
use spanwise_write::{FlameBase, FlameNodes, write_flame_nodes};

use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};
use crate::viewed::{COMMUNICATION, TraceView};

/// Narrower than this part of the whole cannot be seen.
const NODES_MAX: i128 = 4000;

pub(crate) fn flame(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let value = match asked.text("value").unwrap_or("wall") {
        "wall" => "wall",
        "gpu" => "gpu",
        "count" => "samples",
        "bytes" => "alloc_space",
        other => return Err(Refusal::wrong(format!("value is none of wall, gpu, …: {other:.40}"))),
    };
    let group = match asked.text("group") {
        None => None,
        Some("thread" | "rank" | "phase" | "step") => asked.text("group"),
        Some(other) => {
            return Err(Refusal::wrong(format!("group is none of thread, rank, …: {other:.40}")));
        }
    };
    match (asked.text("base"), group) {
        (None, None) => written(&*part(asked, viewed)?, viewed, value, None),
        (None, Some("rank")) => written(&all_ranks(asked)?, viewed, value, None),
        (None, Some(key)) => {
            let grouped = profile_by_label(&*part(asked, viewed)?, key);
            written(&grouped, viewed, value, None)
        }
        (Some(_), Some("rank")) => {
            Err(Refusal::wrong("all ranks beside each other are not set against another trace"))
        }
        (Some(_), group) => since(asked, viewed, value, group),
    }
}

/// What changed since another trace, by step where both have steps.
fn since(
    asked: &ViewerRequest<'_>,
    viewed: &TraceView,
    value: &str,
    group: Option<&str>,
) -> Result<Response, Refusal> {
    let base = &*asked.trace_named("base")?;
    let sides = [part(asked, base)?, part(asked, viewed)?];
    let counts = sides.each_ref().map(|side| step_count(side));
    let steps = if counts.contains(&0) { [1, 1] } else { counts };
    let sides = match group {
        None => sides,
        Some(key) => sides.map(|side| Cow::Owned(profile_by_label(&side, key))),
    };
    let column = |side: &Profile| side.value_types.iter().position(|known| known.name == value);
    let values = sides.each_ref().map(|side| column(side).unwrap_or(0));
    let both = base_and_other(&sides[0], &sides[1], &DiffOptions { values, steps });
    written(&both, viewed, "other", Some(FlameBase { column: "base", steps }))
}

/// The profile of what was asked about: the whole trace, or a part of it.
fn part<'v>(asked: &ViewerRequest<'_>, viewed: &'v TraceView) -> Result<Cow<'v, Profile>, Refusal> {
    let trace = &viewed.trace;
    let track = asked.number("track")?.map(|id| asked.track(viewed, id)).transpose()?;
    if asked.text("from").is_none() && asked.text("to").is_none() && track.is_none() {
        return Ok(Cow::Borrowed(viewed.facts.profile()));
    }
    // GPU work stands on the stack of its launch, which another track holds.
    let tracks = trace.tracks().iter().map(|(id, row)| {
        track.is_none_or(|wanted| id == wanted) || row.kind == TrackKind::GpuStream
    });
    let selection = Selection {
        tracks: tracks.collect(),
        windows: Some(vec![asked.window(viewed)?]),
        keeps_span: &|_| true,
    };
    let part = select(trace, &selection, threads_available());
    Ok(Cow::Owned(profile(&part, &ProfileOptions::default())))
}

/// All traces that are open, each under a root of its own.
fn all_ranks(asked: &ViewerRequest<'_>) -> Result<Profile, Refusal> {
    let traces = asked.session.traces();
    let named = traces.iter().map(|viewed| {
        let name = match viewed.trace.info().rank {
            Some(rank) => format!("rank {rank}: {}", viewed.file),
            None => viewed.file.clone(),
        };
        Ok((name, part(asked, viewed)?))
    });
    let named: Vec<(String, Cow<'_, Profile>)> = named.collect::<Result<_, Refusal>>()?;
    let parts: Vec<(&str, &Profile)> =
        named.iter().map(|(name, profile)| (&**name, &**profile)).collect();
    Ok(profiles_side_by_side(&parts))
}

fn written(
    profile: &Profile,
    viewed: &TraceView,
    value: &str,
    base: Option<FlameBase<'_>>,
) -> Result<Response, Refusal> {
    let kinds = kinds_of_groups(&viewed.trace);
    let kind_of = |frame: ProfileFrame| {
        let kind = kinds.get(profile.text(frame.group)).copied().unwrap_or(SpanKind::Other);
        match kind == SpanKind::Kernel && is_communication(profile.text(frame.name)) {
            true => COMMUNICATION,
            false => kind as u8,
        }
    };
    let asked = FlameNodes { value, base, nodes_max: NODES_MAX, kind_of: &kind_of };
    let mut out = Vec::new();
    let written = write_flame_nodes(profile, &asked, &mut out);
    written.map_err(|error| Refusal::wrong(error.to_string()))?;
    Ok(Response::json(String::from_utf8_lossy(&out).into_owned()))
}

/// What the groups of a profile's frames mean: they are the categories of the trace.
fn kinds_of_groups(trace: &Trace) -> BTreeMap<String, SpanKind> {
    let rows = trace.categories().rows().iter();
    let named = rows.map(|row| (format!("[{}]", trace.strings().get(row.name)), row.kind));
    named.chain([("[python]".to_owned(), SpanKind::Python)]).collect()
}
