//! Spans of `tracing` are recorded, each time they are entered.

use spanwise_probe::Session;
use tracing_subscriber::layer::SubscriberExt;

#[test]
fn spans_and_events_are_recorded() {
    let path = std::env::temp_dir().join(format!("tracing-{}", std::process::id()));
    let session = Session::start(&path).expect("a session");
    let subscriber = tracing_subscriber::registry().with(spanwise_probe_tracing::layer());
    tracing::subscriber::with_default(subscriber, || {
        let outer = tracing::info_span!("outer");
        for _ in 0..3 {
            outer.in_scope(|| {
                let _inner = tracing::info_span!("inner", number = 7).entered();
                tracing::info!("something happened");
            });
        }
        // Left in another order than entered.
        let (first, second) = (tracing::info_span!("first"), tracing::info_span!("second"));
        let (first, second) = (first.entered(), second.entered());
        drop(first);
        drop(second);
    });
    let saved = session.finish().expect("is written");
    let bytes = std::fs::read(&path).expect("is there");
    std::fs::remove_file(&path).expect("is removed");
    assert_eq!((saved.records, saved.dropped), (3 + 3 + 3 + 2, 0));
    let has = |name: &str| bytes.windows(name.len()).any(|piece| piece == name.as_bytes());
    assert!(["outer", "inner", "first", "second", "tests/layer.rs"].into_iter().all(has));
}
