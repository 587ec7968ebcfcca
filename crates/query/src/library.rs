//! Views for what people ask most, and the help on tables.

use std::sync::Arc;

use crate::relation::Source;
use crate::tables::{Traces, relations};

/// A view: its name, a few words, what it selects.
const VIEWS: &[(&str, &str, &str)] = &[
    (
        "gpu_work",
        "kernels, copies and fills of GPUs",
        "SELECT * FROM spans WHERE kind IN ('kernel', 'memcpy', 'memset')",
    ),
    ("kernels", "kernels of GPUs", "SELECT * FROM spans WHERE kind = 'kernel'"),
    (
        "operators",
        "framework operators, such as aten::mm",
        "SELECT * FROM spans WHERE kind = 'operator'",
    ),
    ("python", "frames of Python", "SELECT * FROM spans WHERE kind = 'python'"),
    ("runtime", "calls of a GPU's runtime or driver", "SELECT * FROM spans WHERE kind = 'runtime'"),
    ("threads", "tracks that are threads", "SELECT * FROM tracks WHERE kind = 'thread'"),
    (
        "streams",
        "tracks that are streams of GPUs",
        "SELECT * FROM tracks WHERE kind = 'gpu_stream'",
    ),
    (
        "steps",
        "the steps that the profiler was notified of, as the host saw them",
        "SELECT trace, step, start, dur, \"end\" FROM spans \
         WHERE kind = 'annotation' AND name = 'ProfilerStep#' || step",
    ),
    (
        "gpu_by_line",
        "GPU time by the Python line that launched it",
        "SELECT line, count(*) AS launches, sum(dur) AS gpu_ns FROM gpu_work GROUP BY line",
    ),
    (
        "gpu_by_kernel",
        "GPU time by name",
        "SELECT name, count(*) AS count, sum(dur) AS gpu_ns, max(dur) AS longest_ns \
         FROM gpu_work GROUP BY name",
    ),
    (
        "self_by_name",
        "self time of threads by name",
        "SELECT name, count(*) AS count, sum(self) AS self_ns FROM spans \
         WHERE track IN (SELECT id FROM threads) AND kind <> 'sampled' GROUP BY name",
    ),
    (
        "cpu_by_function",
        "CPU time of recordings by function: by itself, and with what it called",
        "WITH ran AS (SELECT trace, sum(thread_cpu_ns) AS ns FROM tracks GROUP BY trace), \
         rows AS (SELECT stacks.trace AS trace, frames.function AS function, \
         frames.mapping AS mapping, frames.kind AS kind, stacks.self_cpu_ns AS self_ns, \
         iif(stacks.recursive, 0, stacks.total_cpu_ns) AS total_ns, stacks.samples AS samples \
         FROM stacks CROSS JOIN frames ON frames.id = stacks.frame WHERE stacks.total_cpu_ns > 0 \
         UNION ALL SELECT trace, '[no stack]', NULL, NULL, cpu_ns, cpu_ns, \
         iif(time IS NULL, NULL, 1) \
         FROM samples WHERE stack IS NULL AND cpu_ns IS NOT NULL \
         UNION ALL SELECT trace, '[no sample]', NULL, NULL, no_sample_ns, no_sample_ns, 0 \
         FROM tracks WHERE no_sample_ns > 0 \
         UNION ALL SELECT trace, '[context switch]', NULL, NULL, switching_ns, switching_ns, 0 \
         FROM tracks WHERE switching_ns > 0) \
         SELECT rows.trace AS trace, function, mapping, kind, sum(self_ns) AS self_cpu_ns, \
         sum(total_ns) AS total_cpu_ns, sum(samples) AS samples, \
         100.0 * sum(self_ns) / ran.ns AS share_percent, \
         iif(function IN ('[no sample]', '[context switch]'), NULL, share_error(sum(samples), \
         sum(sum(samples)) OVER (PARTITION BY rows.trace))) AS error_percent \
         FROM rows JOIN ran ON ran.trace = rows.trace \
         GROUP BY rows.trace, function, mapping, kind",
    ),
    (
        "offcpu_by_reason",
        "time of threads off the CPU by state and reason",
        "WITH taken AS (SELECT DISTINCT stack_from AS id FROM thread_states \
         WHERE stack_from IS NOT NULL), \
         waits AS (SELECT trace, state, wait_reason, idle, dur, \
         coalesce(stack_from, taken.id) AS taken FROM thread_states \
         LEFT JOIN taken ON taken.id = thread_states.id WHERE state <> 'running'), \
         sampled AS (SELECT trace AS of, sum(dur) AS ns, count(DISTINCT taken) AS stacks \
         FROM waits WHERE taken IS NOT NULL GROUP BY trace) \
         SELECT trace, state, wait_reason, idle, sum(dur) AS total_ns, count(*) AS count, \
         max(dur) AS longest_ns, sum(iif(taken IS NULL, 0, dur)) AS sampled_ns, \
         count(DISTINCT taken) AS stacks, CAST(share_error(nullif(count(DISTINCT taken), 0), \
         sampled.stacks) / 100 * sampled.ns AS INTEGER) AS error_ns \
         FROM waits LEFT JOIN sampled ON sampled.of = waits.trace \
         GROUP BY trace, state, wait_reason, idle",
    ),
    (
        "gpu_gaps",
        "intervals without work on a GPU's stream, and what came next",
        "SELECT track, prev_end AS start, start - prev_end AS dur, id AS next, name AS next_name \
         FROM (SELECT id, name, track, start, \
         max(\"end\") OVER (PARTITION BY track ORDER BY start \
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev_end FROM gpu_work) \
         WHERE prev_end < start",
    ),
    (
        "device_gaps",
        "intervals in which no stream of a GPU had work, and what came next",
        "SELECT trace, gpu, prev_end AS start, start - prev_end AS dur, id AS next, \
         name AS next_name FROM (SELECT work.id, work.trace, work.name, work.start, \
         streams.process AS gpu, max(work.\"end\") OVER (PARTITION BY work.trace, \
         streams.process ORDER BY work.start, work.id \
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev_end \
         FROM gpu_work AS work JOIN streams ON streams.id = work.track) WHERE prev_end < start",
    ),
    (
        "launchers",
        "ids of the spans under which GPU work was launched, at any depth",
        "WITH RECURSIVE above(id) AS (SELECT launch FROM gpu_work WHERE launch IS NOT NULL \
         UNION SELECT spans.parent FROM above JOIN spans ON spans.id = above.id \
         WHERE spans.parent IS NOT NULL) SELECT id FROM above",
    ),
    (
        "launches",
        "each launch with its kernel, and how long that waited in the queue",
        "SELECT call.id AS call, call.name AS call_name, work.id AS work, work.name AS work_name, \
         call.start AS call_start, work.start AS work_start, work.start - call.start AS delay \
         FROM gpu_work AS work JOIN spans AS call ON call.id = work.launch",
    ),
];

/// SQL that makes the views.
pub(crate) fn views() -> String {
    let sql = VIEWS.iter().map(|(name, _, select)| format!("CREATE VIEW {name} AS {select};\n"));
    sql.collect()
}

/// A table, a view or a function, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableHelp {
    pub name: &'static str,
    pub about: &'static str,
    /// Name, sort and meaning of each column; of a view, none.
    pub columns: Vec<(&'static str, &'static str, &'static str)>,
}

/// What can be asked.
pub fn tables_help() -> Vec<TableHelp> {
    let tables = relations(&Arc::new(Traces::new(Vec::new()))).into_iter().map(|relation| {
        let columns = relation.columns.iter().map(|column| {
            let sort = match column.source {
                Source::Int(_) => "integer",
                Source::Real(_) => "real",
                Source::Text(..) => "text",
            };
            (column.name, sort, column.about)
        });
        TableHelp { name: relation.name, about: relation.about, columns: columns.collect() }
    });
    let plain = |&(name, about): &(&'static str, &'static str)| TableHelp {
        name,
        about,
        columns: Vec::new(),
    };
    let views: Vec<(&'static str, &'static str)> =
        VIEWS.iter().map(|&(name, about, _)| (name, about)).collect();
    let functions = [
        ("stack(span)", "the names of the spans around it and its own, outermost first, by `;`"),
        ("call_stack(stack)", "the functions of a stack of `stacks`, outermost first, by `;`"),
        ("arg(span, key)", "one of its arguments"),
        ("args(span)", "all of its arguments, as JSON"),
        ("overlap(start, dur, start, dur)", "how long both last at once"),
        ("share_error(samples, all)", "how far a share by so many of all samples may be off, in %"),
    ];
    tables.chain(views.iter().map(plain)).chain(functions.iter().map(plain)).collect()
}
