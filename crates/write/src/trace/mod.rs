//! Whole traces in the formats of other tools.
//!
//! Each writer takes a finished [`Trace`] and an `io::Write`, goes through the columns
//! once and gives the same bytes for the same trace (I7). Our own readers get the same
//! trace back: spans, instants, values and arrows, each on its track.

mod chrome;
mod flows;
mod fxt;
mod lanes;
mod perfetto;

use std::io;

use flate2::{Compression, GzBuilder};
use spanwise_model::{ArgValue, SpanId, Trace};

pub use chrome::write_chrome;
pub use fxt::write_fxt;
pub use perfetto::write_perfetto;

/// A format of whole traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// JSON, for every viewer there is.
    Chrome,
    /// Perfetto's own, in protobuf.
    Perfetto,
    /// Fuchsia's, in words of 64 bits.
    Fxt,
}

/// Writes all of a trace, packed with gzip where asked.
pub fn write_trace(
    trace: &Trace,
    format: TraceFormat,
    is_compressed: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let write = match format {
        TraceFormat::Chrome => write_chrome,
        TraceFormat::Perfetto => write_perfetto,
        TraceFormat::Fxt => write_fxt,
    };
    if !is_compressed {
        return write(trace, out);
    }
    // No time and no system in the header: the same trace gives the same bytes.
    let gzip = GzBuilder::new().mtime(0).operating_system(255);
    let mut gzip = gzip.write(out, Compression::fast());
    write(trace, &mut gzip)?;
    gzip.finish().map(|_| ())
}

/// The arguments of a span; that its source has gone is an error of writing.
fn args_of(trace: &Trace, span: SpanId) -> io::Result<Vec<(String, ArgValue)>> {
    trace.args(span).map_err(io::Error::other)
}

/// A whole number in its usual notation, as ids mostly are.
fn is_plain_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_zero_led = digits.starts_with('0') && (digits.len() > 1 || text.len() > 1);
    (1..=15).contains(&digits.len())
        && !is_zero_led
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Where a format has small numbers for processes and threads: from here on they stand for
/// ids that are none.
const FIRST_MADE_UP: u64 = 1 << 30;

/// An id that such a format can take as it is; 0 is the idle process there.
fn small_number(text: &str) -> Option<u64> {
    let number = text.parse().ok().filter(|_| is_plain_integer(text))?;
    (1..FIRST_MADE_UP).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_distinguished_from_similar_texts() {
        let check = |text, expected| assert_eq!(is_plain_integer(text), expected, "{text}");
        check("0", true);
        check("-17", true);
        check("123456789012345", true);
        check("1234567890123456", false);
        check("007", false);
        check("-0", false);
        check("", false);
        check("-", false);
        check("stream 7", false);
    }
}
