//! The sections of a report: what each is called, what it is about, what computes it.
//!
//! A section is computed only when it is shown, and several at once on several cores.

use spanwise_analyze::{
    FunctionBy, architecture, breakdown, calls, counted_calls, cpu_functions, hot_functions,
    hottest_functions, idle, launches, layer_use, lock_threads, locks, memory_churn, memory_peak,
    memory_timeline, memory_use, metrics, module_use, off_cpu, off_cpu_reasons, other_events,
    python_functions, queues, roofline, syncs,
};
use spanwise_model::{map_indices, threads_available};
use spanwise_write::{Section, Top};

use crate::ReportRequest;

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
    build: fn(&ReportRequest<'_>) -> Section,
}

/// `--section all` shows every one.
pub const ALL: &str = "all";

/// All sections, in order of a report.
pub const SECTIONS: &[SectionRow] = &[
    SectionRow {
        key: "trace",
        about: "what the trace is",
        shown: Shown::Always,
        build: |request| spanwise_write::trace_section(&request.source()),
    },
    SectionRow {
        key: "findings",
        about: "what deserves attention first, with numbers and advice",
        shown: Shown::Always,
        build: |request| spanwise_write::findings_section(&request.findings(), request.top),
    },
    SectionRow {
        key: "python",
        about: "CPU time by Python function, native code that it called included",
        shown: Shown::WhereRecorded,
        build: |request| {
            let functions = python_functions(request.facts, FunctionBy::Function);
            let (title, time) = ("CPU time by Python function", request.facts.cpu_time());
            spanwise_write::python_section("python", title, &functions, time, request.top)
        },
    },
    SectionRow {
        key: "python-lines",
        about: "CPU time by line of Python",
        shown: Shown::WhereRecorded,
        build: |request| {
            let lines = python_functions(request.facts, FunctionBy::Line);
            let (title, time) = ("CPU time by Python line", request.facts.cpu_time());
            spanwise_write::python_section("python-lines", title, &lines, time, request.top)
        },
    },
    SectionRow {
        key: "cpu",
        about: "CPU time by function, of recordings that took samples",
        shown: Shown::WhereRecorded,
        build: |request| {
            let functions = cpu_functions(request.facts, FunctionBy::Function);
            spanwise_write::cpu_section(&functions, request.facts.cpu_time(), request.top)
        },
    },
    SectionRow {
        key: "events",
        about: "functions by page faults, cache misses and other sampled events",
        shown: Shown::WhereRecorded,
        build: |request| {
            let events = other_events(request.facts, FunctionBy::Function);
            spanwise_write::events_section(&events, request.top)
        },
    },
    SectionRow {
        key: "waits",
        about: "off-CPU time by reason and stack, where switches were recorded",
        shown: Shown::WhereRecorded,
        build: |request| {
            spanwise_write::off_cpu_reasons_section(&off_cpu_reasons(request.facts), request.top)
        },
    },
    SectionRow {
        key: "metrics",
        about: "single numbers with exact meanings, for --check",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::metrics_section(&metrics(request.facts)),
    },
    SectionRow {
        key: "gpu",
        about: "busy and idle time of each GPU",
        shown: Shown::Always,
        build: |request| spanwise_write::devices_section(request.facts.gpu()),
    },
    SectionRow {
        key: "breakdown",
        about: "compute, exposed communication and copies, idle; by step",
        shown: Shown::WhereRecorded,
        build: |request| spanwise_write::breakdown_section(&breakdown(request.facts), request.top),
    },
    SectionRow {
        key: "idle",
        about: "idle GPU time by cause",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::idle_section(&idle(request.facts), request.top),
    },
    SectionRow {
        key: "launches",
        about: "launching calls: latency, queueing, calls longer than their work",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::launches_section(&launches(request.facts), request.top),
    },
    SectionRow {
        key: "queue",
        about: "launched work waiting to start, by stream",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::queue_section(&queues(request.facts), request.top),
    },
    SectionRow {
        key: "syncs",
        about: "where the host waits for the GPU, and what that costs",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::syncs_section(&syncs(request.facts), request.top),
    },
    SectionRow {
        key: "phases",
        about: "prefill, decode, forward, backward and so on: time, GPU work, tokens",
        shown: Shown::Always,
        build: |request| spanwise_write::phases_section(request.facts.phase_use()),
    },
    SectionRow {
        key: "steps",
        about: "each step: time, GPU work, tokens",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::steps_section(request.facts.phase_use(), request.top),
    },
    SectionRow {
        key: "classes",
        about: "GPU time by class of work: attention, matrix products, copies and so on",
        shown: Shown::Always,
        build: |request| spanwise_write::classes_section(request.facts.class_use()),
    },
    SectionRow {
        key: "roofline",
        about: "operators against what the GPU can do: FLOP/s, GB/s, by shape",
        shown: Shown::OnRequest,
        build: |request| {
            spanwise_write::roofline_section(
                &roofline(request.facts, &request.devices),
                request.top,
            )
        },
    },
    SectionRow {
        key: "modules",
        about: "GPU and host time by module of the model, as a tree",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::modules_section(&module_use(request.facts), request.top),
    },
    SectionRow {
        key: "layers",
        about: "GPU and host time of each layer",
        shown: Shown::OnRequest,
        build: |request| spanwise_write::layers_section(&layer_use(request.facts), request.top),
    },
    SectionRow {
        key: "architecture",
        about: "what sort of model ran, and what shows it",
        shown: Shown::OnRequest,
        build: |request| {
            let architecture = architecture(request.facts, request.facts.class_use());
            spanwise_write::architecture_section(&architecture)
        },
    },
    SectionRow {
        key: "critical-path",
        about: "the chain that the end of the window waited for, by kind",
        shown: Shown::OnRequest,
        build: |request| {
            spanwise_write::critical_path_section(&request.critical_path(), request.top)
        },
    },
    SectionRow {
        key: "critical-items",
        about: "functions and kernels on that chain, and what each could gain",
        shown: Shown::OnRequest,
        build: |request| {
            spanwise_write::critical_items_section(&request.critical_path(), request.top)
        },
    },
    SectionRow {
        key: "kernels",
        about: "kernels by name, and what launched them",
        shown: Shown::Always,
        build: |request| spanwise_write::kernels_section(request.facts.gpu(), request.top),
    },
    SectionRow {
        key: "copies",
        about: "copies and fills by name, and what launched them",
        shown: Shown::Always,
        build: |request| spanwise_write::copies_section(request.facts.gpu(), request.top),
    },
    SectionRow {
        key: "gpu-lines",
        about: "GPU time by the line of Python that launched it",
        shown: Shown::Always,
        build: |request| spanwise_write::lines_section(request.facts.gpu(), request.top),
    },
    SectionRow {
        key: "memory",
        about: "each device, where recorded: peak, end, unused, how much was asked for",
        shown: Shown::WhereRecorded,
        build: |request| {
            spanwise_write::memory_section(&memory_use(request.facts), request.unread_memory())
        },
    },
    SectionRow {
        key: "memory-peak",
        about: "who held the memory at the peak, by line and operator",
        shown: Shown::OnRequest,
        build: |request| {
            let (rows, unread) = (memory_peak(request.facts), request.unread_memory());
            spanwise_write::memory_peak_section(&rows, unread, request.top)
        },
    },
    SectionRow {
        key: "memory-churn",
        about: "who asked for memory how often, by line and operator",
        shown: Shown::OnRequest,
        build: |request| {
            let (rows, unread) = (memory_churn(request.facts), request.unread_memory());
            spanwise_write::memory_churn_section(&rows, unread, request.top)
        },
    },
    SectionRow {
        key: "memory-timeline",
        about: "memory over time, the most in each of --top slices",
        shown: Shown::OnRequest,
        build: |request| {
            let slices = match request.top {
                Top::All => None,
                Top::First(slices) => Some(slices),
            };
            let rows = memory_timeline(request.facts, slices);
            spanwise_write::memory_timeline_section(&rows, request.unread_memory())
        },
    },
    SectionRow {
        key: "threads",
        about: "self time of each thread by kind, and waiting",
        shown: Shown::Always,
        build: |request| {
            let (threads, wall_ns) = (request.facts.threads(), request.facts.window_ns());
            spanwise_write::threads_section(threads, wall_ns, request.top)
        },
    },
    SectionRow {
        key: "offcpu",
        about: "each thread, where recorded: running, blocked on what, waiting for a CPU",
        shown: Shown::WhereRecorded,
        build: |request| spanwise_write::off_cpu_section(&off_cpu(request.facts), request.top),
    },
    SectionRow {
        key: "counted-calls",
        about: "calls that were counted instead of being recorded (run --calls), by function",
        shown: Shown::WhereRecorded,
        build: |request| {
            spanwise_write::counted_calls_section(&counted_calls(request.facts), request.top)
        },
    },
    SectionRow {
        key: "locks",
        about: "waits for locks, where recorded, by lock and call stack",
        shown: Shown::WhereRecorded,
        build: |request| spanwise_write::locks_section(&locks(request.facts), request.top),
    },
    SectionRow {
        key: "lock-threads",
        about: "waits for locks by thread and sort of lock",
        shown: Shown::OnRequest,
        build: |request| {
            spanwise_write::lock_threads_section(&lock_threads(request.facts), request.top)
        },
    },
    SectionRow {
        key: "calls",
        about: "functions by self time, and how long each call takes",
        shown: Shown::OnRequest,
        build: |request| {
            let rows = calls(request.facts);
            spanwise_write::calls_section(&rows, request.facts.window_ns(), request.top)
        },
    },
    SectionRow {
        key: "functions",
        about: "functions by self time",
        shown: Shown::Always,
        build: |request| {
            // Reports of recordings have these in sections of their own.
            let hot = match request.has_named("functions") {
                true => hottest_functions(request.facts),
                false => hot_functions(request.facts),
            };
            spanwise_write::functions_section(&hot, request.top)
        },
    },
];

/// The sections that were named, in order of the report; by default those that are
/// part of every report, and those that this trace fills.
pub fn report_sections(request: &ReportRequest<'_>) -> Vec<Section> {
    let is_requested = |row: &&SectionRow| match request.sections {
        [] => row.shown != Shown::OnRequest,
        _ => request.has_named(row.key),
    };
    let rows: Vec<&SectionRow> = SECTIONS.iter().filter(is_requested).collect();
    let sections = map_indices(rows.len(), threads_available(), |at| {
        let section = (rows[at].build)(request);
        let is_always = !request.sections.is_empty() || rows[at].shown == Shown::Always;
        (is_always || !section.is_empty()).then_some(section)
    });
    sections.into_iter().flatten().collect()
}

/// Whether a report on a trace has it.
pub fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|row| row.key == name)
}
