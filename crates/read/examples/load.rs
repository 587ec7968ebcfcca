//! Loads a trace and says how long that took; for profiling the reader.
#![allow(clippy::print_stdout)]
use spanwise_read::{IndexUse, OpenOptions};
fn main() {
    let path = std::env::args().nth(1).expect("usage: load TRACE");
    let began = std::time::Instant::now();
    let options = OpenOptions { index: IndexUse::Ignore, ..Default::default() };
    let trace = spanwise_read::open(path.as_ref(), &options).expect("readable");
    println!("{:?} {:?}", began.elapsed(), trace);
    println!("{:#?}", trace.summary().notices);
    println!("{:?}", trace.info().events_by_phase);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for l in status.lines().filter(|l| l.starts_with("Rss") || l.starts_with("VmHWM")) {
        println!("{l}");
    }
}
