//! Samples, and the thread and time that other records carry behind them.

use spanwise_recording::perf::sample_field as bit;
use spanwise_symbols::Registers;

use super::bytes::Bytes;
use super::header::Event;

/// Who and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Common {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) time: Option<u64>,
    pub(crate) cpu: Option<u32>,
    pub(crate) id: Option<u64>,
}

/// One sample, as far as a timeline needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sample<'a> {
    pub(crate) common: Common,
    pub(crate) ip: Option<u64>,
    /// How many events it stands for; 0 where that was not recorded.
    pub(crate) period: u64,
    /// Addresses from the innermost on, with marks between kernel and program.
    pub(crate) chain: Option<Vec<u64>>,
    /// What a tracepoint recorded.
    pub(crate) raw: &'a [u8],
    /// Registers and memory of the program, for finding its stack.
    pub(crate) stack: Option<UserStack<'a>>,
}

/// The upper end of a thread's stack, and the registers that lead into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserStack<'a> {
    pub(crate) registers: Registers,
    memory: Bytes<'a>,
}

impl UserStack<'_> {
    /// What the thread had at an address, where that was copied.
    pub(crate) fn word_at(&self, address: u64) -> Option<u64> {
        let mut memory = self.memory;
        memory.skip(usize::try_from(address.checked_sub(self.registers.sp)?).ok()?)?;
        memory.u64()
    }
}

/// More frames than any kernel records are no stack.
const CHAIN_MAX: u64 = 1 << 16;

impl<'a> Sample<'a> {
    /// `None` where it is shorter than its event says.
    pub(crate) fn read(mut bytes: Bytes<'a>, event: &Event) -> Option<Sample<'a>> {
        let has = |bit: u64| event.sample_type & bit != 0;
        let mut sample = Sample { period: event.period, ..Sample::default() };
        if has(bit::IDENTIFIER) {
            sample.common.id = Some(bytes.u64()?);
        }
        if has(bit::IP) {
            sample.ip = Some(bytes.u64()?);
        }
        if has(bit::TID) {
            (sample.common.pid, sample.common.tid) = (bytes.i32()?, bytes.i32()?);
        }
        if has(bit::TIME) {
            sample.common.time = Some(bytes.u64()?);
        }
        if has(bit::ADDR) {
            bytes.u64()?;
        }
        if has(bit::ID) {
            sample.common.id = Some(bytes.u64()?);
        }
        if has(bit::STREAM_ID) {
            bytes.u64()?;
        }
        if has(bit::CPU) {
            sample.common.cpu = Some(bytes.u32()?);
            bytes.u32()?;
        }
        if has(bit::PERIOD) {
            sample.period = bytes.u64()?;
        }
        if has(bit::READ) {
            skip_read(&mut bytes, event.read_format)?;
        }
        if has(bit::CALLCHAIN) {
            let count = bytes.u64()?;
            if count > CHAIN_MAX {
                return None;
            }
            sample.chain = Some(bytes.u64s(count)?.collect());
        }
        if has(bit::RAW) {
            let len = usize::try_from(bytes.u32()?).ok()?;
            sample.raw = bytes.take(len)?;
        }
        // What is missing from here on costs the program's own stack, not the sample.
        sample.stack = read_stack(bytes, event);
        Some(sample)
    }
}

/// The numbers of registers of x86-64 in the mask of an event: bp, sp, ip.
const REGISTERS: [u32; 3] = [6, 7, 8];

fn read_stack<'a>(mut bytes: Bytes<'a>, event: &Event) -> Option<UserStack<'a>> {
    let has = |bit: u64| event.sample_type & bit != 0;
    if !has(bit::REGS_USER) || !has(bit::STACK_USER) {
        return None;
    }
    if has(bit::BRANCH_STACK) {
        const HARDWARE_INDEX: u64 = 1 << 17;
        let count = bytes.u64()?;
        if event.branch_sample_type & HARDWARE_INDEX != 0 {
            bytes.u64()?;
        }
        bytes.skip(usize::try_from(count).ok()?.checked_mul(24)?)?;
    }
    // Without a program there are no registers of it.
    if bytes.u64()? == 0 {
        return None;
    }
    let mask = event.regs_user;
    let values: Vec<u64> = bytes.u64s(mask.count_ones().into())?.collect();
    let [bp, sp, ip] = REGISTERS.map(|register| {
        let before = mask & ((1 << register) - 1);
        let is_kept = mask >> register & 1 == 1;
        is_kept.then(|| values.get(before.count_ones() as usize).copied()).flatten()
    });
    let size = bytes.u64()?;
    let (ip, sp, bp) = (ip?, sp?, bp?);
    let mut memory = bytes.take_some(usize::try_from(size).ok()?)?;
    // How much of it was really copied stands behind it.
    if size > 0
        && let Some(copied) = bytes.u64()
    {
        memory = memory.take_some(usize::try_from(copied.min(size)).ok()?)?;
    }
    Some(UserStack { registers: Registers { ip, sp, bp }, memory })
}

/// Passes over the values of counters.
fn skip_read(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    let [enabled, running, id, group, lost] = [1, 2, 4, 8, 16].map(|bit| format & bit != 0);
    let times = u64::from(enabled) + u64::from(running);
    let each = 1 + u64::from(id) + u64::from(lost);
    let values = match group {
        true => bytes.u64()?.checked_mul(each)?.checked_add(times)?,
        false => each + times,
    };
    bytes.u64s(values).map(|_| ())
}

/// The id of a sample, by which its event is found: the first field, where several events
/// differ in what they record.
pub(crate) fn sample_id(bytes: Bytes<'_>, events: &[Event]) -> Option<u64> {
    let first = events.first()?;
    if first.sample_type & bit::IDENTIFIER != 0 {
        return bytes.rest().u64();
    }
    Sample::read(bytes, first)?.common.id
}

impl Common {
    /// What stands behind another record than a sample.
    pub(crate) fn behind(body: &[u8], is_big_endian: bool, event: &Event) -> Common {
        let mut common = Common::default();
        if !event.has_sample_id {
            return common;
        }
        let fields = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
        let present: Vec<u64> =
            fields.into_iter().filter(|bit| event.sample_type & bit != 0).collect();
        let Some(from) = body.len().checked_sub(8 * present.len()) else { return common };
        let mut bytes = Bytes::new(&body[from..], is_big_endian);
        for field in present {
            match field {
                bit::TID => {
                    common.pid = bytes.i32().unwrap_or(0);
                    common.tid = bytes.i32().unwrap_or(0);
                }
                bit::TIME => common.time = bytes.u64(),
                bit::ID | bit::IDENTIFIER => common.id = bytes.u64(),
                bit::CPU => {
                    common.cpu = bytes.u32();
                    bytes.skip(4);
                }
                _ => drop(bytes.u64()),
            }
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn event(sample_type: u64, read_format: u64) -> Event {
        Event { sample_type, read_format, has_sample_id: true, ..Event::default() }
    }

    #[test]
    fn fields_come_in_the_kernels_order() {
        let all = bit::IP | bit::TID | bit::TIME | bit::PERIOD | bit::READ | bit::CALLCHAIN;
        let bytes = words(&[0x40, 7 << 32 | 5, 99, 1000, 1, 2, 3, 2, 0x40, 0x50]);
        // A value, how long it was counted, its id; or a group: how many, value, id.
        let read = |format| Sample::read(Bytes::new(&bytes, false), &event(all, format));
        assert_eq!(read(4 | 1), read(4 | 8));
        assert_eq!(read(8).and_then(|sample| sample.chain), Some(vec![2, 0x40, 0x50]));
        let sample = read(4 | 1);
        let sample = sample.expect("whole");
        let common = Common { pid: 5, tid: 7, time: Some(99), cpu: None, id: None };
        assert_eq!((sample.common, sample.period), (common, 1000));
        assert_eq!(sample.chain, Some(vec![0x40, 0x50]));
    }

    #[test]
    fn others_carry_it_behind_them() {
        let event = event(bit::TID | bit::TIME | bit::CPU | bit::IDENTIFIER | bit::IP, 0);
        let body = words(&[1, 2, 7 << 32 | 5, 99, 3, 42]);
        let found = Common::behind(&body, false, &event);
        assert_eq!(found, Common { pid: 5, tid: 7, time: Some(99), cpu: Some(3), id: Some(42) });
        assert_eq!(Common::behind(&body[..8], false, &event), Common::default());
    }
}
