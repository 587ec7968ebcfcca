//! What is recorded of threads, and all that is opened for it.

use std::io;
use std::os::fd::OwnedFd;

use crate::budget::Wanted;
use crate::event::{Attr, Event};
use crate::family::Family;
use crate::follow::Followed;
use crate::pt::{Asked, Tracer};
use crate::rings::{self, Rings, TraceMemory};
use crate::session::RecordOptions;
use crate::waits::{WaitOptions, Waits};
use crate::watch::Watch;
use crate::{Ability, CaptureError, processes};

/// What is recorded of threads: samples of a clock, or the processor's own trace.
pub(crate) enum What {
    Clock(Attr),
    Trace(Asked, TraceMemory),
}

const CLOCK: &str = "cpu-clock";

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

    /// Opens the events of all processors, where one may, or else those of all threads of these
    /// processes; they begin at once, or when a process runs its program.
    pub(crate) fn open(&self, pids: &[i32], is_from_exec: bool) -> io::Result<Threads> {
        let followed = self.for_processors(pids, is_from_exec);
        let (mut rings, followed) =
            followed.map_or((None, None), |(rings, followed)| (Some(rings), Some(followed)));
        let is_for_threads = rings.is_none();
        let tids = processes::for_all_threads(pids, |tids| match &mut rings {
            None => self.for_threads(tids, is_from_exec).map(|new| rings = Some(new)),
            Some(rings) if is_for_threads => rings.add_threads(tids),
            Some(_) => Ok(()),
        })?;
        let rings = rings.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        if !is_from_exec {
            rings.enable()?;
        }
        Ok(Threads { rings, followed, tids })
    }

    /// What hardware traces is too much of everybody.
    fn for_processors(&self, pids: &[i32], is_from_exec: bool) -> Option<(Rings, Followed)> {
        let What::Clock(attr) = self else { return None };
        let followed = Followed::begin(pids, is_from_exec).ok()?;
        let choose = |event: &OwnedFd| followed.choose_samples(event);
        let rings = Rings::open_for_processors(CLOCK, *attr, choose).ok()?;
        Some((rings, followed))
    }

    fn for_threads(&self, tids: &[i32], is_from_exec: bool) -> io::Result<Rings> {
        let begins = |attr: Attr| if is_from_exec { attr.beginning_at_exec() } else { attr };
        match self {
            What::Clock(attr) => Rings::open(CLOCK, begins(*attr), tids),
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

/// The threads of processes, with their events.
pub(crate) struct Threads {
    rings: Rings,
    /// Where the events are those of processors.
    followed: Option<Followed>,
    tids: Vec<i32>,
}

/// All that is open from the beginning.
pub(crate) struct Opened {
    pub(crate) rings: Rings,
    /// Where the rings tell of all processes.
    pub(crate) family: Option<Family>,
    pub(crate) waits: Waits,
    pub(crate) tracer: Option<Tracer>,
}

impl Opened {
    pub(crate) fn new(
        what: What,
        Threads { rings, followed, tids }: Threads,
        pids: &[i32],
        (options, is_from_exec): (&RecordOptions<'_>, bool),
    ) -> Result<Opened, CaptureError> {
        let family = followed.as_ref().map(|_| Family::new(pids));
        let waits = wait_options(options, is_from_exec);
        let waits = Waits::open(waits, &rings, (&tids, followed));
        let mut tracer = None;
        if let What::Trace(asked, memory) = what {
            let mut new = Tracer::new(asked.source, memory.keeps_last, &rings);
            let cannot = |error| CaptureError::io("mappings cannot be recorded", error);
            new.open_side(&rings, &tids, is_from_exec).map_err(cannot)?;
            tracer = Some(new);
        }
        Ok(Opened { rings, family, waits, tracer })
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
