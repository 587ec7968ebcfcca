//! Spans of asynchronous work: the times in which it runs.

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

/// Records each poll of a future as a span; waiting in between is not part of it.
///
/// ```
/// use spanwise_probe::{Site, SiteKind, in_span};
///
/// static FETCH: Site = Site::new(SiteKind::Span, "fetch", file!(), line!());
///
/// async fn fetch() -> u32 {
///     in_span(&FETCH, async { 1 }).await
/// }
/// ```
pub fn in_span<F: Future>(site: &'static Site, future: F) -> InSpan<F> {
    InSpan { future, site }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _span = Span::enter(self.site);
        // SAFETY: the future is not moved: nothing moves out of this one.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(context)
    }
}
