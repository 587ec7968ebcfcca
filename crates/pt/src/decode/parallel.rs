//! Decoding on several cores.
//!
//! At some places the processor tells all of its state, so decoding can begin there without
//! what came before. Each part is decoded as if the one before had arrived in that state; then
//! that is checked, and where it did not, the part is decoded again after the one before. So
//! the result is that of a single core, whatever the bytes are.

use crate::decode::decoder::{DecodeCounts, DecodeOptions, Decoder, State};
use crate::{Program, Sink, find_psb};

/// Decodes bytes from beginning to end.
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

/// Decodes bytes in as many parts as there are threads. What the sinks were told, one after the
/// other, is what [`decode`] would have told one.
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
    let parts: Vec<(usize, Option<usize>)> = starts.iter().copied().zip(untils).collect();
    if let [(from, until)] = parts[..] {
        let part = Part::decode(program, options, bytes, (from, until, true));
        return join(vec![part], &parts, bytes, first);
    }
    let decoded: Vec<Part<'_, S>> = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .iter()
            .map(|&(from, until)| {
                let is_first = from == first;
                scope.spawn(move || Part::decode(program, options, bytes, (from, until, is_first)))
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    join(decoded, &parts, bytes, first)
}

/// Checks what each part was decoded on, and decodes again what was not so.
fn join<S: Sink>(
    decoded: Vec<Part<'_, S>>,
    parts: &[(usize, Option<usize>)],
    bytes: &[u8],
    first: usize,
) -> (Vec<S>, DecodeCounts) {
    let mut counts = DecodeCounts { skipped_bytes: first as u64 };
    let (mut sinks, mut before) = (Vec::new(), None::<Part<'_, S>>);
    for (part, &(_, until)) in decoded.into_iter().zip(parts) {
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

/// Places to begin, about equally far apart.
fn starts(bytes: &[u8], threads: usize) -> Vec<usize> {
    let threads = threads.max(1);
    let mut starts: Vec<usize> =
        (0..threads).filter_map(|part| find_psb(bytes, bytes.len() / threads * part)).collect();
    starts.dedup();
    starts
}

/// What one thread has decoded: with where and how it was once the first head was read, and at
/// the end, once that of the next part was.
struct Part<'a, S> {
    decoder: Decoder<'a, S>,
    head: (usize, State),
    end: (usize, State),
}

impl<'a, S: Sink + Default> Part<'a, S> {
    fn decode(
        program: &'a Program<'a>,
        options: DecodeOptions,
        bytes: &[u8],
        (from, until, is_first): (usize, Option<usize>, bool),
    ) -> Self {
        let mut decoder = Decoder::new(program, options, S::default());
        // What the head says is told by the part before.
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
