//! Records spans of the crate `tracing`: add this layer, and nothing else changes.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(spanwise_probe_tracing::layer());
//! tracing::subscriber::with_default(subscriber, || {
//!     let _step = tracing::info_span!("step").entered();
//! });
//! ```
//!
//! Each time a span is entered is a span of the thread that entered it; events are instant events.
//! Fields are not kept. Nothing is recorded without a session of `spanwise-probe`.

#![warn(missing_docs)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use spanwise_probe::{Site, SiteKind, Span, mark};
use tracing_core::callsite::Identifier;
use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Makes spans and events of `tracing` those of `spanwise-probe`.
pub fn layer() -> ProbeLayer {
    ProbeLayer::default()
}

/// Records spans and events of `tracing`; from [`layer`].
#[derive(Debug, Default)]
pub struct ProbeLayer {
    /// A site for each place of the program, made once.
    sites: RwLock<HashMap<Identifier, &'static Site>>,
}

thread_local! {
    /// Spans that this thread is in, the innermost last.
    static ENTERED: RefCell<Vec<(Id, Span)>> = const { RefCell::new(Vec::new()) };
}

impl ProbeLayer {
    fn site(&self, metadata: &Metadata<'_>, kind: SiteKind) -> &'static Site {
        let place = metadata.callsite();
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&site) = sites.get(&place) {
            return site;
        }
        drop(sites);
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let (file, line) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or(0));
        sites.entry(place).or_insert_with(|| Site::leak(kind, metadata.name(), file, line))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ProbeLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(self.site(attributes.metadata(), SiteKind::Span));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(&site) = span.extensions().get::<&'static Site>() else { return };
        ENTERED.with_borrow_mut(|entered| entered.push((id.clone(), Span::enter(site))));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let ended = ENTERED.with_borrow_mut(|entered| {
            let place = entered.iter().rposition(|(of, _)| of == id)?;
            Some(entered.remove(place))
        });
        drop(ended);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        mark(self.site(event.metadata(), SiteKind::Mark));
    }
}
