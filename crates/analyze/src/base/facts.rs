//! What several analyses need, each computed once, when it is first requested.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spanwise_model::{Nanos, Profile, SpanId, SpanKind, Trace};

use crate::cpu::host::HostStates;
use crate::gpu::classes::{class_use, span_classes};
use crate::gpu::syncs::AskedOperators;
use crate::gpu::usage::gpu_work;
use crate::training::phase_times::phase_use;
use crate::{
    ClassRules, ClassUse, CpuTime, CriticalPath, Frames, GpuUse, LaunchedWork, Memory, Names,
    PhaseUse, Phases, ProfileOptions, Rows, SelfTime, SpanClasses, ThreadTime, TotalNanos,
    WaitClassifier, critical_path, gpu_use, is_communication, profile, self_time, step_numbers,
    thread_times,
};

/// A trace and the results that analyses and outputs share.
///
/// Whoever keeps a trace for several requests keeps its `Facts`: there is no other memo. Classes
/// of work follow one set of rules, so that a result never depends on who requested it first.
pub struct Facts {
    trace: Arc<Trace>,
    rules: OnceLock<ClassRules>,
    names: OnceLock<Names>,
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
    launched_work: OnceLock<LaunchedWork>,
    /// By name: whether it is one of a kernel that communicates.
    communicates: OnceLock<Vec<bool>>,
    profile: OnceLock<Profile>,
    class_use: OnceLock<ClassUse>,
    phase_use: OnceLock<PhaseUse>,
    span_classes: OnceLock<SpanClasses>,
    step_numbers: OnceLock<Vec<Option<i64>>>,
    depths: OnceLock<Vec<u32>>,
    critical_path: Mutex<Option<KnownPath>>,
}

/// A critical path, and for how many of its items the gain was computed.
struct KnownPath {
    gains: usize,
    path: Arc<CriticalPath>,
}

impl Facts {
    pub fn new(trace: &Arc<Trace>) -> Self {
        Facts {
            trace: Arc::clone(trace),
            rules: OnceLock::new(),
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
            launched_work: OnceLock::new(),
            communicates: OnceLock::new(),
            profile: OnceLock::new(),
            class_use: OnceLock::new(),
            phase_use: OnceLock::new(),
            span_classes: OnceLock::new(),
            step_numbers: OnceLock::new(),
            depths: OnceLock::new(),
            critical_path: Mutex::new(None),
        }
    }

    /// The same with other rules for classes than those of the project.
    pub fn with_rules(trace: &Arc<Trace>, rules: ClassRules) -> Self {
        Facts { rules: OnceLock::from(rules), ..Facts::new(trace) }
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace for somebody who may outlive this.
    pub fn shared_trace(&self) -> Arc<Trace> {
        Arc::clone(&self.trace)
    }

    /// First and last nanosecond of the recording; equal in an empty trace.
    pub fn window(&self) -> (Nanos, Nanos) {
        self.trace.window().unwrap_or((0, 0))
    }

    pub fn window_ns(&self) -> TotalNanos {
        let (from, to) = self.window();
        i128::from(to) - i128::from(from)
    }

    /// The rules by which GPU work is classified.
    pub fn rules(&self) -> &ClassRules {
        self.rules.get_or_init(ClassRules::standard)
    }

    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::new(&self.trace))
    }

    pub fn frames(&self) -> &Frames {
        self.frames.get_or_init(|| Frames::new(&self.trace))
    }

    pub fn waits(&self) -> &WaitClassifier {
        self.waits.get_or_init(|| WaitClassifier::new(&self.trace))
    }

    pub fn phases(&self) -> &Phases {
        self.phases.get_or_init(|| Phases::new(&self.trace))
    }

    pub fn self_time(&self) -> &SelfTime {
        self.self_time.get_or_init(|| self_time(&self.trace))
    }

    pub fn gpu(&self) -> &GpuUse {
        self.gpu.get_or_init(|| gpu_use(&self.trace, self.frames(), self.names()))
    }

    /// Every thread that has spans, the one that worked longest first.
    pub fn threads(&self) -> &[ThreadTime] {
        self.threads.get_or_init(|| thread_times(&self.trace, self.self_time(), self.waits()))
    }

    /// When the threads that launch GPU work worked, and when they waited.
    pub(crate) fn host_states(&self) -> &HostStates {
        self.host_states.get_or_init(|| HostStates::new(&self.trace, self.waits()))
    }

    /// What the program asked for around each span.
    pub(crate) fn asked_operators(&self) -> &AskedOperators {
        self.asked_operators.get_or_init(|| AskedOperators::new(&self.trace))
    }

    /// CPU time, divided among samples.
    pub fn cpu_time(&self) -> &CpuTime {
        self.cpu_time.get_or_init(|| CpuTime::new(&self.trace))
    }

    /// Allocations and frees of each device.
    pub fn memory(&self) -> &Memory {
        self.memory.get_or_init(|| Memory::with_callers(&self.trace))
    }

    /// GPU work by the call that launched it.
    pub fn launched_work(&self) -> &LaunchedWork {
        self.launched_work.get_or_init(|| LaunchedWork::of(&self.trace))
    }

    /// Whether a span is a kernel that communicates.
    pub fn is_communication(&self, span: SpanId) -> bool {
        self.trace.kind(span) == SpanKind::Kernel
            && self.communicates.get_or_init(|| self.communicating_names())
                [self.trace.spans().name(span).index()]
    }

    fn communicating_names(&self) -> Vec<bool> {
        let (spans, strings) = (self.trace.spans(), self.trace.strings());
        let mut known: Vec<Option<bool>> = vec![None; strings.len()];
        for work in gpu_work(&self.trace) {
            let name = spans.name(work);
            known[name.index()].get_or_insert_with(|| is_communication(strings.get(name)));
        }
        known.into_iter().map(|known| known == Some(true)).collect()
    }

    /// The profile of the trace, with the usual options.
    pub fn profile(&self) -> &Profile {
        self.profile.get_or_init(|| profile(&self.trace, &ProfileOptions::default()))
    }

    /// GPU time by class of work.
    pub fn class_use(&self) -> &ClassUse {
        self.class_use.get_or_init(|| class_use(self))
    }

    /// Time, GPU work and tokens of phases and steps.
    pub fn phase_use(&self) -> &PhaseUse {
        self.phase_use.get_or_init(|| phase_use(self))
    }

    /// The class of each span's GPU work.
    pub fn span_classes(&self) -> &SpanClasses {
        self.span_classes.get_or_init(|| span_classes(self))
    }

    /// The number of the step that each span belongs to.
    pub fn step_numbers(&self) -> &[Option<i64>] {
        self.step_numbers.get_or_init(|| step_numbers(&self.trace))
    }

    /// How many spans are around each span.
    pub fn depths(&self) -> &[u32] {
        self.depths.get_or_init(|| {
            let tracks = self.trace.tracks().rows().iter();
            tracks.flat_map(|track| Rows::depths(&self.trace, track)).collect()
        })
    }

    /// The critical path, with the potential gain of at least so many items: a gain is expensive,
    /// so it is computed only for those who show items.
    pub fn critical_path(&self, gains: usize) -> Arc<CriticalPath> {
        let mut known = self.critical_path.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match known.take().filter(|known| known.gains >= gains) {
            Some(path) => known.insert(path),
            None => {
                let path = Arc::new(critical_path(self, gains));
                known.insert(KnownPath { gains, path })
            }
        };
        Arc::clone(&known.path)
    }
}
