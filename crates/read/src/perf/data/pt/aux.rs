//! The hardware's own trace inside a recording: its bytes, and what perf says about them.

use spanwise_pt::{ClockRates, DecodeOptions, TickScale};

use crate::perf::data::file::bytes::Bytes;
use crate::perf::data::file::header::Header;
use crate::perf::data::file::records::RawRecord;
use spanwise_recording::perf::record_kind::{AUXTRACE, AUXTRACE_INFO};

/// The number of Intel PT among the sorts of traces.
const INTEL_PT: u32 = 1;

/// What perf says about the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) options: DecodeOptions,
    pub(super) scale: TickScale,
    /// Pieces are copies of one ring, made from time to time.
    pub(super) are_snapshots: bool,
}

impl Info {
    /// How fast the core runs: the counter's own speed is known, and so are both ratios.
    pub(super) fn mhz(&self, core_ratio: u8) -> u64 {
        let ratio = u128::from(self.options.rates.counter_ratio);
        let divisor = u128::from(self.scale.factor) * ratio;
        if divisor == 0 {
            return 0;
        }
        let ticks_per_us = (1000_u128 << self.scale.shift.min(63)) * u128::from(core_ratio);
        u64::try_from(ticks_per_us / divisor).unwrap_or(u64::MAX)
    }
}

/// A piece of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Pieces of one number follow one another.
    pub(super) queue: u32,
    /// Whose it is; negative where it is of whatever ran on the processor.
    pub(super) tid: i32,
    pub(super) cpu: i32,
    /// Where in the ring it began, in bytes since the recording began.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    /// A time near it, in ticks.
    pub(super) reference: u64,
}

/// What was recorded of Intel PT, if anything.
pub(super) fn read<'a>(header: &'a Header<'a>) -> Option<(Info, Vec<Piece<'a>>)> {
    let mut bytes = Bytes::new(&header.data, header.is_big_endian);
    let (mut info, mut pieces) = (None, Vec::new());
    while let Some(record) = RawRecord::read(&mut bytes) {
        let behind = record.len_behind().min(bytes.len());
        let behind = bytes.take(behind).unwrap_or_default();
        match record.kind {
            AUXTRACE_INFO => info = info.or(read_info(record.body(), header)),
            AUXTRACE => pieces.extend(read_piece(record.body(), behind)),
            _ => {}
        }
    }
    let mut info: Info = info?;
    info.options.ticks_near = pieces.first().map_or(0, |piece: &Piece<'_>| piece.reference);
    Some((info, pieces))
}

fn read_piece<'a>(mut body: Bytes<'_>, bytes: &'a [u8]) -> Option<Piece<'a>> {
    let (_size, offset, reference) = (body.u64()?, body.u64()?, body.u64()?);
    let (queue, tid, cpu) = (body.u32()?, body.i32()?, body.i32()?);
    Some(Piece { queue, tid, cpu, offset, bytes, reference })
}

fn read_info(mut body: Bytes<'_>, header: &Header<'_>) -> Option<Info> {
    if body.u32()? != INTEL_PT {
        return None;
    }
    body.u32()?;
    let mut next = || body.u64();
    let (pmu, shift, factor, zero) = (next()?, next()?, next()?, next()?);
    let (has_zero, _tsc, no_short_returns) = (next()?, next()?, next()?);
    let (_switches, is_snapshots, _per_cpu, _mtc) = (next()?, next()?, next()?, next()?);
    let (mtc_bits, ticks, per, _cyc) = (next()?, next()?, next()?, next()?);
    let ratio = next().unwrap_or(0);
    let event = header.events.iter().find(|event| u64::from(event.kind) == pmu);
    let config = event.map_or(0, |event| event.config);
    let crystal_shift = match mtc_bits {
        0 => 0,
        bits => (config & bits) >> bits.trailing_zeros(),
    };
    let narrow = |number: u64| u32::try_from(number).unwrap_or(0);
    let rates = ClockRates {
        ticks_per_crystal: (narrow(ticks), narrow(per)),
        crystal_shift: crystal_shift.min(15) as u8,
        counter_ratio: u8::try_from(ratio).unwrap_or(0),
    };
    let has_all_returns = config & no_short_returns != 0;
    let options = DecodeOptions { rates, has_all_returns, ticks_near: 0 };
    let shift = u16::try_from(shift).unwrap_or(0).min(63);
    // Without it ticks cannot be converted to the time of the other records.
    let factor = if has_zero == 0 { 0 } else { narrow(factor) };
    let scale = TickScale { shift, factor, zero };
    Some(Info { options, scale, are_snapshots: is_snapshots != 0 })
}
