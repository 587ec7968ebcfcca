//! The sections of a report: what each is called, what it is about, what computes it.
//!
//! A section is worked out only when it is shown, and several at once on several cores.

use std::sync::OnceLock;

use spanwise_analyze::{
    ClassRules, ClassUse, CriticalPath, DevicePeaks, Facts, Finding, FunctionBy, PhaseUse,
    Thresholds, architecture, breakdown, calls, class_use, counted_calls, cpu_functions,
    critical_path, findings, hot_functions, hottest_functions, idle, launches, layer_use,
    lock_threads, locks, memory_churn, memory_peak, memory_timeline, memory_use, metrics,
    module_use, off_cpu, off_cpu_reasons, other_events, phase_use, python_functions, queues,
    roofline, syncs,
};
use spanwise_model::{map_indices, threads_available};
use spanwise_write::{Section, Source, Top};

/// What a section is made from.
pub struct Asked<'a, 't> {
    pub facts: &'a Facts<'t>,
    pub source: Source<'a>,
    pub thresholds: Thresholds,
    pub classes: ClassRules,
    pub devices: DevicePeaks,
    pub top: Top,
    /// The sections that were named; none for the usual ones.
    pub named: &'a [String],
    pub answers: Answers,
}

/// Answers that several sections show parts of.
#[derive(Default)]
pub struct Answers {
    classes: OnceLock<ClassUse>,
    phases: OnceLock<PhaseUse>,
    critical: OnceLock<CriticalPath>,
}

impl Asked<'_, '_> {
    fn classes(&self) -> &ClassUse {
        self.answers.classes.get_or_init(|| class_use(self.facts, &self.classes))
    }

    fn phases(&self) -> &PhaseUse {
        self.answers.phases.get_or_init(|| phase_use(self.facts, &self.classes))
    }

    /// What items would gain is dear, and worked out only for those who look at items.
    fn critical(&self) -> &CriticalPath {
        self.answers.critical.get_or_init(|| {
            let gains = if self.is_named("critical-items") { self.top.rows() } else { 0 };
            critical_path(self.facts, gains)
        })
    }

    fn is_named(&self, key: &str) -> bool {
        self.named.iter().any(|name| name == key || name == ALL)
    }

    pub fn findings(&self) -> Vec<Finding> {
        findings(self.facts, &self.thresholds)
    }

    fn unread_memory(&self) -> u64 {
        self.facts.memory().unread
    }
}

/// When a section is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Part of every report.
    Always,
    /// Part of every report of a trace that has something to say about it.
    WhereRecorded,
    /// Only where `--section` names it.
    OnRequest,
}

/// One section of the report.
pub struct SectionRow {
    pub key: &'static str,
    /// A few words for the help.
    pub about: &'static str,
    pub shown: Shown,
    build: fn(&Asked<'_, '_>) -> Section,
}

/// `--section all` shows every one.
pub const ALL: &str = "all";

/// All sections, in order of a report.
pub const SECTIONS: &[SectionRow] = &[
    SectionRow {
        key: "trace",
        about: "what the trace is",
        shown: Shown::Always,
        build: |asked| spanwise_write::trace_section(&asked.source),
    },
    SectionRow {
        key: "findings",
        about: "what deserves attention first, with numbers and advice",
        shown: Shown::Always,
        build: |asked| spanwise_write::findings_section(&asked.findings(), asked.top),
    },
    SectionRow {
        key: "python",
        about: "CPU time by Python function, native code that it called included",
        shown: Shown::WhereRecorded,
        build: |asked| {
            let functions = python_functions(asked.facts, FunctionBy::Function);
            let (title, time) = ("CPU time by Python function", asked.facts.cpu_time());
            spanwise_write::python_section("python", title, &functions, time, asked.top)
        },
    },
    SectionRow {
        key: "python-lines",
        about: "CPU time by line of Python",
        shown: Shown::WhereRecorded,
        build: |asked| {
            let lines = python_functions(asked.facts, FunctionBy::Line);
            let (title, time) = ("CPU time by Python line", asked.facts.cpu_time());
            spanwise_write::python_section("python-lines", title, &lines, time, asked.top)
        },
    },
    SectionRow {
        key: "cpu",
        about: "CPU time by function, of recordings that took samples",
        shown: Shown::WhereRecorded,
        build: |asked| {
            let functions = cpu_functions(asked.facts, FunctionBy::Function);
            spanwise_write::cpu_section(&functions, asked.facts.cpu_time(), asked.top)
        },
    },
    SectionRow {
        key: "events",
        about: "functions by page faults, cache misses and other sampled events",
        shown: Shown::WhereRecorded,
        build: |asked| {
            let events = other_events(asked.facts, FunctionBy::Function);
            spanwise_write::events_section(&events, asked.top)
        },
    },
    SectionRow {
        key: "waits",
        about: "off-CPU time by reason and stack, where switches were recorded",
        shown: Shown::WhereRecorded,
        build: |asked| {
            spanwise_write::off_cpu_reasons_section(&off_cpu_reasons(asked.facts), asked.top)
        },
    },
    SectionRow {
        key: "metrics",
        about: "single numbers with exact meanings, for --check",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::metrics_section(&metrics(asked.facts)),
    },
    SectionRow {
        key: "gpu",
        about: "busy and idle time of each GPU",
        shown: Shown::Always,
        build: |asked| spanwise_write::devices_section(asked.facts.gpu()),
    },
    SectionRow {
        key: "breakdown",
        about: "compute, exposed communication and copies, idle; by step",
        shown: Shown::WhereRecorded,
        build: |asked| spanwise_write::breakdown_section(&breakdown(asked.facts), asked.top),
    },
    SectionRow {
        key: "idle",
        about: "idle GPU time by cause",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::idle_section(&idle(asked.facts), asked.top),
    },
    SectionRow {
        key: "launches",
        about: "launching calls: latency, queueing, calls longer than their work",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::launches_section(&launches(asked.facts), asked.top),
    },
    SectionRow {
        key: "queue",
        about: "launched work waiting to start, by stream",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::queue_section(&queues(asked.facts), asked.top),
    },
    SectionRow {
        key: "syncs",
        about: "where the host waits for the GPU, and what that costs",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::syncs_section(&syncs(asked.facts), asked.top),
    },
    SectionRow {
        key: "phases",
        about: "prefill, decode, forward, backward and so on: time, GPU work, tokens",
        shown: Shown::Always,
        build: |asked| spanwise_write::phases_section(asked.phases()),
    },
    SectionRow {
        key: "steps",
        about: "each step: time, GPU work, tokens",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::steps_section(asked.phases(), asked.top),
    },
    SectionRow {
        key: "classes",
        about: "GPU time by class of work: attention, matrix products, copies and so on",
        shown: Shown::Always,
        build: |asked| spanwise_write::classes_section(asked.classes()),
    },
    SectionRow {
        key: "roofline",
        about: "operators against what the GPU can do: FLOP/s, GB/s, by shape",
        shown: Shown::OnRequest,
        build: |asked| {
            spanwise_write::roofline_section(&roofline(asked.facts, &asked.devices), asked.top)
        },
    },
    SectionRow {
        key: "modules",
        about: "GPU and host time by module of the model, as a tree",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::modules_section(&module_use(asked.facts), asked.top),
    },
    SectionRow {
        key: "layers",
        about: "GPU and host time of each layer",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::layers_section(&layer_use(asked.facts), asked.top),
    },
    SectionRow {
        key: "architecture",
        about: "what sort of model ran, and what shows it",
        shown: Shown::OnRequest,
        build: |asked| {
            let architecture = architecture(asked.facts, asked.classes());
            spanwise_write::architecture_section(&architecture)
        },
    },
    SectionRow {
        key: "critical-path",
        about: "the chain that the end of the window waited for, by kind",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::critical_path_section(asked.critical(), asked.top),
    },
    SectionRow {
        key: "critical-items",
        about: "functions and kernels on that chain, and what each could gain",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::critical_items_section(asked.critical(), asked.top),
    },
    SectionRow {
        key: "kernels",
        about: "kernels by name, and what launched them",
        shown: Shown::Always,
        build: |asked| spanwise_write::kernels_section(asked.facts.gpu(), asked.top),
    },
    SectionRow {
        key: "copies",
        about: "copies and fills by name, and what launched them",
        shown: Shown::Always,
        build: |asked| spanwise_write::copies_section(asked.facts.gpu(), asked.top),
    },
    SectionRow {
        key: "gpu-lines",
        about: "GPU time by the line of Python that launched it",
        shown: Shown::Always,
        build: |asked| spanwise_write::lines_section(asked.facts.gpu(), asked.top),
    },
    SectionRow {
        key: "memory",
        about: "each device, where recorded: peak, end, unused, how much was asked for",
        shown: Shown::WhereRecorded,
        build: |asked| {
            spanwise_write::memory_section(&memory_use(asked.facts), asked.unread_memory())
        },
    },
    SectionRow {
        key: "memory-peak",
        about: "who held the memory at the peak, by line and operator",
        shown: Shown::OnRequest,
        build: |asked| {
            let (rows, unread) = (memory_peak(asked.facts), asked.unread_memory());
            spanwise_write::memory_peak_section(&rows, unread, asked.top)
        },
    },
    SectionRow {
        key: "memory-churn",
        about: "who asked for memory how often, by line and operator",
        shown: Shown::OnRequest,
        build: |asked| {
            let (rows, unread) = (memory_churn(asked.facts), asked.unread_memory());
            spanwise_write::memory_churn_section(&rows, unread, asked.top)
        },
    },
    SectionRow {
        key: "memory-timeline",
        about: "memory over time, the most in each of --top slices",
        shown: Shown::OnRequest,
        build: |asked| {
            let slices = match asked.top {
                Top::All => None,
                Top::First(slices) => Some(slices),
            };
            let rows = memory_timeline(asked.facts, slices);
            spanwise_write::memory_timeline_section(&rows, asked.unread_memory())
        },
    },
    SectionRow {
        key: "threads",
        about: "self time of each thread by kind, and waiting",
        shown: Shown::Always,
        build: |asked| {
            let (threads, wall_ns) = (asked.facts.threads(), asked.facts.window_ns());
            spanwise_write::threads_section(threads, wall_ns, asked.top)
        },
    },
    SectionRow {
        key: "offcpu",
        about: "each thread, where recorded: running, blocked on what, waiting for a CPU",
        shown: Shown::WhereRecorded,
        build: |asked| spanwise_write::off_cpu_section(&off_cpu(asked.facts), asked.top),
    },
    SectionRow {
        key: "counted-calls",
        about: "calls that were counted instead of being recorded (run --calls), by function",
        shown: Shown::WhereRecorded,
        build: |asked| {
            spanwise_write::counted_calls_section(&counted_calls(asked.facts), asked.top)
        },
    },
    SectionRow {
        key: "locks",
        about: "waits for locks, where recorded, by lock and call stack",
        shown: Shown::WhereRecorded,
        build: |asked| spanwise_write::locks_section(&locks(asked.facts), asked.top),
    },
    SectionRow {
        key: "lock-threads",
        about: "waits for locks by thread and sort of lock",
        shown: Shown::OnRequest,
        build: |asked| spanwise_write::lock_threads_section(&lock_threads(asked.facts), asked.top),
    },
    SectionRow {
        key: "calls",
        about: "functions by self time, and how long each call takes",
        shown: Shown::OnRequest,
        build: |asked| {
            let rows = calls(asked.facts);
            spanwise_write::calls_section(&rows, asked.facts.window_ns(), asked.top)
        },
    },
    SectionRow {
        key: "functions",
        about: "functions by self time",
        shown: Shown::Always,
        build: |asked| {
            // Reports of recordings have these in sections of their own.
            let hot = match asked.is_named("functions") {
                true => hottest_functions(asked.facts),
                false => hot_functions(asked.facts),
            };
            spanwise_write::functions_section(&hot, asked.top)
        },
    },
];

/// The sections that were named, in order of the report; by default those that are
/// part of every report, and those that this trace fills.
pub fn chosen(asked: &Asked<'_, '_>) -> Vec<Section> {
    let is_chosen = |row: &&SectionRow| match asked.named {
        [] => row.shown != Shown::OnRequest,
        _ => asked.is_named(row.key),
    };
    let rows: Vec<&SectionRow> = SECTIONS.iter().filter(is_chosen).collect();
    let sections = map_indices(rows.len(), threads_available(), |place| {
        let section = (rows[place].build)(asked);
        let is_always = !asked.named.is_empty() || rows[place].shown == Shown::Always;
        (is_always || !section.is_empty()).then_some(section)
    });
    sections.into_iter().flatten().collect()
}

/// Whether a report on a trace has it.
pub fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|row| row.key == name)
}
