//! What of a track can be seen on a screen: never more rectangles than it has pixels.
//!
//! A track's spans are stacked in rows whose spans do not overlap ([`Rows`]). For a window of
//! time and a width, each row is walked in jumps: spans that are wide enough to see come one by
//! one, and those that share a pixel come as one, named after the longest. So a window over ten
//! million spans costs what its pixels cost, and still nothing short is invisible.

mod range_max;
mod rows;
mod search;

use spanwise_model::{Nanos, SpanId};

use rows::Row;
pub use rows::Rows;
pub use search::{
    FoundName, LaunchedWork, NameUse, SearchHit, find_named, range_use, span_self_ns,
};

/// Something to paint: a span, or several that share a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// How deep it is stacked; 0 is the outermost.
    pub row: u32,
    pub start: Nanos,
    pub end: Nanos,
    /// The span, or the longest (then first) of several.
    pub longest: SpanId,
    /// For how many it stands.
    pub count: u32,
    /// How much of the time from start to end they cover.
    pub covered_ns: Nanos,
}

/// A time range and how finely it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewport {
    pub from: Nanos,
    pub to: Nanos,
    /// How many nanoseconds share a pixel; 1 at the least.
    pub pixel_ns: Nanos,
}

impl Viewport {
    /// A window that is `pixels` wide; what ends before it begins is empty.
    pub fn new(from: Nanos, to: Nanos, pixels: u32) -> Self {
        let width = i128::from(to) - i128::from(from);
        let pixel = (width / i128::from(pixels.max(1))).clamp(1, i128::from(Nanos::MAX));
        Viewport { from, to, pixel_ns: pixel as Nanos }
    }

    /// The end of the pixel in which a time lies. Pixels are counted from time 0 and not from
    /// the window's begin, so that what shares a pixel stays the same while the window moves.
    fn pixel_end(&self, time: Nanos) -> Nanos {
        let pixel = time.div_euclid(self.pixel_ns);
        pixel.saturating_add(1).saturating_mul(self.pixel_ns)
    }
}

impl Rows {
    /// What to paint of the first `rows_max` rows, row by row, in order of time.
    pub fn slices(&self, viewport: Viewport, rows_max: usize) -> Vec<Slice> {
        let mut slices = Vec::new();
        for row in 0..self.len().min(rows_max) {
            slices_of_row(self.row(row), viewport, row as u32, &mut slices);
        }
        slices
    }
}

fn slices_of_row(spans: Row<'_>, viewport: Viewport, row: u32, slices: &mut Vec<Slice>) {
    // Spans of a row do not overlap, so all before the last that begins outside end there too.
    let mut at = spans.starts.partition_point(|&start| start < viewport.from);
    if at > 0 && spans.end(at - 1) > viewport.from {
        at -= 1;
    }
    while at < spans.ids.len() && spans.starts[at] < viewport.to {
        let next = match spans.durs[at] >= viewport.pixel_ns {
            true => at + 1,
            false => end_of_pixel(spans, viewport, at),
        };
        let part = spans.longest.of_range(spans.durs, at..next);
        slices.extend(part.map(|part| Slice {
            row,
            start: spans.starts[at],
            end: spans.end(next - 1),
            longest: SpanId(spans.ids[part.longest as usize]),
            count: (next - at) as u32,
            covered_ns: part.covered_ns,
        }));
        at = next;
    }
}

/// Behind the last span that shares the pixel of the one at `at`. Spans of a row do not
/// overlap, so all but the last of them end inside the pixel; and the last, if it is wide
/// enough to be seen, comes by itself.
fn end_of_pixel(spans: Row<'_>, viewport: Viewport, at: usize) -> usize {
    let pixel_end = viewport.pixel_end(spans.starts[at]);
    let end = at + 1 + gallop(&spans.starts[at + 1..], |&start| start < pixel_end);
    let last_is_wide = spans.durs[end - 1] >= viewport.pixel_ns;
    if last_is_wide && end - 1 > at { end - 1 } else { end }
}

/// How many of the first entries fulfil a condition, which once false stays false. Searches near
/// the start first, since few spans share a pixel in a narrow time range.
fn gallop<T>(entries: &[T], fulfils: impl Fn(&T) -> bool) -> usize {
    let mut bound = 1;
    while bound <= entries.len() && fulfils(&entries[bound - 1]) {
        bound *= 2;
    }
    let known = bound / 2;
    let end = bound.min(entries.len());
    known + entries[known..end].partition_point(fulfils)
}

#[cfg(test)]
mod tests;
