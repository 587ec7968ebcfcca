//! What `run` and `attach` say about calls that were recorded one by one.

use spanwise_capture::{
    BrakedFunction, CallLevel, CallsRecorded, NotedBy, RefusedFunction, ReturnsBy,
};

use crate::args::ResultArgs;
use crate::failure::note;

/// Functions that are named, at most.
const NAMED_MAX: usize = 5;

pub(in crate::commands) fn report(calls: Option<&CallsRecorded>, args: &ResultArgs) {
    let Some(calls) = calls else { return };
    if calls.functions > 0 && !args.quiet {
        let by = match calls.by {
            NotedBy::Probes => ", by uprobes",
            NotedBy::Bpf(ReturnsBy::Stepping) => ", with returns in single steps",
            NotedBy::Bpf(ReturnsBy::Program) => ", with returns performed in the kernel",
        };
        note(&format!(
            "{} beginnings and ends of calls of {} functions{by}",
            count(calls.records),
            count(calls.functions)
        ));
    }
    if calls.too_many > 0 {
        let why = match calls.by {
            NotedBy::Probes => {
                "by uprobes only a few can be; BPF, for more, needs root and Linux 6.6"
            }
            NotedBy::Bpf(_) => "--exclude leaves out those that do not matter",
        };
        note(&format!("{} functions more fit and are not watched: {why}", count(calls.too_many)));
    }
    if calls.lost > 0 {
        note(&format!(
            "{} beginnings and ends of calls are lost: there was no room for them; fewer \
             functions (--exclude) need less",
            count(calls.lost)
        ));
    }
    if calls.late_processes > 0 {
        note(&format!(
            "{} processes were forked whose first calls of functions in shared libraries may be \
             missing: programs that are not recorded use these libraries, too, and are left alone",
            count(calls.late_processes)
        ));
    }
    if calls.counted > 0 && !args.quiet {
        note(&format!("{} calls were counted in the kernel", count(calls.counted)));
    }
    calls.braked.iter().take(NAMED_MAX).for_each(report_braked);
    if calls.braked.len() > NAMED_MAX {
        let more = (calls.braked.len() - NAMED_MAX) as u64;
        note(&format!("{} functions more were recorded less closely at last", count(more)));
    }
    report_refused(&calls.refused);
}

/// What became of a function whose calls cost too much.
fn report_braked(braked: &BrakedFunction) {
    let what = match braked.level {
        CallLevel::Recorded => return,
        CallLevel::Counted => "were counted",
        CallLevel::CountedWithoutEnds => "were counted without their ends",
        CallLevel::Detached => "were not watched any more",
    };
    note(&format!(
        "{}: calls cost more than --calls-budget allows; after {} calls they {what}, from {} on",
        braked.name,
        count(braked.calls),
        spanwise_write::nanos_text(braked.after_ns.into())
    ));
}

/// Which functions are not watched, and why.
fn report_refused(refused: &[RefusedFunction]) {
    for RefusedFunction { name, why } in refused.iter().take(NAMED_MAX) {
        note(&format!("{name} is not watched: {why}"));
    }
    if refused.len() > NAMED_MAX {
        let more = (refused.len() - NAMED_MAX) as u64;
        note(&format!(
            "{} functions more are not watched; recording.json has the reasons",
            count(more)
        ));
    }
}

fn count(number: u64) -> String {
    spanwise_write::count_text(number.into())
}
