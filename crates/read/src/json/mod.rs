//! JSON traces: PyTorch's Kineto and anything in Chrome's trace event format.
//!
//! `blocks` reads the events on all cores, straight into batches; `document` reads
//! what stands around them; `scan` and `event` are the strict and quick way,
//! `lenient` the one for damage.

mod blocks;
mod decimal;
mod document;
mod emit;
mod event;
mod lenient;
mod scan;
mod simd;
mod text;

use spanwise_model::{ArgValue, NoticeKind, SourceInfo, Trace, TraceBuilder};

pub(crate) use blocks::Effort;
use blocks::Region;
use document::Document;

use crate::source::{LazyText, Stream, Wave, WaveEnd};
use crate::{ReadErrorKind, kineto};

/// What is still open after this much text cannot be read piece by piece.
const CARRY_BYTES_MAX: usize = 256 << 20;

/// Reads a source whose whole text is at hand.
pub(crate) fn read_text(
    text: &[u8],
    effort: Effort<'_>,
    info: SourceInfo,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    let mut document = Document::new();
    document.feed(Region { text, base: 0, is_last: true }, effort)?;
    let end = End { text_bytes: text.len() as u64, head: &text[..text.len().min(64)] };
    finish(document, end, info, effort, args)
}

/// Reads a compressed source: while one wave of text is read, the next is
/// inflated, so that the whole takes little longer than inflating alone, and no
/// more than two waves are in memory.
pub(crate) fn read_stream(
    mut stream: Stream,
    effort: Effort<'_>,
    info: SourceInfo,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    let mut document = Document::new();
    let mut wave = stream.next_wave(Wave::default());
    let mut spare = Wave::default();
    let mut base = 0u64;
    let head = wave.text()[..wave.text().len().min(64)].to_vec();
    let reading = Effort { threads: effort.threads.saturating_sub(1).max(1), ..effort };
    loop {
        let is_last = !matches!(wave.end, WaveEnd::More);
        let region = Region { text: wave.text(), base, is_last };
        let (fed, next) = std::thread::scope(|scope| {
            let buffer = std::mem::take(&mut spare);
            let inflating = (!is_last).then(|| scope.spawn(|| stream.next_wave(buffer)));
            let fed = document.feed(region, reading);
            (fed, inflating.map(|thread| thread.join().expect("inflating does not panic")))
        });
        let consumed = fed?;
        let Some(mut next) = next else { break };
        let rest = &wave.text()[consumed..];
        if rest.len() > CARRY_BYTES_MAX {
            break;
        }
        next.put_before(rest);
        base += consumed as u64;
        spare = std::mem::replace(&mut wave, next);
    }
    let text_bytes = base + wave.text().len() as u64;
    if let WaveEnd::Damaged(error) = &wave.end {
        let what = error.to_string();
        document.notices.add(NoticeKind::CompressedDataDamaged, text_bytes, what.as_bytes());
    }
    finish(document, End { text_bytes, head: &head }, info, effort, args)
}

/// What is known once the text has ended.
struct End<'a> {
    text_bytes: u64,
    head: &'a [u8],
}

fn finish(
    mut document: Document,
    end: End<'_>,
    mut info: SourceInfo,
    effort: Effort<'_>,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    document.end(end.text_bytes, end.head)?;
    info.text_bytes = end.text_bytes;
    kineto::describe(&mut info, &document.properties);
    let mut builder = TraceBuilder::new(effort.threads);
    for batch in document.batches {
        builder.push(batch);
    }
    builder.notices(&document.notices);
    Ok(builder.finish(info, Some(Box::new(args))))
}

/// The arguments of the event at `offset`.
pub(crate) fn args_at(text: &[u8], offset: u64) -> Vec<(String, ArgValue)> {
    let Ok(at) = usize::try_from(offset) else { return Vec::new() };
    if at >= text.len() {
        return Vec::new();
    }
    let event = match event::strict::<simd::Portable>(text, at, &mut event::Layout::new()) {
        Ok((event, _)) => event,
        Err(_) => match lenient::event(&mut lenient::Walk::new(text, at), at) {
            Ok((event, _)) => event,
            Err(_) => return Vec::new(),
        },
    };
    match event.args.is_empty() {
        true => Vec::new(),
        false => lenient::members(text, event.args),
    }
}
