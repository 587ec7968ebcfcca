//! Small runs of several ranks.

use spanwise_model::SpanKind;

use super::*;
use crate::Facts;
use crate::base::sample::Sample;

/// A rank whose collectives last from each start to the common end.
fn digest(rank: i64, clock_ahead: i64, calls: &[(i64, i64)], sleep: i64) -> RankDigest {
    let mut sample = Sample::default();
    let ahead = |time: i64| time + clock_ahead;
    sample.span("1", SpanKind::Python, "train.py(9): step", ahead(0), 1_000_000_000);
    sample.span("1", SpanKind::Python, "<built-in function sleep>", ahead(5), sleep);
    for &(start, end) in calls {
        let what = (SpanKind::Annotation, "gloo:all_reduce");
        sample.span("2", what.0, what.1, ahead(start), end - start);
    }
    let trace = sample.finish();
    let digester = RankDigester::default();
    digester.digest(&Facts::new(&trace), &format!("rank{rank}.json"), Some(rank))
}

const MS: i64 = 1_000_000;

/// Rank 1 comes 30 ms late to each of four collectives.
fn run(clock_ahead: i64) -> Ranks {
    let ends = [100 * MS, 200 * MS, 300 * MS, 400 * MS];
    let calls = |early: i64| ends.map(|end| (end - early, end)).to_vec();
    let digests = vec![
        digest(2, 0, &calls(41 * MS), MS),
        digest(0, clock_ahead, &calls(40 * MS), MS),
        digest(1, 0, &calls(10 * MS), 121 * MS),
    ];
    ranks(digests)
}

#[test]
fn the_late_rank_is_named_with_what_it_does() {
    let found = run(0).straggler.expect("rank 1 is late");
    assert_eq!((found.rank, found.last_count, found.matched), (Some(1), 4, 4));
    assert_eq!(found.late_ns, 120_000_000);
    let cause = &found.excess[0];
    assert_eq!(cause.activity.name, "<built-in function sleep>");
    assert_eq!(cause.activity.line.as_deref(), Some("train.py(9): step"));
    assert_eq!((cause.own_ns, cause.others_ns), (121_000_000, 1_000_000));
}

#[test]
fn who_waits_for_whom_adds_up() {
    let found = run(0);
    let numbers: Vec<_> = found.ranks.iter().map(|row| row.digest.rank).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
    let waited: i128 = found.waits.iter().map(|row| row.total_ns).sum();
    assert_eq!(waited, found.ranks.iter().map(|row| row.waited_ns).sum::<i128>());
    assert_eq!(waited, found.ranks.iter().map(|row| row.made_wait_ns).sum::<i128>());
    assert_eq!(found.waits[0].waited_for, Some(1));
    assert_eq!(found.ranks[0].waited_ns, 4 * 30_000_000);
}

#[test]
fn every_instance_says_who_came_first_and_last() {
    let found = run(0);
    assert_eq!(found.instances.len() as u64, found.matched);
    let row = &found.instances[0];
    assert_eq!((row.ranks, row.first_rank, row.last_rank), (3, Some(2), Some(1)));
    assert_eq!((row.start_ns, row.skew_ns), (i128::from(59 * MS), i128::from(31 * MS)));
    assert_eq!(row.waited_ns, i128::from((31 + 30) * MS));
    let waited: i128 = found.instances.iter().map(|row| row.waited_ns).sum();
    assert_eq!(waited, found.waits.iter().map(|row| row.total_ns).sum::<i128>());
}

#[test]
fn what_was_taken_apart_is_the_same_when_put_together() {
    let whole = digest(1, 0, &[(60 * MS, 100 * MS), (160 * MS, 200 * MS)], 7 * MS);
    let calls = whole.calls().iter().rev();
    let calls = calls.map(|call| (CollectiveKey::clone(&call.key), call.start, call.end));
    let activities: Vec<_> = whole.activities().map(|(doing, ns)| (doing.clone(), ns)).collect();
    let head = RankDigest { collectives: [].into(), doing: [].into(), ..whole.clone() };
    let again = RankDigester::default().assemble(head, calls, activities.into_iter().rev());
    assert_eq!((again.calls().len(), again), (2, whole));
}

#[test]
fn a_clock_that_is_ahead_is_set_back() {
    let (aligned, ahead) = (run(0), run(700 * MS));
    assert_eq!(aligned.ranks[0].clock_ahead_ns, None);
    assert_eq!(ahead.ranks[0].clock_ahead_ns, Some(700_000_000));
    assert_eq!(aligned.straggler, ahead.straggler);
    assert_eq!(aligned.waits, ahead.waits);
}

#[test]
fn ranks_that_keep_step_have_no_straggler() {
    let calls = [(60 * MS, 100 * MS), (160 * MS, 200 * MS)];
    let found = ranks(vec![digest(0, 0, &calls, MS), digest(1, 0, &calls, MS)]);
    assert_eq!((found.matched, found.straggler), (2, None));
}

#[test]
fn calls_that_another_rank_lacks_are_counted() {
    let all = [(10 * MS, 20 * MS), (60 * MS, 100 * MS), (160 * MS, 200 * MS)];
    let found = ranks(vec![digest(0, 0, &all, MS), digest(1, 0, &all[1..], MS)]);
    assert_eq!(found.matched, 2);
    assert_eq!((found.ranks[0].unmatched, found.ranks[1].unmatched), (1, 0));
    // The last ones are matched: recordings mostly end together.
    assert_eq!(found.collectives[0].skew_ns, 0);
}

#[test]
fn bandwidth_counts_the_bytes_on_the_wire() {
    let key = CollectiveKey { op: CollectiveOp::AllReduce, group: String::new(), bytes: Some(100) };
    let row = CollectiveRow {
        key,
        count: 2,
        ranks: 4,
        total_ns: 0,
        skew_ns: 0,
        skew_max_ns: 0,
        transfer_ns: 1_000_000_000,
        last_rank: None,
        last_count: 0,
    };
    assert_eq!(row.bytes_per_second(), Some((200, 300)));
}
