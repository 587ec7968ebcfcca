//! Clocks of a Perfetto trace, and how they lead to the one clock of ours.
//!
//! The clock since boot is ours. Other system clocks keep the distance that the latest
//! snapshot shows. Writers may count in clocks of their own, numbered from 64 on, whose
//! times are differences from one event to the next.

use std::collections::HashMap;

use spanwise_model::Nanos;
use spanwise_protobuf::Value;

const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;
const FIRST_OWN: u64 = 64;

/// One reading of one clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    clock: u64,
    time: i64,
    is_incremental: bool,
    unit_ns: i64,
}

/// The readings of a `ClockSnapshot`.
pub(super) fn readings(snapshot: Value<'_>) -> Vec<Reading> {
    let mut readings = Vec::new();
    snapshot.message().each(|number, value| {
        if number != 1 {
            return;
        }
        let mut reading = Reading { clock: 0, time: 0, is_incremental: false, unit_ns: 1 };
        value.message().each(|number, value| match number {
            1 => reading.clock = value.number(),
            2 => reading.time = value.number() as i64,
            3 => reading.is_incremental = value.number() != 0,
            4 => reading.unit_ns = (value.number() as i64).max(1),
            _ => {}
        });
        readings.push(reading);
    });
    readings
}

/// A clock of a writer's own.
#[derive(Debug, Clone, Copy)]
struct OwnClock {
    is_incremental: bool,
    unit_ns: i64,
    last_ns: i64,
    /// What to add to get to our clock.
    distance: i64,
}

#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// What to add to a system clock.
    distances: HashMap<u64, i64>,
    own: HashMap<(u64, u64), OwnClock>,
    pub(super) base_time_ns: Option<i64>,
}

impl Clocks {
    pub(super) fn snapshot(&mut self, sequence: u64, readings: &[Reading]) {
        let of_system = |reading: &&Reading| reading.clock < FIRST_OWN;
        let find = |clock| readings.iter().find(|reading| reading.clock == clock);
        let reference = find(BOOTTIME).or_else(|| readings.iter().find(of_system));
        let ns = |reading: &Reading| reading.time.saturating_mul(reading.unit_ns);
        let now = reference.map(|reading| {
            let known = self.distances.get(&reading.clock).copied().unwrap_or(0);
            ns(reading).saturating_add(known)
        });
        for reading in readings {
            let distance = now.map_or(0, |now| now.saturating_sub(ns(reading)));
            if reading.clock >= FIRST_OWN {
                let clock = OwnClock {
                    is_incremental: reading.is_incremental,
                    unit_ns: reading.unit_ns,
                    last_ns: ns(reading),
                    distance,
                };
                self.own.insert((sequence, reading.clock), clock);
            } else if reading.clock != BOOTTIME {
                self.distances.insert(reading.clock, distance);
            }
        }
        if let (None, Some(real), Some(now)) = (self.base_time_ns, find(REALTIME), now) {
            self.base_time_ns = Some(ns(real).saturating_sub(now));
        }
    }

    /// A time of some clock, on ours.
    pub(super) fn time(&mut self, sequence: u64, clock: Option<u64>, time: u64) -> Nanos {
        let (clock, time) = (clock.unwrap_or(BOOTTIME), time as i64);
        let Some(own) = self.own.get_mut(&(sequence, clock)) else {
            let distance = self.distances.get(&clock).copied().unwrap_or(0);
            return time.saturating_add(distance);
        };
        let ns = time.saturating_mul(own.unit_ns);
        own.last_ns = if own.is_incremental { own.last_ns.saturating_add(ns) } else { ns };
        own.last_ns.saturating_add(own.distance)
    }
}
