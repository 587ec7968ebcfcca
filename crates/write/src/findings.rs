//! Findings in words: a title, the numbers behind it, what to do.

use spanwise_analyze::{Doing, Finding, FindingKind, GpuIdleCause, TotalNanos, WaitKind};

use crate::document::{Body, Paragraph, Section};
use crate::table::{Column, Table, Unit};
use crate::units::{count_text, nanos_text, percent_text};
use crate::{Top, text};

const COLUMNS: [Column; 8] = [
    Column::new("finding", "finding", Unit::Text),
    Column::new("title", "title", Unit::Text),
    Column::new("evidence", "evidence", Unit::Text),
    Column::new("advice", "advice", Unit::Text),
    Column::new("about", "about", Unit::Nanos),
    Column::new("from", "from", Unit::Nanos),
    Column::new("to", "to", Unit::Nanos),
    Column::new("line", "line", Unit::Text),
];

/// Names in a sentence are kept short; the tables have them in full.
const NAME_WIDTH: usize = 72;

pub(crate) fn findings_section(findings: &[Finding], top: Top) -> Section {
    let mut table = Table::new(COLUMNS);
    let mut paragraphs = Vec::new();
    for finding in top.of(findings) {
        let words = words(&finding.kind);
        let place = place(&finding.kind);
        table.push([
            words.name.into(),
            words.paragraph.title.clone().into(),
            words.paragraph.evidence.clone().into(),
            words.paragraph.advice.clone().into(),
            finding.about_ns.into(),
            place.range.map(|(from, _)| from).into(),
            place.range.map(|(_, to)| to).into(),
            place.line.map(str::to_owned).into(),
        ]);
        paragraphs.push(words.paragraph);
    }
    Section {
        key: "findings",
        title: "Findings".to_owned(),
        left_out: findings.len() - table.rows().len(),
        body: Body::Prose(table, paragraphs),
        when_empty: Some("nothing crossed a threshold"),
    }
}

struct Words {
    name: &'static str,
    paragraph: Paragraph,
}

fn words(kind: &FindingKind) -> Words {
    let (name, title, evidence, advice) = match kind {
        FindingKind::GpuIdle { .. } => gpu_idle(kind),
        FindingKind::Waiting { .. } => waiting(kind),
        FindingKind::HostLine { thread, line, line_ns, working_ns, inside, .. } => (
            "host-line",
            format!(
                "{} of the main thread's work runs under one line: {}",
                percent_text(*line_ns, *working_ns),
                name(line)
            ),
            format!(
                "{} of {} on {thread}, what it calls in libraries included{}.",
                nanos_text(*line_ns),
                nanos_text(*working_ns),
                doing_text("; mostly", inside.as_ref()),
            ),
            "Look at this function first; the functions below show what it spends the time on."
                .to_owned(),
        ),
        FindingKind::TinyKernels { .. } => tiny_kernels(kind),
        FindingKind::NotRecorded { count, total_ns, work_ns } => (
            "not-recorded",
            format!(
                "{} of the GPU time has no launch in the trace",
                percent_text(*total_ns, *work_ns)
            ),
            format!(
                "{} kernels, copies or fills, {} of {}.",
                count_text((*count).into()),
                nanos_text(*total_ns),
                nanos_text(*work_ns)
            ),
            "Most often the work was launched before the recording began. Start recording after \
             a synchronisation, or record a few steps more, to know which line it belongs to."
                .to_owned(),
        ),
    };
    Words { name, paragraph: Paragraph { title, evidence, advice } }
}

type Parts = (&'static str, String, String, String);

fn gpu_idle(kind: &FindingKind) -> Parts {
    let FindingKind::GpuIdle {
        device,
        idle_ns,
        window_ns,
        cause,
        kernels,
        kernel_mean_ns,
        launch_calls,
        launch_ns,
        host_working_ns,
        longest_gap_from,
        longest_gap_ns,
        in_gap,
    } = kind
    else {
        unreachable!("called for this kind only")
    };
    let (because, advice) = match cause {
        GpuIdleCause::OneGap => (
            "most of it is one gap",
            "Look at what the host did in that gap. A first call often compiles, loads or tunes \
             something: record after a warm-up to see the steady state.",
        ),
        GpuIdleCause::LaunchBound => (
            "the host takes longer to launch a kernel than the GPU to run it",
            "Launch fewer and larger kernels: torch.compile, CUDA graphs, fused operators or a \
             larger batch.",
        ),
        GpuIdleCause::HostBound => (
            "the host works, but rarely launches",
            "Look at the host: the threads and functions below show what it does between \
             launches. Move that work to another thread, or do it ahead of time.",
        ),
        GpuIdleCause::HostNotBusy => (
            "the host was not working either, or not recorded",
            "Look at what the host waits for: data, locks, other processes. Also check that the \
             recording does not begin long before the work.",
        ),
    };
    let launch = match launch_calls {
        0 => String::new(),
        &calls => format!(
            ", launched by calls of {} on average, {} in all",
            nanos_text(launch_ns / i128::from(calls)),
            nanos_text(*launch_ns)
        ),
    };
    let evidence = format!(
        "Idle {} of {}. {} kernels of {} on average{launch}. The threads that launch worked \
         {}, that is {} a kernel. Longest gap: {} from {} on{}.",
        nanos_text(*idle_ns),
        nanos_text(*window_ns),
        count_text((*kernels).into()),
        nanos_text(*kernel_mean_ns),
        nanos_text(*host_working_ns),
        nanos_text(host_working_ns / i128::from((*kernels).max(1))),
        nanos_text(*longest_gap_ns),
        nanos_text(*longest_gap_from),
        doing_text("; the main thread was mostly in", in_gap.as_ref()),
    );
    let idle = percent_text(*idle_ns, *window_ns);
    let title = format!("GPU {device} was idle {idle} of the time: {because}");
    ("gpu-idle", title, evidence, advice.to_owned())
}

/// " in f under model.py(5): forward (3.000 ms)", after its introduction.
fn doing_text(introduction: &str, doing: Option<&Doing>) -> String {
    let Some(Doing { function, line, self_ns }) = doing else { return String::new() };
    let under = line.as_ref().map(|line| format!(" under {}", name(line))).unwrap_or_default();
    format!("{introduction} {}{under} ({})", name(function), nanos_text(*self_ns))
}

fn waiting(kind: &FindingKind) -> Parts {
    let FindingKind::Waiting {
        thread,
        call,
        wait,
        count,
        total_ns,
        window_ns,
        longest_from,
        longest_ns,
        line,
        line_ns,
    } = kind
    else {
        unreachable!("called for this kind only")
    };
    let (what, advice) = match wait {
        WaitKind::Gpu => (
            "for the GPU",
            "If the GPU is idle elsewhere, avoid what needs its result at once: .item(), .cpu(), \
             .nonzero(), printing a tensor, a copy from pageable memory. If it is always busy, \
             this is where the host catches up and nothing is lost.",
        ),
        WaitKind::Autograd => (
            "for the backward pass",
            "Autograd runs it on threads of its own: look at those, and at collectives that a \
             distributed run starts there.",
        ),
        WaitKind::Lock => ("for a lock or an event", "See which thread holds it meanwhile."),
        WaitKind::Queue => {
            ("for a queue", "Whoever fills the queue is too slow: add workers or prefetch.")
        }
        WaitKind::Io => ("for input or output", "Overlap it with work, or read ahead."),
        WaitKind::Join => ("for a thread or a process to end", "See what that one does meanwhile."),
        WaitKind::Sleep => ("by sleeping", "Wait for the event itself instead of for a time."),
    };
    let place = match line {
        Some(line) => format!(" {} of it under {}.", nanos_text(*line_ns), name(line)),
        None => String::new(),
    };
    let calls = if *count == 1 { "call" } else { "calls" };
    let evidence = format!(
        "{} {calls} on {thread}, {} in all; the longest took {} from {} on.{place}",
        count_text((*count).into()),
        nanos_text(*total_ns),
        nanos_text(*longest_ns),
        nanos_text(*longest_from),
    );
    let title = format!(
        "{} of the time passes waiting {what} in {}",
        percent_text(*total_ns, *window_ns),
        name(call)
    );
    ("waiting", title, evidence, advice.to_owned())
}

fn tiny_kernels(kind: &FindingKind) -> Parts {
    let FindingKind::TinyKernels {
        count,
        kernels,
        limit_ns,
        total_ns,
        top_name,
        top_count,
        top_line,
    } = kind
    else {
        unreachable!("called for this kind only")
    };
    let line = match top_line {
        Some(line) => format!(", launched mostly by {}", name(line)),
        None => String::new(),
    };
    (
        "tiny-kernels",
        format!(
            "{} of {} kernels take less than {}",
            count_text((*count).into()),
            count_text((*kernels).into()),
            nanos_text((*limit_ns).into()).replace(".000", "")
        ),
        format!(
            "Together {}. The most frequent, {} times{line}: {}.",
            nanos_text(*total_ns),
            count_text((*top_count).into()),
            name(top_name)
        ),
        "A launch costs about as much as such a kernel runs. Fuse them (torch.compile, fused or \
         foreach operators) or replay them as a graph."
            .to_owned(),
    )
}

/// Where a finding can be looked at.
struct Place<'a> {
    range: Option<(TotalNanos, TotalNanos)>,
    line: Option<&'a str>,
}

fn place(kind: &FindingKind) -> Place<'_> {
    match kind {
        FindingKind::GpuIdle { longest_gap_from, longest_gap_ns, .. } => Place {
            range: Some((*longest_gap_from, longest_gap_from + longest_gap_ns)),
            line: None,
        },
        FindingKind::Waiting { longest_from, longest_ns, line, .. } => {
            Place { range: Some((*longest_from, longest_from + longest_ns)), line: line.as_deref() }
        }
        FindingKind::HostLine { line, from, to, .. } => {
            Place { range: Some((*from, *to)), line: Some(line) }
        }
        FindingKind::TinyKernels { top_line, .. } => {
            Place { range: None, line: top_line.as_deref() }
        }
        FindingKind::NotRecorded { .. } => Place { range: None, line: None },
    }
}

fn name(text: &str) -> String {
    text::shortened(text, NAME_WIDTH)
}
