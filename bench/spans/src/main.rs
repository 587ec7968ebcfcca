//! What a span costs: ours, its floor, and those of others, in one run.
//!
//! One thread makes spans around nothing, 20,000 at a time, with a pause in between so that
//! nobody's buffer runs over. Shown is thread time, the best of many rounds and the middle
//! one, less what the empty loop takes. `bench/instrument` builds and runs it.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use spanwise_probe::{Session, span};

const SPANS: u64 = 20_000;
const ROUNDS: usize = 25;
const PAUSE: Duration = Duration::from_millis(30);

struct Row {
    name: &'static str,
    best_ns: f64,
    middle_ns: f64,
}

fn main() {
    let file = std::env::temp_dir().join(format!("spans-{}", std::process::id()));
    let mut rows = vec![measure("nothing", || {}), measure("ours, no session", ours)];
    rows.push(measure("floor: two clock reads and a write", floor));
    let session = Session::start(&file).expect("a session");
    rows.push(measure("ours, in a session", ours));
    let saved = session.finish().expect("the session is written");
    let _ = std::fs::remove_file(&file);
    assert_eq!(saved.records, (ROUNDS as u64 + 1) * SPANS, "every span was recorded");
    assert_eq!(saved.dropped, 0, "the ring was large enough");
    rows.push(puffin_row());
    rows.push(fastrace_row());
    rows.push(tracing_row());
    let empty = rows[0].best_ns;
    for row in &rows[1..] {
        println!("{}\t{:.1}\t{:.1}", row.name, row.best_ns - empty, row.middle_ns - empty);
    }
}

/// Rounds of `SPANS` calls.
fn measure(name: &'static str, mut one: impl FnMut()) -> Row {
    measure_rounds(name, || {
        for at in 0..SPANS {
            one();
            black_box(at);
        }
    })
}

fn measure_rounds(name: &'static str, mut round: impl FnMut()) -> Row {
    round();
    let mut costs: Vec<f64> = Vec::new();
    for _ in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        let before = thread_ns();
        round();
        costs.push((thread_ns() - before) as f64 / SPANS as f64);
    }
    costs.sort_by(f64::total_cmp);
    Row { name, best_ns: costs[0], middle_ns: costs[ROUNDS / 2] }
}

fn ours() {
    let _span = span!("work");
}

#[repr(align(64))]
struct Plain([[Cell<u64>; 3]; 1 << 16]);

thread_local! {
    static RING: &'static Plain = Box::leak(Box::new(
        // SAFETY: cells of zeros are cells.
        unsafe { std::mem::zeroed::<Plain>() },
    ));
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// The least that a record of a span can cost.
fn floor() {
    let start = ticks();
    let end = ticks();
    NEXT.with(|next| {
        let at = next.get();
        RING.with(|ring| {
            let slot = &ring.0[at & 0xffff];
            slot[0].set(start);
            slot[1].set(end);
            slot[2].set(7);
        });
        next.set(at + 1);
    });
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    thread_ns()
}

fn puffin_row() -> Row {
    puffin::set_scopes_on(true);
    let row = measure_rounds("puffin 0.19", || {
        for at in 0..SPANS {
            puffin::profile_scope!("work");
            black_box(at);
        }
        puffin::GlobalProfiler::lock().new_frame();
    });
    puffin::set_scopes_on(false);
    row
}

struct Nowhere;

impl fastrace::collector::Reporter for Nowhere {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        drop(spans);
    }
}

/// A thousand spans below each root: it keeps no more.
fn fastrace_row() -> Row {
    use fastrace::prelude::{LocalSpan, Span, SpanContext};
    fastrace::set_reporter(Nowhere, fastrace::collector::Config::default());
    let row = measure_rounds("fastrace 0.7", || {
        for _ in 0..SPANS / 1000 {
            let root = Span::root("root", SpanContext::random());
            let _parent = root.set_local_parent();
            for at in 0..1000 {
                let _span = LocalSpan::enter_with_local_parent("work");
                black_box(at);
            }
        }
    });
    fastrace::flush();
    row
}

/// With nothing that keeps the spans: the least that a subscriber with spans can do.
fn tracing_row() -> Row {
    let registry = tracing_subscriber::registry();
    tracing::subscriber::with_default(registry, || {
        measure("tracing 0.1, registry alone", || {
            let _span = tracing::info_span!("work").entered();
        })
    })
}

/// Time that this thread ran.
fn thread_ns() -> u64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    const THREAD: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the time is there to be written, and this clock exists on every Linux.
    unsafe { clock_gettime(THREAD, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}
