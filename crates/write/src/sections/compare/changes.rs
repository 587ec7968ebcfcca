//! Two sides of a comparison: the answer in a few lines, what explains it, row by row.

use spanwise_analyze::{
    CompareBy, ComparePlace, CompareRow, ComparedBy, Comparison, Reason, STEPS_MIN, SideTotals,
    StepTime,
};

use crate::Top;
use crate::document::sectioned::{Document, Section, section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{bytes_text, count_text, decimal, nanos_text};

mod causes;
mod summary;

/// What to show of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct CompareView {
    pub top: Top,
    /// Also rows that are the same.
    pub shows_same: bool,
    /// The Python stacks behind each row.
    pub shows_stacks: bool,
}

pub fn compare_document(comparison: &Comparison, view: CompareView) -> Document {
    let is_shown = |row: &&CompareRow| view.shows_same || row.change_ns() != 0;
    let rows: Vec<&CompareRow> = comparison.rows.iter().filter(is_shown).collect();
    let overall: Vec<&CompareRow> =
        std::iter::once(&comparison.wall).chain(&comparison.overall).collect();
    let mut changes = rows_section("changes", "What changed, time per step", &rows, view.top);
    changes.when_empty = Some("nothing");
    let mut sections = vec![
        summary::summary_section(comparison),
        causes::causes_section(comparison, view.top),
        sides_section(comparison),
        rows_section("overall", "The whole step", &overall, Top::All),
        changes,
    ];
    if view.shows_stacks {
        sections.push(stacks_section(&rows, view.top));
    }
    let unchanged = comparison.rows.len() - rows.len();
    Document { sections, hints: hints(comparison, unchanged) }
}

fn hints(comparison: &Comparison, unchanged: usize) -> Vec<String> {
    let mut hints = Vec::new();
    if unchanged > 0 {
        let count = count_text(unchanged as i128);
        let (rows, are) = if unchanged == 1 { ("row", "is") } else { ("rows", "are") };
        hints.push(format!("{count} {rows} without any change {are} left out (--all shows them)."));
    }
    let fewest = comparison.base.steps.min(comparison.other.steps);
    if fewest < STEPS_MIN as u64 {
        let steps = if fewest == 1 { "1 step".to_owned() } else { format!("{fewest} steps") };
        hints.push(format!(
            "One side has only {steps}, so the noise is unknown and there is no verdict: record \
             at least {STEPS_MIN} steps, better 12, or give several recordings per side."
        ));
    }
    if comparison.base.lacks_steps || comparison.other.lacks_steps {
        hints.push(
            "A trace without steps counts as one step: call profiler.step() in the loop."
                .to_owned(),
        );
    }
    for (name, side) in [("base", &comparison.base), ("other", &comparison.other)] {
        if side.ignored_steps > 0 {
            let count = count_text(side.ignored_steps.into());
            hints.push(format!(
                "The {name} side has too many steps for its rows: {count} markers of steps are \
                 ignored, and their trace counts as one step."
            ));
        }
    }
    if comparison.compared_by == ComparedBy::Steps && fewest >= STEPS_MIN as u64 {
        hints.push(
            "The sides have different sequences of steps: steps of a phase are compared with \
             all steps of that phase."
                .to_owned(),
        );
    }
    if comparison.by == CompareBy::Step && comparison.compared_by != ComparedBy::Recordings {
        hints.push(format!(
            "A single step has no verdict unless each side has {STEPS_MIN} recordings."
        ));
    }
    hints
}

fn sides_section(comparison: &Comparison) -> Section {
    let mut table = Table::new([
        Column::new("side", "side", Unit::Text),
        Column::new("traces", "traces", Unit::Count),
        Column::new("steps", "steps", Unit::Count),
        Column::hidden("ignored_steps", Unit::Count),
        Column::new("gpu", "GPU work", Unit::Nanos),
        Column::new("host", "host work", Unit::Nanos),
        Column::new("waiting", "host waiting", Unit::Nanos),
        Column::new("outside_gpu", "outside: GPU", Unit::Nanos).optional(),
        Column::new("outside_host", "host", Unit::Nanos).optional(),
    ]);
    let mut push = |name: &str, side: &SideTotals| {
        table.push([
            name.into(),
            side.traces.into(),
            side.steps.into(),
            side.ignored_steps.into(),
            side.gpu_ns.into(),
            side.host_ns.into(),
            side.waiting_ns.into(),
            side.outside_gpu_ns.into(),
            side.outside_host_ns.into(),
        ]);
    };
    push("base", &comparison.base);
    push("other", &comparison.other);
    section("sides", "Sides", table, 2)
}

fn rows_section(key: &'static str, title: &str, rows: &[&CompareRow], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("verdict", "verdict", Unit::Status),
        Column::new("base_step", "base", Unit::Nanos),
        Column::new("other_step", "other", Unit::Nanos),
        Column::new("change", "change", Unit::Nanos),
        Column::new("change_share", "of base", Unit::Percent),
        Column::new("low", "at least", Unit::Nanos).optional(),
        Column::new("high", "at most", Unit::Nanos).optional(),
        Column::hidden("p_ppm", Unit::Count),
        Column::hidden("base_total", Unit::Nanos),
        Column::hidden("other_total", Unit::Nanos),
        Column::hidden("base_count", Unit::Count),
        Column::hidden("other_count", Unit::Count),
        Column::hidden("base_line", Unit::Text),
        Column::hidden("other_line", Unit::Text),
        Column::hidden("why", Unit::Text),
        Column::new("place", "on", Unit::Text),
        Column::new("key", "what", Unit::Text),
    ]);
    for row in top.of(rows) {
        let why = why_text(row, usize::MAX);
        let cells = [
            row.verdict.text().into(),
            row.base.step_ns().into(),
            row.other.step_ns().into(),
            Cell::Change(row.change_ns()),
            match row.base.step_ns() {
                0 => Cell::None,
                base => Cell::Share(row.change_ns(), base),
            },
            row.interval_ns.map_or(Cell::None, |interval| Cell::Change(interval.0)),
            row.interval_ns.map_or(Cell::None, |interval| Cell::Change(interval.1)),
            row.p.map(|p| (p * 1e6).round() as i128).into(),
            row.base.total_ns.into(),
            row.other.total_ns.into(),
            row.base.count.into(),
            row.other.count.into(),
            row.why.lines[0].clone().into(),
            row.why.lines[1].clone().into(),
            why.into(),
            place_text(row.place).into(),
            row.key.as_str().into(),
        ];
        let note = if row.is_changed() { why_text(row, NAME_WIDTH) } else { String::new() };
        table.push_with_note(cells, note);
    }
    section(key, title, table, rows.len())
}

/// Names in a sentence for people are kept short; programs get them in full.
const NAME_WIDTH: usize = 60;

fn place_text(place: ComparePlace) -> &'static str {
    match place {
        ComparePlace::Gpu => "GPU",
        ComparePlace::Host => "host",
        ComparePlace::Waiting => "waiting",
        ComparePlace::Wall => "clock",
    }
}

/// "2 → 3 launches per step; each 1.2 µs → 1.4 µs".
fn why_text(row: &CompareRow, width: usize) -> String {
    let counted = if row.place == ComparePlace::Gpu { "launches" } else { "calls" };
    let texts = row.why.reasons.iter().map(|reason| match reason {
        Reason::OtherCount => format!("{} {counted} per step", rates_text(row.base, row.other)),
        reason => reason_text(reason, width),
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// "2 → 3", or with a decimal where counts are no multiples of steps.
fn rates_text(base: StepTime, other: StepTime) -> String {
    format!("{} → {}", rate_text(base), rate_text(other))
}

fn rate_text(time: StepTime) -> String {
    let (count, steps) = (i128::from(time.count), i128::from(time.steps.max(1)));
    match count % steps {
        0 => count_text(count / steps),
        _ => decimal(count, steps, 1),
    }
}

fn reason_text(reason: &Reason, width: usize) -> String {
    let short = |name: &str| crate::fitted_name(name, width);
    match reason {
        Reason::OnlyInBase => "only in base".to_owned(),
        Reason::OnlyInOther => "only in other".to_owned(),
        Reason::OtherCount => "another number per step".to_owned(),
        Reason::OtherKernels { base, other } => {
            let names = |side: &[(String, u64)]| match side {
                [] => "nothing more".to_owned(),
                [(name, _)] => short(name),
                [(name, _), rest @ ..] => format!("{} and {} more", short(name), rest.len()),
            };
            format!("other kernels: {} → {}", names(base), names(other))
        }
        Reason::OtherShapes { base, other } => {
            format!("other shapes: {} → {}", short(base), short(other))
        }
        Reason::OtherLength { base_ns, other_ns } => {
            let word = if other_ns > base_ns { "longer" } else { "shorter" };
            format!("each {word}: {} → {}", nanos_text(*base_ns), nanos_text(*other_ns))
        }
        Reason::OtherBandwidth { base, other } => {
            let word = if other > base { "higher" } else { "lower" };
            format!("{word} bandwidth: {}/s → {}/s", bytes_text(*base), bytes_text(*other))
        }
        Reason::OtherRate { is_arithmetic, base, other } => {
            let word = if other > base { "faster" } else { "slower" };
            let rate = |value: i128| match is_arithmetic {
                true => flop_rate_text(value),
                false => format!("{}/s", bytes_text(value)),
            };
            format!("{word} at the same shapes: {} → {}", rate(*base), rate(*other))
        }
    }
}

/// "1.5 TFLOP/s".
fn flop_rate_text(flops_per_s: i128) -> String {
    let scales = [(1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")];
    let value = flops_per_s as f64;
    let (scale, unit) =
        scales.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, "FLOP/s"));
    format!("{:.1} {unit}", value / scale)
}

fn stacks_section(rows: &[&CompareRow], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("place", "on", Unit::Text),
        Column::new("key", "what", Unit::Text),
        Column::new("side", "side", Unit::Text),
        Column::new("step", "time per step", Unit::Nanos),
        Column::new("count", "count", Unit::Count),
        Column::new("stack", "Python stack, outermost first", Unit::Text),
    ]);
    for row in top.of(rows) {
        for (side, steps, stacks) in [
            ("base", row.base.steps, &row.why.stacks[0]),
            ("other", row.other.steps, &row.why.stacks[1]),
        ] {
            for (stack, total_ns, count) in stacks {
                let time = StepTime { total_ns: *total_ns, count: *count, steps };
                table.push([
                    place_text(row.place).into(),
                    row.key.as_str().into(),
                    side.into(),
                    time.step_ns().into(),
                    (*count).into(),
                    stack.as_str().into(),
                ]);
            }
        }
    }
    let rows = table.rows().len();
    section("stacks", "Python stacks behind the rows, those with most time", table, rows)
}
