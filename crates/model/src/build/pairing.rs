//! Begins and ends that nest: an end closes the begin that was opened last.
//!
//! For begins and ends that say nothing but their order. Where they say more, the rules differ,
//! and are beside the source that says it: an end of a JSON trace may name what it closes
//! (`join.rs`), a return leaves everything that its function called (`callstack`), and a return
//! that a probe saw ends the call at the same place of the stack (`call_pairing.rs` of `read`).

use crate::count_effort;

/// What becomes of a begin or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing<E> {
    /// An end closes this begin.
    Closed {
        /// What was opened last.
        begin: E,
        /// What closes it.
        end: E,
    },
    /// An end without a begin.
    UnmatchedEnd(E),
    /// A begin without an end. Those of a lane follow its pairs, outermost first.
    Unfinished(E),
}

/// Pairs the begins and ends of one lane, which are in order of time.
pub fn pair_nested<E: Copy>(
    edges: impl IntoIterator<Item = E>,
    is_begin: impl Fn(&E) -> bool,
    mut emit: impl FnMut(Pairing<E>),
) {
    let mut open = Vec::new();
    for edge in edges {
        count_effort(1);
        if is_begin(&edge) {
            open.push(edge);
            continue;
        }
        emit(match open.pop() {
            Some(begin) => Pairing::Closed { begin, end: edge },
            None => Pairing::UnmatchedEnd(edge),
        });
    }
    open.into_iter().for_each(|begin| emit(Pairing::Unfinished(begin)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins are letters, ends the digits.
    #[track_caller]
    fn check(edges: &str, expected: &[&str]) {
        let mut found = Vec::new();
        pair_nested(edges.chars(), char::is_ascii_alphabetic, |pairing| {
            found.push(match pairing {
                Pairing::Closed { begin, end } => format!("{begin}{end}"),
                Pairing::UnmatchedEnd(end) => format!("?{end}"),
                Pairing::Unfinished(begin) => format!("{begin}?"),
            });
        });
        assert_eq!(found, expected, "{edges}");
    }

    #[test]
    fn ends_close_what_was_opened_last() {
        check("", &[]);
        check("a1b2", &["a1", "b2"]);
        check("ab12", &["b1", "a2"]);
        check("1a2", &["?1", "a2"]);
        check("abc1", &["c1", "a?", "b?"]);
    }
}
