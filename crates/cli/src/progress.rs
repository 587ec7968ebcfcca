//! A progress bar on standard error, for those who would wonder.
//!
//! Only on a terminal, and only when reading takes noticeably long. Reader threads
//! call it; whoever finds it in use goes on reading.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const QUIET_AT_FIRST: Duration = Duration::from_millis(500);
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
const BAR_WIDTH: usize = 30;

pub(crate) struct Progress {
    started: Instant,
    drawn: Mutex<Option<Instant>>,
    is_on: bool,
}

impl Progress {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_on = !is_quiet && io::stderr().is_terminal();
        Progress { started: Instant::now(), drawn: Mutex::new(None), is_on }
    }

    /// Says that so many bytes of all are done.
    pub(crate) fn update(&self, done: u64, total: u64) {
        if !self.is_on || self.started.elapsed() < QUIET_AT_FIRST {
            return;
        }
        let Ok(mut drawn) = self.drawn.try_lock() else { return };
        if drawn.is_some_and(|last| last.elapsed() < BETWEEN_DRAWINGS) {
            return;
        }
        *drawn = Some(Instant::now());
        // A terminal that cannot be written to is no reason to stop reading.
        let _ = write!(io::stderr(), "\r{}", bar(done, total));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.get_mut().is_ok_and(|drawn| drawn.is_some()) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    let part = u128::from(done.min(total));
    let whole = u128::from(total.max(1));
    let filled = (part * BAR_WIDTH as u128 / whole) as usize;
    let (full, empty) = ("█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
    let bytes = |bytes: u64| spanwise_write::bytes_text(bytes.into());
    format!(
        "reading {full}{empty} {:>3} %  {} of {} ",
        part * 100 / whole,
        bytes(done),
        bytes(total)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_follows_the_bytes() {
        let half =
            format!("reading {}{}  50 %  1.0 KiB of 2.0 KiB ", "█".repeat(15), "░".repeat(15));
        assert_eq!(bar(1024, 2048), half);
        assert!(bar(0, 0).contains("  0 %"));
        assert!(bar(9, 3).contains("100 %"));
    }
}
