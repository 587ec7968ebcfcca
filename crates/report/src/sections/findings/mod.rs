//! Findings in words: a title, the numbers behind it, what to do.

mod observed;

use spanwise_analyze::{
    AllocationStorm, Copied, Finding, FindingKind, GpuIdle, GpuIdleCause, HostCopies, HostLine,
    InGap, LostOverlap, NotRecorded, Overhead, SpentOn, Synchronization, TinyKernels, TopFunction,
    TotalNanos, WaitKind, Waiting,
};
use spanwise_write::{
    Body, Column, Columns, Content, Paragraph, Top, bytes_text, count_text, fitted_name,
    nanos_rounded_text, percent_text,
};

use crate::sections::{SectionDef, Shown};

/// Names in a sentence for people are kept short; programs get them in full.
const NAME_WIDTH: usize = 72;

pub(super) const FINDINGS: SectionDef = SectionDef {
    key: "findings",
    title: "Findings",
    about: "what deserves attention first, with numbers and advice",
    shown: Shown::Always,
    method: "findings",
    content: |request| findings(&request.findings(), request.top),
};

fn findings(findings: &[Finding], top: Top) -> Content {
    let full = |row: &Finding| Words { name_width: usize::MAX }.about(&row.kind);
    let range = |row: &Finding| place(&row.kind).0;
    let content = Columns::<Finding>::new()
        .add(Column::text("finding", "finding"), |row| finding_key(&row.kind).into())
        .add(Column::text("title", "title"), |row| full(row).title.into())
        .add(Column::text("evidence", "evidence"), |row| full(row).evidence.into())
        .add(Column::text("advice", "advice"), |row| full(row).advice.into())
        .add(Column::nanos("about", "about"), |row| row.about_ns.into())
        .add(Column::nanos("gain_max", "gain at most"), |row| row.gain_ns.into())
        .add(Column::nanos("from", "from"), |row| range(row).map(|(from, _)| from).into())
        .add(Column::nanos("to", "to"), |row| range(row).map(|(_, to)| to).into())
        .add(Column::text("line", "line"), |row| place(&row.kind).1.map(str::to_owned).into())
        .content(findings, top)
        .when_empty("nothing crossed a threshold");
    let paragraphs = top.of(findings).iter().map(paragraph).collect();
    Content { body: Body::Prose(content.body.into_table(), paragraphs), ..content }
}

/// A finding as people read it, with names kept short.
fn paragraph(finding: &Finding) -> Paragraph {
    let mut paragraph = Words { name_width: NAME_WIDTH }.about(&finding.kind);
    if let Some(gain_ns) = finding.gain_ns {
        let gain = format!(" Potential gain: up to {}.", nanos_rounded_text(gain_ns));
        paragraph.evidence.push_str(&gain);
    }
    paragraph
}

/// Every key that a finding can have.
pub const FINDING_KEYS: [&str; 18] = [
    "gpu-idle",
    "waiting",
    "host-line",
    "tiny-kernels",
    "not-recorded",
    "data-loading",
    "preprocessing",
    "serialisation",
    "event-loop",
    "allocation",
    "synchronisation",
    "host-copies",
    "lost-overlap",
    "allocation-storm",
    "import",
    "cpu-function",
    "off-cpu",
    "cpu-starvation",
];

/// What programs know a finding by: one of [`FINDING_KEYS`].
pub fn finding_key(kind: &FindingKind) -> &'static str {
    match kind {
        FindingKind::GpuIdle(_) => "gpu-idle",
        FindingKind::Waiting(_) => "waiting",
        FindingKind::HostLine(_) => "host-line",
        FindingKind::TinyKernels(_) => "tiny-kernels",
        FindingKind::NotRecorded(_) => "not-recorded",
        FindingKind::Overhead(spent) => spent_key(spent.on),
        FindingKind::CpuSpent(spent) => spent_key(spent.on),
        FindingKind::CpuFunction(_) => "cpu-function",
        FindingKind::OffCpu(_) => "off-cpu",
        FindingKind::CpuStarvation(_) => "cpu-starvation",
        FindingKind::Synchronization(_) => "synchronisation",
        FindingKind::HostCopies(_) => "host-copies",
        FindingKind::LostOverlap(_) => "lost-overlap",
        FindingKind::AllocationStorm(_) => "allocation-storm",
    }
}

fn spent_key(on: SpentOn) -> &'static str {
    match on {
        SpentOn::DataLoading => "data-loading",
        SpentOn::Preprocessing => "preprocessing",
        SpentOn::Serialization => "serialisation",
        SpentOn::EventLoop => "event-loop",
        SpentOn::Allocation => "allocation",
        SpentOn::Import => "import",
    }
}

type Range = (TotalNanos, TotalNanos);

/// Where a finding can be seen: from and to, and the line.
fn place(kind: &FindingKind) -> (Option<Range>, Option<&str>) {
    let range = |from: TotalNanos, ns: TotalNanos| Some((from, from + ns));
    match kind {
        FindingKind::GpuIdle(idle) => (range(idle.longest_gap_from, idle.longest_gap_ns), None),
        FindingKind::Waiting(wait) => {
            (range(wait.longest_from, wait.longest_ns), wait.line.as_deref())
        }
        FindingKind::HostLine(host) => (Some((host.from, host.to)), Some(&host.line)),
        FindingKind::TinyKernels(tiny) => (None, tiny.top_line.as_deref()),
        FindingKind::NotRecorded(_)
        | FindingKind::LostOverlap(_)
        | FindingKind::CpuStarvation(_) => (None, None),
        FindingKind::CpuSpent(spent) => (None, spent.function.as_deref()),
        FindingKind::CpuFunction(function) => (None, Some(&function.function)),
        FindingKind::OffCpu(waits) => (range(waits.longest_from, waits.longest_ns), None),
        FindingKind::Overhead(spent) => {
            (range(spent.longest_from, spent.longest_ns), spent.line.as_deref())
        }
        FindingKind::Synchronization(sync) => (None, sync.row.line.as_deref()),
        FindingKind::HostCopies(copies) => (None, copies.line.as_deref()),
        FindingKind::AllocationStorm(storm) => {
            let line = storm.place.as_deref().filter(|_| storm.is_line);
            (range(storm.longest_from, storm.longest_ns), line)
        }
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
            FindingKind::Overhead(spent) => self.spent(spent),
            FindingKind::Synchronization(sync) => self.synchronization(sync),
            FindingKind::HostCopies(copies) => self.host_copies(copies),
            FindingKind::LostOverlap(lost) => lost_overlap(lost),
            FindingKind::AllocationStorm(storm) => self.allocation_storm(storm),
            FindingKind::CpuSpent(spent) => observed::cpu_spent(spent, self.name_width),
            FindingKind::CpuFunction(function) => observed::cpu_function(function, self.name_width),
            FindingKind::OffCpu(waits) => observed::off_cpu(waits),
            FindingKind::CpuStarvation(starved) => observed::cpu_starvation(starved),
        }
    }

    fn name(&self, text: &str) -> String {
        fitted_name(text, self.name_width)
    }

    /// The introduction, then "f under model.py(5): forward (3.000 ms)".
    fn doing(&self, introduction: &str, doing: Option<&TopFunction>) -> String {
        let Some(TopFunction { function, line, self_ns }) = doing else { return String::new() };
        let line = line.as_ref().map(|line| format!(" under {}", self.name(line)));
        let under = line.unwrap_or_default();
        format!("{introduction} {}{under} ({})", self.name(function), nanos_rounded_text(*self_ns))
    }

    fn in_gap(&self, in_gap: &InGap) -> String {
        match in_gap {
            InGap::Mostly(doing) => self.doing("; the main thread was mostly in", Some(doing)),
            InGap::Nothing => String::new(),
            InGap::Skipped { examined, gpus } => format!(
                "; the main thread was examined in the {} longest gaps of {} GPUs only",
                count_text((*examined).into()),
                count_text((*gpus).into())
            ),
        }
    }

    fn gpu_idle(&self, idle: &GpuIdle) -> Paragraph {
        let (because, advice) = idle_cause(idle.cause);
        let launch = match idle.launch_calls {
            0 => String::new(),
            calls => format!(
                ", launched by calls of {} on average ({} in total)",
                nanos_rounded_text(idle.launch_ns / i128::from(calls)),
                nanos_rounded_text(idle.launch_ns)
            ),
        };
        let evidence = format!(
            "Idle for {} of {}. {} kernels of {} on average{launch}. Launching threads worked for \
             {}, {} per kernel. Longest gap: {}, starting at {}{}.",
            nanos_rounded_text(idle.idle_ns),
            nanos_rounded_text(idle.window_ns),
            count_text(idle.kernels.into()),
            nanos_rounded_text(idle.kernel_mean_ns),
            nanos_rounded_text(idle.host_working_ns),
            nanos_rounded_text(idle.host_working_ns / i128::from(idle.kernels.max(1))),
            nanos_rounded_text(idle.longest_gap_ns),
            nanos_rounded_text(idle.longest_gap_from),
            self.in_gap(&idle.in_gap),
        );
        let share = percent_text(idle.idle_ns, idle.window_ns);
        let title = format!("GPU {} was idle {share} of the time: {because}", idle.device);
        Paragraph { title, evidence, advice: advice.to_owned() }
    }

    fn waiting(&self, waiting: &Waiting) -> Paragraph {
        let (what, advice) = wait_words(waiting.wait);
        let place = match &waiting.line {
            Some(line) => {
                format!(" {} of it under {}.", nanos_rounded_text(waiting.line_ns), self.name(line))
            }
            None => String::new(),
        };
        let evidence = format!(
            "{} {} on {}, {} in total; the longest, {}, starts at {}.{place}",
            count_text(waiting.count.into()),
            if waiting.count == 1 { "call" } else { "calls" },
            waiting.thread,
            nanos_rounded_text(waiting.total_ns),
            nanos_rounded_text(waiting.longest_ns),
            nanos_rounded_text(waiting.longest_from),
        );
        let title = format!(
            "{} of the time is spent waiting {what} in {}",
            percent_text(waiting.total_ns, waiting.window_ns),
            self.name(&waiting.call)
        );
        Paragraph { title, evidence, advice: advice.to_owned() }
    }

    fn host_line(&self, host: &HostLine) -> Paragraph {
        Paragraph {
            title: format!(
                "{} of the main thread's time is under one line: {}",
                percent_text(host.line_ns, host.window_ns),
                self.name(&host.line)
            ),
            evidence: format!(
                "{} of {} on {}, including the libraries that it calls{}.",
                nanos_rounded_text(host.line_ns),
                nanos_rounded_text(host.window_ns),
                host.thread,
                self.doing("; mostly", host.inside.as_ref()),
            ),
            advice: "Start with this function; the functions below show what it spends the time \
                     on."
            .to_owned(),
        }
    }

    fn spent(&self, spent: &Overhead) -> Paragraph {
        let (what, advice) = spent_words(spent.on);
        let place = match &spent.line {
            Some(line) => {
                format!(" {} under {}", nanos_rounded_text(spent.line_ns), self.name(line))
            }
            None => " Its Python line was not recorded".to_owned(),
        };
        let idle = match spent.gpu_idle_ns {
            Some(ns) => format!(" No GPU had work for {} of it.", nanos_rounded_text(ns)),
            None => String::new(),
        };
        let evidence = format!(
            "{} of {}, {}; the longest, {}, starts at {}.{place}{}.{idle}",
            nanos_rounded_text(spent.total_ns),
            nanos_rounded_text(spent.window_ns),
            times(spent.count),
            nanos_rounded_text(spent.longest_ns),
            nanos_rounded_text(spent.longest_from),
            self.doing("; mostly in", spent.inside.as_ref()),
        );
        let share = percent_text(spent.total_ns, spent.window_ns);
        Paragraph { title: format!("{share} of the time {what}"), evidence, advice: advice.into() }
    }

    fn synchronization(&self, sync: &Synchronization) -> Paragraph {
        let row = &sync.row;
        let what = row.operator.as_deref().unwrap_or(&row.call);
        let line = row
            .line
            .as_deref()
            .map_or("a line that was not recorded".to_owned(), |line| self.name(line));
        let asked = if what == "aten::item" { ".item()".to_owned() } else { self.name(what) };
        Paragraph {
            title: format!("{asked} makes the host wait for the GPU {}: {line}", times(row.count)),
            evidence: format!(
                "The host is blocked in {} for {}. {} the GPU has run out of work by then, and \
                 waits {} for more. Together: {} of the time.",
                row.call,
                nanos_rounded_text(row.blocked_ns),
                capital(&times(row.drained)),
                nanos_rounded_text(row.idle_ns),
                percent_text(row.idle_ns + row.blocked_ns, sync.window_ns),
            ),
            advice: "Keep results on the GPU: accumulate losses as tensors and read them every \
                     hundred steps or so; avoid .item(), .cpu(), .nonzero() and Python \
                     conditions on tensors in the loop."
                .to_owned(),
        }
    }

    fn host_copies(&self, copies: &HostCopies) -> Paragraph {
        let line = match &copies.line {
            Some(line) => self.name(line),
            None => "a line that was not recorded".to_owned(),
        };
        let is_both = copies.to_host.count > 0 && copies.to_device.count > 0;
        let title = match is_both {
            true => format!("Data goes to the host and back in {line}"),
            false => format!("Copies through pageable memory in {line}"),
        };
        let side = |copied: Copied, words: &str| {
            let bytes = bytes_text(copied.bytes.into());
            let ns = nanos_rounded_text(copied.total_ns);
            format!("{} {words} ({bytes}, {ns} on the GPU)", count_text(copied.count.into()))
        };
        let sides = [(copies.to_device, "to the GPU"), (copies.to_host, "to the host")];
        let sides: Vec<String> = sides
            .into_iter()
            .filter(|(copied, _)| copied.count > 0)
            .map(|(copied, words)| side(copied, words))
            .collect();
        Paragraph {
            title,
            evidence: format!(
                "Copies: {}. The host is blocked for {} of {}; afterwards the GPU has no work for \
                 {}.",
                sides.join(" and "),
                nanos_rounded_text(copies.blocked_ns),
                nanos_rounded_text(copies.idle_ns),
                nanos_rounded_text(copies.window_ns),
            ),
            advice: match is_both {
                true => "Compute on the GPU instead, or leave the data there.",
                false => {
                    "Use pinned memory (pin_memory=True) with non_blocking=True, so that the copy \
                     overlaps with other work; or create the tensor on the GPU."
                }
            }
            .to_owned(),
        }
    }

    fn allocation_storm(&self, storm: &AllocationStorm) -> Paragraph {
        let place = match &storm.place {
            Some(place) => self.name(place),
            None => "a line that was not recorded".to_owned(),
        };
        let count = i128::from(storm.count);
        Paragraph {
            title: format!(
                "{} allocations of {} memory in {}: {place}",
                count_text(count),
                storm.device,
                nanos_rounded_text(storm.total_ns)
            ),
            evidence: format!(
                "One every {}, {} in total while at most {} was held at once; {} of them were \
                 freed within 1 ms. The longest burst, {}, starts at {}.",
                nanos_rounded_text(storm.total_ns / count.max(1)),
                bytes_text(storm.bytes),
                bytes_text(storm.peak),
                percent_text(storm.short_lived.into(), count),
                nanos_rounded_text(storm.longest_ns),
                nanos_rounded_text(storm.longest_from),
            ),
            advice:
                "Allocate once and reuse: create buffers before the loop, write into them (out=, \
                     in-place operators), or combine many small tensors into one."
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
                nanos_rounded_text(tiny.limit_ns.into()).replace(".000", "")
            ),
            evidence: format!(
                "Together: {}. The most frequent, {} times{line}: {}.",
                nanos_rounded_text(tiny.total_ns),
                count_text(tiny.top_count.into()),
                self.name(&tiny.top_name)
            ),
            advice: "A launch costs about as much as such a kernel runs. Fuse them \
                     (torch.compile, fused or foreach operators) or replay them as a graph."
                .to_owned(),
        }
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", count_text(count.into())) }
}

fn capital(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

/// What the time goes into, and what to do about it.
fn spent_words(on: SpentOn) -> (&'static str, &'static str) {
    match on {
        SpentOn::DataLoading => (
            "the main thread loads data",
            "Load in worker processes (num_workers), ahead of time (prefetch_factor), into \
             pinned memory; or make loading an item cheaper.",
        ),
        SpentOn::Preprocessing => (
            "the main thread prepares data on the CPU",
            "Move it into the workers of the data loader, do it once ahead of time, or do it on \
             the GPU.",
        ),
        SpentOn::Serialization => (
            "the main thread serializes or deserializes objects (pickle and the like)",
            "Send less: share tensors in shared memory, send indices instead of data, or batch \
             messages.",
        ),
        SpentOn::EventLoop => (
            "is overhead of the event loop",
            "Await fewer and larger pieces of work: each await costs a turn of the loop.",
        ),
        SpentOn::Allocation => (
            "is spent allocating memory from the driver",
            "Let the caching allocator keep it: avoid torch.cuda.empty_cache(), reuse buffers, \
             record after a warm-up, or set expandable_segments:True if sizes vary.",
        ),
        SpentOn::Import => (
            "the main thread imports modules",
            "This is start-up time: record after a warm-up, or import less.",
        ),
    }
}

fn lost_overlap(lost: &LostOverlap) -> Paragraph {
    Paragraph {
        title: format!(
            "Exposed communication: {} of the time GPU {} communicates without computing",
            percent_text(lost.exposed_ns, lost.window_ns),
            lost.device
        ),
        evidence: format!(
            "{} of {} of communication does not overlap computation, in {}.",
            nanos_rounded_text(lost.exposed_ns),
            nanos_rounded_text(lost.communication_ns),
            nanos_rounded_text(lost.window_ns)
        ),
        advice: "Start collectives earlier or in smaller buckets so that they overlap \
                 computation; report the traces of all ranks to see who waits for whom."
            .to_owned(),
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
            nanos_rounded_text(work.total_ns),
            nanos_rounded_text(work.work_ns)
        ),
        advice: "Usually the work was launched before the recording started. Start recording \
                 after a synchronization, or record a few more steps, to see which line \
                 launched it."
            .to_owned(),
    }
}

/// Why a GPU is idle, and what to do about it.
fn idle_cause(cause: GpuIdleCause) -> (&'static str, &'static str) {
    match cause {
        GpuIdleCause::OneGap => (
            "most of it is one gap",
            "See what the host did in that gap. A first call often compiles, loads or tunes \
             something: record after a warm-up to see the steady state.",
        ),
        GpuIdleCause::LaunchBound => (
            "the host takes longer to launch a kernel than the GPU to run it",
            "Launch fewer and larger kernels: torch.compile, CUDA graphs, fused operators or a \
             larger batch.",
        ),
        GpuIdleCause::HostBound => (
            "the host works, but rarely launches",
            "The threads and functions below show what the host does between launches. Move that \
             work to another thread, or do it ahead of time.",
        ),
        GpuIdleCause::HostNotBusy => (
            "the host was idle too, or not recorded",
            "See what the host waits for: data, locks, other processes. Also check that the \
             recording does not start long before the work.",
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
             this wait costs nothing.",
        ),
        WaitKind::Autograd => (
            "for the backward pass",
            "Autograd runs it on its own threads: see those, and the collectives that a \
             distributed run starts there.",
        ),
        WaitKind::Lock => ("for a lock or an event", "See which thread holds it meanwhile."),
        WaitKind::Queue => ("for a queue", "The producer is too slow: add workers or prefetch."),
        WaitKind::Io => ("for input or output", "Overlap it with work, or read ahead."),
        WaitKind::Join => ("for a thread or a process to end", "See what that one does meanwhile."),
        WaitKind::Sleep => ("by sleeping", "Wait for the event itself instead of for a time."),
        WaitKind::Cpu => (
            "for a processor",
            "More threads want to run than there are processors: start fewer, or see who else \
             runs.",
        ),
        WaitKind::Unknown => (
            "for something that was not recorded",
            "Record stacks with the switches (perf record -e sched:sched_switch -g) to see what.",
        ),
    }
}
