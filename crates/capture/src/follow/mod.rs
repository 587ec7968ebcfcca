//! The threads that are recorded, in a table that programs of ours in the kernel keep and use.
//!
//! An event of each thread costs it a part of a microsecond at each switch, even while it is
//! switched off, and one with a record of each switch 1.6 µs: the kernel walks through all events
//! of both threads. Events of processors cost a switch nothing, and report everybody; programs
//! choose among that, by a search of the table, before any stack is taken.
//!
//! Another program writes switches, 32 bytes where one of the two threads is recorded; and where
//! there are too many, it stops by itself at the very one that is too many, and is taken away:
//! then a switch costs what it did before. What it writes becomes the records that the kernel
//! would have written.
//!
//! All that needs what few may: to load programs, and to see the whole machine. Who may not has
//! events of threads.

mod btf;
mod frames;
mod program;
mod shared;
mod slices;
mod tree;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::calls::bpf;
use crate::calls::bpf::ring::HitRing;
use crate::perf::records::{Switch, Waking};
use crate::system::processes;
use crate::system::sys;
use frames::OpenFrameMaps;
pub(crate) use frames::{Copied, CopiedAt, FRAME_BYTES_MAX, FrameCopies, ThreadFrames};
use program::{
    FROM_EXEC, IS_INTERRUPT, IS_LAST, IS_OUT, IS_PREEMPTED, IS_WAKING, Maps, SHARED_BYTES,
    THREAD_WORDS,
};
pub(crate) use program::{
    IS_PREEMPTED as WAIT_PREEMPTED, IS_SHARE as WAIT_SHARE, IS_WAKER as WAIT_WAKER,
};
use shared::Shared;
use slices::Slices;
pub(crate) use slices::Written;
pub(crate) use tree::ProcessTree;

/// Room for the switches between two polls of the ring.
const RING_BYTES: u32 = 16 << 20;

/// Threads that are recorded at one time.
const THREADS_MAX: u32 = 1 << 16;

/// The programs, and what they write into.
#[derive(Debug)]
pub(crate) struct Followed {
    /// Closing these ends it all.
    switching: Option<OwnedFd>,
    waking: Option<OwnedFd>,
    coming: Option<OwnedFd>,
    _following: Vec<OwnedFd>,
    programs: Programs,
    ring: HitRing,
    shared: Shared,
    slices: Slices,
    maps: OpenMaps,
}

/// Those that are attached later.
#[derive(Debug)]
struct Programs {
    switching: OwnedFd,
    sampling: OwnedFd,
    choosing: OwnedFd,
    waking: Option<OwnedFd>,
}

impl Programs {
    fn load(maps: Maps) -> io::Result<Programs> {
        // What some kernels do not let programs do is left out, the last first.
        let plain = Maps { has_waker_stacks: false, ..maps };
        let unsure = Maps { interrupts: None, ..plain };
        let mut wakings = [maps, plain, unsure].into_iter();
        Ok(Programs {
            switching: bpf::tracepoint_program(&program::switching(maps))?,
            sampling: bpf::sample_program(&program::sampling(maps))?,
            choosing: bpf::sample_program(&program::choosing(maps))?,
            waking: wakings.find_map(|maps| bpf::tracepoint_program(&program::waking(maps)).ok()),
        })
    }
}

#[derive(Debug)]
struct OpenMaps {
    ring: OwnedFd,
    threads: OwnedFd,
    numbers: OwnedFd,
    stacks: OwnedFd,
    /// Where frames of Python are wanted, and can be copied.
    frames: Option<OpenFrameMaps>,
}

impl OpenMaps {
    fn create(reads_python: bool) -> io::Result<OpenMaps> {
        let processors = processes::processors().into_iter().max().unwrap_or(0) as u32 + 1;
        Ok(OpenMaps {
            ring: bpf::ring(RING_BYTES)?,
            threads: bpf::table(THREAD_WORDS, THREADS_MAX)?,
            numbers: bpf::shared_numbers(SHARED_BYTES)?,
            stacks: bpf::events(processors)?,
            frames: reads_python.then(|| OpenFrameMaps::create().ok()).flatten(),
        })
    }

    fn for_programs(&self) -> io::Result<Maps> {
        let unknown = || io::Error::other("threads of another form");
        Ok(Maps {
            ring: self.ring.as_raw_fd(),
            threads: self.threads.as_raw_fd(),
            shared: self.numbers.as_raw_fd(),
            stacks: self.stacks.as_raw_fd(),
            thread: btf::thread_layout().ok_or_else(unknown)?,
            interrupts: btf::stack_layout(),
            frames: self.frames.as_ref().map(OpenFrameMaps::for_programs),
            has_waker_stacks: true,
        })
    }
}

impl Followed {
    /// Follows the threads of these processes, and what they start; writes nothing yet.
    pub(crate) fn begin(
        pids: &[i32],
        is_from_exec: bool,
        reads_python: bool,
    ) -> io::Result<Followed> {
        if !processes::has_the_kernels_numbers() {
            return Err(io::Error::other("numbers of processes are not the kernel's"));
        }
        let mut open = OpenMaps::create(reads_python)?;
        let mut maps = open.for_programs()?;
        let following = program::following(maps)?;
        // Kernels before 5.3 allow no loops.
        if bpf::sample_program(&program::sampling(maps)).is_err() {
            open.frames = None;
            maps = open.for_programs()?;
        }
        let followed = Followed {
            switching: None,
            waking: None,
            coming: None,
            _following: following,
            programs: Programs::load(maps)?,
            ring: HitRing::map(&open.ring, RING_BYTES as usize)?,
            shared: Shared::map(&open.numbers)?,
            slices: Slices::default(),
            maps: open,
        };
        add_threads(&followed.maps.threads, pids, if is_from_exec { FROM_EXEC } else { 0 })?;
        Ok(followed)
    }

    /// Whether a process is followed.
    pub(crate) fn has(&self, pid: i32) -> bool {
        bpf::has(&self.maps.threads, pid as u32, THREAD_WORDS)
    }

    /// Follows one more process, which is not followed yet.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        add_threads(&self.maps.threads, &[pid], 0)
    }

    /// Where frames of Python are copied at samples and waits, if they can be.
    pub(crate) fn frame_copies(&self) -> Option<FrameCopies> {
        self.maps.frames.as_ref()?.copies().ok()
    }

    /// Writes switches from now on, at most so many, and wake-ups.
    pub(crate) fn start(&mut self, most: i64) -> io::Result<()> {
        self.slices.pause();
        if self.switching.is_none() {
            self.shared.switches_left().store(0, Ordering::Relaxed);
            let program = &self.programs.switching;
            self.switching = Some(bpf::attach_to_tracepoint(program, c"sched_switch")?);
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC) as i64;
            self.shared.since().store(now, Ordering::Relaxed);
        }
        self.start_waking(most);
        Ok(())
    }

    /// Writes wake-ups, together with switches at most so many; false where one may not.
    pub(crate) fn start_waking(&mut self, most: i64) -> bool {
        if let Some(program) = self.programs.waking.as_ref().filter(|_| self.waking.is_none()) {
            self.waking = bpf::attach_to_tracepoint(program, c"sched_waking").ok();
        }
        self.shared.switches_left().store(most, Ordering::Relaxed);
        self.waking.is_some()
    }

    pub(crate) fn has_wakings(&self) -> bool {
        self.waking.is_some()
    }

    /// Takes the stacks of waits from now on, at most so many, once threads are back from them:
    /// of those of at least so many nanoseconds, and of shorter ones a share. Events for the
    /// stacks must be there. Where switches stop being written, this goes on.
    pub(crate) fn take_stacks(&mut self, threshold_ns: i64, most: i64) -> io::Result<()> {
        self.shared.threshold().store(threshold_ns, Ordering::Relaxed);
        self.shared.stacks_left().store(most, Ordering::Relaxed);
        self.coming = Some(self.attach_coming()?);
        Ok(())
    }

    /// Linux reports since 6.15 that a thread goes on where it has called for another; before, the
    /// function that it has called returns.
    fn attach_coming(&self) -> io::Result<OwnedFd> {
        let maps = self.maps.for_programs()?;
        self.attach_coming_as(maps).or_else(|error| match maps.frames {
            Some(_) => self.attach_coming_as(Maps { frames: None, ..maps }),
            None => Err(error),
        })
    }

    fn attach_coming_as(&self, maps: Maps) -> io::Result<OwnedFd> {
        let text = program::coming(maps);
        let attached = bpf::tracepoint_program(&text)
            .and_then(|program| bpf::attach_to_tracepoint(&program, c"sched_exit_tp"));
        attached.or_else(|_| {
            let unknown = || io::Error::other("there is no function of this name");
            let function = btf::function("schedule").ok_or_else(unknown)?;
            bpf::attach_to_return(&bpf::return_program(&text, function)?)
        })
    }

    /// The event that stacks of waits go to which end on this processor.
    pub(crate) fn put_stacks(&self, processor: i32, event: &OwnedFd) -> io::Result<()> {
        bpf::put_event(&self.maps.stacks, processor as u32, event)
    }

    /// Writes switches no more. Unless waits need it, this leaves the machine as it was without.
    pub(crate) fn stop(&mut self) {
        self.shared.switches_left().store(0, Ordering::Relaxed);
        if self.coming.is_none() {
            self.shared.since().store(0, Ordering::Relaxed);
            self.switching = None;
            self.waking = None;
        }
    }

    /// Lets an event of a processor sample the threads that are recorded alone.
    pub(crate) fn choose_samples(&self, event: &OwnedFd) -> io::Result<()> {
        sys::set_program(event, &self.programs.sampling)
    }

    /// The same, as long as stacks may be taken.
    pub(crate) fn choose_stacks(&self, event: &OwnedFd) -> io::Result<()> {
        sys::set_program(event, &self.programs.choosing)
    }

    /// How many switches may still be written.
    pub(crate) fn switches_left(&self) -> &AtomicI64 {
        self.shared.switches_left()
    }

    /// How many stacks may still be taken.
    pub(crate) fn stacks_left(&self) -> &AtomicI64 {
        self.shared.stacks_left()
    }

    pub(crate) fn threshold(&self) -> &AtomicI64 {
        self.shared.threshold()
    }

    /// Gives for how much waiting no stack stands that there would be, since the last time.
    pub(crate) fn take_skipped(&self) -> u64 {
        self.shared.take_skipped()
    }

    /// What was written since the last time, and how much there was no room for.
    pub(crate) fn take(&mut self) -> (Vec<Written>, u64) {
        let slices = &mut self.slices;
        self.ring.drain(|bytes| match raw(bytes) {
            Some(Raw::Switch { switch, ran, is_last }) => {
                slices.switch(switch, ran);
                if is_last {
                    slices.forget(switch.tid);
                }
            }
            Some(Raw::Waking(waking)) => slices.waking(waking),
            None => {}
        });
        (slices.take(), self.shared.take_lost())
    }
}

/// What they start from then on, a program puts into the table.
fn add_threads(table: &OwnedFd, pids: &[i32], mark: u64) -> io::Result<()> {
    for &pid in pids {
        processes::for_all_threads(&[pid], |tids| {
            let mut tids = tids.iter();
            let mut words = [0; THREAD_WORDS];
            words[0] = pid as u64 | mark;
            tids.try_for_each(|&tid| bpf::put_words(table, tid as u32, &words))
        })?;
    }
    Ok(())
}

/// What the programs have written, as it is.
enum Raw {
    Switch {
        switch: Switch,
        /// How long the thread has run in all.
        ran: u64,
        is_last: bool,
    },
    Waking(Waking),
}

fn raw(bytes: &[u8]) -> Option<Raw> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let (time, thread, rest, last) = (word(0)?, word(8)?, word(16)?, word(24)?);
    let has = |flag: i32| rest & flag as u64 != 0;
    let (pid, tid, cpu) = ((thread >> 32) as u32, thread as u32, (rest >> 32) as u32);
    if has(IS_WAKING) {
        let (woken, is_interrupt) = (last as u32, has(IS_INTERRUPT));
        return Some(Raw::Waking(Waking { time, pid, tid, cpu, woken, is_interrupt }));
    }
    let (is_out, is_preempted) = (has(IS_OUT), has(IS_PREEMPTED));
    let switch = Switch { time, pid, tid, cpu, is_out, is_preempted };
    Some(Raw::Switch { switch, ran: last, is_last: has(IS_LAST) })
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
        let begun = Followed::begin(&[std::process::id() as i32], false, false);
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
        let of_it = |written| match written {
            Written::Switch(switch) if switch.tid == tid => Some(switch),
            _ => None,
        };
        Some(all.into_iter().filter_map(of_it).collect())
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
