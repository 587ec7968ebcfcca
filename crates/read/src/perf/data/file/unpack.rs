//! Records that `perf record -z` packed.
//!
//! All packed records together are one stream of zstd, and a record may begin in one of
//! them and end in the next. What comes out takes the place of what it was packed in.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::bytes::Bytes;
use super::records::RawRecord;
use spanwise_recording::perf::record_kind::{COMPRESSED, COMPRESSED2};

use crate::input::memory;

/// The records of a recording, unpacked.
pub(crate) struct UnpackedRecords {
    pub(crate) records: Vec<u8>,
    /// Nothing of the stream was damaged or left out.
    pub(crate) is_whole: bool,
}

/// More would have been unpacked than may be; what was when it was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch(pub(crate) u64);

/// What decoding holds for each byte of the smallest samples, the records included.
const DECODING_FACTOR: u64 = 8;

/// How much may be unpacked, so that decoding it finds room as well.
pub(crate) fn records_bytes_max() -> u64 {
    memory::memory_left() / DECODING_FACTOR
}

/// `None` where no record is packed. Unpacks `bytes_max` at most.
pub(crate) fn unpacked(
    data: &[u8],
    is_big_endian: bool,
    bytes_max: u64,
) -> Result<Option<UnpackedRecords>, TooMuch> {
    let mut bytes = Bytes::new(data, is_big_endian);
    let Some(mut stream) = Stream::new(bytes_max) else { return Ok(None) };
    let mut records = Vec::new();
    let (mut is_packed, mut is_whole) = (false, true);
    loop {
        let before = bytes.all();
        let Some(record) = RawRecord::read(&mut bytes) else { break };
        let Some(packed) = packed_in(&record) else {
            let behind = record.len_behind().min(bytes.len());
            bytes.skip(behind);
            if is_packed {
                records.extend_from_slice(&before[..before.len() - bytes.len()]);
            }
            continue;
        };
        if !is_packed {
            is_packed = true;
            records.extend_from_slice(&data[..data.len() - before.len()]);
        }
        is_whole &= stream.add(packed, is_big_endian, &mut records)?;
        if !is_whole {
            break;
        }
    }
    is_whole &= stream.rest.is_empty();
    Ok(is_packed.then_some(UnpackedRecords { records, is_whole }))
}

/// What is packed in a record, if that is what it is for.
fn packed_in<'a>(record: &RawRecord<'a>) -> Option<&'a [u8]> {
    match record.kind {
        COMPRESSED => Some(record.body),
        COMPRESSED2 => {
            // Padded with zeros: its length stands before it.
            let mut body = record.body();
            let len = usize::try_from(body.u64()?).ok()?.min(body.len());
            body.take(len)
        }
        _ => None,
    }
}

/// The stream while it is unpacked.
struct Stream {
    decoder: Decoder<'static>,
    /// The beginning of a record that goes on in the next packed one.
    rest: Vec<u8>,
    bytes_max: u64,
}

impl Stream {
    fn new(bytes_max: u64) -> Option<Stream> {
        Some(Stream { decoder: Decoder::new().ok()?, rest: Vec::new(), bytes_max })
    }

    /// Adds the whole records of another piece; false where it is damaged.
    fn add(
        &mut self,
        packed: &[u8],
        is_big_endian: bool,
        records: &mut Vec<u8>,
    ) -> Result<bool, TooMuch> {
        let mut input = InBuffer::around(packed);
        let mut piece = [0; 1 << 14];
        loop {
            let mut output = OutBuffer::around(&mut piece[..]);
            let Ok(_) = self.decoder.run(&mut input, &mut output) else { return Ok(false) };
            let written = output.pos();
            self.rest.extend_from_slice(&piece[..written]);
            let unpacked = (records.len() + self.rest.len()) as u64;
            if unpacked > self.bytes_max {
                return Err(TooMuch(unpacked));
            }
            // A full buffer may have left something inside of the decoder.
            if input.pos() == packed.len() && written < piece.len() {
                break;
            }
        }
        let mut bytes = Bytes::new(&self.rest, is_big_endian);
        while RawRecord::read(&mut bytes).is_some() {}
        let whole = self.rest.len() - bytes.len();
        records.extend(self.rest.drain(..whole));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (body.len() + 8) as u16;
        [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), body].concat()
    }

    #[test]
    fn records_that_go_on_in_the_next_piece_are_put_together() {
        let plain = [record(3, b"a name, and more"), record(9, &[7; 3000]), record(4, b"")];
        let packed = zstd::encode_all(&plain.concat()[..], 1).expect("packing");
        for cut in [1, 8, packed.len() / 2, packed.len() - 1] {
            let (first, second) = packed.split_at(cut);
            let between = record(68, b"");
            let padded = [&(second.len() as u64).to_le_bytes(), second, &[0; 5]].concat();
            let file = [
                record(1, b"before"),
                record(COMPRESSED, first),
                between.clone(),
                record(COMPRESSED2, &padded),
            ];
            let found = unpacked(&file.concat(), false, 1 << 20).expect("little").expect("packed");
            assert!(found.is_whole);
            let mut kinds = Vec::new();
            let mut bytes = Bytes::new(&found.records, false);
            while let Some(record) = RawRecord::read(&mut bytes) {
                kinds.push((record.kind, record.body.len()));
            }
            kinds.sort_unstable();
            assert_eq!(kinds, [(1, 6), (3, 16), (4, 0), (9, 3000), (68, 0)], "cut at {cut}");
        }
    }

    #[test]
    fn damage_is_reported_and_ends_it() {
        let unpack = |record: &[u8]| unpacked(record, false, 1 << 20).expect("little");
        assert!(unpack(&record(9, b"plain")).is_none());
        let found = unpack(&record(COMPRESSED, b"no zstd at all")).expect("packed");
        assert!(!found.is_whole && found.records.is_empty());
    }

    #[test]
    fn a_bomb_is_noticed_while_it_unpacks() {
        let packed = zstd::encode_all(&[0; 10 << 20][..], 1).expect("packing");
        let found = unpacked(&record(COMPRESSED, &packed), false, 1 << 20);
        let Err(TooMuch(bytes)) = found else { panic!("10 MB where 1 MB is allowed") };
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
    }
}
