//! The threads that are recorded, in a table that programs of ours in the kernel keep and use.
//!
//! An event of each thread costs it a part of a microsecond at each switch, even while it is
//! switched off, and one with a record of each switch 1.6 µs: the kernel walks through all events
//! of both threads. Events of processors cost a switch nothing, and tell of everybody; programs
//! choose among that, by a look into the table, before any stack is taken.
//!
//! Another program writes switches, 32 bytes where one of the two threads is recorded; and where
//! there are too many, it stops by itself at the very one that is too many, and is taken away:
//! then a switch costs what it did before. What it writes becomes the records that the kernel
//! would have written.
//!
//! All that needs what few may: to load programs, and to see the whole machine. Who may not has
//! events of threads.

mod btf;
mod program;
mod shared;
mod tree;
mod unseen;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::calls::bpf;
use crate::calls::ring::HitRing;
use crate::records::Switch;
use crate::{processes, sys};
use program::{FROM_EXEC, IS_LAST, IS_OUT, IS_PREEMPTED, Maps, SHARED_BYTES};
use shared::Shared;
pub(crate) use tree::ProcessTree;
use unseen::Unseen;

/// Room for the switches between two looks at the ring.
const RING_BYTES: u32 = 16 << 20;

/// Threads that are recorded at one time.
const THREADS_MAX: u32 = 1 << 16;

/// The programs, and what they write into.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Closing these ends it all.
    switching: Option<OwnedFd>,
    _following: Vec<OwnedFd>,
    switching_program: OwnedFd,
    sampling_program: OwnedFd,
    choosing_program: OwnedFd,
    ring: HitRing,
    shared: Shared,
    unseen: Unseen,
    maps: [OwnedFd; 3],
}

impl Followed {
    /// Follows the threads of these processes, and what they start; writes nothing yet.
    pub(crate) fn begin(pids: &[i32], is_from_exec: bool) -> io::Result<Followed> {
        if !processes::has_the_kernels_numbers() {
            return Err(io::Error::other("numbers of processes are not the kernel's"));
        }
        let (ring, threads) = (bpf::ring(RING_BYTES)?, bpf::table(THREADS_MAX)?);
        let numbers = bpf::shared_numbers(SHARED_BYTES)?;
        let maps = Maps {
            ring: ring.as_raw_fd(),
            threads: threads.as_raw_fd(),
            shared: numbers.as_raw_fd(),
            thread: btf::thread_layout()
                .ok_or_else(|| io::Error::other("threads of another form"))?,
        };
        let following = program::following(maps)?;
        let followed = Followed {
            switching: None,
            _following: following,
            switching_program: bpf::tracepoint_program(&program::switching(maps))?,
            sampling_program: bpf::sample_program(&program::sampling(maps))?,
            choosing_program: bpf::sample_program(&program::choosing(maps))?,
            ring: HitRing::map(&ring, RING_BYTES as usize)?,
            shared: Shared::map(&numbers)?,
            unseen: Unseen::default(),
            maps: [ring, threads, numbers],
        };
        add_threads(&followed.maps[1], pids, if is_from_exec { FROM_EXEC } else { 0 })?;
        Ok(followed)
    }

    /// Writes switches from now on, at most so many.
    pub(crate) fn start(&mut self, most: i64) -> io::Result<()> {
        self.shared.switches_left().store(0, Ordering::Relaxed);
        self.unseen = Unseen::default();
        let program = &self.switching_program;
        self.switching = Some(bpf::attach_to_tracepoint(program, c"sched_switch")?);
        self.shared.switches_left().store(most, Ordering::Relaxed);
        Ok(())
    }

    /// Leaves the machine as it was without.
    pub(crate) fn stop(&mut self) {
        self.shared.switches_left().store(0, Ordering::Relaxed);
        self.switching = None;
    }

    /// Lets an event of a processor sample the threads that are recorded alone.
    pub(crate) fn choose_samples(&self, event: &OwnedFd) -> io::Result<()> {
        sys::set_program(event, &self.sampling_program)
    }

    /// The same, as long as stacks may be taken.
    pub(crate) fn choose_stacks(&self, event: &OwnedFd) -> io::Result<()> {
        sys::set_program(event, &self.choosing_program)
    }

    /// How many switches may still be written.
    pub(crate) fn switches_left(&self) -> &AtomicI64 {
        self.shared.switches_left()
    }

    /// How many stacks may still be taken.
    pub(crate) fn stacks_left(&self) -> &AtomicI64 {
        self.shared.stacks_left()
    }

    /// What was written since the last time, and how much there was no room for.
    pub(crate) fn take(&mut self) -> (Vec<Switch>, u64) {
        let mut switches = Vec::new();
        let unseen = &mut self.unseen;
        self.ring.drain(|bytes| {
            let Some(Written { switch, ran, is_last }) = written(bytes) else { return };
            switches.extend(unseen.before(switch, ran));
            // A thread that has ended waits for nothing: this only tells that it had come.
            switches.extend((!is_last).then_some(switch));
        });
        (switches, self.shared.take_lost())
    }
}

/// What they start from then on, a program puts into the table.
fn add_threads(table: &OwnedFd, pids: &[i32], mark: u64) -> io::Result<()> {
    for &pid in pids {
        processes::for_all_threads(&[pid], |tids| {
            let mut tids = tids.iter();
            tids.try_for_each(|&tid| bpf::put(table, tid as u32, pid as u64 | mark))
        })?;
    }
    Ok(())
}

/// What the program has written of a switch.
struct Written {
    switch: Switch,
    /// How long the thread has run in all, where it leaves.
    ran: u64,
    is_last: bool,
}

fn written(bytes: &[u8]) -> Option<Written> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let (time, thread, rest) = (word(0)?, word(8)?, word(16)?);
    let has = |flag: i32| rest & flag as u64 != 0;
    let switch = Switch {
        time,
        pid: (thread >> 32) as u32,
        tid: thread as u32,
        cpu: (rest >> 32) as u32,
        is_out: has(IS_OUT),
        is_preempted: has(IS_PREEMPTED),
    };
    Some(Written { switch, ran: word(24)?, is_last: has(IS_LAST) })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, sleep};
    use std::time::Duration;

    use super::*;

    /// Records this very process while a new thread of it sleeps so often; gives that thread's
    /// switches. `None`, with a word, where it may not.
    #[allow(clippy::print_stderr, reason = "a test that skips something says so")]
    fn switches_of_a_sleeper(naps: usize, most: i64) -> Option<Vec<Switch>> {
        let begun = Followed::begin(&[std::process::id() as i32], false);
        let mut switches = match begun {
            Ok(switches) => switches,
            Err(error) => {
                eprintln!("skipped: no programs in the kernel: {error}");
                return None;
            }
        };
        switches.start(most).expect("it was allowed to load them");
        let (say, said) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            let _ = say.send(sys::thread_id());
            (0..naps).for_each(|_| sleep(Duration::from_millis(1)));
        });
        let tid = said.recv().expect("its number") as u32;
        sleeper.join().expect("no panic");
        switches.stop();
        let (all, lost) = switches.take();
        assert_eq!(lost, 0);
        // Each processor may be in the middle of its last.
        let beyond = 2 * processes::processors().len() as i64;
        let count = i64::try_from(all.len()).expect("few");
        assert!(count <= most.saturating_add(beyond), "{count} of {most}");
        Some(all.into_iter().filter(|switch| switch.tid == tid).collect())
    }

    #[test]
    fn each_wait_of_a_new_thread_is_written() {
        let Some(switches) = switches_of_a_sleeper(20, 1_000_000) else { return };
        assert!(switches.iter().all(|switch| switch.pid == std::process::id()));
        // First it comes, and then it leaves and comes by turns.
        let outs: Vec<bool> = switches.iter().map(|switch| switch.is_out).collect();
        let turns: Vec<bool> = (0..outs.len()).map(|at| at % 2 == 1).collect();
        assert_eq!(outs, turns);
        assert!(switches.is_sorted_by_key(|switch| switch.time), "{switches:?}");
        // It may wait for others of this process besides, and not for long.
        let lasted = |pair: &[Switch]| pair[1].time - pair[0].time;
        let is_nap =
            |pair: &[Switch]| pair[0].is_out && !pair[0].is_preempted && lasted(pair) >= 900_000;
        let naps = switches.windows(2).filter(|pair| is_nap(pair)).count();
        assert!(naps >= 20, "{naps} naps: {switches:?}");
    }

    #[test]
    fn it_stops_by_itself_where_there_are_too_many() {
        let Some(switches) = switches_of_a_sleeper(20, 10) else { return };
        assert!(switches.len() < 20, "{switches:?}");
    }
}
