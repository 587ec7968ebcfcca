//! Samples by who did the work: a lane for each thread and for each device.

use std::collections::BTreeMap;

use spanwise_model::{Label, LabelValue, Profile};

/// Samples that belong together, and what to call them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) name: String,
    /// Samples whose chosen value is not 0, in the order of the profile.
    pub(super) rows: Vec<usize>,
    /// Sum of the chosen value.
    pub(super) total: i128,
}

/// The lanes by name; at least one. Samples that no label places are in one that is
/// called `otherwise`.
pub(super) fn lanes(profile: &Profile, value: usize, otherwise: &str) -> Vec<Lane> {
    let lane_of = |labels: &Vec<Label>| lane_name(profile, labels, otherwise);
    let names: Vec<String> = profile.label_sets.iter().map(lane_of).collect();
    let mut lanes: BTreeMap<&str, Lane> = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let weight = profile.values_of(row)[value];
        if weight == 0 {
            continue;
        }
        let name = names[sample.labels as usize].as_str();
        let lane = lanes.entry(name).or_insert_with(|| empty_lane(name));
        lane.rows.push(row);
        lane.total += i128::from(weight);
    }
    if lanes.is_empty() {
        return vec![empty_lane(otherwise)];
    }
    lanes.into_values().collect()
}

/// The lane to show first: the heaviest, of equals the first.
pub(super) fn heaviest(lanes: &[Lane]) -> usize {
    let best = (0..lanes.len()).rev().max_by_key(|&at| lanes[at].total);
    best.unwrap_or(0)
}

fn empty_lane(name: &str) -> Lane {
    Lane { name: name.to_owned(), rows: Vec::new(), total: 0 }
}

/// Host and rank where there are any; then the device, or else the thread: work of a
/// device also carries the thread that launched it.
fn lane_name(profile: &Profile, labels: &[Label], otherwise: &str) -> String {
    let text = |key: &str| {
        labels.iter().find_map(|label| match label.value {
            LabelValue::Text(text) if profile.text(label.key) == key => Some(profile.text(text)),
            _ => None,
        })
    };
    let worker = text("device").or_else(|| text("thread"));
    let parts: Vec<&str> = [text("host"), text("rank"), worker].into_iter().flatten().collect();
    match parts.as_slice() {
        [] => otherwise.to_owned(),
        parts => parts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::{ProfileBuilder, StackId};

    use super::*;

    /// One sample for each list of labels; its value is its place, from 1.
    #[track_caller]
    fn check(samples: &[&[(&str, &str)]], expected: &[(&str, i128)]) {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        for (at, labels) in samples.iter().enumerate() {
            let labels = labels.iter().map(|(key, text)| Label {
                key: builder.string(key),
                value: LabelValue::Text(builder.string(text)),
            });
            let labels = labels.collect();
            let labels = builder.labels(labels);
            builder.add(StackId::EMPTY, labels, 0, at as i64 + 1);
        }
        let lanes = lanes(&builder.finish(), 0, "all");
        let found: Vec<_> = lanes.iter().map(|lane| (lane.name.as_str(), lane.total)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn work_of_a_device_stands_apart_from_its_thread() {
        check(
            &[&[("thread", "main")], &[("thread", "main"), ("device", "gpu0")]],
            &[("gpu0", 2), ("main", 1)],
        );
    }

    #[test]
    fn ranks_stand_apart() {
        check(
            &[
                &[("thread", "main"), ("rank", "rank 0")],
                &[("thread", "main"), ("rank", "rank 1"), ("state", "waiting")],
                &[("thread", "main"), ("rank", "rank 1")],
            ],
            &[("rank 0, main", 1), ("rank 1, main", 5)],
        );
    }

    #[test]
    fn without_labels_there_is_one_lane() {
        check(&[&[]], &[("all", 1)]);
        check(&[], &[("all", 0)]);
    }
}
