//! Findings in words: a title, the numbers behind it, what to do.

use spanwise_analyze::{
    Doing, Finding, FindingKind, GpuIdle, GpuIdleCause, HostLine, NotRecorded, TinyKernels,
    TotalNanos, WaitKind, Waiting,
};

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

/// Names in a sentence for people are kept short; programs get them in full.
const NAME_WIDTH: usize = 72;

pub fn findings_section(findings: &[Finding], top: Top) -> Section {
    let mut table = Table::new(COLUMNS);
    let mut paragraphs = Vec::new();
    for Finding { kind, about_ns } in top.of(findings) {
        let full = Words { name_width: usize::MAX }.about(kind);
        let (range, line) = place(kind);
        table.push([
            key(kind).into(),
            full.title.into(),
            full.evidence.into(),
            full.advice.into(),
            (*about_ns).into(),
            range.map(|(from, _)| from).into(),
            range.map(|(_, to)| to).into(),
            line.map(str::to_owned).into(),
        ]);
        paragraphs.push(Words { name_width: NAME_WIDTH }.about(kind));
    }
    Section {
        key: "findings",
        title: "Findings".to_owned(),
        left_out: findings.len() - table.rows().len(),
        body: Body::Prose(table, paragraphs),
        when_empty: Some("nothing crossed a threshold"),
    }
}

fn key(kind: &FindingKind) -> &'static str {
    match kind {
        FindingKind::GpuIdle(_) => "gpu-idle",
        FindingKind::Waiting(_) => "waiting",
        FindingKind::HostLine(_) => "host-line",
        FindingKind::TinyKernels(_) => "tiny-kernels",
        FindingKind::NotRecorded(_) => "not-recorded",
    }
}

type Range = (TotalNanos, TotalNanos);

/// Where a finding can be looked at: from and to, and the line.
fn place(kind: &FindingKind) -> (Option<Range>, Option<&str>) {
    let range = |from: TotalNanos, ns: TotalNanos| Some((from, from + ns));
    match kind {
        FindingKind::GpuIdle(idle) => (range(idle.longest_gap_from, idle.longest_gap_ns), None),
        FindingKind::Waiting(wait) => {
            (range(wait.longest_from, wait.longest_ns), wait.line.as_deref())
        }
        FindingKind::HostLine(host) => (Some((host.from, host.to)), Some(&host.line)),
        FindingKind::TinyKernels(tiny) => (None, tiny.top_line.as_deref()),
        FindingKind::NotRecorded(_) => (None, None),
    }
}

/// Puts findings into words.
struct Words {
    name_width: usize,
}

impl Words {
    fn about(&self, kind: &FindingKind) -> Paragraph {
        match kind {
            FindingKind::GpuIdle(idle) => self.gpu_idle(idle),
            FindingKind::Waiting(waiting) => self.waiting(waiting),
            FindingKind::HostLine(host) => self.host_line(host),
            FindingKind::TinyKernels(tiny) => self.tiny_kernels(tiny),
            FindingKind::NotRecorded(work) => not_recorded(work),
        }
    }

    fn name(&self, text: &str) -> String {
        text::shortened(text, self.name_width)
    }

    /// The introduction, then "f under model.py(5): forward (3.000 ms)".
    fn doing(&self, introduction: &str, doing: Option<&Doing>) -> String {
        let Some(Doing { function, line, self_ns }) = doing else { return String::new() };
        let line = line.as_ref().map(|line| format!(" under {}", self.name(line)));
        let under = line.unwrap_or_default();
        format!("{introduction} {}{under} ({})", self.name(function), nanos_text(*self_ns))
    }

    fn gpu_idle(&self, idle: &GpuIdle) -> Paragraph {
        let (because, advice) = idle_cause(idle.cause);
        let launch = match idle.launch_calls {
            0 => String::new(),
            calls => format!(
                ", launched by calls of {} on average, {} in all",
                nanos_text(idle.launch_ns / i128::from(calls)),
                nanos_text(idle.launch_ns)
            ),
        };
        let evidence = format!(
            "Idle {} of {}. {} kernels of {} on average{launch}. The threads that launch worked \
             {}, that is {} a kernel. Longest gap: {} from {} on{}.",
            nanos_text(idle.idle_ns),
            nanos_text(idle.window_ns),
            count_text(idle.kernels.into()),
            nanos_text(idle.kernel_mean_ns),
            nanos_text(idle.host_working_ns),
            nanos_text(idle.host_working_ns / i128::from(idle.kernels.max(1))),
            nanos_text(idle.longest_gap_ns),
            nanos_text(idle.longest_gap_from),
            self.doing("; the main thread was mostly in", idle.in_gap.as_ref()),
        );
        let share = percent_text(idle.idle_ns, idle.window_ns);
        let title = format!("GPU {} was idle {share} of the time: {because}", idle.device);
        Paragraph { title, evidence, advice: advice.to_owned() }
    }

    fn waiting(&self, waiting: &Waiting) -> Paragraph {
        let (what, advice) = wait_words(waiting.wait);
        let place = match &waiting.line {
            Some(line) => {
                format!(" {} of it under {}.", nanos_text(waiting.line_ns), self.name(line))
            }
            None => String::new(),
        };
        let evidence = format!(
            "{} {} on {}, {} in all; the longest took {} from {} on.{place}",
            count_text(waiting.count.into()),
            if waiting.count == 1 { "call" } else { "calls" },
            waiting.thread,
            nanos_text(waiting.total_ns),
            nanos_text(waiting.longest_ns),
            nanos_text(waiting.longest_from),
        );
        let title = format!(
            "{} of the time passes waiting {what} in {}",
            percent_text(waiting.total_ns, waiting.window_ns),
            self.name(&waiting.call)
        );
        Paragraph { title, evidence, advice: advice.to_owned() }
    }

    fn host_line(&self, host: &HostLine) -> Paragraph {
        Paragraph {
            title: format!(
                "{} of the time the main thread works under one line: {}",
                percent_text(host.line_ns, host.window_ns),
                self.name(&host.line)
            ),
            evidence: format!(
                "{} of {} on {}, what it calls in libraries included{}.",
                nanos_text(host.line_ns),
                nanos_text(host.window_ns),
                host.thread,
                self.doing("; mostly", host.inside.as_ref()),
            ),
            advice: "Look at this function first; the functions below show what it spends the \
                     time on."
                .to_owned(),
        }
    }

    fn tiny_kernels(&self, tiny: &TinyKernels) -> Paragraph {
        let line = match &tiny.top_line {
            Some(line) => format!(", launched mostly by {}", self.name(line)),
            None => String::new(),
        };
        Paragraph {
            title: format!(
                "{} of {} kernels take less than {}",
                count_text(tiny.count.into()),
                count_text(tiny.kernels.into()),
                nanos_text(tiny.limit_ns.into()).replace(".000", "")
            ),
            evidence: format!(
                "Together {}. The most frequent, {} times{line}: {}.",
                nanos_text(tiny.total_ns),
                count_text(tiny.top_count.into()),
                self.name(&tiny.top_name)
            ),
            advice: "A launch costs about as much as such a kernel runs. Fuse them \
                     (torch.compile, fused or foreach operators) or replay them as a graph."
                .to_owned(),
        }
    }
}

fn not_recorded(work: &NotRecorded) -> Paragraph {
    Paragraph {
        title: format!(
            "{} of the GPU time has no launch in the trace",
            percent_text(work.total_ns, work.work_ns)
        ),
        evidence: format!(
            "{} kernels, copies or fills, {} of {}.",
            count_text(work.count.into()),
            nanos_text(work.total_ns),
            nanos_text(work.work_ns)
        ),
        advice: "Most often the work was launched before the recording began. Start recording \
                 after a synchronisation, or record a few steps more, to know which line it \
                 belongs to."
            .to_owned(),
    }
}

/// Why a GPU is idle, and what to do about it.
fn idle_cause(cause: GpuIdleCause) -> (&'static str, &'static str) {
    match cause {
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
    }
}

/// What a call waits for, and what to do about it.
fn wait_words(wait: WaitKind) -> (&'static str, &'static str) {
    match wait {
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
    }
}
