//! Decoding on several cores.
//!
//! At some points the processor writes all of its state, so decoding can start there without the
//! preceding bytes. Each part is decoded as if the previous one ended in that state; then that is
//! checked, and if it did not, the part is decoded again after the previous one. So the result
//! is that of a single core, whatever the bytes are.

use crate::decode::decoder::{DecodeCounts, DecodeOptions, Decoder, State};
use crate::{Program, Sink, find_psb};

/// Decodes a trace on the calling thread, and returns the sink.
pub fn decode<S: Sink>(
    program: &Program<'_>,
    options: DecodeOptions,
    bytes: &[u8],
    sink: S,
) -> (S, DecodeCounts) {
    let mut decoder = Decoder::new(program, options, sink);
    match find_psb(bytes, 0) {
        Some(first) => {
            decoder.counts.skipped_bytes = first as u64;
            decoder.run(bytes, first, None);
        }
        None => decoder.counts.skipped_bytes = bytes.len() as u64,
    }
    (decoder.sink, decoder.counts)
}

/// Decodes a trace on several threads, one part and one sink each. The events of the sinks, one
/// after the other, are those that [`decode`] gives to a single one.
pub fn decode_parallel<S: Sink + Default + Send>(
    program: &Program<'_>,
    options: DecodeOptions,
    bytes: &[u8],
    threads: usize,
) -> (Vec<S>, DecodeCounts) {
    let starts = starts(bytes, threads);
    let Some(&first) = starts.first() else {
        let skipped_bytes = bytes.len() as u64;
        return (Vec::new(), DecodeCounts { skipped_bytes });
    };
    let untils = starts[1..].iter().map(|&until| Some(until)).chain([None]);
    let parts = starts.iter().zip(untils);
    let parts = parts.map(|(&from, until)| PartRange { from, until, is_first: from == first });
    let parts: Vec<PartRange> = parts.collect();
    if let [part] = parts[..] {
        let part = Part::decode(program, options, bytes, part);
        return join(vec![part], &parts, bytes, first);
    }
    let decoded: Vec<Part<'_, S>> = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .iter()
            .map(|&part| scope.spawn(move || Part::decode(program, options, bytes, part)))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    join(decoded, &parts, bytes, first)
}

/// Checks the state that each part was decoded from, and decodes again where it was wrong.
fn join<S: Sink>(
    decoded: Vec<Part<'_, S>>,
    parts: &[PartRange],
    bytes: &[u8],
    first: usize,
) -> (Vec<S>, DecodeCounts) {
    let mut counts = DecodeCounts { skipped_bytes: first as u64 };
    let (mut sinks, mut before) = (Vec::new(), None::<Part<'_, S>>);
    for (part, &PartRange { until, .. }) in decoded.into_iter().zip(parts) {
        before = Some(match before.take() {
            // It has read beyond this part already.
            Some(one) if until.is_some_and(|until| one.end.0 > until) => one,
            Some(mut one) if one.end != part.head => {
                let stopped = one.decoder.run(bytes, one.end.0, until);
                one.end = (stopped, one.decoder.state);
                one
            }
            Some(one) => {
                counts.skipped_bytes += one.decoder.counts.skipped_bytes;
                sinks.push(one.decoder.sink);
                part
            }
            None => part,
        });
    }
    if let Some(last) = before {
        counts.skipped_bytes += last.decoder.counts.skipped_bytes;
        sinks.push(last.decoder.sink);
    }
    (sinks, counts)
}

/// Offsets where decoding can start, about equally far apart.
fn starts(bytes: &[u8], threads: usize) -> Vec<usize> {
    let threads = threads.max(1);
    let mut starts: Vec<usize> =
        (0..threads).filter_map(|part| find_psb(bytes, bytes.len() / threads * part)).collect();
    starts.dedup();
    starts
}

/// What one thread has decoded.
struct Part<'a, S> {
    decoder: Decoder<'a, S>,
    /// Offset and state after the first `PsbEnd`.
    head: (usize, State),
    /// The same at the end, which is after the first `PsbEnd` of the next part.
    end: (usize, State),
}

/// Where one thread decodes.
#[derive(Debug, Clone, Copy)]
struct PartRange {
    from: usize,
    until: Option<usize>,
    is_first: bool,
}

impl<'a, S: Sink + Default> Part<'a, S> {
    fn decode(
        program: &'a Program<'a>,
        options: DecodeOptions,
        bytes: &[u8],
        range: PartRange,
    ) -> Self {
        let PartRange { from, until, is_first } = range;
        let mut decoder = Decoder::new(program, options, S::default());
        // The previous part emits these events.
        decoder.is_silent = !is_first;
        let at = decoder.run(bytes, from, Some(from));
        let head = (at, decoder.state);
        if !is_first {
            decoder.counts = DecodeCounts::default();
        }
        decoder.is_silent = false;
        let is_through = until.is_some_and(|until| at > until);
        let stopped = if is_through { at } else { decoder.run(bytes, at, until) };
        let end = (stopped, decoder.state);
        Part { decoder, head, end }
    }
}
