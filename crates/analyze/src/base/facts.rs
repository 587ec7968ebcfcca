//! What several questions need, each worked out once, when first asked for.

use std::sync::OnceLock;

use spanwise_model::{Nanos, Trace};

use crate::cpu::host::HostStates;
use crate::gpu::syncs::AskedOperators;
use crate::{
    CpuTime, Frames, GpuUse, Memory, Names, Phases, SelfTime, ThreadTime, TotalNanos,
    WaitClassifier, gpu_use, self_time, thread_times,
};

/// A trace and the answers that others build on.
pub struct Facts<'a> {
    trace: &'a Trace,
    names: OnceLock<Names<'a>>,
    frames: OnceLock<Frames>,
    waits: OnceLock<WaitClassifier>,
    phases: OnceLock<Phases>,
    self_time: OnceLock<SelfTime>,
    gpu: OnceLock<GpuUse>,
    threads: OnceLock<Vec<ThreadTime>>,
    host_states: OnceLock<HostStates>,
    memory: OnceLock<Memory>,
    asked_operators: OnceLock<AskedOperators>,
    cpu_time: OnceLock<CpuTime>,
}

impl<'a> Facts<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        Facts {
            trace,
            names: OnceLock::new(),
            frames: OnceLock::new(),
            waits: OnceLock::new(),
            phases: OnceLock::new(),
            self_time: OnceLock::new(),
            gpu: OnceLock::new(),
            threads: OnceLock::new(),
            host_states: OnceLock::new(),
            memory: OnceLock::new(),
            asked_operators: OnceLock::new(),
            cpu_time: OnceLock::new(),
        }
    }

    pub fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// First and last nanosecond of the recording; equal in an empty trace.
    pub fn window(&self) -> (Nanos, Nanos) {
        self.trace.window().unwrap_or((0, 0))
    }

    pub fn window_ns(&self) -> TotalNanos {
        let (from, to) = self.window();
        i128::from(to) - i128::from(from)
    }

    pub fn names(&self) -> &Names<'a> {
        self.names.get_or_init(|| Names::new(self.trace))
    }

    pub fn frames(&self) -> &Frames {
        self.frames.get_or_init(|| Frames::new(self.trace))
    }

    pub fn waits(&self) -> &WaitClassifier {
        self.waits.get_or_init(|| WaitClassifier::new(self.trace))
    }

    pub fn phases(&self) -> &Phases {
        self.phases.get_or_init(|| Phases::new(self.trace))
    }

    pub fn self_time(&self) -> &SelfTime {
        self.self_time.get_or_init(|| self_time(self.trace))
    }

    pub fn gpu(&self) -> &GpuUse {
        self.gpu.get_or_init(|| gpu_use(self.trace, self.frames(), self.names()))
    }

    /// Every thread that has spans, the one that worked longest first.
    pub fn threads(&self) -> &[ThreadTime] {
        self.threads.get_or_init(|| thread_times(self.trace, self.self_time(), self.waits()))
    }

    /// When the threads that launch GPU work worked, and when they waited.
    pub(crate) fn host_states(&self) -> &HostStates {
        self.host_states.get_or_init(|| HostStates::new(self.trace, self.waits()))
    }

    /// What the program asked for around each span.
    pub(crate) fn asked_operators(&self) -> &AskedOperators {
        self.asked_operators.get_or_init(|| AskedOperators::new(self.trace))
    }

    /// CPU time, divided among samples.
    pub fn cpu_time(&self) -> &CpuTime {
        self.cpu_time.get_or_init(|| CpuTime::new(self.trace))
    }

    /// Allocations and frees of each device.
    pub fn memory(&self) -> &Memory {
        self.memory.get_or_init(|| Memory::with_callers(self.trace))
    }
}
