//! A trace together with the answers that questions share, so that each is worked out once in
//! a session and not once a question.

use std::sync::Arc;

use spanwise_analyze::Facts;
use spanwise_model::Trace;

pub(super) struct Held {
    /// Borrows from `trace`; dropped before it, since fields are dropped in their order.
    facts: Facts<'static>,
    trace: Arc<Trace>,
    /// As the user named it.
    pub(super) file: String,
}

impl Held {
    pub(super) fn new(trace: Trace, file: String) -> Self {
        let trace = Arc::new(trace);
        // SAFETY: the trace lies behind an `Arc` that this struct holds as long as `facts`: it
        // neither moves nor changes (I5), and goes after `facts`, which never leaves `Held`.
        let lasting: &'static Trace = unsafe { &*Arc::as_ptr(&trace) };
        Held { facts: Facts::new(lasting), trace, file }
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Asks something; what comes out must not borrow from the trace.
    pub(super) fn ask<R: 'static>(&self, question: impl FnOnce(&Facts<'static>) -> R) -> R {
        question(&self.facts)
    }
}
