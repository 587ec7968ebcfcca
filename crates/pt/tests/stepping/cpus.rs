//! Threads that share processors: the trace of each processor holds what ran there, one thread
//! after the other, and records of switches say whose it is.

use super::perf_data::{AuxSource, File, PiecePlace, TracedThread, ZERO, is_recorded};
use super::record::{FIRST_TICK, Recorder, RecorderOptions};
use super::step::Code;

/// How threads are dealt out, and how the trace is kept.
#[derive(Debug, Clone, Copy)]
pub struct Sharing {
    pub cpus: usize,
    /// Instructions until another thread runs.
    pub turn: usize,
    pub keeping: Keeping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    Whole,
    /// Emptied whenever this many bytes are there.
    Pieces(usize),
    /// A ring of this many bytes, copied whenever as many more are there.
    Copies(usize, usize),
    /// After this many bytes there is no room, up to the next place to begin.
    Full(usize),
}

/// A thread has its turn.
pub struct Turn {
    pub thread: usize,
    pub cpu: usize,
    /// The steps that it ran: the last is where it goes on.
    pub steps: std::ops::Range<usize>,
    pub since: u64,
    pub until: u64,
}

/// Who ran when and where, and what each processor wrote.
pub fn deal(
    threads: &[TracedThread<'_>],
    code: &[Code],
    options: RecorderOptions,
    sharing: Sharing,
) -> (Vec<Turn>, Vec<Vec<u8>>) {
    let mut streams = vec![Vec::new(); sharing.cpus];
    let mut free = vec![FIRST_TICK; sharing.cpus];
    let mut ready = vec![FIRST_TICK; threads.len()];
    let mut at = vec![0; threads.len()];
    let mut turns = Vec::new();
    for round in 0.. {
        let left = (0..threads.len()).filter(|&one| at[one] + 1 < threads[one].steps.len());
        let left: Vec<usize> = left.collect();
        if left.is_empty() {
            break;
        }
        for thread in left {
            let cpu = (round + thread) % sharing.cpus;
            let since = free[cpu].max(ready[thread]) + 100;
            let steps = at[thread]..(at[thread] + sharing.turn).min(threads[thread].steps.len());
            let of_turn = &threads[thread].steps[steps.clone()];
            let (recorded, until) = Recorder::turn(of_turn, code, options, since);
            streams[cpu].extend(recorded.bytes);
            at[thread] = steps.end - 1;
            (free[cpu], ready[thread]) = (until + 20, until + 20);
            turns.push(Turn { thread, cpu, steps, since, until });
        }
    }
    (turns, streams)
}

/// A recording of what [`deal`] deals out.
pub fn write_on_cpus(
    pid: i32,
    threads: &[TracedThread<'_>],
    code: &[Code],
    options: RecorderOptions,
    sharing: Sharing,
) -> Vec<u8> {
    let (turns, streams) = deal(threads, code, options, sharing);
    let mut file = File::default();
    let are_copies = matches!(sharing.keeping, Keeping::Copies(..));
    file.info(if are_copies { AuxSource::CopiesOfProcessors } else { AuxSource::OfProcessors });
    file.named(pid, pid, "stepped");
    for code in code.iter().filter(|code| is_recorded(code)) {
        file.mapped(pid, code);
    }
    for thread in threads.iter().filter(|thread| thread.tid != pid) {
        file.forked(pid, pid, thread.tid, ZERO + FIRST_TICK);
    }
    for turn in &turns {
        let of = (pid, threads[turn.thread].tid);
        // The hardware is on before the kernel says so, and off before it says that, too.
        file.switched(of, ZERO + turn.since + 2, turn.cpu as u32, false);
        file.switched(of, ZERO + turn.until + 5, turn.cpu as u32, true);
    }
    for (cpu, stream) in streams.iter().enumerate() {
        keep(&mut file, pid, cpu as i32, stream, sharing.keeping);
    }
    file.finish(&options)
}

fn keep(file: &mut File, pid: i32, cpu: i32, stream: &[u8], keeping: Keeping) {
    let place =
        |offset: usize| PiecePlace { queue: cpu as u32, tid: -1, cpu, offset: offset as u64 };
    match keeping {
        Keeping::Whole => file.piece(pid, place(0), stream, 0),
        Keeping::Pieces(len) => {
            for (at, piece) in stream.chunks(len).enumerate() {
                file.piece(pid, place(at * len), piece, 0);
            }
        }
        Keeping::Copies(ring, every) => {
            let ends = (every..stream.len()).step_by(every).chain([stream.len()]);
            for end in ends {
                let from = end.saturating_sub(ring);
                file.piece(pid, place(from), &stream[from..end], 2);
            }
        }
        Keeping::Full(room) => {
            let (mut from, mut offset) = (0, 0);
            while from < stream.len() {
                let end = (from + room).min(stream.len());
                let is_full = end < stream.len();
                file.piece(pid, place(offset), &stream[from..end], is_full.into());
                offset += end - from;
                from = spanwise_pt::find_psb(stream, end).unwrap_or(stream.len());
            }
        }
    }
}
