//! A trace together with the answers that questions share, so that each is worked out once in
//! a session and not once a question.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use spanwise_analyze::Facts;
use spanwise_model::{Trace, on_one_thread};

pub(super) struct SharedTrace {
    /// Borrows from `trace`; dropped before it, since fields are dropped in their order.
    facts: Facts<'static>,
    trace: Arc<Trace>,
    /// As the user named it.
    pub(super) file: String,
    /// Whether questions may use no thread but the one that asks.
    is_alone: bool,
    /// Tables that had to be gathered, by name: the next who asks gets the same memory.
    gathered: Mutex<Vec<(String, RecordBatch)>>,
}

impl SharedTrace {
    pub(super) fn new(trace: Trace, file: String, is_alone: bool) -> Self {
        let trace = Arc::new(trace);
        // SAFETY: the trace lies behind an `Arc` that this struct holds as long as `facts`: it
        // neither moves nor changes (I5), and goes after `facts`, which never leaves `SharedTrace`.
        let lasting: &'static Trace = unsafe { &*Arc::as_ptr(&trace) };
        SharedTrace {
            facts: Facts::new(lasting),
            trace,
            file,
            is_alone,
            gathered: Mutex::default(),
        }
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace for somebody who may outlive this.
    pub(super) fn shared(&self) -> Arc<Trace> {
        Arc::clone(&self.trace)
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

    /// Asks something; what comes out must not borrow from the trace.
    pub(super) fn ask<R: 'static>(&self, question: impl FnOnce(&Facts<'static>) -> R) -> R {
        match self.is_alone {
            true => on_one_thread(|| question(&self.facts)),
            false => question(&self.facts),
        }
    }
}
