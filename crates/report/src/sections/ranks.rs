//! Many ranks side by side.

use spanwise_analyze::{
    Activity, CollectiveInstanceRow, CollectiveRow, Excess, RankRow, RankWait, Ranks, Straggler,
};
use spanwise_write::{
    Body, Column, Columns, Content, Document, Paragraph, Top, Unit, bytes_text, count_text,
    fitted_name, nanos_text, percent_text,
};

use super::{SectionDef, Shown, Subject, named_sections};

/// A file of a rank that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    pub file: String,
    pub reason: String,
}

/// What a report on many ranks is to show.
pub struct RanksRequest<'a> {
    pub ranks: &'a Ranks,
    pub unread: &'a [UnreadFile],
    pub top: Top,
    /// The sections that were named; none for the usual ones.
    pub sections: &'a [String],
}

/// Many ranks of one run.
pub struct ManyRanks;

impl Subject for ManyRanks {
    type Request<'a> = RanksRequest<'a>;
}

type RanksSection = SectionDef<ManyRanks>;

/// All sections about many ranks, in order of a report.
pub const RANK_SECTIONS: &[&RanksSection] =
    &[&STRAGGLER, &RANKS, &RANK_WAITS, &COLLECTIVES, &COLLECTIVE_INSTANCES, &UNREAD];

/// The sections that are named, or the usual ones with hints about what the numbers rest on.
pub fn ranks_report(request: &RanksRequest<'_>) -> Document {
    let sections = named_sections(RANK_SECTIONS, request, request.sections);
    let is_unmatched = request.ranks.matched == 0 && request.ranks.ranks.len() > 1;
    let hint = "No collective was found on two ranks or more, so nothing can be said about who \
                waits for whom.";
    let hints = is_unmatched.then(|| hint.to_owned()).into_iter().collect();
    Document { sections, hints }
}

const STRAGGLER: RanksSection = SectionDef {
    key: "straggler",
    title: "Straggler",
    about: "which rank the others wait for, and what it does",
    shown: Shown::Always,
    method: "straggler",
    content: |request| straggler(request.ranks.straggler.as_ref()),
};

/// A straggler, and one thing that it spends more time on than the others.
struct Cause<'a> {
    straggler: &'a Straggler,
    excess: Option<&'a Excess>,
}

fn straggler(found: Option<&Straggler>) -> Content {
    let causes = |straggler: &'_ Straggler| -> Vec<Option<usize>> {
        match straggler.excess.len() {
            0 => vec![None],
            count => (0..count).map(Some).collect(),
        }
    };
    let rows: Vec<Cause<'_>> = found
        .into_iter()
        .flat_map(|straggler| {
            let excess = |at: Option<usize>| at.map(|at| &straggler.excess[at]);
            causes(straggler).into_iter().map(move |at| Cause { straggler, excess: excess(at) })
        })
        .collect();
    let table = Columns::<Cause<'_>>::new()
        .add(Column::count("rank", "rank"), |row| row.straggler.rank.into())
        .add(Column::nanos("late", "late"), |row| row.straggler.late_ns.into())
        .add(Column::nanos("window", "window"), |row| row.straggler.window_ns.into())
        .add(Column::count("last_count", "last"), |row| row.straggler.last_count.into())
        .add(Column::count("collectives", "collectives"), |row| row.straggler.matched.into())
        .add(Column::nanos("compute", "compute"), |row| row.straggler.compute_ns.into())
        .add(Column::nanos("others_compute", "others"), |row| {
            row.straggler.others_compute_ns.into()
        })
        .add(Column::text("cause", "cause"), |row| {
            row.excess.map(|excess| excess.activity.name.clone()).into()
        })
        .add(Column::text("cause_line", "line"), |row| {
            row.excess.and_then(|excess| excess.activity.line.clone()).into()
        })
        .add(Column::nanos("cause_own", "own"), |row| row.excess.map(|excess| excess.own_ns).into())
        .add(Column::nanos("cause_others", "others"), |row| {
            row.excess.map(|excess| excess.others_ns).into()
        })
        .table(&rows);
    let paragraphs = found.map(straggler_words).into_iter().collect();
    Content {
        body: Body::Prose(table, paragraphs),
        title: None,
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
    format!("{kind}{}{place} ({own} against {others})", fitted_name(name, 60))
}

fn named(rank: Option<i64>) -> String {
    rank.map_or("one rank".to_owned(), |rank| format!("rank {rank}"))
}

const RANKS: RanksSection = SectionDef {
    key: "ranks",
    title: "Ranks",
    about: "each rank: GPU, host, collectives, waiting",
    shown: Shown::Always,
    method: "ranks",
    content: |request| ranks(&request.ranks.ranks),
};

fn ranks(rows: &[RankRow]) -> Content {
    let any = |value: fn(&RankRow) -> bool| rows.iter().any(value);
    let (nanos, count) = (Column::nanos, Column::count);
    let communication = nanos("exposed_communication", "GPU comm.")
        .in_text_if(any(|row| row.digest.exposed_communication_ns != 0));
    let copies = nanos("exposed_copy", "copies")
        .optional()
        .in_text_if(any(|row| row.digest.exposed_copy_ns != 0));
    let compute = nanos("compute", "compute").in_text_if(any(|row| row.digest.compute_ns != 0));
    let idle = nanos("idle", "idle").in_text_if(any(|row| row.digest.idle_ns != 0));
    let unmatched = count("unmatched", "unmatched").in_text_if(any(|row| row.unmatched > 0));
    let ahead =
        nanos("clock_ahead", "clock ahead").in_text_if(any(|row| row.clock_ahead_ns.is_some()));
    Columns::<RankRow>::new()
        .add(count("rank", "rank"), |row| row.digest.rank.into())
        .add(nanos("window", "window"), |row| row.window_ns.into())
        .add(compute, |row| row.digest.compute_ns.into())
        .add(communication, |row| row.digest.exposed_communication_ns.into())
        .add(copies, |row| row.digest.exposed_copy_ns.into())
        .add(idle, |row| row.digest.idle_ns.into())
        .add(Column::hidden("gpu_work", Unit::Nanos), |row| row.digest.gpu_work_ns.into())
        .add(nanos("host_working", "host works"), |row| row.digest.host_working_ns.into())
        .add(nanos("host_waiting", "host waits").optional(), |row| {
            row.digest.host_waiting_ns.into()
        })
        .add(nanos("collectives", "collectives"), |row| row.digest.collective_ns.into())
        .add(nanos("waited", "waited"), |row| row.waited_ns.into())
        .add(nanos("made_wait", "made wait"), |row| row.made_wait_ns.into())
        .add(count("last_count", "last"), |row| row.last_count.into())
        .add(unmatched, |row| row.unmatched.into())
        .add(ahead, |row| row.clock_ahead_ns.into())
        .add(Column::hidden("steps", Unit::Count), |row| row.digest.steps.into())
        .add(Column::hidden("world_size", Unit::Count), |row| row.digest.world_size.into())
        .add(Column::text("file", "file").optional(), |row| row.digest.file.as_str().into())
        .content(rows, Top::All)
}

const RANK_WAITS: RanksSection = SectionDef {
    key: "rank-waits",
    title: "Who waits for whom",
    about: "who waits for whom",
    shown: Shown::Always,
    method: "waits",
    content: |request| rank_waits(&request.ranks.waits, request.top),
};

fn rank_waits(rows: &[RankWait], top: Top) -> Content {
    Columns::<RankWait>::new()
        .add(Column::nanos("total", "waited"), |row| row.total_ns.into())
        .add(Column::count("count", "times"), |row| row.count.into())
        .add(Column::count("rank", "rank"), |row| row.rank.into())
        .add(Column::count("waited_for", "waited for rank"), |row| row.waited_for.into())
        .content(rows, top)
}

const COLLECTIVES: RanksSection = SectionDef {
    key: "collectives",
    title: "Collectives",
    about: "collectives by kind and size: skew, transfer, bandwidth",
    shown: Shown::Always,
    method: "collectives",
    content: |request| collectives(&request.ranks.collectives, request.top),
};

/// A speed in bytes, for a cell.
fn speed(bytes: u128) -> i128 {
    i128::try_from(bytes).unwrap_or(i128::MAX)
}

fn collectives(rows: &[CollectiveRow], top: Top) -> Content {
    Columns::<CollectiveRow>::new()
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::count("count", "count"), |row| row.count.into())
        .add(Column::bytes("message", "message"), |row| row.key.bytes.into())
        .add(Column::count("ranks", "ranks"), |row| row.ranks.into())
        .add(Column::nanos("skew", "skew"), |row| row.skew_ns.into())
        .add(Column::nanos("skew_max", "skew max").optional(), |row| row.skew_max_ns.into())
        .add(Column::nanos("transfer", "transfer"), |row| row.transfer_ns.into())
        .add(Column::hidden("algorithm_per_second", Unit::Bytes), |row| {
            row.bytes_per_second().map(|(algorithm, _)| speed(algorithm)).into()
        })
        .add(Column::hidden("bus_per_second", Unit::Bytes), |row| {
            row.bytes_per_second().map(|(_, bus)| speed(bus)).into()
        })
        .add(Column::hidden("last_rank", Unit::Count), |row| row.last_rank.into())
        .add(Column::hidden("last_count", Unit::Count), |row| row.last_count.into())
        .add(Column::hidden("group", Unit::Text), |row| row.key.group.as_str().into())
        .add(Column::text("op", "collective"), |row| row.key.op.text().into())
        .note(collective_note)
        .content(rows, top)
}

fn collective_note(row: &CollectiveRow) -> String {
    let speeds = row.bytes_per_second().map(|(algorithm, bus)| {
        format!("{}/s, {}/s on the wire", bytes_text(speed(algorithm)), bytes_text(speed(bus)))
    });
    let last = row
        .last_rank
        .map(|rank| format!("last: rank {rank}, {} times", count_text(row.last_count.into())));
    speeds.into_iter().chain(last).collect::<Vec<_>>().join("; ")
}

/// A row for each of many thousands, so only on request.
const COLLECTIVE_INSTANCES: RanksSection = SectionDef {
    key: "collective-instances",
    title: "Collectives one by one",
    about: "each collective: which rank came first and last, what was waited",
    shown: Shown::OnRequest,
    method: "collective_instances",
    content: |request| instances(&request.ranks.instances, request.top),
};

fn instances(rows: &[CollectiveInstanceRow], top: Top) -> Content {
    Columns::<CollectiveInstanceRow>::new()
        .add(Column::hidden("start", Unit::Nanos), |row| row.start_ns.into())
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::nanos("skew", "skew"), |row| row.skew_ns.into())
        .add(Column::nanos("waited", "waited in all"), |row| row.waited_ns.into())
        .add(Column::nanos("transfer", "transfer"), |row| row.transfer_ns.into())
        .add(Column::count("ranks", "ranks"), |row| row.ranks.into())
        .add(Column::count("first_rank", "first rank"), |row| row.first_rank.into())
        .add(Column::count("last_rank", "last rank"), |row| row.last_rank.into())
        .add(Column::bytes("message", "message"), |row| row.key.bytes.into())
        .add(Column::text("group", "group").optional(), |row| row.key.group.as_str().into())
        .add(Column::text("op", "collective"), |row| row.key.op.text().into())
        .content(rows, top)
}

const UNREAD: RanksSection = SectionDef {
    key: "unread",
    title: "Could not be read",
    about: "files that could not be read, and why",
    shown: Shown::WhereRecorded,
    method: "unread",
    content: |request| unread(request.unread),
};

fn unread(files: &[UnreadFile]) -> Content {
    Columns::<UnreadFile>::new()
        .add(Column::text("file", "file"), |row| row.file.as_str().into())
        .add(Column::text("error", "why"), |row| row.reason.as_str().into())
        .content(files, Top::All)
}
