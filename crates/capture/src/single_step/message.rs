//! What the tracer says to the recorder: records of the file `steps.branches`, and three sorts
//! that are for the recorder alone.

use libc::pid_t;

/// Numbers of records.
pub(super) mod kind {
    pub(crate) const FUNCTION: u32 = 1;
    pub(crate) const BEGAN: u32 = 2;
    pub(crate) const TAKEN: u32 = 3;
    pub(crate) const ENDED: u32 = 4;
    /// Not in the file.
    pub(crate) const EXECUTED: u32 = 100;
    pub(crate) const TROUBLE: u32 = 101;
    pub(crate) const TRACED: u32 = 102;
}

pub(super) fn function(name: &str) -> Vec<u8> {
    record(kind::FUNCTION, name.as_bytes())
}

pub(super) fn began(
    region: u32,
    (pid, tid): (pid_t, pid_t),
    (time, address): (u64, u64),
) -> Vec<u8> {
    let mut body = Vec::from(time.to_le_bytes());
    body.extend(region.to_le_bytes());
    body.extend(pid.to_le_bytes());
    body.extend(tid.to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend(address.to_le_bytes());
    record(kind::BEGAN, &body)
}

/// Each with time, from, to, and which sort.
pub(super) fn taken(region: u32, branches: &[[u64; 4]]) -> Vec<u8> {
    let time = branches.last().map_or(0, |branch| branch[0]);
    let mut body = Vec::from(time.to_le_bytes());
    body.extend(region.to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend(branches.iter().flatten().flat_map(|word| word.to_le_bytes()));
    record(kind::TAKEN, &body)
}

pub(super) fn ended(region: u32, time: u64, why: u32, instructions: u64) -> Vec<u8> {
    let mut body = Vec::from(time.to_le_bytes());
    body.extend(region.to_le_bytes());
    body.extend(why.to_le_bytes());
    body.extend(instructions.to_le_bytes());
    record(kind::ENDED, &body)
}

pub(super) fn executed(pid: pid_t) -> Vec<u8> {
    record(kind::EXECUTED, &pid.to_le_bytes())
}

pub(super) fn traced(pid: pid_t) -> Vec<u8> {
    record(kind::TRACED, &pid.to_le_bytes())
}

pub(super) fn trouble(text: &str) -> Vec<u8> {
    record(kind::TROUBLE, text.as_bytes())
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(kind.to_le_bytes());
    bytes.extend((8 + body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The whole records at the beginning of some bytes: kind, and all of it.
pub(super) fn whole(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let head: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
        let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (record, rest) = bytes.split_at_checked(len).filter(|_| len >= 8)?;
        bytes = rest;
        Some((kind, record))
    })
}

/// Every record of a region begins with its time.
pub(super) fn time_of(record: &[u8]) -> u64 {
    record.get(8..16).and_then(|time| time.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_not_whole_wait_for_the_rest() {
        let bytes =
            [began(1, (2, 3), (44, 5)), taken(1, &[[45, 1, 2, 3]]), ended(1, 46, 0, 9)].concat();
        let found: Vec<(u32, u64)> =
            whole(&bytes).map(|(kind, record)| (kind, time_of(record))).collect();
        assert_eq!(found, [(kind::BEGAN, 44), (kind::TAKEN, 45), (kind::ENDED, 46)]);
        assert_eq!(whole(&bytes[..bytes.len() - 1]).count(), 2);
        assert_eq!(whole(&[0; 8]).count(), 0);
    }
}
