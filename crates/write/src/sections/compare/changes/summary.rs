//! The answer in a few words, before the tables.

use spanwise_analyze::{ComparePlace, CompareRow, Comparison, StepTime, Verdict};

use crate::document::sectioned::{Body, Paragraph, Section};
use crate::document::table::{Column, Table, Unit};
use crate::document::units::{nanos_text, percent_text};

pub(super) fn summary_section(comparison: &Comparison) -> Section {
    let mut table = Table::new([
        Column::new("answer", "answer", Unit::Text),
        Column::new("detail", "detail", Unit::Text),
        Column::new("note", "note", Unit::Text),
    ]);
    let paragraph = summary(comparison);
    table.push([
        paragraph.title.as_str().into(),
        paragraph.evidence.as_str().into(),
        paragraph.advice.as_str().into(),
    ]);
    Section {
        key: "summary",
        title: "In short".to_owned(),
        body: Body::Prose(table, vec![paragraph]),
        when_empty: None,
        left_out: 0,
    }
}

fn summary(comparison: &Comparison) -> Paragraph {
    let wall = &comparison.wall;
    let times =
        format!("{} → {}", nanos_text(wall.base.step_ns()), nanos_text(wall.other.step_ns()));
    let title = match wall.verdict {
        Verdict::Slower => format!("Slower: a step takes {times}"),
        Verdict::Faster => format!("Faster: a step takes {times}"),
        Verdict::Same => format!("No significant change: a step takes {times}"),
        Verdict::Inconclusive => format!("Inconclusive: a step takes {times}"),
    };
    let mut evidence = interval_text(wall);
    for row in comparison.overall.iter().filter(|row| row.place != ComparePlace::Wall) {
        evidence.push_str(&part_text(row));
    }
    let changed = comparison.rows.iter().filter(|row| row.is_changed()).count();
    evidence.push_str(&match changed {
        0 => format!(" No {} changed significantly.", comparison.by.text()),
        1 => format!(" 1 row by {} changed significantly.", comparison.by.text()),
        more => format!(" {more} rows by {} changed significantly.", comparison.by.text()),
    });
    Paragraph { title, evidence, advice: pace_text(comparison) }
}

fn interval_text(row: &CompareRow) -> String {
    let change = row.change_ns();
    let sign = if change > 0 { "+" } else { "" };
    let share = match row.base.step_ns() {
        0 => String::new(),
        base => format!(" ({sign}{})", percent_text(change, base)),
    };
    let interval = match row.interval_ns {
        Some((low, high)) => {
            format!(
                "; the typical step by {} to {} (95 % confidence)",
                nanos_text(low),
                nanos_text(high)
            )
        }
        None => String::new(),
    };
    format!("Change: {sign}{}{share}{interval}.", nanos_text(change))
}

fn part_text(row: &CompareRow) -> String {
    let what = match row.place {
        ComparePlace::Gpu => "GPU work",
        ComparePlace::Host => "Host work",
        ComparePlace::Waiting | ComparePlace::Wall => "Host waiting",
    };
    let times = format!("{} → {}", nanos_text(row.base.step_ns()), nanos_text(row.other.step_ns()));
    match row.verdict {
        Verdict::Same => format!(" {what}: no significant change ({times})."),
        Verdict::Slower => format!(" {what} takes longer ({times})."),
        Verdict::Faster => format!(" {what} takes less ({times})."),
        Verdict::Inconclusive => format!(" {what}: inconclusive ({times})."),
    }
}

/// Who sets the pace: a change of the other is hidden.
fn pace_text(comparison: &Comparison) -> String {
    let Some(busy) = comparison.busy else {
        return "These steps contain no GPU work.".to_owned();
    };
    let walls = [comparison.wall.base, comparison.wall.other];
    let share = |at: usize| {
        let (busy, wall): (StepTime, StepTime) = (busy[at], walls[at]);
        (busy.step_ns(), wall.step_ns())
    };
    let is_mostly = |at: usize| share(at).0 * 2 > share(at).1;
    let text = |at: usize| percent_text(share(at).0, share(at).1);
    let pace = match [is_mostly(0), is_mostly(1)] {
        [true, true] => "the step is GPU-bound",
        [false, false] => "the step is host-bound",
        _ => "only one side is GPU-bound",
    };
    format!("GPU utilization: {} in base, {} in other; {pace}.", text(0), text(1))
}
