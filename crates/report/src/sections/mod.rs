//! The sections of a report, each declared once: key, title, help, when it is shown, its method in
//! Python, and what it shows.
//!
//! The help of `report`, the methods of `Trace` in Python, their type stubs, the tables of
//! docs/reference/sections.md and the JSON schema follow from the declarations; tests compare what
//! is written down with them. A section is computed only when it is shown, and several at once on
//! several cores.

pub(super) mod cpu;
pub(super) mod findings;
pub(super) mod gpu;
mod memory;
pub(super) mod overview;
pub(super) mod profile;
pub(super) mod range;
pub(super) mod ranks;
mod training;

use spanwise_analyze::Facts;
use spanwise_model::{map_indices, threads_available};
use spanwise_write::{Content, Section};

use crate::ReportRequest;

/// When a section is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Part of every report.
    Always,
    /// Part of every report of a trace that has something to say about it.
    WhereRecorded,
    /// Only where `--section` names it.
    OnRequest,
}

/// What a report is about; each has sections of its own.
pub trait Subject {
    /// What a section answers.
    type Request<'a>;
}

/// One trace.
pub struct OneTrace;

impl Subject for OneTrace {
    type Request<'a> = ReportRequest<'a>;
}

/// The declaration of a section.
pub struct SectionDef<S: Subject = OneTrace> {
    /// Its name for `--section`, and in JSON and CSV.
    pub key: &'static str,
    /// Its heading; some say more about the trace at hand.
    pub title: &'static str,
    /// A few words for the help.
    pub about: &'static str,
    pub shown: Shown,
    /// The method of `Trace` or `Fleet` in Python; empty where there is none.
    pub method: &'static str,
    content: for<'a> fn(&S::Request<'a>) -> Content,
}

impl<S: Subject> SectionDef<S> {
    fn section(&self, request: &S::Request<'_>) -> Section {
        (self.content)(request).section(self.key, self.title)
    }
}

/// `--section all` shows every one.
pub const ALL: &str = "all";

/// All sections, in order of a report.
pub const SECTIONS: &[&SectionDef] = &[
    &overview::TRACE,
    &findings::FINDINGS,
    &cpu::sampled::PYTHON,
    &cpu::sampled::PYTHON_LINES,
    &cpu::sampled::CPU,
    &cpu::sampled::CPU_LINES,
    &cpu::sampled::EVENTS,
    &cpu::off_cpu::WAITS,
    &overview::METRICS,
    &gpu::usage::GPU,
    &gpu::breakdown::BREAKDOWN,
    &gpu::breakdown::IDLE,
    &gpu::launches::LAUNCHES,
    &gpu::launches::QUEUE,
    &gpu::launches::SYNCS,
    &training::phases::PHASES,
    &training::phases::STEPS,
    &gpu::classes::CLASSES,
    &gpu::roofline::ROOFLINE,
    &training::modules::MODULES,
    &training::modules::LAYERS,
    &training::modules::ARCHITECTURE,
    &gpu::critical::CRITICAL_PATH,
    &gpu::critical::CRITICAL_ITEMS,
    &gpu::usage::KERNELS,
    &gpu::usage::COPIES,
    &gpu::usage::GPU_LINES,
    &memory::MEMORY,
    &memory::MEMORY_PEAK,
    &memory::MEMORY_CHURN,
    &memory::MEMORY_TIMELINE,
    &cpu::threads::THREADS,
    &cpu::off_cpu::OFF_CPU,
    &cpu::counted_calls::COUNTED_CALLS,
    &cpu::off_cpu::LOCKS,
    &cpu::off_cpu::LOCK_THREADS,
    &cpu::off_cpu::WAKERS,
    &cpu::calls::CALLS,
    &cpu::threads::FUNCTIONS,
];

/// What people want to know first of a recorded program: where its time went. Why comes then.
const PROGRAM_FIRST: &[&SectionDef] = &[
    &overview::TRACE,
    &cpu::sampled::PYTHON,
    &cpu::sampled::PYTHON_LINES,
    &cpu::sampled::CPU,
    &cpu::sampled::CPU_LINES,
    &cpu::off_cpu::WAITS,
    &cpu::off_cpu::OFF_CPU,
];

/// All sections, in the order for this trace. A trace of work on a GPU is read from its findings.
fn ordered(facts: &Facts) -> Vec<&'static SectionDef> {
    let mut defs = SECTIONS.to_vec();
    if facts.cpu_time().is_recorded() && facts.gpu().work_count == 0 {
        let place = |def: &&SectionDef| {
            let place = PROGRAM_FIRST.iter().position(|first| first.key == def.key);
            place.unwrap_or(PROGRAM_FIRST.len())
        };
        defs.sort_by_key(place);
    }
    defs
}

/// The sections that were named, in order of the report; by default those that are
/// part of every report, and those that this trace fills.
pub fn report_sections(request: &ReportRequest<'_>) -> Vec<Section> {
    named_sections(&ordered(request.facts), request, request.sections)
}

/// The sections that were named; where none is, those that are part of every report, and those that
/// have something to show.
fn named_sections<'a, S: Subject>(
    defs: &[&SectionDef<S>],
    request: &S::Request<'a>,
    named: &[String],
) -> Vec<Section>
where
    S::Request<'a>: Sync,
{
    let is_named = |key: &str| named.iter().any(|name| name == key || name == ALL);
    let is_requested = |def: &&&SectionDef<S>| match named {
        [] => def.shown != Shown::OnRequest,
        _ => is_named(def.key),
    };
    let defs: Vec<&&SectionDef<S>> = defs.iter().filter(is_requested).collect();
    let sections = map_indices(defs.len(), threads_available(), |at| {
        let section = defs[at].section(request);
        let is_always = !named.is_empty() || defs[at].shown == Shown::Always;
        (is_always || !section.is_empty()).then_some(section)
    });
    sections.into_iter().flatten().collect()
}

/// Whether a report on a trace has it.
pub fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|def| def.key == name)
}
