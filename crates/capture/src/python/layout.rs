//! Where CPython keeps what we look for, version by version.
//!
//! The structures are its own and change with each minor version, never within one. Since 3.13 the
//! interpreter says itself where things are ([`super::debug_offsets`]); the tables are for those
//! before.

/// Offsets into the structures of one interpreter, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) minor: u32,
    pub(crate) interpreters: usize,
    pub(crate) next_interpreter: usize,
    pub(crate) threads: usize,
    pub(crate) gil: Gil,
    pub(crate) next_thread: usize,
    /// What pthreads call it.
    pub(crate) thread_id: usize,
    /// What the kernel calls it, where the interpreter knows.
    pub(crate) native_id: Option<usize>,
    /// The innermost frame, or what leads to it.
    pub(crate) frame: usize,
    /// Where in what `frame` leads to the frame is, where there is something in between.
    pub(crate) through: Option<usize>,
    pub(crate) frame_code: usize,
    pub(crate) frame_previous: usize,
    pub(crate) frame_instruction: usize,
    pub(crate) entries: Entries,
    pub(crate) code: Code,
    pub(crate) texts: Texts,
    pub(crate) objects: Objects,
}

/// Where the lock is that lets one thread run Python at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gil {
    /// In what all interpreters share.
    Shared { locked: usize, holder: usize },
    /// Each interpreter leads to its own.
    Own { gil: usize, locked: usize, holder: usize },
    /// There is none: all threads may run.
    None,
}

/// Which frames the C function that interprets was called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Every one.
    All,
    /// Those that say so, in this byte.
    Marked(usize),
    /// Those inside of a frame that is no Python, but the C function's own: this byte is 3, or
    /// more in 3.14.
    Inside(usize),
}

impl Entries {
    /// Owned by the C stack, or since 3.14 by the interpreter.
    pub(crate) const OF_C: u8 = 3;
}

/// Offsets in code objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) file: usize,
    pub(crate) name: usize,
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
    pub(crate) lines_are: Lines,
    /// Where its instructions begin; frames of older versions count from there already.
    pub(crate) instructions: Option<usize>,
}

impl Code {
    /// So much of a code object holds all that is asked of it.
    pub(crate) fn bytes(&self) -> usize {
        8 + self.file.max(self.name).max(self.first_line).max(self.lines)
    }
}

/// How a code object encodes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Steps of addresses and lines, up to 3.9.
    Steps,
    /// Ranges of addresses with their lines, in 3.10.
    Ranges,
    /// Entries of several forms, since 3.11.
    Locations,
}

/// Texts: the places of their parts, and what is behind the head of an ASCII one, and of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) length: usize,
    pub(crate) state: usize,
    pub(crate) ascii_bytes: usize,
    pub(crate) compact_bytes: usize,
}

/// Of all objects, and of those that hold bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) type_at: usize,
    pub(crate) bytes_length: usize,
    pub(crate) bytes_content: usize,
}

const OBJECTS: Objects = Objects { type_at: 8, bytes_length: 16, bytes_content: 32 };

const OLD_TEXTS: Texts = Texts { length: 16, state: 32, ascii_bytes: 48, compact_bytes: 72 };
const TEXTS: Texts = Texts { ascii_bytes: 40, compact_bytes: 56, ..OLD_TEXTS };

const V3_8: Layout = Layout {
    minor: 8,
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    gil: Gil::Shared { locked: 1168, holder: 1160 },
    next_thread: 8,
    thread_id: 176,
    native_id: None,
    frame: 24,
    through: None,
    frame_code: 32,
    frame_previous: 24,
    frame_instruction: 104,
    entries: Entries::All,
    code: Code {
        file: 104,
        name: 112,
        first_line: 40,
        lines: 120,
        lines_are: Lines::Steps,
        instructions: None,
    },
    texts: OLD_TEXTS,
    objects: OBJECTS,
};

const V3_9: Layout = Layout { minor: 9, gil: Gil::Shared { locked: 368, holder: 360 }, ..V3_8 };

const V3_10: Layout = Layout {
    minor: 10,
    frame_instruction: 96,
    code: Code { lines_are: Lines::Ranges, ..V3_9.code },
    ..V3_9
};

const V3_11: Layout = Layout {
    minor: 11,
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    gil: Gil::Shared { locked: 376, holder: 368 },
    next_thread: 8,
    thread_id: 152,
    native_id: Some(160),
    frame: 56,
    through: Some(8),
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    entries: Entries::Marked(68),
    code: Code {
        file: 112,
        name: 128,
        first_line: 72,
        lines: 136,
        lines_are: Lines::Locations,
        instructions: Some(184),
    },
    texts: OLD_TEXTS,
    objects: OBJECTS,
};

const V3_12: Layout = Layout {
    minor: 12,
    threads: 72,
    gil: Gil::Own { gil: 384, locked: 16, holder: 8 },
    thread_id: 136,
    native_id: Some(144),
    through: Some(0),
    frame_code: 0,
    frame_previous: 8,
    entries: Entries::Inside(70),
    code: Code { first_line: 68, instructions: Some(192), ..V3_11.code },
    texts: TEXTS,
    ..V3_11
};

/// The versions that are known by a table.
const KNOWN: [Layout; 5] = [V3_8, V3_9, V3_10, V3_11, V3_12];

impl Layout {
    /// Of a version that is known by a table.
    pub(crate) fn of_minor(minor: u32) -> Option<Layout> {
        KNOWN.into_iter().find(|layout| layout.minor == minor)
    }

    /// So much of a thread's state holds all that is asked of it.
    pub(crate) fn thread_bytes(&self) -> usize {
        let native = self.native_id.unwrap_or(0);
        8 + self.next_thread.max(self.thread_id).max(self.frame).max(native)
    }

    /// So much of a frame holds all that is asked of it.
    pub(crate) fn frame_bytes(&self) -> usize {
        let mark = match self.entries {
            Entries::All => 0,
            Entries::Marked(at) | Entries::Inside(at) => at,
        };
        8 + self.frame_code.max(self.frame_previous).max(self.frame_instruction).max(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_known_once() {
        for minor in 8..=12 {
            assert_eq!(Layout::of_minor(minor).map(|layout| layout.minor), Some(minor));
        }
        assert_eq!(Layout::of_minor(7), None);
        assert_eq!(Layout::of_minor(13), None);
    }
}
