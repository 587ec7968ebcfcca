//! What is pushed down, between SQLite's planning and the reading: as a line of text, since
//! that is what SQLite carries from one to the other.

use crate::relation::Test;

/// Filters by column, one argument each; then the order that rows are given in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) filters: Vec<(usize, Test)>,
    /// Columns, and whether from the largest on.
    pub(crate) order: Vec<(usize, bool)>,
}

const TESTS: [(char, Test); 5] = [
    ('=', Test::Equal),
    ('<', Test::Less),
    ('[', Test::AtMost),
    ('>', Test::More),
    (']', Test::AtLeast),
];

impl Plan {
    pub(crate) fn encode(&self) -> String {
        let sign = |test: Test| TESTS.iter().find(|row| row.1 == test).map_or('=', |row| row.0);
        let filters = self.filters.iter().map(|&(column, test)| format!("{}{column}", sign(test)));
        let order = self.order.iter().map(|&(column, is_descending)| {
            format!("{}{column}", if is_descending { '-' } else { '+' })
        });
        filters.chain(order).collect::<Vec<_>>().join(" ")
    }

    /// Reads what [`Plan::encode`] wrote.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut plan = Plan::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let mut characters = word.chars();
            let sign = characters.next()?;
            let column = characters.as_str().parse().ok()?;
            match (sign, TESTS.iter().find(|row| row.0 == sign)) {
                ('+', _) => plan.order.push((column, false)),
                ('-', _) => plan.order.push((column, true)),
                (_, Some(&(_, test))) => plan.filters.push((column, test)),
                _ => return None,
            }
        }
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_back() {
        let plan = Plan {
            filters: TESTS.iter().enumerate().map(|(at, row)| (at, row.1)).collect(),
            order: vec![(3, true), (12, false)],
        };
        assert_eq!(Plan::decode(&plan.encode()), Some(plan));
        assert_eq!(Plan::decode(""), Some(Plan::default()));
        assert_eq!(Plan::decode("?3"), None);
    }
}
