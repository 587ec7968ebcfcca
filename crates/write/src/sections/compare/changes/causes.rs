//! Causes in words: what differs, what it costs per step, where.

use spanwise_analyze::{Cause, CauseKind, Comparison, KernelSwap, Kernels, Reason, StepTime};

use super::{NAME_WIDTH, rates_text, reason_text};
use crate::Top;
use crate::document::sectioned::{Body, Paragraph, Section};
use crate::document::table::{Column, Table, Unit};
use crate::document::units::nanos_rounded_text;
use crate::sections::compare::fusion::kernel_words;

const COLUMNS: [Column; 9] = [
    Column::new("cause", "cause", Unit::Text),
    Column::new("title", "title", Unit::Text),
    Column::new("evidence", "evidence", Unit::Text),
    Column::new("advice", "advice", Unit::Text),
    Column::new("cost_step", "cost per step", Unit::Nanos),
    Column::new("cost_step_max", "at most", Unit::Nanos),
    Column::new("is_sure", "sure", Unit::Flag),
    Column::new("base_line", "line in base", Unit::Text),
    Column::new("other_line", "line in other", Unit::Text),
];

pub(super) fn causes_section(comparison: &Comparison, top: Top) -> Section {
    let mut table = Table::new(COLUMNS);
    let mut paragraphs = Vec::new();
    for cause in top.of(&comparison.causes) {
        let full = Words { width: usize::MAX }.about(cause);
        table.push([
            cause_key(cause).into(),
            full.title.into(),
            full.evidence.into(),
            full.advice.into(),
            cause.cost_ns.into(),
            cause.at_most_ns.into(),
            crate::Cell::Flag(cause.is_sure),
            cause.lines[0].clone().into(),
            cause.lines[1].clone().into(),
        ]);
        paragraphs.push(Words { width: NAME_WIDTH }.about(cause));
    }
    Section {
        key: "causes",
        title: "Why".to_owned(),
        left_out: comparison.causes.len() - table.rows().len(),
        body: Body::Prose(table, paragraphs),
        when_empty: Some("No significant cause found."),
    }
}

fn cause_key(cause: &Cause) -> &'static str {
    match cause.kind {
        CauseKind::Synchronization { .. } => "synchronisation",
        CauseKind::HostCopies { .. } => "host-copies",
        CauseKind::HostCode { .. } => "host-code",
        CauseKind::HostEverywhere { .. } => "host-everywhere",
        CauseKind::OtherKernels { .. } => "other-kernels",
        CauseKind::GpuWork { .. } => "gpu-work",
        CauseKind::ExposedCommunication { .. } => "exposed-communication",
    }
}

/// What a function of the host does, and what to do about it.
fn host_words(is_waiting: bool) -> (&'static str, &'static str) {
    match is_waiting {
        false => (
            "takes",
            "Compare what this function does on both sides; --by stack shows its callers.",
        ),
        true => {
            ("waits", "See what it waits for: GPU work, or what `report --section waits` lists.")
        }
    }
}

/// How long names may be.
#[derive(Clone, Copy)]
struct Words {
    width: usize,
}

/// "added", "removed", "more" or "fewer".
fn number_word([base, other]: [StepTime; 2]) -> &'static str {
    match (base.count, other.count) {
        (0, _) => "Added",
        (_, 0) => "Removed",
        _ if u128::from(other.count) * u128::from(base.steps)
            > u128::from(base.count) * u128::from(other.steps) =>
        {
            "More"
        }
        _ => "Fewer",
    }
}

fn longer(cost_ns: i128) -> &'static str {
    if cost_ns > 0 { "longer" } else { "less" }
}

fn times([base, other]: [StepTime; 2]) -> String {
    format!(
        "{} → {} per step",
        nanos_rounded_text(base.step_ns()),
        nanos_rounded_text(other.step_ns())
    )
}

impl Words {
    fn short(self, name: &str) -> String {
        crate::fitted_name(name, self.width)
    }

    fn about(self, cause: &Cause) -> Paragraph {
        let (title, mut evidence, advice) = self.parts(cause);
        let cost = cause.cost_ns;
        let verb = if cost > 0 { "costs" } else { "saves" };
        evidence.push_str(&format!(" It {verb} {} per step", nanos_rounded_text(cost.abs())));
        if let Some(most) = cause.at_most_ns {
            evidence.push_str(&format!(
                ", and up to {} if the rest of the step's change follows from it",
                nanos_rounded_text(most.abs())
            ));
        }
        evidence.push('.');
        if !cause.is_sure {
            evidence.push_str(" There are too few steps for a verdict.");
        }
        evidence.push_str(&self.lines(cause));
        Paragraph { title, evidence, advice }
    }

    /// Where it is, as far as the title does not say it.
    fn lines(self, cause: &Cause) -> String {
        let is_named = matches!(
            cause.kind,
            CauseKind::Synchronization { .. }
                | CauseKind::HostCopies { .. }
                | CauseKind::HostCode { .. }
        );
        match (&cause.lines, is_named) {
            ([None, None], _) => String::new(),
            ([None, Some(_)], true) => " The line is only in other.".to_owned(),
            ([Some(_), None], true) => " The line is only in base.".to_owned(),
            ([None, Some(line)], false) => format!(" Only in other: {}.", self.short(line)),
            ([Some(line), None], false) => format!(" Only in base: {}.", self.short(line)),
            ([Some(base), Some(other)], true) if base == other => String::new(),
            ([Some(base), Some(other)], false) if base == other => {
                format!(" In {}.", self.short(base))
            }
            ([Some(base), Some(other)], _) => {
                format!(" In base {}, in other {}.", self.short(base), self.short(other))
            }
        }
    }

    fn line(self, cause: &Cause) -> String {
        let line = cause.lines[1].as_ref().or(cause.lines[0].as_ref());
        line.map_or_else(|| "code without Python frames".to_owned(), |line| self.short(line))
    }

    fn parts(self, cause: &Cause) -> (String, String, String) {
        let line = self.line(cause);
        match &cause.kind {
            CauseKind::Synchronization { operator, calls, idle } => (
                format!("{} waiting for the GPU: {operator} in {line}", number_word(*calls)),
                format!(
                    "{} calls per step; host blocked: {}; GPU then idle: {}.",
                    rates_text(calls[0], calls[1]),
                    times(*calls),
                    times(*idle)
                ),
                "Read results on the host rarely: .item(), .cpu(), .nonzero() and Python \
                 conditions on tensors wait for all work launched before."
                    .to_owned(),
            ),
            CauseKind::HostCopies { copies } => (
                format!("{} copies through the host in {line}", number_word(*copies)),
                format!(
                    "{} copies per step between the GPU and pageable memory, {} on the GPU; the \
                     host waits for each.",
                    rates_text(copies[0], copies[1]),
                    times(*copies)
                ),
                "Keep the data on the GPU, or copy through pinned memory without waiting."
                    .to_owned(),
            ),
            CauseKind::HostCode { time, is_waiting } => {
                let (does, advice) = host_words(*is_waiting);
                (
                    format!("The host {does} {} in {line}", longer(cause.cost_ns)),
                    format!("{}, {} calls per step.", times(*time), rates_text(time[0], time[1])),
                    advice.to_owned(),
                )
            }
            CauseKind::HostEverywhere { functions, time } => (
                format!("The host takes {} everywhere", longer(cause.cost_ns)),
                format!(
                    "All host work: {}; {functions} more functions changed the same way.",
                    times(*time)
                ),
                "No single function explains it: compare the machines, their load, the versions of \
                 Python and libraries, and whether this was the first profile of the process."
                    .to_owned(),
            ),
            CauseKind::OtherKernels { module, time, kernels, swaps } => {
                let (evidence, advice) = self.other_kernels(*time, kernels, swaps);
                (format!("{} runs other kernels", self.short(module)), evidence, advice)
            }
            CauseKind::GpuWork { operator, time, reasons } => (
                format!("{operator} takes {} on the GPU", longer(cause.cost_ns)),
                format!("{}{}", times(*time), self.reasons(reasons, *time)),
                "--by kernel shows the kernels; --with-stacks the code behind them.".to_owned(),
            ),
            CauseKind::ExposedCommunication { time } => (
                match cause.cost_ns > 0 {
                    true => "Less communication overlaps computation".to_owned(),
                    false => "More communication overlaps computation".to_owned(),
                },
                format!("Exposed communication: {}.", times(*time)),
                "Start communication earlier, or overlap it with independent computation."
                    .to_owned(),
            ),
        }
    }

    /// What replaces what, or at least which kernels only one side has; and what to do.
    fn other_kernels(
        self,
        time: [StepTime; 2],
        kernels: &[Vec<(String, u64)>; 2],
        swaps: &[KernelSwap],
    ) -> (String, String) {
        let alone = match kernels {
            [base, other] if base.is_empty() && other.is_empty() => String::new(),
            [base, other] => format!(
                "Only in base: {}. Only in other: {}. ",
                self.kernels(base, time[0].steps),
                self.kernels(other, time[1].steps)
            ),
        };
        let advice = match swaps {
            [] => {
                "--by kernel lists all of them with their times; --with-stacks the code behind \
                 them."
            }
            _ => {
                "--kernels shows which kernels replace which, and where; --by kernel all kernels \
                 with their times."
            }
        };
        let mut swaps = self.swaps(swaps);
        if !swaps.is_empty() {
            swaps.push(' ');
        }
        let launches = rates_text(time[0], time[1]);
        let times = times(time);
        let evidence = format!("{swaps}{alone}GPU time {times}, {launches} launches per step.");
        (evidence, advice.to_owned())
    }

    fn reasons(self, reasons: &[Reason], time: [StepTime; 2]) -> String {
        let texts = reasons.iter().map(|reason| match reason {
            Reason::OtherCount => format!("{} launches per step", rates_text(time[0], time[1])),
            reason => reason_text(reason, self.width),
        });
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() { ".".to_owned() } else { format!(": {}.", texts.join("; ")) }
    }

    /// "8 × 9 kernels (add, mul …) became triton_fused_add_mul, 1 µs → 2 µs per step."
    fn swaps(self, swaps: &[KernelSwap]) -> String {
        const NAMED: usize = 4;
        let one = |swap: &KernelSwap| {
            let [base, other] = swap.kernels.each_ref().map(|kernels| {
                let listed = self.listed(kernels);
                match kernels.names.len() {
                    1 => listed,
                    count => format!("{count} kernels ({listed})"),
                }
            });
            let often = StepTime { count: swap.count, ..swap.time[0] };
            let often = super::rate_text(often);
            format!("{often} × {base} became {other}, {}.", times(swap.time))
        };
        let mut texts: Vec<String> = swaps.iter().take(NAMED).map(one).collect();
        if swaps.len() > NAMED {
            texts.push(format!("And {} more.", swaps.len() - NAMED));
        }
        texts.join(" ")
    }

    /// "add, copy_ × 2 and 3 more": for people the first ones, and long names shortened.
    fn listed(self, kernels: &Kernels) -> String {
        const NAMED: usize = 12;
        let words = kernel_words(kernels);
        let named = if self.width == usize::MAX { words.len() } else { NAMED };
        let shown = words.iter().take(named).map(|word| self.short(word)).collect::<Vec<_>>();
        let mut text = shown.join(", ");
        if words.len() > named {
            text.push_str(&format!(" and {} more", words.len() - named));
        }
        text
    }

    /// "2 × a, 1 × b and 3 more", per step.
    fn kernels(self, kernels: &[(String, u64)], steps: u64) -> String {
        const NAMED: usize = 4;
        if kernels.is_empty() {
            return "none".to_owned();
        }
        let one = |(name, count): &(String, u64)| {
            let time = StepTime { total_ns: 0, count: *count, steps };
            format!("{} × {}", super::rate_text(time), self.short(name))
        };
        let mut text = kernels.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ");
        if kernels.len() > NAMED {
            text.push_str(&format!(" and {} more", kernels.len() - NAMED));
        }
        text
    }
}
