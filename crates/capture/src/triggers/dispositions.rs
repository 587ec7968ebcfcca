//! Processes that a signal would end which is watched for a snapshot.
//!
//! What a process does at a signal is its own affair: one that ignored or handled it may restore
//! the default action, and a program that it starts does not have its handlers. Nothing can
//! prevent that from outside, so it is looked for in every round, before the signal comes.

use std::collections::BTreeSet;
use std::path::Path;

use super::conditions::SignalTrigger;

/// Beyond that, a program starts many that are all the same.
const REPORTED_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Dispositions {
    signal: SignalTrigger,
    pids: BTreeSet<i32>,
    reported: BTreeSet<i32>,
}

impl Dispositions {
    /// Of processes that run already, the command has said what the signal would do.
    pub(super) fn new(signal: SignalTrigger, pids: &[i32], is_from_exec: bool) -> Dispositions {
        let would_end = |pid: &i32| !is_from_exec && signal.would_end(*pid);
        let reported = pids.iter().copied().filter(would_end).collect();
        Dispositions { signal, pids: pids.iter().copied().collect(), reported }
    }

    pub(super) fn add(&mut self, pid: i32) {
        self.pids.insert(pid);
    }

    /// Processes that the signal would end from now on.
    pub(super) fn look(&mut self) -> Vec<i32> {
        self.pids.retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
        let signal = self.signal;
        let would_end: BTreeSet<i32> =
            self.pids.iter().copied().filter(|&pid| signal.would_end(pid)).collect();
        let room = REPORTED_MAX.saturating_sub(self.reported.len());
        let new: Vec<i32> = would_end.difference(&self.reported).copied().take(room).collect();
        self.reported.extend(&new);
        new
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    const SIGNAL: SignalTrigger = SignalTrigger { number: libc::SIGUSR1, is_optional: false };

    /// A shell, once the signal would end it, or would not.
    fn shell(script: &str, would_end: bool) -> Child {
        let shell = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        let started = Instant::now();
        while SIGNAL.would_end(shell.id() as i32) != would_end {
            assert!(started.elapsed() < Duration::from_secs(60), "{script}");
            std::thread::sleep(Duration::from_millis(1));
        }
        shell
    }

    #[test]
    fn each_process_is_reported_once() {
        let mut safe = shell("trap '' USR1; exec sleep 60", false);
        let mut open = shell("exec sleep 60", true);
        let [safe_pid, open_pid] = [safe.id() as i32, open.id() as i32];
        let mut started = Dispositions::new(SIGNAL, &[safe_pid, open_pid], true);
        assert_eq!(started.look(), [open_pid]);
        assert!(started.look().is_empty());
        let mut attached = Dispositions::new(SIGNAL, &[open_pid], false);
        assert!(attached.look().is_empty());
        let mut children = Dispositions::new(SIGNAL, &[safe_pid], false);
        assert!(children.look().is_empty());
        children.add(open_pid);
        assert_eq!(children.look(), [open_pid]);
        for shell in [&mut safe, &mut open] {
            shell.kill().and_then(|()| shell.wait()).expect("a child of ours");
        }
    }
}
