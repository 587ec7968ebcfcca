//! GPU time under each annotation of the user.

use spanwise_model::SpanKind;

use super::Rows;
use super::breakdown::aggregated;
use super::load::{Loaded, Row};

pub(super) fn gpu_user_annotations(loaded: &Loaded<'_>) -> Rows {
    const MOST: usize = 1000;
    let columns = vec!["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"];
    let is_annotation = |row: &&Row| loaded.trace.kind(row.span) == SpanKind::GpuAnnotation;
    // They have no stream, so HTA keeps them among the events of the host.
    let rows: Vec<Row> = loaded.cpu.iter().filter(is_annotation).copied().collect();
    let mut named = aggregated(loaded, &rows, MOST);
    named.sort_by(|a, b| a.name.cmp(&b.name));
    let row = |aggregate: super::breakdown::Aggregate| {
        let mut row = vec![aggregate.name.as_str().into()];
        row.extend(aggregate.numbers().map(Into::into));
        row.push(loaded.rank.into());
        row
    };
    (columns, named.into_iter().map(row).collect())
}
