//! `_Py_DebugOffsets`: since 3.13 an interpreter itself says where things are, in a table of words
//! at the beginning of the state that all its parts share. The table is there for other programs.
//!
//! The place of a word depends on the minor version alone, what it says on how the interpreter was
//! built as well.

use super::layout::{Code, Entries, Gil, Layout, Lines, Objects, Texts};
use super::memory::{Memory, word_at};

/// Places in the table, in bytes.
struct Places {
    minor: u32,
    interpreters: usize,
    next_interpreter: usize,
    threads: usize,
    gil: usize,
    gil_state: usize,
    gil_locked: usize,
    gil_holder: usize,
    next_thread: usize,
    frame: usize,
    thread_id: usize,
    native_id: usize,
    frame_previous: usize,
    frame_code: usize,
    frame_instruction: usize,
    frame_owner: usize,
    file: usize,
    qualified_name: usize,
    lines: usize,
    first_line: usize,
    instructions: usize,
    object_type: usize,
    bytes_length: usize,
    bytes_content: usize,
    text_state: usize,
    text_length: usize,
    text_ascii_bytes: usize,
    /// The whole table.
    bytes: usize,
}

const V3_13: Places = Places {
    minor: 13,
    interpreters: 40,
    next_interpreter: 64,
    threads: 72,
    gil: 112,
    gil_state: 120,
    gil_locked: 136,
    gil_holder: 144,
    next_thread: 168,
    frame: 184,
    thread_id: 192,
    native_id: 200,
    frame_previous: 232,
    frame_code: 240,
    frame_instruction: 248,
    frame_owner: 264,
    file: 280,
    qualified_name: 296,
    lines: 304,
    first_line: 312,
    instructions: 344,
    object_type: 360,
    bytes_length: 520,
    bytes_content: 528,
    text_state: 544,
    text_length: 552,
    text_ascii_bytes: 560,
    bytes: 584,
};

const V3_14: Places = Places {
    minor: 14,
    gil: 120,
    gil_state: 128,
    gil_locked: 144,
    gil_holder: 152,
    next_thread: 192,
    frame: 208,
    thread_id: 216,
    native_id: 224,
    frame_previous: 256,
    frame_code: 264,
    frame_instruction: 272,
    frame_owner: 288,
    file: 320,
    qualified_name: 336,
    lines: 344,
    first_line: 352,
    instructions: 384,
    object_type: 408,
    bytes_length: 600,
    bytes_content: 608,
    text_state: 624,
    text_length: 632,
    text_ascii_bytes: 640,
    bytes: 760,
    ..V3_13
};

const V3_15: Places = Places {
    minor: 15,
    thread_id: 240,
    native_id: 248,
    frame_previous: 320,
    frame_code: 328,
    frame_instruction: 336,
    frame_owner: 352,
    file: 384,
    qualified_name: 400,
    lines: 408,
    first_line: 416,
    instructions: 448,
    object_type: 472,
    bytes_length: 696,
    bytes_content: 704,
    text_state: 720,
    text_length: 728,
    text_ascii_bytes: 736,
    bytes: 888,
    ..V3_14
};

/// No object is larger than this before what we look for in it.
const OFFSET_MAX: usize = 1 << 20;

/// Why the words of an interpreter are of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// There are none, or those of another version.
    Unknown,
    /// Since 3.14 its texts have another form, and threads copies of instructions.
    FreeThreaded,
}

pub(super) fn layout(memory: Memory, runtime: u64) -> Result<Layout, Unreadable> {
    let read = |bytes| memory.read(runtime, bytes).map_err(|_| Unreadable::Unknown);
    let places = places(&read(24)?).ok_or(Unreadable::Unknown)?;
    let table = read(places.bytes)?;
    of_table(places, |at| word_at(&table, at) as usize)
}

/// Which version says it; tables of pre-releases before the first candidate still change.
fn places(head: &[u8]) -> Option<&'static Places> {
    const CANDIDATE: u64 = 0xc;
    if !head.starts_with(b"xdebugpy") {
        return None;
    }
    let version = word_at(head, 8);
    let is_whole = version >> 4 & 0xf >= CANDIDATE;
    [&V3_13, &V3_14, &V3_15]
        .into_iter()
        .find(|places| version >> 16 == 0x0300 | u64::from(places.minor) && is_whole)
}

fn of_table(places: &Places, word: impl Fn(usize) -> usize) -> Result<Layout, Unreadable> {
    // A word that cannot be one makes what is to be read too long, below.
    let word = |at| word(at).min(OFFSET_MAX);
    let is_free_threaded = word(16) != 0;
    if is_free_threaded && places.minor > 13 {
        return Err(Unreadable::FreeThreaded);
    }
    let layout = Layout {
        minor: places.minor,
        interpreters: word(places.interpreters),
        next_interpreter: word(places.next_interpreter),
        threads: word(places.threads),
        gil: match is_free_threaded {
            true => Gil::None,
            // Offsets of the lock count from the beginning of the interpreter.
            false => Gil::Own {
                gil: word(places.gil),
                locked: word(places.gil_locked).wrapping_sub(word(places.gil_state)),
                holder: word(places.gil_holder).wrapping_sub(word(places.gil_state)),
            },
        },
        next_thread: word(places.next_thread),
        frame: word(places.frame),
        through: None,
        thread_id: word(places.thread_id),
        native_id: Some(word(places.native_id)),
        frame_previous: word(places.frame_previous),
        frame_code: word(places.frame_code),
        frame_instruction: word(places.frame_instruction),
        entries: Entries::Inside(word(places.frame_owner)),
        code: Code {
            file: word(places.file),
            name: word(places.qualified_name),
            lines: word(places.lines),
            first_line: word(places.first_line),
            lines_are: Lines::Locations,
            instructions: Some(word(places.instructions)),
        },
        texts: Texts {
            length: word(places.text_length),
            state: word(places.text_state),
            ascii_bytes: word(places.text_ascii_bytes),
            // Others keep two more words, of their form in UTF-8.
            compact_bytes: word(places.text_ascii_bytes).wrapping_add(16),
        },
        objects: Objects {
            type_at: word(places.object_type),
            bytes_length: word(places.bytes_length),
            bytes_content: word(places.bytes_content),
        },
    };
    let read = [layout.thread_bytes(), layout.frame_bytes(), layout.code.bytes()];
    let ends = [layout.texts.state, layout.texts.length, layout.objects.type_at];
    let can_be = read.iter().chain(&ends).all(|&bytes| bytes < OFFSET_MAX);
    can_be.then_some(layout).ok_or(Unreadable::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From words that say nothing but their own place.
    fn layout_of(places: &Places, is_free_threaded: bool) -> Result<Layout, Unreadable> {
        of_table(places, |at| if at == 16 { is_free_threaded.into() } else { at })
    }

    #[test]
    fn what_an_interpreter_says_is_taken_word_by_word() {
        let layout = layout_of(&V3_13, false).expect("offsets that can be");
        assert_eq!((layout.interpreters, layout.threads), (40, 72));
        assert_eq!(layout.gil, Gil::Own { gil: 112, locked: 16, holder: 24 });
        let layout = layout_of(&V3_15, false).expect("offsets that can be");
        assert_eq!((layout.native_id, layout.code.instructions), (Some(248), Some(448)));
        assert_eq!((layout.texts.ascii_bytes, layout.texts.compact_bytes), (736, 752));
        assert_eq!(layout.gil, Gil::Own { gil: 120, locked: 16, holder: 24 });
        assert_eq!(layout_of(&V3_13, true).map(|layout| layout.gil), Ok(Gil::None));
        assert_eq!(layout_of(&V3_14, true), Err(Unreadable::FreeThreaded));
    }

    #[test]
    fn versions_are_taken_once_they_do_not_change_any_more() {
        let check = |version: u64, expected: Option<u32>| {
            let head = [*b"xdebugpy", version.to_ne_bytes(), [0; 8]].concat();
            assert_eq!(places(&head).map(|places| places.minor), expected, "{version:x}");
        };
        check(0x030d_00f0, Some(13));
        check(0x030e_0af0, Some(14));
        check(0x030f_02f0, Some(15));
        check(0x030f_00c1, Some(15));
        check(0x030f_00b4, None);
        check(0x0310_00f0, None);
        check(0x030c_00f0, None);
        assert!(places(&[0; 24]).is_none());
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let word = |at| if at == 16 { 0 } else { usize::MAX };
        assert_eq!(of_table(&V3_14, word), Err(Unreadable::Unknown));
    }
}
