//! Calls itself to a known depth, and works there.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(never)]
fn leaf_work() {
    for number in 0..300_000_u64 {
        black_box(number * number);
    }
}

mod deep {
    #[inline(never)]
    pub fn descend(depth: u32) -> u32 {
        match depth {
            0 => {
                super::leaf_work();
                0
            }
            _ => std::hint::black_box(descend(depth - 1)) + 1,
        }
    }
}

fn main() {
    let end = Instant::now() + Duration::from_millis(600);
    while Instant::now() < end {
        black_box(deep::descend(black_box(15)));
    }
}
