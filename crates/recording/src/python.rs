//! `python.samples`: stacks of Python functions, as they were read in interpreters.

use crate::SideFile;
use crate::side_file::{each_record, number, record, two_texts, word};

pub const PYTHON_FILE: SideFile = SideFile { name: "python.samples", head: b"spanwise-python\n" };

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const STACK: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
}

/// Set in the number of a function where a call of the C function that interprets starts.
const ENTRY: u32 = 1 << 31;

/// Flags of a stack.
const HAS_GIL: u32 = 1;
const TORN: u32 = 2;
const OF_SAMPLE: u32 = 4;
const OF_WAIT: u32 = 8;
const IS_CUT: u32 = 16;

const FRAME_BYTES: usize = 8;

/// One record of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonRecord<'a> {
    Function(PythonFunction),
    Stack(PythonStack, PythonFrames<'a>),
    Process(PythonProcess),
}

/// A function that frames name by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonFunction {
    pub number: u32,
    pub first_line: i32,
    pub name: String,
    pub file: String,
}

/// A process that runs Python of a version, and how often its stacks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonProcess {
    pub pid: i32,
    pub minor: u32,
    pub period_ns: u64,
}

/// When the stack of which thread was read, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonStack {
    pub time: u64,
    pub pid: i32,
    pub tid: i32,
    /// It had the lock of the interpreter.
    pub has_gil: bool,
    pub how: HowRead,
    /// Frames further out are left out.
    pub is_cut: bool,
    /// It changed while it was read: there are no frames.
    pub is_torn: bool,
}

/// How a stack was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowRead {
    /// From outside, while its thread may have run on.
    Beside,
    /// At a sample of the kernel, right before it.
    OfSample,
    /// When a wait was over, at the time at which the thread came back.
    OfWait,
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrame {
    pub function: u32,
    /// A call of the C function that interprets starts with it.
    pub is_entry: bool,
    pub line: i32,
}

/// The frames of a stack, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrames<'a>(&'a [u8]);

impl<'a> PythonFrames<'a> {
    pub fn iter(self) -> impl Iterator<Item = PythonFrame> + use<'a> {
        self.0.chunks_exact(FRAME_BYTES).filter_map(|bytes| {
            let (function, line) = (number(bytes, 0)?, number(bytes, 4)?.cast_signed());
            Some(PythonFrame { function: function & !ENTRY, is_entry: function & ENTRY != 0, line })
        })
    }
}

impl PythonFunction {
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.number, self.first_line.cast_unsigned(), self.name.len() as u32];
        let head: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
        record(kind::FUNCTION, &[&head, self.name.as_bytes(), self.file.as_bytes()])
    }
}

impl PythonProcess {
    pub fn to_bytes(&self) -> Vec<u8> {
        let (pid, minor) = (self.pid.to_le_bytes(), self.minor.to_le_bytes());
        record(kind::PROCESS, &[&pid, &minor, &self.period_ns.to_le_bytes()])
    }
}

impl PythonStack {
    pub fn to_bytes(&self, frames: &[PythonFrame]) -> Vec<u8> {
        let how = match self.how {
            HowRead::Beside => 0,
            HowRead::OfSample => OF_SAMPLE,
            HowRead::OfWait => OF_WAIT,
        };
        let flags = [(self.has_gil, HAS_GIL), (self.is_torn, TORN), (self.is_cut, IS_CUT)];
        let flags =
            flags.iter().filter(|(is_set, _)| *is_set).fold(how, |all, (_, flag)| all | flag);
        let mut rows = Vec::with_capacity(frames.len() * FRAME_BYTES);
        for frame in frames {
            let entry = if frame.is_entry { ENTRY } else { 0 };
            rows.extend((frame.function | entry).to_le_bytes());
            rows.extend(frame.line.to_le_bytes());
        }
        let (pid, tid) = (self.pid.to_le_bytes(), self.tid.to_le_bytes());
        record(kind::STACK, &[&self.time.to_le_bytes(), &pid, &tid, &flags.to_le_bytes(), &rows])
    }
}

/// Hands over each record; true where something of the file is missing, or it is another one.
pub fn read(bytes: &[u8], mut take: impl FnMut(PythonRecord<'_>)) -> bool {
    each_record(bytes, PYTHON_FILE.head, |kind, body| {
        let record = match kind {
            kind::FUNCTION => function(body).map(PythonRecord::Function),
            kind::STACK => stack(body),
            kind::PROCESS => process(body).map(PythonRecord::Process),
            _ => None,
        };
        record.into_iter().for_each(&mut take);
    })
}

fn function(body: &[u8]) -> Option<PythonFunction> {
    let (name, file) = two_texts(body, 8)?;
    let first_line = number(body, 4)?.cast_signed();
    Some(PythonFunction { number: number(body, 0)?, first_line, name, file })
}

fn process(body: &[u8]) -> Option<PythonProcess> {
    let (pid, minor) = (number(body, 0)?.cast_signed(), number(body, 4)?);
    Some(PythonProcess { pid, minor, period_ns: word(body, 8)? })
}

fn stack(body: &[u8]) -> Option<PythonRecord<'_>> {
    let flags = number(body, 16)?;
    let stack = PythonStack {
        time: word(body, 0)?,
        pid: number(body, 8)?.cast_signed(),
        tid: number(body, 12)?.cast_signed(),
        has_gil: flags & HAS_GIL != 0,
        how: match flags & (OF_SAMPLE | OF_WAIT) {
            OF_SAMPLE => HowRead::OfSample,
            OF_WAIT => HowRead::OfWait,
            _ => HowRead::Beside,
        },
        is_cut: flags & IS_CUT != 0,
        is_torn: flags & TORN != 0,
    };
    Some(PythonRecord::Stack(stack, PythonFrames(body.get(20..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [PythonFrame; 2] = [
        PythonFrame { function: 1, is_entry: true, line: 9 },
        PythonFrame { function: 2, is_entry: false, line: -1 },
    ];

    fn stack_of(how: HowRead, has_gil: bool, is_cut: bool, is_torn: bool) -> PythonStack {
        PythonStack { time: 10, pid: 7, tid: 8, has_gil, how, is_cut, is_torn }
    }

    #[test]
    fn stacks_are_read_as_they_were_written() {
        for how in [HowRead::Beside, HowRead::OfSample, HowRead::OfWait] {
            for flags in 0..8 {
                let written = stack_of(how, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                let bytes = [PYTHON_FILE.head, &*written.to_bytes(&FRAMES)].concat();
                let is_cut = read(&bytes, |record| {
                    let PythonRecord::Stack(stack, frames) = record else { panic!("{record:?}") };
                    assert_eq!(
                        (stack, frames.iter().collect::<Vec<_>>()),
                        (written, FRAMES.to_vec())
                    );
                });
                assert!(!is_cut);
            }
        }
    }

    #[test]
    fn functions_and_processes_are_read_as_they_were_written() {
        let (name, file) = ("main".to_owned(), "/x é.py".to_owned());
        let function = PythonFunction { number: 3, first_line: -1, name, file };
        let process = PythonProcess { pid: 7, minor: 12, period_ns: u64::MAX };
        let bytes = [PYTHON_FILE.head, &*function.to_bytes(), &process.to_bytes()].concat();
        let mut found = Vec::new();
        let is_cut = read(&bytes, |record| match record {
            PythonRecord::Function(function) => found.push((Some(function), None)),
            PythonRecord::Process(process) => found.push((None, Some(process))),
            PythonRecord::Stack(..) => panic!("{record:?}"),
        });
        assert_eq!((found, is_cut), (vec![(Some(function), None), (None, Some(process))], false));
    }

    #[test]
    fn a_file_that_is_cut_off_gives_what_is_whole() {
        let stack = stack_of(HowRead::Beside, false, false, false).to_bytes(&FRAMES);
        let whole = [PYTHON_FILE.head, &*stack].concat();
        for len in 0..whole.len() {
            let is_cut = read(&whole[..len], |record| panic!("{record:?}"));
            assert_eq!(is_cut, ![0, PYTHON_FILE.head.len()].contains(&len), "{len}");
        }
        assert!(read(&[0xff; 100], |record| panic!("{record:?}")));
    }
}
