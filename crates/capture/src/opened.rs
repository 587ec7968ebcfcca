//! What is recorded of threads, and all that is opened for it.

use std::io;

use crate::budget::Wanted;
use crate::event::{Attr, Event};
use crate::pt::{Asked, Tracer};
use crate::rings::{self, Rings, TraceMemory};
use crate::session::RecordOptions;
use crate::waits::{WaitOptions, Waits};
use crate::watch::Watch;
use crate::{Ability, CaptureError};

/// What is recorded of threads: samples of a clock, or the processor's own trace.
pub(crate) enum What {
    Clock(Attr),
    Trace(Asked, TraceMemory),
}

/// Enough for rings that are emptied all the time.
const TRACE_BYTES: usize = 256 << 20;

impl What {
    pub(crate) fn of(options: &RecordOptions<'_>) -> Result<What, CaptureError> {
        let Some(pt) = &options.pt else {
            return Ok(What::Clock(Attr::clock(options.rate_hz, options.stacks)));
        };
        let mut asked = Asked::of(pt)?;
        let (bytes, keeps_last) =
            options.flight.map_or((TRACE_BYTES, false), |flight| (flight.bytes, true));
        let filter = asked.filter.take();
        Ok(What::Trace(asked, TraceMemory { bytes, keeps_last, filter }))
    }

    pub(crate) fn open(&self, tids: &[i32], is_from_exec: bool) -> io::Result<Rings> {
        let begins = |attr: Attr| if is_from_exec { attr.beginning_at_exec() } else { attr };
        match self {
            What::Clock(attr) => Rings::open("cpu-clock", begins(*attr), tids),
            What::Trace(asked, memory) => {
                Rings::open_trace("intel_pt", begins(asked.attr), tids, memory)
            }
        }
    }

    pub(crate) fn refusal(&self, what: &str, error: io::Error) -> CaptureError {
        match self {
            What::Clock(_) => rings::refusal(what, error),
            What::Trace(asked, _) => {
                let ability = match asked.attr.has_kernel() && rings::is_refusal(&error) {
                    true => Ability::KernelFrames,
                    false => Ability::IntelPt,
                };
                let what = format!("{what}: cannot be recorded by Intel PT");
                CaptureError::io(what, error).lacks(ability)
            }
        }
    }
}

/// All that is open from the beginning.
pub(crate) struct Opened {
    pub(crate) rings: Rings,
    pub(crate) waits: Waits,
    pub(crate) tracer: Option<Tracer>,
}

impl Opened {
    pub(crate) fn new(
        what: What,
        rings: Rings,
        (pids, tids): (&[i32], &[i32]),
        (options, is_from_exec): (&RecordOptions<'_>, bool),
    ) -> Result<Opened, CaptureError> {
        let waits = Waits::open(wait_options(options, is_from_exec), &rings, (pids, tids));
        let mut tracer = None;
        if let What::Trace(asked, memory) = what {
            let mut new = Tracer::new(asked.source, memory.keeps_last, &rings);
            let cannot = |error| CaptureError::io("mappings cannot be recorded", error);
            new.open_side(&rings, tids, is_from_exec).map_err(cannot)?;
            tracer = Some(new);
        }
        Ok(Opened { rings, waits, tracer })
    }
}

/// All events, that of the rings first.
pub(crate) fn events(
    (rings, tracer): (&Rings, Option<&Tracer>),
    waits: &Waits,
    watch: Option<&Watch<'_>>,
) -> Vec<Event> {
    let mut events = vec![rings.event.clone()];
    events.extend(tracer.into_iter().flat_map(Tracer::events).cloned());
    events.extend(waits.events().cloned());
    events.extend(watch.into_iter().flat_map(Watch::events).cloned());
    events
}

fn wait_options(options: &RecordOptions<'_>, is_from_exec: bool) -> WaitOptions {
    let is_trigger = options.flight.is_some_and(|flight| flight.triggers.off_cpu.is_some());
    let is_needed = is_trigger || options.pt.is_some();
    let switches = if is_needed { Wanted::Always } else { options.switches };
    // What a thread did last before it waited is in the trace.
    let stacks = if options.pt.is_some() { Wanted::Never } else { options.wait_stacks };
    WaitOptions { switches, stacks, how: options.stacks, is_from_exec }
}
