//! Texts by number, with the order among them.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Stands for "no text".
pub(crate) const NO_TEXT: u32 = u32::MAX;

/// Texts, each once.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
    ranks: OnceLock<Vec<u32>>,
}

impl Dictionary {
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// The number of a text that is there.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(crate) fn text(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(String::as_str)
    }

    /// Where a text stands in order of bytes, counted from 1; 0 for none.
    pub(crate) fn rank(&self, number: u32) -> u32 {
        let ranks = self.ranks.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.texts.len() as u32).collect();
            order.sort_unstable_by_key(|&number| &self.texts[number as usize]);
            let mut ranks = vec![0; order.len()];
            for (rank, &number) in order.iter().enumerate() {
                ranks[number as usize] = rank as u32 + 1;
            }
            ranks
        });
        ranks.get(number as usize).copied().unwrap_or(0)
    }
}
