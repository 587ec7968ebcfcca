//! What is kept while the program runs, for those who ask it.

pub(super) mod numbers;
pub(super) mod store;
pub(super) mod tally;
pub(super) mod union;
