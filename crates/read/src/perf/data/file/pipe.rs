//! A recording that was written to a pipe: `perf record -o -`.
//!
//! Nothing can be written at its head afterwards, so what the head of a file holds comes in
//! records between the others.

use std::borrow::Cow;

use spanwise_recording::perf::record_kind as kind;

use super::bytes::Bytes;
use super::header;
use super::header::{Header, MAGIC};
use super::records::RawRecord;

/// An update of an event that sets its name.
const UPDATE_NAME: u64 = 2;

/// Collects what the records say of the recording as a whole.
pub(crate) fn read_into<'a>(header: &mut Header<'a>, file: &'a [u8]) {
    let head = MAGIC.len() + 8;
    let data = &file[head.min(file.len())..];
    (header.data, header.data_offset) = (Cow::Borrowed(data), head as u64);
    let mut bytes = Bytes::new(data, header.is_big_endian);
    while let Some(record) = RawRecord::read(&mut bytes) {
        let behind = bytes.take(record.len_behind().min(bytes.len())).unwrap_or_default();
        match record.kind {
            kind::HEADER_ATTR => read_event(header, record.body).unwrap_or(()),
            kind::TRACING_DATA => {
                header.read_feature(header::TRACING_DATA, Bytes::new(behind, false));
            }
            kind::BUILD_ID => {
                // As in the head of a file, where the record has its own length before it.
                let len = (record.body.len() + 8) as u16;
                let len = if header.is_big_endian { len.to_be_bytes() } else { len.to_le_bytes() };
                let whole = [&[0; 6][..], &len, record.body].concat();
                let whole = Bytes::new(&whole, header.is_big_endian);
                header.read_feature(header::BUILD_ID, whole);
            }
            kind::EVENT_UPDATE => rename_event(header, record.body()).unwrap_or(()),
            kind::HEADER_FEATURE => {
                let mut body = record.body();
                if let Some(bit) = body.u64().and_then(|bit| u32::try_from(bit).ok()) {
                    header.read_feature(bit, body);
                }
            }
            _ => {}
        }
    }
    header.is_cut = bytes.len() > 0;
}

/// An event as `perf_event_attr`, which says its own size, and the ids behind it.
fn read_event(header: &mut Header<'_>, body: &[u8]) -> Option<()> {
    let mut bytes = Bytes::new(body, header.is_big_endian);
    bytes.skip(4)?;
    let size = usize::try_from(bytes.u32()?).ok()?;
    let (attr, ids) = body.split_at_checked(size)?;
    let mut event = header.event(attr)?;
    let count = ids.len() as u64 / 8;
    event.ids = Bytes::new(ids, header.is_big_endian).u64s(count)?.collect();
    if header.events.len() < header::EVENTS_MAX {
        header.events.push(event);
    }
    Some(())
}

fn rename_event(header: &mut Header<'_>, mut body: Bytes<'_>) -> Option<()> {
    let (kind, id) = (body.u64()?, body.u64()?);
    let event = header.events.iter_mut().find(|event| event.ids.contains(&id))?;
    if kind == UPDATE_NAME {
        event.name = body.text();
    }
    Some(())
}
