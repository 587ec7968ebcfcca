//! Panics that pass functions whose calls are recorded: caught, and again from `Drop`.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static LEAVES: AtomicU64 = AtomicU64::new(0);
static DEEPS: AtomicU64 = AtomicU64::new(0);
static CLEANED: AtomicU64 = AtomicU64::new(0);

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn leaf(i: u64) -> u64 {
    LEAVES.fetch_add(1, Relaxed);
    assert!(black_box(i) % 2 == 0, "odd");
    i
}

/// Calls something whose panic it catches, while another may be on its way.
struct Cleans;

impl Drop for Cleans {
    fn drop(&mut self) {
        CLEANED.fetch_add(1, Relaxed);
        let caught = catch_unwind(|| leaf(black_box(1)));
        assert!(caught.is_err());
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn deep(depth: u64, i: u64) -> u64 {
    DEEPS.fetch_add(1, Relaxed);
    let _cleans = (depth == 3).then_some(Cleans);
    let result = if depth > 1 { deep(depth - 1, i) } else { leaf(i) };
    black_box(result) + 1
}

fn main() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    std::panic::set_hook(Box::new(|_| {}));
    let rounds = (0..100_u64).map(|i| catch_unwind(AssertUnwindSafe(|| deep(i % 12 + 1, i))));
    let caught = rounds.filter(Result::is_err).count();
    let load = |count: &AtomicU64| count.load(Relaxed);
    println!("count leaf {}\ncount deep {}", load(&LEAVES), load(&DEEPS));
    println!("cleaned {}\ncaught {caught}", load(&CLEANED));
    std::process::exit(caught as i32 % 7);
}
