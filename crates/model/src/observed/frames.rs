//! Frames: functions with the place in the source that was executed.

use crate::{Column, StrId};

/// Number of a frame in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What executes a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum FrameKind {
    /// Machine code of a file.
    #[default]
    Native = 0,
    /// The operating system's kernel.
    Kernel,
    /// A Python function.
    Python,
    /// Machine code that a runtime made while the program ran.
    Jit,
    /// A function on a GPU.
    Gpu,
    /// JavaScript, Ruby and other languages whose runtime was asked.
    Script,
}

impl FrameKind {
    /// All values, in the order of their numbers.
    pub const ALL: [FrameKind; 6] = [
        FrameKind::Native,
        FrameKind::Kernel,
        FrameKind::Python,
        FrameKind::Jit,
        FrameKind::Gpu,
        FrameKind::Script,
    ];

    /// The word for it in tables and in the index.
    pub const fn text(self) -> &'static str {
        match self {
            FrameKind::Native => "native",
            FrameKind::Kernel => "kernel",
            FrameKind::Python => "python",
            FrameKind::Jit => "jit",
            FrameKind::Gpu => "gpu",
            FrameKind::Script => "script",
        }
    }
}

/// One frame. Two frames that differ in nothing are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// Empty where no symbol covers the address.
    pub function: StrId,
    /// The source file; empty where it is not known.
    pub file: StrId,
    /// 0 where it is not known (I14).
    pub line: u32,
    /// The file that was mapped there, such as a library.
    pub mapping: StrId,
    /// The address within the mapping of a frame without a function, so that two such
    /// frames remain two; 0 where the function is known.
    pub address: u64,
    /// What executes it.
    pub kind: FrameKind,
    /// The compiler put the function into its caller.
    pub is_inlined: bool,
}

/// All frames, a column each.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    /// Functions: [`StrId`].
    pub function: Column<u32>,
    /// Source files: [`StrId`].
    pub file: Column<u32>,
    /// Lines; 0 if unknown.
    pub line: Column<u32>,
    /// Mapped files: [`StrId`].
    pub mapping: Column<u32>,
    /// Addresses; 0 if unknown.
    pub address: Column<u64>,
    /// [`FrameKind`] as a number.
    pub kind: Column<u8>,
    /// 1 for frames that are inlined.
    pub inlined: Column<u8>,
}

impl Frames {
    /// Number of frames.
    pub fn len(&self) -> usize {
        self.function.len()
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.function.is_empty()
    }

    /// The frame of an id.
    pub fn get(&self, frame: FrameId) -> Frame {
        let row = frame.index();
        Frame {
            function: StrId(self.function[row]),
            file: StrId(self.file[row]),
            line: self.line[row],
            mapping: StrId(self.mapping[row]),
            address: self.address[row],
            kind: self.kind(frame),
            is_inlined: self.inlined[row] != 0,
        }
    }

    /// What executes a frame.
    pub fn kind(&self, frame: FrameId) -> FrameKind {
        FrameKind::ALL[usize::from(self.kind[frame.index()])]
    }
}

impl FromIterator<Frame> for Frames {
    fn from_iter<T: IntoIterator<Item = Frame>>(frames: T) -> Self {
        let frames: Vec<Frame> = frames.into_iter().collect();
        Frames {
            function: frames.iter().map(|frame| frame.function.0).collect(),
            file: frames.iter().map(|frame| frame.file.0).collect(),
            line: frames.iter().map(|frame| frame.line).collect(),
            mapping: frames.iter().map(|frame| frame.mapping.0).collect(),
            address: frames.iter().map(|frame| frame.address).collect(),
            kind: frames.iter().map(|frame| frame.kind as u8).collect(),
            inlined: frames.iter().map(|frame| u8::from(frame.is_inlined)).collect(),
        }
    }
}
