//! What is recorded of threads, and all that is opened for it.

use std::io;

use spanwise_recording::perf::event_name::CPU_CLOCK;

use super::budget::RecordPolicy;
use super::options::RecordOptions;
use crate::follow::{Followed, FrameCopies};
use crate::perf::event::{Attr, Event};
use crate::perf::rings::{self, Rings, TraceMemory};
use crate::pt::{TraceRequest, Tracer};
use crate::system::processes;
use crate::triggers::watch::Watch;
use crate::waits::switches::{WaitOptions, Waits};
use crate::{Ability, CaptureError};

/// Whose clock says when a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockOf {
    /// That of processors, where one may.
    Auto,
    /// Costs threads that switch often nothing more, and interrupts others, too.
    Processors,
    Threads,
}

impl ClockOf {
    /// What options call each; the last name is an older one.
    pub const NAMES: [(&'static str, ClockOf); 4] = [
        ("auto", ClockOf::Auto),
        ("cpus", ClockOf::Processors),
        ("threads", ClockOf::Threads),
        ("processors", ClockOf::Processors),
    ];
}

/// What is recorded of threads: samples of a clock, or the processor's own trace.
pub(crate) enum ThreadSource {
    Clock(ClockOptions),
    Trace(TraceRequest, TraceMemory),
}

/// What is asked of a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockOptions {
    attr: Attr,
    of: ClockOf,
    /// Samples have frames of Python.
    reads_python: bool,
}

/// Enough for rings that are emptied all the time.
const TRACE_BYTES: usize = 256 << 20;

impl ThreadSource {
    pub(crate) fn of(options: &RecordOptions<'_>) -> Result<ThreadSource, CaptureError> {
        let Some(pt) = &options.pt else {
            let attr = Attr::clock(options.rate_hz, options.stacks);
            let (of, reads_python) = (options.clock, options.python.is_some());
            return Ok(ThreadSource::Clock(ClockOptions { attr, of, reads_python }));
        };
        let mut asked = TraceRequest::of(pt)?;
        let (bytes, keeps_last) =
            options.flight.map_or((TRACE_BYTES, false), |flight| (flight.bytes, true));
        let filter = asked.filter.take();
        Ok(ThreadSource::Trace(asked, TraceMemory { bytes, keeps_last, filter }))
    }

    /// Opens the events of processors, or of all threads of these processes, which begin at once
    /// or when a process runs its program.
    pub(crate) fn open(&self, pids: &[i32], is_from_exec: bool) -> io::Result<Threads> {
        let (followed, mut rings) = match self {
            ThreadSource::Clock(clock) => Threads::follow(pids, is_from_exec, *clock)?,
            // Of everybody it would be too much.
            ThreadSource::Trace(..) => (None, None),
        };
        let is_for_processors = rings.is_some();
        let tids = processes::for_all_threads(pids, |tids| match &mut rings {
            None => self.for_threads(tids, is_from_exec).map(|new| rings = Some(new)),
            Some(_) if is_for_processors => Ok(()),
            Some(rings) => rings.add_threads(tids),
        })?;
        let rings = rings.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        if !is_from_exec {
            rings.enable()?;
        }
        // What programs choose is seen inside of the kernel.
        let followed = followed.filter(|_| rings.event.attr.has_kernel());
        Ok(Threads { rings, followed, tids })
    }

    fn for_threads(&self, tids: &[i32], is_from_exec: bool) -> io::Result<Rings> {
        let begins = |attr: Attr| if is_from_exec { attr.beginning_at_exec() } else { attr };
        match self {
            ThreadSource::Clock(clock) => Rings::open(CPU_CLOCK, begins(clock.attr), tids),
            ThreadSource::Trace(asked, memory) => {
                Rings::open_trace("intel_pt", begins(asked.attr), tids, memory)
            }
        }
    }

    pub(crate) fn refusal(&self, what: &str, error: io::Error) -> CaptureError {
        match self {
            ThreadSource::Clock(ClockOptions { of: ClockOf::Processors, .. }) => {
                let what = format!("{what}: cannot be recorded by the clock of processors");
                CaptureError::io(what, error).lacks(Ability::ManySwitches)
            }
            ThreadSource::Clock(..) => rings::refusal(what, error),
            ThreadSource::Trace(asked, _) => {
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
    followed: Option<Followed>,
    tids: Vec<i32>,
}

impl Threads {
    /// Has the kernel follow threads, and opens the events of processors that are theirs then, as
    /// far as one may and as it is wanted.
    fn follow(
        pids: &[i32],
        is_from_exec: bool,
        ClockOptions { attr, of, reads_python }: ClockOptions,
    ) -> io::Result<(Option<Followed>, Option<Rings>)> {
        let followed = match (Followed::begin(pids, is_from_exec, reads_python), of) {
            (Err(error), ClockOf::Processors) => return Err(error),
            (followed, _) => followed.ok(),
        };
        let open = |followed: &Followed| {
            Rings::open_for_processors(CPU_CLOCK, attr, pids, |event| {
                followed.choose_samples(event)
            })
        };
        let rings = match (followed.as_ref().filter(|_| of != ClockOf::Threads).map(open), of) {
            (Some(Err(error)), ClockOf::Processors) => return Err(error),
            (rings, _) => rings.and_then(Result::ok),
        };
        Ok((followed, rings))
    }
}

/// All that is open from the beginning.
pub(crate) struct OpenEvents {
    pub(crate) rings: Rings,
    pub(crate) waits: Waits,
    pub(crate) tracer: Option<Tracer>,
    /// Where frames of Python are copied at samples.
    pub(crate) frames: Option<FrameCopies>,
}

impl OpenEvents {
    pub(crate) fn new(
        what: ThreadSource,
        Threads { rings, followed, tids }: Threads,
        options: &RecordOptions<'_>,
        is_from_exec: bool,
    ) -> Result<OpenEvents, CaptureError> {
        let frames = followed.as_ref().and_then(Followed::frame_copies);
        let waits = wait_options(options, is_from_exec);
        let waits = Waits::open(waits, &rings, &tids, followed);
        let mut tracer = None;
        if let ThreadSource::Trace(asked, memory) = what {
            let mut new = Tracer::new(asked.source, memory.keeps_last, &rings);
            let cannot = |error| CaptureError::io("mappings cannot be recorded", error);
            new.open_side(&rings, &tids, is_from_exec).map_err(cannot)?;
            tracer = Some(new);
        }
        Ok(OpenEvents { rings, waits, tracer, frames })
    }
}

/// All events, that of the rings first.
pub(crate) fn events(
    rings: &Rings,
    tracer: Option<&Tracer>,
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
    let switches = if is_needed { RecordPolicy::Always } else { options.switches };
    // What a thread did last before it waited is in the trace.
    let stacks = if options.pt.is_some() { RecordPolicy::Never } else { options.wait_stacks };
    let (how, threshold) = (options.stacks, options.wait_threshold);
    WaitOptions { switches, stacks, how, threshold, is_from_exec }
}
