//! Time, in ticks of the time stamp counter.
//!
//! A trace has four sources of time: the counter itself, rarely; the crystal clock, at a steady
//! rate; the core's cycles, whose length changes with its frequency; and the ratio of that
//! frequency. Each starts from the last value of a more precise one.

/// The relation between the clocks of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockRates {
    /// Ticks of the time stamp counter, in this many ticks of the crystal clock. 0 if unknown.
    pub ticks_per_crystal: (u32, u32),
    /// The lowest bit of the crystal clock's counter that packets have.
    pub crystal_shift: u8,
    /// Ratio of the time stamp counter's frequency to that of the bus. 0 if unknown.
    pub counter_ratio: u8,
}

/// The current time, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clock {
    now: u64,
    /// The time from which cycles are counted.
    base: u64,
    cycles: u64,
    core_ratio: u8,
    crystal: Option<Crystal>,
}

/// The crystal clock since its last relation to the time stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crystal {
    /// The time of that relation.
    since: u64,
    /// Its ticks since then.
    elapsed: u64,
    last: CrystalReading,
}

/// A reading of the crystal clock's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrystalReading {
    Whole(u16),
    Part(u8),
}

impl Clock {
    /// 0 before the first time packet.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn core_ratio(&self) -> u8 {
        self.core_ratio
    }

    pub(crate) fn counter(&mut self, ticks: u64) {
        *self = Clock { now: ticks, base: ticks, core_ratio: self.core_ratio, ..Clock::default() };
    }

    pub(crate) fn relation(&mut self, ctc: u16, fast: u16) {
        let since = self.now.saturating_sub(fast.into());
        self.crystal = Some(Crystal { since, elapsed: 0, last: CrystalReading::Whole(ctc) });
    }

    pub(crate) fn ratio(&mut self, core_ratio: u8) {
        if core_ratio != self.core_ratio {
            (self.base, self.cycles, self.core_ratio) = (self.now, 0, core_ratio);
        }
    }

    #[inline]
    pub(crate) fn cycles(&mut self, cycles: u64, rates: &ClockRates) {
        self.cycles = self.cycles.saturating_add(cycles);
        if self.core_ratio != 0 {
            let ticks = scaled(self.cycles, rates.counter_ratio.into(), self.core_ratio.into());
            self.now = self.now.max(self.base.saturating_add(ticks));
        }
    }

    pub(crate) fn crystal(&mut self, part: u8, rates: &ClockRates) {
        let (ticks, per) = rates.ticks_per_crystal;
        if ticks == 0 || per == 0 {
            return;
        }
        let shift = u32::from(rates.crystal_shift.min(15));
        let Some(crystal) = &mut self.crystal else {
            self.crystal =
                Some(Crystal { since: self.now, elapsed: 0, last: CrystalReading::Part(part) });
            return;
        };
        crystal.elapsed += match crystal.last {
            CrystalReading::Part(last) => u64::from(part.wrapping_sub(last)) << shift,
            // Both know the bits from the lowest of the one to the highest of the other.
            CrystalReading::Whole(ctc) => {
                let mask = (1 << (shift + 8).min(16)) - 1;
                (u64::from(part) << shift).wrapping_sub(ctc.into()) & mask
            }
        };
        crystal.last = CrystalReading::Part(part);
        let at = crystal.since.saturating_add(scaled(crystal.elapsed, ticks, per));
        (self.base, self.cycles, self.now) = (at, 0, self.now.max(at));
    }
}

/// `count * factor / divisor`, saturating. A division of 128 bits takes longer than everything else
/// that a time packet needs.
#[inline]
fn scaled(count: u64, factor: u32, divisor: u32) -> u64 {
    match count.checked_mul(factor.into()) {
        Some(product) => product / u64::from(divisor),
        None => {
            let product = u128::from(count) * u128::from(factor) / u128::from(divisor);
            u64::try_from(product).unwrap_or(u64::MAX)
        }
    }
}

/// Converts ticks to nanoseconds with the numbers in the kernel's `perf_event_mmap_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TickScale {
    /// `time_shift`.
    pub shift: u16,
    /// `time_mult`.
    pub factor: u32,
    /// `time_zero`.
    pub zero: u64,
}

impl TickScale {
    /// `zero + ticks * factor / 2^shift`, saturating.
    pub fn nanos(&self, ticks: u64) -> u64 {
        let scaled = (u128::from(ticks) * u128::from(self.factor)) >> self.shift.min(127);
        let nanos = scaled.saturating_add(self.zero.into());
        // The kernel's sum wraps if its zero is before that of the counter.
        nanos as u64
    }

    /// The first tick of a nanosecond.
    pub fn ticks(&self, nanos: u64) -> u64 {
        let since = u128::from(nanos.wrapping_sub(self.zero));
        match self.factor {
            0 => 0,
            factor => {
                let ticks = (since << self.shift.min(63)).div_ceil(factor.into());
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter at 2.4 GHz, the crystal at 24 MHz, the bus at 100 MHz.
    const RATES: ClockRates =
        ClockRates { ticks_per_crystal: (200, 2), crystal_shift: 3, counter_ratio: 24 };

    #[test]
    fn the_ratio_gives_the_length_of_cycles() {
        let mut clock = Clock::default();
        clock.counter(1000);
        clock.cycles(10, &RATES);
        assert_eq!(clock.now(), 1000, "the length of a cycle is unknown");
        clock.counter(1000);
        clock.ratio(24);
        clock.cycles(10, &RATES);
        assert_eq!(clock.now(), 1010);
        clock.ratio(12);
        clock.cycles(5, &RATES);
        clock.cycles(5, &RATES);
        assert_eq!(clock.now(), 1030);
        clock.counter(5000);
        assert_eq!(clock.now(), 5000);
    }

    #[test]
    fn the_crystal_is_followed_from_the_counter_on() {
        let mut clock = Clock::default();
        clock.counter(10_000);
        // 40 ticks before, the crystal clock was at 0x7f6; the next packet is for 0x800.
        clock.relation(0x7f6, 40);
        clock.crystal(0x00, &RATES);
        assert_eq!(clock.now(), 10_000 - 40 + 10 * 100);
        clock.crystal(0x01, &RATES);
        assert_eq!(clock.now(), 10_000 - 40 + 18 * 100);
        // It wraps, and one that was lost makes no difference.
        clock.crystal(0x00, &RATES);
        assert_eq!(clock.now(), 10_000 - 40 + (10 + 256 * 8) * 100);
    }

    #[test]
    fn the_crystal_corrects_cycles_but_time_never_goes_back() {
        let mut clock = Clock::default();
        clock.counter(0);
        clock.ratio(24);
        clock.relation(0, 0);
        clock.cycles(900, &RATES);
        assert_eq!(clock.now(), 900);
        clock.crystal(1, &RATES);
        assert_eq!(clock.now(), 900);
        clock.cycles(50, &RATES);
        assert_eq!(clock.now(), 900);
        clock.cycles(100, &RATES);
        assert_eq!(clock.now(), 950);
    }

    #[test]
    fn a_coarse_crystal_uses_the_bits_of_both_packets() {
        let rates = ClockRates { crystal_shift: 12, ..RATES };
        let mut clock = Clock::default();
        clock.counter(0);
        clock.relation(0xf800, 0);
        clock.crystal(0x10, &rates);
        assert_eq!(clock.now(), 0x800 * 100);
    }

    #[test]
    fn ticks_become_nanoseconds_and_back() {
        let scale = TickScale { shift: 31, factor: 894_784_853, zero: 1_000_000 };
        assert_eq!(scale.nanos(2_400_000_000), 1_000_000 + 999_999_999);
        for nanos in [1_000_000, 1_000_001, 77_777_777_777] {
            let ticks = scale.ticks(nanos);
            assert!(scale.nanos(ticks) >= nanos);
            assert!(ticks == 0 || scale.nanos(ticks - 1) < nanos);
        }
        assert_eq!(TickScale::default().ticks(5), 0);
    }
}
