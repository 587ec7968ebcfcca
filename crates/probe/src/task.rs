//! Spans of asynchronous work: of the time in which it is worked on.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Site, Span};

/// A future, each poll of which is a span on the thread that polls it.
#[derive(Debug)]
pub struct InSpan<F> {
    future: F,
    site: &'static Site,
}

/// Makes each poll of a future a span: what it waits in between is not its work.
pub fn in_span<F: Future>(site: &'static Site, future: F) -> InSpan<F> {
    InSpan { future, site }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _span = Span::enter(self.site);
        // SAFETY: the future stays where it is: nothing moves out of this one.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(context)
    }
}
