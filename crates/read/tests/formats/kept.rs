//! Two traces are the same when they say the same of the same tracks.

use std::io;
use std::path::PathBuf;

use spanwise_model::{SpanId, StrId, Trace, TrackId};

use crate::traces::{self, SpanText};

/// Writes a trace in some format.
pub(crate) type Write = fn(&Trace, &mut dyn io::Write) -> io::Result<()>;

/// The recordings of the repository, and a few larger ones where they are at hand.
pub(crate) fn recordings() -> Vec<PathBuf> {
    let more = ["ddp_rank1", "mixtral_moe", "train_slow_loader"];
    let more = more.map(|name| traces::at_root(&format!("../shared/traces/{name}.json.gz")));
    let committed = traces::committed().into_iter();
    committed.chain(more.into_iter().filter(|path| path.exists())).collect()
}

/// Everything that a format must keep, as sorted text.
#[derive(Debug, PartialEq)]
pub(crate) struct TraceContent {
    pub(crate) spans: Vec<SpanText>,
    pub(crate) tracks: Vec<String>,
    pub(crate) instants: Vec<String>,
    pub(crate) counters: Vec<String>,
    pub(crate) links: Vec<String>,
    pub(crate) launches: Vec<String>,
}

pub(crate) fn kept(trace: &Trace) -> TraceContent {
    let (instants, counters) = (trace.instants(), trace.counters());
    let category = |id: u16| text(trace, trace.categories().get(id.into()).name);
    let instant = |row: usize| {
        let name = text(trace, StrId(instants.name[row]));
        let (time, category) = (instants.time[row], category(instants.category[row]));
        format!("{} {time} {name} {category}", place(trace, instants.track[row]))
    };
    let counter = |row: usize| {
        let (time, value) = (counters.time[row], counters.value[row]);
        format!("{} {time} {value:?}", place(trace, counters.track[row]))
    };
    let of_span = |span: SpanId| format!("{:?}", traces::said(trace, span));
    let links = trace.links().iter().zip(trace.links().category.iter());
    let links = links.map(|((from, to), &flow)| {
        format!("{} -> {} {}", of_span(from), of_span(to), category(flow))
    });
    let launches = trace.spans().ids().filter_map(|span| {
        Some(format!("{} <- {}", of_span(span), of_span(trace.spans().launch(span)?)))
    });
    TraceContent {
        spans: traces::all_said(trace),
        tracks: sorted((0..trace.tracks().len() as u32).map(|id| named_place(trace, id))),
        instants: sorted((0..instants.len()).map(instant)),
        counters: sorted((0..counters.len()).map(counter)),
        links: sorted(links),
        launches: sorted(launches),
    }
}

fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

fn text(trace: &Trace, id: StrId) -> &str {
    trace.strings().get(id)
}

/// What distinguishes a track from all others.
fn place(trace: &Trace, track: u32) -> String {
    let track = trace.tracks().get(TrackId(track));
    format!("{:?} {}/{}", track.kind, text(trace, track.process), text(trace, track.thread))
}

fn named_place(trace: &Trace, id: u32) -> String {
    let track = trace.tracks().get(TrackId(id));
    let names = (text(trace, track.process_name), text(trace, track.thread_name));
    format!("{} {names:?} {}", place(trace, id), track.sort_index)
}

/// Fails at the first difference, which is all one can read.
#[track_caller]
pub(crate) fn assert_same(found: &TraceContent, expected: &TraceContent, what: &str) {
    first_difference(&found.spans, &expected.spans, what);
    first_difference(&found.tracks, &expected.tracks, what);
    first_difference(&found.instants, &expected.instants, what);
    first_difference(&found.counters, &expected.counters, what);
    first_difference(&found.launches, &expected.launches, what);
    first_difference(&found.links, &expected.links, what);
}

#[track_caller]
fn first_difference<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], what: &str) {
    let different = found.iter().zip(expected).find(|(found, expected)| found != expected);
    if let Some((found, expected)) = different {
        panic!("{what}:\n found    {found:?}\n expected {expected:?}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// Writes twice, which must give the same bytes, and reads back, plain and packed.
#[track_caller]
pub(crate) fn through(trace: &Trace, write: Write, what: &str) -> (Vec<u8>, Trace) {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    write(trace, &mut bytes).expect("a vector takes everything");
    write(trace, &mut again).expect("a vector takes everything");
    assert!(bytes == again, "{what}: other bytes the second time");
    let plain = traces::read_bytes("plain", &bytes).expect(what);
    let packed = traces::read_bytes("packed.gz", &traces::gzip(&bytes)).expect(what);
    assert!(kept(&plain) == kept(&packed), "{what}: plain and packed differ");
    (bytes, plain)
}
