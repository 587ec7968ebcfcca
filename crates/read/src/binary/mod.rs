//! Binary formats, and text of perf: detected by their first bytes, read piece by piece.

pub(crate) mod fxt;
pub(crate) mod perfetto;
pub(crate) mod session;

use std::path::Path;

use spanwise_files::FileBytes;
use spanwise_model::{NoticeKind, SourceInfo, Trace};

use crate::input::waves::{TextPart, read_waves};
use crate::input::{Compression, Stream, WAVE_BYTES, Wave};
use crate::json::Effort;
use crate::perf;
use crate::{OpenOptions, ReadErrorKind};

/// How much of a file is read to detect its format.
const HEAD_BYTES: usize = 64 << 10;

/// Takes a file in pieces.
pub(crate) trait Feed {
    /// Reads on; gives how much of the bytes it is done with. What is left comes again
    /// at the start of the next bytes.
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize;

    /// Takes note of damage that shows outside the records.
    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]);
}

/// A reader of a binary format.
pub(crate) trait Records: Feed {
    fn finish(self: Box<Self>, info: SourceInfo, threads: usize) -> Result<Trace, ReadErrorKind>;
}

/// The reader for a file, if its content is of a binary format.
pub(crate) fn detect(
    path: &Path,
    bytes: &FileBytes,
    compression: Compression,
    options: &OpenOptions<'_>,
) -> Result<Option<Box<dyn Records>>, ReadErrorKind> {
    if compression == Compression::None {
        let bytes = bytes.as_ref();
        return Ok(detect_head(path, &bytes[..bytes.len().min(HEAD_BYTES)], options));
    }
    let mut stream = Stream::new(bytes.clone(), compression, HEAD_BYTES)?;
    Ok(detect_head(path, stream.next_wave(Wave::default()).text(), options))
}

fn detect_head(path: &Path, head: &[u8], options: &OpenOptions<'_>) -> Option<Box<dyn Records>> {
    if fxt::seems_fxt(head) {
        return Some(Box::new(fxt::Reader::default()));
    }
    if perfetto::seems_perfetto(head) {
        return Some(Box::new(perfetto::Reader::default()));
    }
    if session::seems_session(head) {
        return Some(Box::new(session::Reader::default()));
    }
    if perf::data::seems_perf_data(head) {
        let mut reader = perf::data::Reader::default();
        reader.lies_at(path, options.has_python_lines);
        return Some(Box::new(reader));
    }
    if perf::seems_perf_script(head) {
        let (map, traps) = Default::default();
        return Some(Box::new(perf::Reader::new(options.thread_count(), map, traps)));
    }
    if perf::seems::<perf::TimeHist>(head) {
        return Some(Box::new(perf::TextReader::<perf::TimeHist>::default()));
    }
    if perf::seems::<perf::SystemCalls>(head) {
        return Some(Box::new(perf::TextReader::<perf::SystemCalls>::default()));
    }
    None
}

/// Reads all of a file.
pub(crate) fn read(
    mut records: Box<dyn Records>,
    bytes: FileBytes,
    compression: Compression,
    effort: Effort<'_>,
    mut info: SourceInfo,
) -> Result<Trace, ReadErrorKind> {
    info.text_bytes = feed_all(&mut *records, bytes, compression, effort)?;
    records.finish(info, effort.threads)
}

/// Hands over all of a file, inflated; says how long it was.
pub(crate) fn feed_all(
    records: &mut dyn Feed,
    bytes: FileBytes,
    compression: Compression,
    effort: Effort<'_>,
) -> Result<u64, ReadErrorKind> {
    if compression == Compression::None {
        let bytes = bytes.as_ref();
        records.feed(bytes, 0, true);
        return Ok(bytes.len() as u64);
    }
    let stream = Stream::new(bytes, compression, WAVE_BYTES)?;
    let progress = |bytes| effort.progress.iter().for_each(|report| report(bytes, effort.total));
    let end = read_waves(stream, progress, |TextPart { bytes, base, is_last }| {
        Ok(records.feed(bytes, base, is_last))
    })?;
    if let Some(error) = &end.damage {
        let what = error.to_string();
        records.notice(NoticeKind::CompressedDataDamaged, end.bytes, what.as_bytes());
    }
    if let Some(at) = end.stuck_at {
        records.notice(NoticeKind::TooDamaged, at, b"");
    }
    Ok(end.bytes)
}
