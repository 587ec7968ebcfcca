//! Many ranks side by side.

use spanwise_analyze::{
    Activity, CollectiveRow, Excess, MeetingRow, RankRow, RankWait, Ranks, Straggler,
};

use crate::Top;
use crate::document::sectioned::{Body, Document, Paragraph, Section, section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{bytes_text, count_text, nanos_text, percent_text};

/// Sections about a run of many ranks; `unread` are files that could not be read,
/// with why.
pub fn ranks_document(ranks: &Ranks, unread: &[(String, String)], top: Top) -> Document {
    let mut sections = vec![
        straggler_section(ranks.straggler.as_ref()),
        ranks_section(&ranks.ranks),
        waits_section(&ranks.waits, top),
        collectives_section(&ranks.collectives, top),
    ];
    if !unread.is_empty() {
        sections.push(unread_section(unread));
    }
    let mut hints = Vec::new();
    if ranks.matched == 0 && ranks.ranks.len() > 1 {
        hints.push(
            "No collective was found on two ranks or more, so nothing can be said about who \
             waits for whom."
                .to_owned(),
        );
    }
    Document { sections, hints }
}

fn rank_text(rank: Option<i64>) -> Cell {
    rank.into()
}

fn named(rank: Option<i64>) -> String {
    rank.map_or("one rank".to_owned(), |rank| format!("rank {rank}"))
}

fn straggler_section(straggler: Option<&Straggler>) -> Section {
    let mut table = Table::new([
        Column::new("rank", "rank", Unit::Count),
        Column::new("late", "late", Unit::Nanos),
        Column::new("window", "window", Unit::Nanos),
        Column::new("last_count", "last", Unit::Count),
        Column::new("collectives", "collectives", Unit::Count),
        Column::new("compute", "compute", Unit::Nanos),
        Column::new("others_compute", "others", Unit::Nanos),
        Column::new("cause", "cause", Unit::Text),
        Column::new("cause_line", "line", Unit::Text),
        Column::new("cause_own", "own", Unit::Nanos),
        Column::new("cause_others", "others", Unit::Nanos),
    ]);
    let mut paragraphs = Vec::new();
    if let Some(found) = straggler {
        for cause in found.excess.iter().map(Some).chain(found.excess.is_empty().then_some(None)) {
            table.push([
                rank_text(found.rank),
                found.late_ns.into(),
                found.window_ns.into(),
                found.last_count.into(),
                found.matched.into(),
                found.compute_ns.into(),
                found.others_compute_ns.into(),
                cause.map(|cause| cause.activity.name.clone()).into(),
                cause.and_then(|cause| cause.activity.line.clone()).into(),
                cause.map(|cause| cause.own_ns).into(),
                cause.map(|cause| cause.others_ns).into(),
            ]);
        }
        paragraphs.push(straggler_words(found));
    }
    Section {
        key: "straggler",
        title: "Straggler".to_owned(),
        body: Body::Prose(table, paragraphs),
        when_empty: Some("none: no rank keeps the others waiting"),
        left_out: 0,
    }
}

fn straggler_words(found: &Straggler) -> Paragraph {
    let who = named(found.rank);
    let title = format!(
        "The others wait for {who}: {} of {} ({})",
        nanos_text(found.late_ns),
        nanos_text(found.window_ns),
        percent_text(found.late_ns, found.window_ns)
    );
    let causes: Vec<String> = found.excess.iter().map(cause_words).collect();
    let did = match causes.as_slice() {
        [] => "nothing that was recorded takes it longer than the others".to_owned(),
        causes => format!("it spends more time than the others (median) on {}", causes.join("; ")),
    };
    let (last, all) = (count_text(found.last_count.into()), count_text(found.matched.into()));
    // A fifth more is more than ranks of equal work differ by.
    let computes_more = found.compute_ns * 5 > found.others_compute_ns * 6;
    let compute = match computes_more {
        true => format!(
            " Its GPU computes for {} against {}.",
            nanos_text(found.compute_ns),
            nanos_text(found.others_compute_ns)
        ),
        false => String::new(),
    };
    Paragraph {
        title,
        evidence: format!("It comes last to {last} of {all} collectives; {did}.{compute}"),
        advice: match found.excess.first() {
            Some(Excess { activity: Activity { is_gpu: true, .. }, .. }) => {
                "Give every rank the same amount of work: compare batch sizes and lengths of \
                 sequences."
                    .to_owned()
            }
            Some(_) => "Look at what that line does on this rank and not on the others.".to_owned(),
            None => format!("Record more of {who}: with_stack=True shows what its code does."),
        },
    }
}

fn cause_words(cause: &Excess) -> String {
    let Activity { is_gpu, name, line } = &cause.activity;
    let kind = if *is_gpu { "GPU work " } else { "" };
    let place = line.as_ref().map(|line| format!(" in {line}")).unwrap_or_default();
    let (own, others) = (nanos_text(cause.own_ns), nanos_text(cause.others_ns));
    format!("{kind}{}{place} ({own} against {others})", crate::fitted_name(name, 60))
}

fn ranks_section(rows: &[RankRow]) -> Section {
    let has_clock = rows.iter().any(|row| row.clock_ahead_ns.is_some());
    let has_unmatched = rows.iter().any(|row| row.unmatched > 0);
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let any = |column: Column, ns: fn(&RankRow) -> i128| Column {
        in_text: rows.iter().any(|row| ns(row) != 0),
        ..column
    };
    let mut table = Table::new([
        Column::new("rank", "rank", Unit::Count),
        nanos("window", "window"),
        any(nanos("compute", "compute"), |row| row.digest.compute_ns),
        any(nanos("exposed_communication", "GPU comm."), |row| row.digest.exposed_communication_ns),
        any(nanos("exposed_copy", "copies").optional(), |row| row.digest.exposed_copy_ns),
        any(nanos("idle", "idle"), |row| row.digest.idle_ns),
        Column::hidden("gpu_work", Unit::Nanos),
        nanos("host_working", "host works"),
        nanos("host_waiting", "host waits").optional(),
        nanos("collectives", "collectives"),
        nanos("waited", "waited"),
        nanos("made_wait", "made wait"),
        Column::new("last_count", "last", Unit::Count),
        Column { in_text: has_unmatched, ..Column::new("unmatched", "unmatched", Unit::Count) },
        Column { in_text: has_clock, ..nanos("clock_ahead", "clock ahead") },
        Column::hidden("steps", Unit::Count),
        Column::hidden("world_size", Unit::Count),
        Column::new("file", "file", Unit::Text).optional(),
    ]);
    for row in rows {
        table.push([
            rank_text(row.digest.rank),
            row.window_ns.into(),
            row.digest.compute_ns.into(),
            row.digest.exposed_communication_ns.into(),
            row.digest.exposed_copy_ns.into(),
            row.digest.idle_ns.into(),
            row.digest.gpu_work_ns.into(),
            row.digest.host_working_ns.into(),
            row.digest.host_waiting_ns.into(),
            row.digest.collective_ns.into(),
            row.waited_ns.into(),
            row.made_wait_ns.into(),
            row.last_count.into(),
            row.unmatched.into(),
            row.clock_ahead_ns.into(),
            row.digest.steps.into(),
            row.digest.world_size.into(),
            row.digest.file.as_str().into(),
        ]);
    }
    section("ranks", "Ranks", table, rows.len())
}

fn waits_section(rows: &[RankWait], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("total", "waited", Unit::Nanos),
        Column::new("count", "times", Unit::Count),
        Column::new("rank", "rank", Unit::Count),
        Column::new("waited_for", "waited for rank", Unit::Count),
    ]);
    for row in top.of(rows) {
        table.push([
            row.total_ns.into(),
            row.count.into(),
            rank_text(row.rank),
            rank_text(row.waited_for),
        ]);
    }
    section("rank-waits", "Who waits for whom", table, rows.len())
}

fn collectives_section(rows: &[CollectiveRow], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("total", "total", Unit::Nanos),
        Column::new("count", "count", Unit::Count),
        Column::new("message", "message", Unit::Bytes),
        Column::new("ranks", "ranks", Unit::Count),
        Column::new("skew", "skew", Unit::Nanos),
        Column::new("skew_max", "skew max", Unit::Nanos).optional(),
        Column::new("transfer", "transfer", Unit::Nanos),
        Column::hidden("algorithm_per_second", Unit::Bytes),
        Column::hidden("bus_per_second", Unit::Bytes),
        Column::hidden("last_rank", Unit::Count),
        Column::hidden("last_count", Unit::Count),
        Column::hidden("group", Unit::Text),
        Column::new("op", "collective", Unit::Text),
    ]);
    for row in top.of(rows) {
        let speed = row.bytes_per_second();
        let bytes = |value: u128| i128::try_from(value).unwrap_or(i128::MAX);
        let cells = [
            row.total_ns.into(),
            row.count.into(),
            row.key.bytes.into(),
            row.ranks.into(),
            row.skew_ns.into(),
            row.skew_max_ns.into(),
            row.transfer_ns.into(),
            speed.map(|(algorithm, _)| bytes(algorithm)).into(),
            speed.map(|(_, bus)| bytes(bus)).into(),
            rank_text(row.last_rank),
            row.last_count.into(),
            row.key.group.as_str().into(),
            row.key.op.text().into(),
        ];
        let last = match row.last_rank {
            Some(rank) => format!("last: rank {rank}, {} times", count_text(row.last_count.into())),
            None => String::new(),
        };
        let speed = speed.map(|(algorithm, bus)| {
            let text = |value: u128| bytes_text(bytes(value));
            format!("{}/s, {}/s on the wire", text(algorithm), text(bus))
        });
        let notes: Vec<String> =
            speed.into_iter().chain([last]).filter(|note| !note.is_empty()).collect();
        table.push_with_note(cells, notes.join("; "));
    }
    section("collectives", "Collectives", table, rows.len())
}

/// Each collective that ranks met in: one row a meeting, so only for those who ask.
pub fn meetings_section(rows: &[MeetingRow], top: Top) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        Column::hidden("start", Unit::Nanos),
        nanos("total", "total"),
        nanos("skew", "skew"),
        nanos("waited", "waited in all"),
        nanos("transfer", "transfer"),
        Column::new("ranks", "ranks", Unit::Count),
        Column::new("first_rank", "first rank", Unit::Count),
        Column::new("last_rank", "last rank", Unit::Count),
        Column::new("message", "message", Unit::Bytes),
        Column::new("group", "group", Unit::Text).optional(),
        Column::new("op", "collective", Unit::Text),
    ]);
    for row in top.of(rows) {
        table.push([
            row.start_ns.into(),
            row.total_ns.into(),
            row.skew_ns.into(),
            row.waited_ns.into(),
            row.transfer_ns.into(),
            row.ranks.into(),
            rank_text(row.first_rank),
            rank_text(row.last_rank),
            row.key.bytes.into(),
            row.key.group.as_str().into(),
            row.key.op.text().into(),
        ]);
    }
    section("meetings", "Collectives one by one", table, rows.len())
}

fn unread_section(unread: &[(String, String)]) -> Section {
    let mut table = Table::new([
        Column::new("file", "file", Unit::Text),
        Column::new("error", "why", Unit::Text),
    ]);
    for (file, error) in unread {
        table.push([file.as_str().into(), error.as_str().into()]);
    }
    section("unread", "Could not be read", table, unread.len())
}
