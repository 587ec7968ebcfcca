//! What a recording is asked for.

use std::path::Path;
use std::time::Duration;

use super::budget::RecordPolicy;
use super::open_events::ClockOf;
use crate::calls::CallsOptions;
use crate::perf::event::Stacks;
use crate::pt::PtOptions;
use crate::python::PythonOptions;
use crate::single_step::StepOptions;
use crate::triggers::conditions::Triggers;

/// How to record.
#[derive(Clone, Copy)]
pub struct RecordOptions<'a> {
    /// Samples a second of each running thread; no more than [`crate::RATE_MAX_HZ`].
    pub rate_hz: u32,
    pub clock: ClockOf,
    pub stacks: Stacks,
    /// When threads leave their processor and come back.
    pub switches: RecordPolicy,
    /// Stacks of threads when they leave their processor.
    pub wait_stacks: RecordPolicy,
    /// Waits of at least this long have their stack taken, and of shorter ones a share.
    pub wait_threshold: Duration,
    /// The recording ends after this time, if not before.
    pub duration: Option<Duration>,
    /// Read the functions of Python as well.
    pub python: Option<PythonOptions>,
    /// Record each call of chosen functions.
    pub calls: Option<CallsOptions<'a>>,
    /// Record every branch of a chosen function.
    pub step: Option<StepOptions<'a>>,
    /// Record the processor's own trace instead of samples; not with any of the above but the
    /// duration.
    pub pt: Option<PtOptions<'a>>,
    /// Children of processes that run already are recorded, too.
    pub children: bool,
    /// Let PyTorch's profiler run in a program that is started here.
    pub torch: bool,
    /// Keep the last records only, and save them when there is a reason to.
    pub flight: Option<FlightOptions<'a>>,
    /// The arguments of programs go into the recording, which may hold secrets; otherwise only
    /// their names.
    pub keeps_arguments: bool,
    /// The folder of the recording; a new one here, named after the program, if not given.
    pub folder: Option<&'a Path>,
}

/// How the last records are kept.
#[derive(Clone, Copy)]
pub struct FlightOptions<'a> {
    /// How much is kept.
    pub bytes: usize,
    pub triggers: Triggers<'a>,
    /// Called with a process that the signal which is watched would end from now on.
    pub warn_of_signal: &'a dyn Fn(i32),
    /// Go on after the first snapshot.
    pub takes_many: bool,
}
