//! Alignments against all there are, and long ones.

use proptest::prelude::*;

use super::*;

fn items(keys: &[(u32, u32, u32)]) -> Vec<Keys> {
    keys.iter().map(|&(a, b, c)| [a, b, c]).collect()
}

fn total(matches: &Matches, a: &[Keys], b: &[Keys]) -> u32 {
    matches.pairs.iter().map(|&(x, y)| weight(a[x], b[y])).sum()
}

/// The weight of the best alignment, by trying all.
fn heaviest(a: &[Keys], b: &[Keys]) -> u32 {
    let (Some((&x, rest_a)), Some((&y, rest_b))) = (a.split_first(), b.split_first()) else {
        return 0;
    };
    let skipped = heaviest(rest_a, b).max(heaviest(a, rest_b));
    match weight(x, y) {
        0 => skipped,
        weight => skipped.max(weight + heaviest(rest_a, rest_b)),
    }
}

fn is_valid(matches: &Matches, a: &[Keys], b: &[Keys]) -> bool {
    let ascends = |two: &[(usize, usize)]| two[0].0 < two[1].0 && two[0].1 < two[1].1;
    matches.pairs.windows(2).all(ascends)
        && matches.pairs.iter().all(|&(x, y)| weight(a[x], b[y]) > 0)
}

fn mirrored(matches: &Matches) -> Matches {
    let pairs = matches.pairs.iter().map(|&(x, y)| (y, x)).collect();
    Matches { pairs, is_bounded: matches.is_bounded }
}

fn some_items(len: usize) -> impl Strategy<Value = Vec<Keys>> {
    let key = || prop_oneof![0u32..4, Just(NO_KEY)];
    prop::collection::vec((key(), key(), key()), 0..len).prop_map(|keys| items(&keys))
}

const TIGHT: Limits = Limits { cells: 9, differences: 3, searches: 8 };

proptest! {
    #[test]
    fn short_sequences_are_aligned_as_well_as_can_be(a in some_items(7), b in some_items(7)) {
        let found = align(&a, &b);
        prop_assert!(is_valid(&found, &a, &b));
        // The same at the ends is always paired, which costs nothing: it weighs most.
        prop_assert_eq!(total(&found, &a, &b), heaviest(&a, &b));
        prop_assert!(!found.is_bounded);
    }

    #[test]
    fn a_result_within_limits_is_valid_and_mirrors(a in some_items(40), b in some_items(40)) {
        for limits in [TIGHT, Limits { searches: 0, ..TIGHT }, Limits::default()] {
            let found = align_within(&a, &b, &limits);
            prop_assert!(is_valid(&found, &a, &b));
            prop_assert_eq!(mirrored(&found), align_within(&b, &a, &limits));
        }
    }

    #[test]
    fn a_sequence_is_like_itself(keys in prop::collection::vec(0u32..5, 0..200)) {
        let a: Vec<Keys> = keys.iter().map(|&key| [key, NO_KEY, 0]).collect();
        let found = align_within(&a, &a, &TIGHT);
        prop_assert_eq!(found.pairs, (0..a.len()).map(|at| (at, at)).collect::<Vec<_>>());
        prop_assert!(!found.is_bounded);
    }
}

/// So many layers of kernels, the `nth` key of which is given by `name`.
fn layers(count: usize, kernels: usize, name: impl Fn(usize, usize) -> Keys) -> Vec<Keys> {
    (0..count)
        .flat_map(|layer| (0..kernels).map(move |nth| (layer, nth)))
        .map(|(l, n)| name(l, n))
        .collect()
}

#[test]
fn many_layers_that_share_only_their_classes_are_aligned_in_linear_time() {
    // 800,000 kernels a side, no name in common; one side runs five more of a sort a layer.
    let base = layers(20_000, 40, |_, nth| [nth as u32, NO_KEY, 1000 + nth as u32 / 10]);
    let other = layers(20_000, 45, |_, nth| [100 + nth as u32, NO_KEY, 1000 + nth as u32 / 10]);
    let found = align(&base, &other);
    assert!(is_valid(&found, &base, &other));
    assert_eq!(found.pairs.len(), base.len());
    assert!(!found.is_bounded);
}

#[test]
fn what_cannot_be_aligned_well_in_time_is_reported() {
    let mut state = 1u64;
    let mut random = |range: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % range
    };
    let mut side = || -> Vec<Keys> { (0..60_000).map(|_| [random(20), NO_KEY, NO_KEY]).collect() };
    let (a, b) = (side(), side());
    let found = align(&a, &b);
    assert!(is_valid(&found, &a, &b));
    assert!(found.is_bounded);
    assert!(found.pairs.len() > 20_000, "{}", found.pairs.len());
}

#[test]
fn a_step_more_in_the_middle_costs_nothing() {
    let long = layers(9_000, 40, |layer, nth| [(nth + layer / 3000 % 2) as u32, NO_KEY, NO_KEY]);
    let mut other = long.clone();
    other.drain(170_010..170_410);
    let found = align(&long, &other);
    assert_eq!((found.pairs.len(), found.is_bounded), (other.len(), false));
}
