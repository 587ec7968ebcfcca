//! Python frames, copied at each sample by the program that chooses samples.
//!
//! What is read of an interpreter from outside is of another moment than the kernel's samples. The
//! program runs on the thread itself, which stands still meanwhile: it follows the frames of
//! Python from the innermost on and copies them as they are. What they mean is found out later,
//! by the thread that reads interpreters ([`crate::python`]); it says in a table where the frames
//! of each thread begin, and where in a frame the next one stands.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::calls::bpf;
use crate::calls::bpf::program::{
    FRAME, Instruction, NO_WAKEUP, add, call, copy, function, instruction, map, set,
};
use crate::calls::bpf::ring::HitRing;
use crate::system::processes;

/// Frames that are copied at most; those further out are left out.
const FRAMES_MAX: i32 = 240;

/// Each has so much room.
pub(crate) const FRAME_BYTES_MAX: usize = 112;

/// In front of the frames: time; process and thread; where it was taken; the next frame's address.
const HEAD_BYTES: i32 = 32;
const ROOM_BYTES: i32 = HEAD_BYTES + FRAMES_MAX * FRAME_BYTES_MAX as i32;

/// What the table holds of a thread: the address of what leads to its innermost frame; where in
/// that the frame is, or less than zero where nothing is in between; how much of a frame is
/// copied, and where in it the next one is.
const THREAD_WORDS: usize = 4;
const THREADS_MAX: u32 = 1 << 14;

/// For all frames between two looks at the ring.
const RING_BYTES_OF_PROCESSOR: u32 = 512 << 10;
const RING_BYTES_MAX: u32 = 32 << 20;

/// Where frames are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopiedAt {
    Sample = 0,
    /// A wait is over.
    Wait = 1,
}

/// On the stack, below everything that the other programs have there.
const KEY: i16 = -200;
const WORD: i16 = -208;

mod code {
    pub(super) const LOAD_64: u8 = 0x79;
    pub(super) const STORE_64: u8 = 0x7b;
    pub(super) const STORE_NUMBER_32: u8 = 0x62;
    pub(super) const STORE_32: u8 = 0x63;
    pub(super) const ADD_REGISTER: u8 = 0x0f;
    pub(super) const JUMP: u8 = 0x05;
    pub(super) const JUMP_ZERO: u8 = 0x15;
    pub(super) const JUMP_NOT_ZERO: u8 = 0x55;
    pub(super) const JUMP_ABOVE: u8 = 0x25;
    pub(super) const JUMP_NEGATIVE: u8 = 0xc5;
}

/// The maps that the copying needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameMaps {
    threads: RawFd,
    room: RawFd,
    ring: RawFd,
}

/// The same, open.
#[derive(Debug)]
pub(super) struct OpenFrameMaps {
    threads: OwnedFd,
    room: OwnedFd,
    ring: OwnedFd,
    ring_bytes: u32,
}

impl OpenFrameMaps {
    pub(super) fn create() -> io::Result<OpenFrameMaps> {
        let processors = processes::processors().len().max(1) as u32;
        let ring_bytes = RING_BYTES_OF_PROCESSOR.saturating_mul(processors).min(RING_BYTES_MAX);
        let ring_bytes = ring_bytes.next_power_of_two();
        Ok(OpenFrameMaps {
            threads: bpf::table(THREAD_WORDS, THREADS_MAX)?,
            room: bpf::room(ROOM_BYTES as u32, 2)?,
            ring: bpf::ring(ring_bytes)?,
            ring_bytes,
        })
    }

    pub(super) fn for_programs(&self) -> FrameMaps {
        let [threads, room, ring] = [&self.threads, &self.room, &self.ring].map(AsRawFd::as_raw_fd);
        FrameMaps { threads, room, ring }
    }

    /// For the one who knows interpreters.
    pub(super) fn copies(&self) -> io::Result<FrameCopies> {
        let ring = HitRing::map(&self.ring, self.ring_bytes as usize)?;
        Ok(FrameCopies { threads: self.threads.try_clone()?, ring })
    }
}

/// A program that is being written, with jumps to places that are known later.
#[derive(Default)]
struct Draft {
    text: Vec<Instruction>,
    /// Where jumps to the end of the copying stand, and those to its output.
    to_end: Vec<usize>,
    to_output: Vec<usize>,
}

impl Draft {
    fn add(&mut self, more: impl IntoIterator<Item = Instruction>) {
        self.text.extend(more);
    }

    fn end_if(&mut self, code: u8, register: u8, number: i32) {
        self.to_end.push(self.text.len());
        self.text.push(instruction(code, register, 0, 0, number));
    }

    fn output_if(&mut self, code: u8, register: u8, number: i32) {
        self.to_output.push(self.text.len());
        self.text.push(instruction(code, register, 0, 0, number));
    }

    /// Jumps that were noted lead behind what is there now.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.text.len();
        jumps.iter().for_each(|&at| self.text[at].lead((here - at - 1) as i16));
    }

    /// Looks the key on the stack up; ends where it is not there.
    fn look_up(&mut self, table: RawFd) {
        self.add(map(1, table));
        self.add([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
        self.end_if(code::JUMP_ZERO, 0, 0);
    }

    /// Copies a word of the program from the address in register 3 to register 9.
    fn follow(&mut self) {
        self.add([copy(1, FRAME), add(1, WORD.into()), set(2, 8), call(function::READ_USER)]);
        self.end_if(code::JUMP_NOT_ZERO, 0, 0);
        self.add([instruction(code::LOAD_64, 9, FRAME, WORD, 0)]);
    }
}

/// Copies the frames of the thread that runs, if it is known to run Python. `time` is where on the
/// stack the time is; without, it is now. Registers 6 to 9 are lost.
pub(super) fn copy_frames(maps: FrameMaps, of: CopiedAt, time: Option<i16>) -> Vec<Instruction> {
    let mut draft = Draft::default();
    draft.add([call(function::PID_TGID), copy(8, 0)]);
    draft.add([instruction(code::STORE_32, FRAME, 8, KEY, 0)]);
    draft.look_up(maps.threads);
    draft.add([copy(6, 0), instruction(code::STORE_NUMBER_32, FRAME, 0, KEY, of as i32)]);
    draft.look_up(maps.room);
    draft.add([copy(7, 0), instruction(code::STORE_64, 7, 8, 8, 0)]);
    draft.add([match time {
        Some(at) => instruction(code::LOAD_64, 0, FRAME, at, 0),
        None => call(function::TIME),
    }]);
    draft.add([instruction(code::STORE_64, 7, 0, 0, 0), set(1, of as i32)]);
    draft.add([instruction(code::STORE_64, 7, 1, 16, 0)]);
    // Register 9 leads to a frame from now on, register 8 counts the bytes of those before.
    draft.add([instruction(code::LOAD_64, 3, 6, 0, 0)]);
    draft.follow();
    draft.add([set(8, 0), instruction(code::LOAD_64, 3, 6, 8, 0)]);
    let straight = draft.text.len();
    draft.add([instruction(code::JUMP_NEGATIVE, 3, 0, 0, 0)]);
    draft.output_if(code::JUMP_ZERO, 9, 0);
    draft.add([instruction(code::ADD_REGISTER, 3, 9, 0, 0)]);
    draft.follow();
    draft.land(&[straight]);
    copy_each(&mut draft);
    let outputs = std::mem::take(&mut draft.to_output);
    draft.land(&outputs);
    draft.add([instruction(code::STORE_64, 7, 9, 24, 0)]);
    draft.add(map(1, maps.ring));
    draft.add([copy(2, 7), copy(3, 8), add(3, HEAD_BYTES), set(4, NO_WAKEUP)]);
    // Where there is no room, the sample has what is read from outside.
    draft.add([call(function::RING_OUTPUT)]);
    let ends = std::mem::take(&mut draft.to_end);
    draft.land(&ends);
    draft.text
}

/// Copies one frame behind the other.
fn copy_each(draft: &mut Draft) {
    const PLACE_MAX: i32 = FRAME_BYTES_MAX as i32 - 8;
    let first = draft.text.len();
    draft.output_if(code::JUMP_ZERO, 9, 0);
    draft.output_if(code::JUMP_ABOVE, 8, (FRAMES_MAX - 1) * FRAME_BYTES_MAX as i32);
    draft.add([copy(1, 7), add(1, HEAD_BYTES), instruction(code::ADD_REGISTER, 1, 8, 0, 0)]);
    draft.add([instruction(code::LOAD_64, 2, 6, 16, 0)]);
    draft.end_if(code::JUMP_ABOVE, 2, FRAME_BYTES_MAX as i32);
    draft.add([copy(3, 9), call(function::READ_USER)]);
    draft.end_if(code::JUMP_NOT_ZERO, 0, 0);
    draft.add([instruction(code::LOAD_64, 2, 6, 24, 0)]);
    draft.end_if(code::JUMP_ABOVE, 2, PLACE_MAX);
    draft.add([copy(1, 7), add(1, HEAD_BYTES), instruction(code::ADD_REGISTER, 1, 8, 0, 0)]);
    draft.add([instruction(code::ADD_REGISTER, 1, 2, 0, 0)]);
    draft.add([instruction(code::LOAD_64, 9, 1, 0, 0), add(8, FRAME_BYTES_MAX as i32)]);
    let back = draft.text.len() + 1 - first;
    draft.add([instruction(code::JUMP, 0, 0, -(back as i16), 0)]);
}

/// Where the frames of a thread begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadFrames {
    /// The address of what leads to its innermost frame.
    pub(crate) from: u64,
    /// Where in that the address of the frame is, if it is not the frame itself.
    pub(crate) through: Option<usize>,
    pub(crate) frame_bytes: usize,
    pub(crate) previous: usize,
}

/// Frames of one thread at one time, as they were in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied<'a> {
    pub(crate) time: u64,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) at: CopiedAt,
    /// There are more, further out.
    pub(crate) is_cut: bool,
    /// The innermost first, each of [`FRAME_BYTES_MAX`] bytes.
    pub(crate) frames: &'a [u8],
}

/// What the programs have copied, and the table that says from where.
#[derive(Debug)]
pub(crate) struct FrameCopies {
    threads: OwnedFd,
    ring: HitRing,
}

impl FrameCopies {
    /// Copies the frames of a thread from now on. An error where there are too many threads, or
    /// frames are larger than there is room for.
    pub(crate) fn begin(&self, tid: i32, frames: ThreadFrames) -> io::Result<()> {
        if frames.frame_bytes > FRAME_BYTES_MAX || frames.previous + 8 > frames.frame_bytes {
            return Err(io::Error::other("frames of another form"));
        }
        let through = frames.through.map_or(u64::MAX, |at| at as u64);
        let words = [frames.from, through, frames.frame_bytes as u64, frames.previous as u64];
        bpf::put_words(&self.threads, tid as u32, &words)
    }

    pub(crate) fn end(&self, tid: i32) {
        // One that is not there any more needs not be taken out.
        let _ = bpf::delete(&self.threads, tid as u32);
    }

    /// Hands over what was copied since the last time.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Copied<'_>)) {
        self.ring.drain(|bytes| {
            if let Some(copied) = copied(bytes) {
                take(copied);
            }
        });
    }
}

fn copied(bytes: &[u8]) -> Option<Copied<'_>> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    let (time, thread, at, next) = (word(0)?, word(8)?, word(16)?, word(24)?);
    let at = if at == CopiedAt::Wait as u64 { CopiedAt::Wait } else { CopiedAt::Sample };
    let (pid, tid) = ((thread >> 32) as i32, thread as i32);
    let frames = bytes.get(HEAD_BYTES as usize..)?;
    // A ring keeps its records at multiples of eight bytes, as frames are.
    let whole = frames.len() / FRAME_BYTES_MAX * FRAME_BYTES_MAX;
    Some(Copied { time, pid, tid, at, is_cut: next != 0, frames: &frames[..whole] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_taken_apart() {
        let words = [7_u64, 3 << 32 | 4, 1, 0x1000];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend([9; FRAME_BYTES_MAX]);
        let found = copied(&bytes).expect("whole");
        assert_eq!((found.time, found.pid, found.tid), (7, 3, 4));
        assert_eq!((found.at, found.is_cut), (CopiedAt::Wait, true));
        assert_eq!(found.frames, [9; FRAME_BYTES_MAX]);
        for len in 0..HEAD_BYTES as usize {
            assert_eq!(copied(&bytes[..len]), None, "{len}");
        }
    }

    #[test]
    fn every_jump_stays_inside() {
        let maps = FrameMaps { threads: 3, room: 4, ring: 5 };
        let text = copy_frames(maps, CopiedAt::Sample, None);
        for (at, one) in text.iter().enumerate() {
            let Some(over) = one.jumps() else { continue };
            let to = at as isize + 1 + over;
            assert!((0..=text.len() as isize).contains(&to), "from {at} over {over}");
        }
    }
}
