//! Functions by their calls, and the calls of one function.

use spanwise_analyze::{CallDifference, CallsRow, Latency, SlowCall, TotalNanos};

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{decimal, nanos_text};
use crate::sections::report::section;

pub fn calls_section(rows: &[CallsRow], wall_ns: TotalNanos, top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        nanos("self", "self"),
        Column::new("self_share", "of wall", Unit::Percent),
        nanos("total", "total"),
        Column::new("calls", "calls", Unit::Count),
        nanos("p50", "each: p50"),
        nanos("p90", "p90").optional(),
        nanos("p99", "p99"),
        nanos("max", "longest"),
        Column::new("name", "function", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.self_ns.into(),
            Cell::Share(row.self_ns, wall_ns),
            row.total_ns.into(),
            row.each.count.into(),
            row.each.p50_ns.into(),
            row.each.p90_ns.into(),
            row.each.p99_ns.into(),
            row.each.max_ns.into(),
            row.name.as_str().into(),
        ]);
    }
    let shown =
        section("calls", "Functions by self time, and how long each call takes", table, rows.len());
    Section {
        when_empty: Some(
            "no calls were recorded one by one; report has CPU time by function, from samples",
        ),
        ..shown
    }
}

/// How long the calls of a function take.
pub fn latency_section(latency: &Latency) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        Column::new("name", "function", Unit::Text),
        Column::new("calls", "calls", Unit::Count),
        nanos("sum", "in all"),
        nanos("mean", "mean"),
        nanos("min", "shortest"),
        nanos("p50", "p50"),
        nanos("p90", "p90"),
        nanos("p99", "p99"),
        nanos("p999", "p99.9"),
        nanos("max", "longest"),
    ]);
    let each = &latency.each;
    table.push([
        latency.name.as_str().into(),
        each.count.into(),
        latency.sum_ns.into(),
        (each.count > 0).then(|| latency.sum_ns / i128::from(each.count)).into(),
        latency.min_ns.into(),
        each.p50_ns.into(),
        each.p90_ns.into(),
        each.p99_ns.into(),
        latency.p999_ns.into(),
        each.max_ns.into(),
    ]);
    let title = "How long a call takes".to_owned();
    Section { key: "latency", title, body: Body::Record(table), when_empty: None, left_out: 0 }
}

/// How many calls took how long; with bars for people.
pub fn histogram_section(latency: &Latency, has_bars: bool) -> Section {
    const BAR: u128 = 40;
    let mut columns = vec![
        Column::new("from", "from", Unit::Nanos),
        Column::new("to", "to under", Unit::Nanos),
        Column::new("calls", "calls", Unit::Count),
        Column::new("share", "share", Unit::Percent),
    ];
    columns.extend(has_bars.then_some(Column::new("bar", "", Unit::Text)));
    let mut table = Table::new(columns);
    let most = latency.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
    for bucket in &latency.buckets {
        let length = (u128::from(bucket.count) * BAR).div_ceil(u128::from(most)) as usize;
        let mut row: Vec<Cell> = vec![
            bucket.from_ns.into(),
            bucket.to_ns.into(),
            bucket.count.into(),
            Cell::Share(bucket.count.into(), latency.each.count.into()),
        ];
        row.extend(has_bars.then(|| "█".repeat(length).into()));
        table.push(row);
    }
    section("histogram", "Calls by how long they take", table, latency.buckets.len())
}

/// The slowest calls, and what was different in them.
pub fn slowest_section(latency: &Latency) -> Section {
    let has_names = latency.slowest.iter().any(|call| call.name != latency.name);
    let mut table = Table::new([
        Column::new("duration", "took", Unit::Nanos),
        Column::new("times_median", "× p50", Unit::Count),
        Column::new("at", "at", Unit::Nanos),
        Column::new("thread", "thread", Unit::Text),
        Column { in_text: has_names, ..Column::new("name", "function", Unit::Text) },
        Column::new("more_here", "spent", Unit::Nanos),
        Column::new("more_usual", "usually", Unit::Nanos),
        Column::new("more_in", "in", Unit::Text),
    ]);
    for call in &latency.slowest {
        let median = i128::from(latency.each.p50_ns);
        let times = (median > 0).then(|| decimal(i128::from(call.dur_ns), median, 1));
        let most = call.differences.first();
        let row = [
            call.dur_ns.into(),
            times.map_or(Cell::None, Cell::Decimal),
            call.at_ns.into(),
            call.thread.as_str().into(),
            call.name.as_str().into(),
            most.map(|difference| difference.here_ns).into(),
            most.map(|difference| difference.usual_ns).into(),
            most.map(callee_text).into(),
        ];
        table.push_with_note(row, others_text(call));
    }
    let title = "Slowest calls, and what took longer in them than in the median call";
    section("slowest", title, table, latency.slowest.len())
}

fn callee_text(difference: &CallDifference) -> &str {
    difference.callee.as_deref().unwrap_or("its own code")
}

/// What else took longer.
fn others_text(call: &SlowCall) -> String {
    let others = call.differences.iter().skip(1).map(|difference| {
        let (here, usual) = (nanos_text(difference.here_ns), nanos_text(difference.usual_ns));
        format!("{} {here} (usually {usual})", callee_text(difference))
    });
    let others: Vec<String> = others.collect();
    match others.is_empty() {
        true => String::new(),
        false => format!("also {}", others.join(", ")),
    }
}
