//! A trace with what is known about it, and the tables that were gathered.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use spanwise_analyze::Facts;
use spanwise_model::{Trace, on_one_thread};

pub(super) struct SharedTrace {
    facts: Arc<Facts>,
    /// As the user named it.
    pub(super) file: String,
    /// Whether questions may use no thread but the one that asks.
    is_alone: bool,
    /// Tables that had to be gathered, by name: the next who asks gets the same memory.
    gathered: Mutex<Vec<(String, RecordBatch)>>,
}

impl SharedTrace {
    pub(super) fn new(trace: Trace, file: String, is_alone: bool) -> Self {
        let facts = Arc::new(Facts::new(&Arc::new(trace)));
        SharedTrace { facts, file, is_alone, gathered: Mutex::default() }
    }

    pub(super) fn trace(&self) -> &Trace {
        self.facts.trace()
    }

    /// The trace with what is known about it, for somebody who may outlive this.
    pub(super) fn shared(&self) -> Arc<Facts> {
        Arc::clone(&self.facts)
    }

    pub(super) fn gathered(&self, name: &str) -> Option<RecordBatch> {
        let tables = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        tables.iter().find(|(known, _)| known == name).map(|(_, batch)| batch.clone())
    }

    pub(super) fn keep(&self, name: &str, batch: &RecordBatch) {
        let mut tables = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if !tables.iter().any(|(known, _)| known == name) {
            tables.push((name.to_owned(), batch.clone()));
        }
    }

    /// Runs an analysis, on this thread alone where that was requested.
    pub(super) fn ask<R>(&self, question: impl FnOnce(&Facts) -> R) -> R {
        match self.is_alone {
            true => on_one_thread(|| question(&self.facts)),
            false => question(&self.facts),
        }
    }
}
