//! Functions with the attribute `instrument` do what they did, and are spans.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use spanwise_probe::{Session, instrument};

#[instrument]
fn plain(a: u32, b: u32) -> u32 {
    a + b
}

#[instrument("another name")]
fn early(fails: bool) -> Result<u32, String> {
    let number: u32 = if fails { "x" } else { "7" }.parse().map_err(|_| "no number".to_owned())?;
    Ok(number)
}

#[instrument]
fn generic<T, F: Fn(T) -> T>(value: T, change: F) -> T
where
    T: Clone,
{
    change(value.clone())
}

struct Counter(u32);

impl Counter {
    #[instrument]
    fn next(&mut self) -> &mut u32 {
        self.0 += 1;
        &mut self.0
    }

    #[instrument]
    async fn wait<E>(&mut self, text: &str) -> Result<u32, E>
    where
        E: From<std::num::ParseIntError>,
    {
        self.0 += text.parse::<u32>()?;
        std::future::ready(()).await;
        Ok(self.0)
    }
}

#[instrument]
async fn nothing() {}

/// Polls until it is done.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

#[test]
fn functions_work_as_before_and_are_recorded() {
    let path = std::env::temp_dir().join(format!("instrument-{}", std::process::id()));
    let session = Session::start(&path).expect("a session");
    assert_eq!(plain(2, 3), 5);
    assert_eq!(early(false), Ok(7));
    assert!(early(true).is_err());
    assert_eq!(generic(4, |value| value * 2), 8);
    let mut counter = Counter(0);
    *counter.next() += 1;
    let waited: Result<u32, std::num::ParseIntError> = run(counter.wait("5"));
    assert_eq!(waited, Ok(7));
    run(nothing());
    let saved = session.finish().expect("is written");
    let bytes = std::fs::read(&path).expect("is there");
    std::fs::remove_file(&path).expect("is removed");
    assert_eq!((saved.records, saved.dropped), (7, 0));
    let has = |name: &str| bytes.windows(name.len()).any(|piece| piece == name.as_bytes());
    for name in ["plain", "another name", "generic", "next", "wait", "nothing"] {
        assert!(has(name), "{name}");
    }
    assert!(!has("early"), "the given name stands");
}
