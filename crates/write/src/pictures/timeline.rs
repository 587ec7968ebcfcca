//! A timeline as a picture: the busiest tracks at a fixed width, nothing to move.
//!
//! What is wide enough to point at is a rectangle with its name; what is narrower is part of one
//! shape a color, so that a million short spans cost what their pixels cost.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use spanwise_analyze::{Rows, Slice, Viewport};
use spanwise_model::{SpanKind, Trace, Track, TrackKind};

use crate::document::escape::{escape_markup, printable};
use crate::document::units::nanos_text;
use crate::pictures::flame::fitted;

/// How much is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimelineSize {
    pub(crate) tracks_max: usize,
    /// Rows of each track.
    pub(crate) rows_max: usize,
    /// Narrower than this, a span has no name.
    pub(crate) named_pixels_min: f64,
}

const WIDTH: f64 = 1200.0;
const ROW: usize = 15;
/// Above each track: who it is.
const HEAD: usize = 18;
const CHARACTER: f64 = 6.2;

/// Draws the tracks that have most in them, in the trace's own order; says what was left out.
pub(crate) fn write_timeline(
    trace: &Trace,
    size: TimelineSize,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let Some((from, to)) = trace.window() else { return Ok(()) };
    let viewport = Viewport::new(from, to.saturating_add(1), WIDTH as u32);
    let (tracks, left_out) = busiest(trace, size.tracks_max);
    let rows: Vec<Rows> = tracks.iter().map(|track| Rows::of(trace, track)).collect();
    let shown = |rows: &Rows| rows.len().min(size.rows_max);
    let height: usize = rows.iter().map(|rows| HEAD + shown(rows) * ROW).sum::<usize>() + 4;
    writeln!(
        out,
        "<svg class=\"timeline\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} \
         {height}\">"
    )?;
    let length = (i128::from(to) - i128::from(from)).max(1) as f64;
    let mut top = 0;
    for (track, rows) in tracks.iter().zip(&rows) {
        let name = escape_markup(&printable(&name_of(trace, track)));
        writeln!(out, "<text class=\"t\" x=\"2\" y=\"{}\">{name}</text>", top + 13)?;
        let picture = Picture { trace, from, length, top: top + HEAD, size };
        picture.write(&rows.slices(viewport, size.rows_max), out)?;
        top += HEAD + shown(rows) * ROW;
    }
    writeln!(out, "</svg>")?;
    let hidden: usize = rows.iter().map(|rows| rows.len() - shown(rows)).sum();
    writeln!(
        out,
        "<p class=\"advice\">{}, all of it; {left_out} tracks with less in them and {hidden} inner \
         rows are left out. <code>spanwise view</code> shows everything.</p>",
        nanos_text(i128::from(to) - i128::from(from))
    )
}

/// Tracks with the most time in their spans, streams first; and how many others have spans.
fn busiest(trace: &Trace, tracks_max: usize) -> (Vec<&Track>, usize) {
    let is_drawn = |track: &&Track| {
        !track.spans.is_empty()
            && matches!(track.kind, TrackKind::Thread | TrackKind::GpuStream | TrackKind::Async)
    };
    let outer = |track: &Track| -> i128 {
        let spans = track.span_ids().filter(|&span| trace.spans().parent(span).is_none());
        spans.map(|span| i128::from(trace.spans().dur(span))).sum()
    };
    let mut tracks: Vec<(i128, usize, &Track)> = trace
        .tracks()
        .rows()
        .iter()
        .filter(is_drawn)
        .enumerate()
        .map(|(at, track)| (outer(track), at, track))
        .collect();
    tracks.sort_by_key(|&(ns, at, track)| (track.kind != TrackKind::GpuStream, Reverse(ns), at));
    // Half of the room is for streams at most, so that threads are seen too.
    let streams = tracks.iter().filter(|row| row.2.kind == TrackKind::GpuStream).count();
    let others = tracks.len() - streams;
    let streams_shown = streams.min((tracks_max / 2).max(tracks_max.saturating_sub(others)));
    let others_shown = others.min(tracks_max - streams_shown);
    let all = tracks.len();
    let chosen = tracks[..streams_shown].iter().chain(&tracks[streams..streams + others_shown]);
    (chosen.map(|row| row.2).collect(), all - streams_shown - others_shown)
}

fn name_of(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    let (process, thread) = (text(track.process), text(track.thread));
    match track.kind {
        TrackKind::GpuStream => format!("GPU {process}, stream {thread}"),
        TrackKind::Thread => format!("{} (thread {thread})", text(track.thread_name)),
        _ => format!("{} {}", text(track.thread_name), text(track.process_name)),
    }
}

/// Where one track is drawn.
/// A box with room for its name.
struct NamedBox<'a> {
    left: f64,
    width: f64,
    y: usize,
    color: &'a str,
}

struct Picture<'a> {
    trace: &'a Trace,
    from: i64,
    length: f64,
    top: usize,
    size: TimelineSize,
}

impl Picture<'_> {
    fn write(&self, slices: &[Slice], out: &mut dyn io::Write) -> io::Result<()> {
        let mut narrow: BTreeMap<&str, String> = BTreeMap::new();
        for slice in slices {
            let (left, width) = self.place(slice);
            let y = self.top + slice.row as usize * ROW;
            let color = color(self.trace.kind(slice.longest));
            if slice.count == 1 && width >= self.size.named_pixels_min {
                self.write_named(slice, &NamedBox { left, width, y, color }, out)?;
                continue;
            }
            let height = ROW - 1;
            let shape = format!("M{left:.1} {y}h{:.1}v{height}h-{0:.1}z", width.max(0.4));
            narrow.entry(color).or_default().push_str(&shape);
        }
        for (color, shape) in narrow {
            writeln!(out, "<path fill=\"{color}\" d=\"{shape}\"/>")?;
        }
        Ok(())
    }

    fn write_named(
        &self,
        slice: &Slice,
        place: &NamedBox<'_>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let NamedBox { left, width, y, color } = *place;
        let name = self.trace.name(slice.longest);
        let safe = printable(name);
        let dur = nanos_text(self.trace.spans().dur(slice.longest).into());
        let label = fitted(&safe, ((width - 4.0) / CHARACTER).max(0.0) as usize);
        write!(
            out,
            "<g><title>{}: {dur}</title><rect x=\"{left:.1}\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"{}\" fill=\"{color}\"/>",
            escape_markup(&fitted(&safe, 120)),
            ROW - 1
        )?;
        if !label.is_empty() {
            let label = escape_markup(&label);
            write!(out, "<text x=\"{:.1}\" y=\"{}\">{label}</text>", left + 2.0, y + 11)?;
        }
        writeln!(out, "</g>")
    }

    fn place(&self, slice: &Slice) -> (f64, f64) {
        let pixels = |ns: i128| ns as f64 / self.length * WIDTH;
        let left = pixels(i128::from(slice.start) - i128::from(self.from));
        (left, pixels(i128::from(slice.end) - i128::from(slice.start)))
    }
}

/// The color of a kind, close to those of the flame graph; the last is for others.
fn color(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Python => "#f2d16b",
        SpanKind::Operator => "#f0a868",
        SpanKind::Runtime => "#84bfe0",
        SpanKind::Kernel => "#86d386",
        SpanKind::Memcpy | SpanKind::Memset => "#7fd6c2",
        SpanKind::Annotation | SpanKind::GpuAnnotation | SpanKind::Window => "#d0a8e8",
        SpanKind::Sync | SpanKind::OffCpu | SpanKind::LockWait => "#d9d9d9",
        SpanKind::Overhead => "#e59a9a",
        SpanKind::Sampled => "#c6d0a0",
        _ => "#b8c4d6",
    }
}
