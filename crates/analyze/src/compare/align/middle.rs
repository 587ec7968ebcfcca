//! The longest common subsequence of two long sequences that differ little.
//!
//! Myers' algorithm in linear space: what two sequences differ by, D, is found from both
//! ends at once, and each half is solved by itself. It takes (N + M) · D steps, so it
//! gives up where D would pass a bound, and its caller goes on by other means.

use std::ops::Range;

/// Pairs of equal keys, ascending on both sides; `None` where the sequences differ by
/// more than `differences_max`.
pub(super) fn common(a: &[u32], b: &[u32], differences_max: usize) -> Option<Vec<(usize, usize)>> {
    let mut pairs = Vec::new();
    let mut open = vec![(0..a.len(), 0..b.len())];
    let mut ends = Ends { forward: Vec::new(), backward: Vec::new() };
    while let Some((mut in_a, mut in_b)) = open.pop() {
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.start] == b[in_b.start] {
            pairs.push((in_a.start, in_b.start));
            (in_a.start, in_b.start) = (in_a.start + 1, in_b.start + 1);
        }
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.end - 1] == b[in_b.end - 1] {
            (in_a.end, in_b.end) = (in_a.end - 1, in_b.end - 1);
            pairs.push((in_a.end, in_b.end));
        }
        if in_a.is_empty() || in_b.is_empty() {
            continue;
        }
        let snake = ends.middle(&a[in_a.clone()], &b[in_b.clone()], differences_max)?;
        let (x, y) = (in_a.start + snake.x, in_b.start + snake.y);
        pairs.extend((0..snake.len).map(|at| (x + at, y + at)));
        let rest: [(Range<usize>, Range<usize>); 2] =
            [(in_a.start..x, in_b.start..y), (x + snake.len..in_a.end, y + snake.len..in_b.end)];
        open.extend(rest);
    }
    pairs.sort_unstable();
    Some(pairs)
}

/// A run of equal keys that a shortest path goes through; its length may be 0.
struct Snake {
    x: usize,
    y: usize,
    len: usize,
}

/// No path leads here yet.
const NOWHERE: i64 = i64::MIN / 2;

/// How far paths reach on each diagonal, from the front and from the back.
struct Ends {
    forward: Vec<i64>,
    backward: Vec<i64>,
}

impl Ends {
    /// The middle of a shortest path. The sequences are not empty and differ in their
    /// first and in their last keys.
    fn middle(&mut self, a: &[u32], b: &[u32], differences_max: usize) -> Option<Snake> {
        let most = (a.len() + b.len()).min(differences_max).div_ceil(2) as i64;
        let (n, m) = (a.len() as i64, b.len() as i64);
        let size = TableSize { n, m };
        let (delta, offset) = (n - m, most + 1);
        for reached in [&mut self.forward, &mut self.backward] {
            reached.clear();
            reached.resize(2 * offset as usize + 1, NOWHERE);
        }
        let equal = |x: i64, y: i64| a[x as usize] == b[y as usize];
        let equal_backward = |x: i64, y: i64| equal(n - 1 - x, m - 1 - y);
        for d in 0..=most {
            for k in diagonals(d, size) {
                let from = next_start(&self.forward, offset, d, k, size);
                let Some(from) = from else { continue };
                let x = slide(from, k, size, equal);
                self.forward[(k + offset) as usize] = x;
                let other = delta - k;
                let meets = delta % 2 != 0 && other.abs() < d;
                if meets && x + self.backward[(other + offset) as usize] >= n {
                    return Some(snake(from, from - k, x - from));
                }
            }
            for k in diagonals(d, size) {
                let from = next_start(&self.backward, offset, d, k, size);
                let Some(from) = from else { continue };
                let x = slide(from, k, size, equal_backward);
                self.backward[(k + offset) as usize] = x;
                let other = delta - k;
                let meets = delta % 2 == 0 && other.abs() <= d;
                if meets && x + self.forward[(other + offset) as usize] >= n {
                    return Some(snake(n - x, m - (x - k), x - from));
                }
            }
        }
        None
    }
}

fn snake(x: i64, y: i64, len: i64) -> Snake {
    Snake { x: x as usize, y: y as usize, len: len as usize }
}

/// The lengths of both sequences.
#[derive(Debug, Clone, Copy)]
struct TableSize {
    n: i64,
    m: i64,
}

/// The diagonals of the table that `d` differences can lead to.
fn diagonals(d: i64, size: TableSize) -> impl Iterator<Item = i64> {
    let TableSize { n, m } = size;
    (-d..=d).step_by(2).filter(move |&k| -m <= k && k <= n)
}

/// Where one more difference leads on diagonal `k`: the farther of right and down.
fn next_start(reached: &[i64], offset: i64, d: i64, k: i64, size: TableSize) -> Option<i64> {
    let TableSize { n, m } = size;
    if d == 0 {
        return Some(0);
    }
    let at = |k: i64| reached[(k + offset) as usize];
    let right = Some(at(k - 1) + 1).filter(|&x| 0 < x && x <= n);
    let down = Some(at(k + 1)).filter(|&x| 0 <= x && x - k <= m);
    right.max(down)
}

fn slide(mut x: i64, k: i64, size: TableSize, equal: impl Fn(i64, i64) -> bool) -> i64 {
    let TableSize { n, m } = size;
    while x < n && x - k < m && equal(x, x - k) {
        x += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length of the longest common subsequence, by the table of all prefixes.
    fn longest(a: &[u32], b: &[u32]) -> usize {
        let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                rows[i + 1][j + 1] =
                    if x == y { rows[i][j] + 1 } else { rows[i][j + 1].max(rows[i + 1][j]) };
            }
        }
        rows[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn it_is_the_longest(
            a in prop::collection::vec(0u32..4, 0..24),
            b in prop::collection::vec(0u32..4, 0..24),
        ) {
            let pairs = common(&a, &b, 1000).expect("no bound in reach");
            prop_assert_eq!(pairs.len(), longest(&a, &b));
            prop_assert!(pairs.iter().all(|&(x, y)| a[x] == b[y]));
            prop_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        }

        #[test]
        fn it_gives_up_only_beyond_the_bound(
            a in prop::collection::vec(0u32..3, 0..16),
            b in prop::collection::vec(0u32..3, 0..16),
            bound in 0usize..12,
        ) {
            let differences = a.len() + b.len() - 2 * longest(&a, &b);
            match common(&a, &b, bound) {
                None => prop_assert!(differences > bound),
                Some(pairs) => prop_assert_eq!(pairs.len(), longest(&a, &b)),
            }
        }
    }
}
