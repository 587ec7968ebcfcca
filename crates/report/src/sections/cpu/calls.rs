//! Functions by their calls, and the calls of one function.

use spanwise_analyze::{Bucket, CallDifference, CallsRow, Latency, SlowCall, TotalNanos, calls};
use spanwise_write::{Body, Cell, Column, Columns, Content, Section, Top, decimal, nanos_text};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const CALLS: SectionDef = SectionDef {
    key: "calls",
    title: "Functions by self time, and how long each call takes",
    about: "functions by self time, and how long each call takes",
    shown: Shown::OnRequest,
    method: "calls",
    content: |request| functions(&calls(request.facts), request.facts.window_ns(), request.top),
};

fn functions(rows: &[CallsRow], wall_ns: TotalNanos, top: Top) -> Content {
    Columns::<CallsRow>::new()
        .add(Column::nanos("self", "self"), |row| row.self_ns.into())
        .add(Column::percent("self_share", "of wall"), |row| Cell::Share(row.self_ns, wall_ns))
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::count("calls", "calls"), |row| row.each.count.into())
        .add(Column::nanos("p50", "each: p50"), |row| row.each.p50_ns.into())
        .add(Column::nanos("p90", "p90").optional(), |row| row.each.p90_ns.into())
        .add(Column::nanos("p99", "p99"), |row| row.each.p99_ns.into())
        .add(Column::nanos("max", "longest"), |row| row.each.max_ns.into())
        .add(Column::text("name", "function"), |row| row.name.as_str().into())
        .content(rows, top)
        .when_empty(
            "no calls were recorded one by one; report has CPU time by function, from samples",
        )
}

/// How long the calls of a function take.
pub fn latency_section(latency: &Latency) -> Section {
    let each = &latency.each;
    let table = Columns::<Latency>::new()
        .add(Column::text("name", "function"), |row| row.name.as_str().into())
        .add(Column::count("calls", "calls"), |_| each.count.into())
        .add(Column::nanos("sum", "in all"), |row| row.sum_ns.into())
        .add(Column::nanos("mean", "mean"), |row| {
            (each.count > 0).then(|| row.sum_ns / i128::from(each.count)).into()
        })
        .add(Column::nanos("min", "shortest"), |row| row.min_ns.into())
        .add(Column::nanos("p50", "p50"), |_| each.p50_ns.into())
        .add(Column::nanos("p90", "p90"), |_| each.p90_ns.into())
        .add(Column::nanos("p99", "p99"), |_| each.p99_ns.into())
        .add(Column::nanos("p999", "p99.9"), |row| row.p999_ns.into())
        .add(Column::nanos("max", "longest"), |_| each.max_ns.into())
        .table([latency]);
    Content { body: Body::Record(table), title: None, when_empty: None, left_out: 0 }
        .section("latency", "How long a call takes")
}

/// How many calls took how long; with bars for people.
pub fn histogram_section(latency: &Latency, has_bars: bool) -> Section {
    const BAR: u128 = 40;
    let most = latency.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
    let mut columns = Columns::<Bucket>::new()
        .add(Column::nanos("from", "from"), |row| row.from_ns.into())
        .add(Column::nanos("to", "to under"), |row| row.to_ns.into())
        .add(Column::count("calls", "calls"), |row| row.count.into())
        .add(Column::percent("share", "share"), |row| {
            Cell::Share(row.count.into(), latency.each.count.into())
        });
    if has_bars {
        columns = columns.add(Column::text("bar", ""), |row| {
            let length = (u128::from(row.count) * BAR).div_ceil(u128::from(most)) as usize;
            "█".repeat(length).into()
        });
    }
    columns.content(&latency.buckets, Top::All).section("histogram", "Calls by how long they take")
}

/// The slowest calls, and what was different in them.
pub fn slowest_section(latency: &Latency) -> Section {
    let has_names = latency.slowest.iter().any(|call| call.name != latency.name);
    let median = i128::from(latency.each.p50_ns);
    let most = |call: &SlowCall, ns: fn(&CallDifference) -> Cell| {
        call.differences.first().map_or(Cell::None, ns)
    };
    Columns::<SlowCall>::new()
        .add(Column::nanos("duration", "took"), |row| row.dur_ns.into())
        .add(Column::count("times_median", "× p50"), |row| {
            let times = (median > 0).then(|| decimal(i128::from(row.dur_ns), median, 1));
            times.map_or(Cell::None, Cell::Decimal)
        })
        .add(Column::nanos("at", "at"), |row| row.at_ns.into())
        .add(Column::text("thread", "thread"), |row| row.thread.as_str().into())
        .add(Column::text("name", "function").in_text_if(has_names), |row| row.name.as_str().into())
        .add(Column::nanos("more_here", "spent"), |row| most(row, |most| most.here_ns.into()))
        .add(Column::nanos("more_usual", "usually"), |row| most(row, |most| most.usual_ns.into()))
        .add(Column::text("more_in", "in"), |row| most(row, |most| callee_text(most).into()))
        .note(others_text)
        .content(&latency.slowest, Top::All)
        .section("slowest", "Slowest calls, and what took longer in them than in the median call")
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
