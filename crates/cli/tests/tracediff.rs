//! TraceLens's difference of two traces: which kernels it puts under which operator.
//!
//! The corpus is not part of the repository; where it is absent, the test says so.

#![allow(clippy::print_stderr, reason = "a test says what it compared and what it skipped")]

mod corpus;
mod csv;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use corpus::{close, corpus};
use flate2::read::GzDecoder;
use spanwise_analyze::{Facts, alignment};
use spanwise_model::{SpanId, Trace};
use spanwise_read::{IndexUse, OpenOptions};

/// Its first trace, then its second.
const TRACES: [&str; 2] = [
    "mi300/facebook_timesformer-base-finetuned-k400.json.gz",
    "h100/facebook_timesformer-base-finetuned-k400.json.gz",
];

/// Work of either side, by the number of the side.
type Work = (usize, SpanId);

#[test]
fn kernels_stand_under_the_same_operators() {
    let Some(folder) = corpus("tracelens") else { return };
    let traces = TRACES.map(|name| open(&folder.join(name)));
    let expected = expected(&folder, &traces);
    let [base, other] = traces.each_ref().map(Facts::new);
    let found = alignment(&base, &other);
    assert!(!found.is_bounded);
    let mut place: BTreeMap<Work, usize> = BTreeMap::new();
    for (at, group) in found.groups.iter().enumerate() {
        place.extend(group.base.iter().map(|&work| ((0, work), at)));
        place.extend(group.other.iter().map(|&work| ((1, work), at)));
    }
    let (mut all, mut agreeing, mut wrong) = (0, 0, Vec::new());
    for (operator, work) in &expected {
        all += work.len();
        let group = &found.groups[place[work.first().expect("groups have work")]];
        let base = group.base.iter().map(|&work| (0, work));
        let found: BTreeSet<Work> = base.chain(group.other.iter().map(|&work| (1, work))).collect();
        if found == *work && group.path.last() == Some(operator) {
            agreeing += work.len();
        } else {
            wrong.push(format!("{operator} {work:?}: {group:?}"));
        }
    }
    eprintln!("{agreeing} of {all} kernels, {} operators", expected.len());
    assert!(close(1.0, f64::from(agreeing as u32) / f64::from(all as u32), 0.01, 0.0), "{wrong:?}");
}

fn open(path: &Path) -> Arc<Trace> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(path, &options).expect("a trace").into()
}

/// The work under each lowest common ancestor, with its name.
fn expected(folder: &Path, traces: &[Arc<Trace>; 2]) -> Vec<(String, BTreeSet<Work>)> {
    let path = folder.join("tracediff_timesformer/diff_stats.csv.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(path).expect("it")).read_to_string(&mut text).expect("text");
    let rows = csv::rows(&text);
    let place = |name| rows[0].iter().position(|column| column == name).expect("a column");
    let (name, source, time) = (place("name"), place("source"), place("kernel_time"));
    let ancestor = [place("lowest_common_ancestor_id"), place("lowest_common_ancestor_name")];
    // By name and duration; what agrees in both is taken in order.
    let mut known: BTreeMap<(usize, &str, i64), Vec<SpanId>> = BTreeMap::new();
    for (side, trace) in traces.iter().enumerate() {
        let work = trace.spans().ids().filter(|&span| trace.kind(span).is_gpu_work());
        for span in work.rev() {
            let key = (side, trace.name(span), trace.spans().dur(span));
            known.entry(key).or_default().push(span);
        }
    }
    let mut groups: BTreeMap<&str, (String, BTreeSet<Work>)> = BTreeMap::new();
    for row in &rows[1..] {
        let side = usize::from(row[source] == "trace2");
        let ns = (row[time].parse::<f64>().expect("a time") * 1000.0).round() as i64;
        let work = known.get_mut(&(side, row[name].as_str(), ns)).and_then(Vec::pop);
        let work = work.unwrap_or_else(|| panic!("no {} of {ns} ns", row[name]));
        let group = groups.entry(&row[ancestor[0]]).or_default();
        row[ancestor[1]].clone_into(&mut group.0);
        group.1.insert((side, work));
    }
    groups.into_values().collect()
}
