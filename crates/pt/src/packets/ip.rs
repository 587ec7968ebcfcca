//! Addresses in packets: only the bytes that differ from the address before are written.

/// Which bytes of an address a packet holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpForm {
    /// None: tracing of the address is not permitted.
    Absent,
    /// The lower two; the others are those of the preceding address.
    Low16,
    /// The lower four; the others are those of the preceding address.
    Low32,
    /// The lower six; the others are those of the preceding address.
    Low48,
    /// The lower six; the upper two repeat the highest bit.
    Extended48,
    /// All eight.
    Full,
}

impl IpForm {
    /// From the upper three bits of a packet's first byte.
    pub(crate) fn from_bits(bits: u8) -> Option<IpForm> {
        Some(match bits {
            0 => IpForm::Absent,
            1 => IpForm::Low16,
            2 => IpForm::Low32,
            3 => IpForm::Extended48,
            4 => IpForm::Low48,
            6 => IpForm::Full,
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u8 {
        match self {
            IpForm::Absent => 0,
            IpForm::Low16 => 1,
            IpForm::Low32 => 2,
            IpForm::Extended48 => 3,
            IpForm::Low48 => 4,
            IpForm::Full => 6,
        }
    }

    /// How many bytes follow.
    pub(crate) fn len(self) -> usize {
        match self {
            IpForm::Absent => 0,
            IpForm::Low16 => 2,
            IpForm::Low32 => 4,
            IpForm::Extended48 | IpForm::Low48 => 6,
            IpForm::Full => 8,
        }
    }
}

/// An address as a packet holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Which bytes there are.
    pub form: IpForm,
    /// These bytes; the others are zero.
    pub bits: u64,
}

impl Ip {
    /// A packet without an address.
    pub const ABSENT: Ip = Ip { form: IpForm::Absent, bits: 0 };
}

/// The preceding address, whose upper bytes the next one may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastIp(u64);

impl LastIp {
    /// The whole address; `None` if the packet has none.
    #[inline]
    pub fn resolve(&mut self, ip: Ip) -> Option<u64> {
        let keeping = |bits: u32| self.0 & (u64::MAX << bits) | ip.bits;
        self.0 = match ip.form {
            IpForm::Absent => return None,
            IpForm::Low16 => keeping(16),
            IpForm::Low32 => keeping(32),
            IpForm::Low48 => keeping(48),
            IpForm::Extended48 => extended48(ip.bits),
            IpForm::Full => ip.bits,
        };
        Some(self.0)
    }

    /// The shortest form of an address.
    pub fn shorten(&mut self, whole: u64) -> Ip {
        let differs = self.0 ^ whole;
        let form = match () {
            () if differs >> 16 == 0 => IpForm::Low16,
            () if differs >> 32 == 0 => IpForm::Low32,
            () if extended48(whole & LOW48) == whole => IpForm::Extended48,
            () if differs >> 48 == 0 => IpForm::Low48,
            () => IpForm::Full,
        };
        self.0 = whole;
        let bits = match form {
            IpForm::Low16 => whole & 0xffff,
            IpForm::Low32 => whole & 0xffff_ffff,
            IpForm::Low48 | IpForm::Extended48 => whole & LOW48,
            IpForm::Full | IpForm::Absent => whole,
        };
        Ip { form, bits }
    }
}

const LOW48: u64 = (1 << 48) - 1;

fn extended48(bits: u64) -> u64 {
    ((bits << 16) as i64 >> 16) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: u64, form: IpForm, bits: u64, expected: Option<u64>) {
        let mut last = LastIp(before);
        assert_eq!(last.resolve(Ip { form, bits }), expected);
        assert_eq!(last, LastIp(expected.unwrap_or(before)));
    }

    #[test]
    fn missing_bytes_are_those_of_the_address_before() {
        const BEFORE: u64 = 0x1122_3344_5566_7788;
        check(BEFORE, IpForm::Absent, 0, None);
        check(BEFORE, IpForm::Low16, 0xaaaa, Some(0x1122_3344_5566_aaaa));
        check(BEFORE, IpForm::Low32, 0xaaaa_bbbb, Some(0x1122_3344_aaaa_bbbb));
        check(BEFORE, IpForm::Low48, 0xaaaa_bbbb_cccc, Some(0x1122_aaaa_bbbb_cccc));
        check(BEFORE, IpForm::Extended48, 0xaaaa_bbbb_cccc, Some(0xffff_aaaa_bbbb_cccc));
        check(BEFORE, IpForm::Extended48, 0x7aaa_bbbb_cccc, Some(0x7aaa_bbbb_cccc));
        check(BEFORE, IpForm::Full, 1, Some(1));
    }

    #[test]
    fn addresses_are_shortened_as_far_as_they_can() {
        let check = |before: u64, whole: u64, form: IpForm| {
            let (mut writes, mut reads) = (LastIp(before), LastIp(before));
            let ip = writes.shorten(whole);
            assert_eq!((ip.form, reads.resolve(ip)), (form, Some(whole)));
            assert_eq!(writes, reads);
        };
        check(0x40_0000, 0x40_1234, IpForm::Low16);
        check(0x40_0000, 0x55_1234, IpForm::Low32);
        check(0, 0x7fff_1234_5678, IpForm::Extended48);
        check(0x7fff_1234_5678, 0xffff_ffff_8100_0000, IpForm::Extended48);
        check(0x1122_0000_0000_0000, 0x1122_8000_0000_0000, IpForm::Low48);
        check(0, 0x1122_8000_0000_0000, IpForm::Full);
    }
}
