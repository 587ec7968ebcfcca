//! Code objects: which function of which file, and on which line it is.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::layout::Layout;
use super::lines::line_at;
use super::memory::{Ahead, Memory, number_at, word_at};

/// Names and files that are longer are cut.
const TEXT_MAX: usize = 4096;

/// The line tables of huge modules.
const TABLE_MAX: usize = 16 << 20;

/// A function of Python, or another stretch of code that has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) first_line: i32,
}

/// A code object that was read.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// What was read at its address: as long as that stays, it is still the same.
    head: Vec<u8>,
    pub(crate) function: Arc<Function>,
    table: Arc<[u8]>,
}

/// The code objects of one process, by address.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    known: HashMap<u64, Known>,
}

/// Addresses that do not hold what they should: memory changed while it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Torn;

impl From<io::Error> for Torn {
    fn from(_: io::Error) -> Torn {
        Torn
    }
}

impl Codes {
    /// Looks at code objects that are on a stack now, so that [`Codes::get`] knows them.
    /// `code_type` is where the type of all code objects is.
    pub(crate) fn look_at(
        &mut self,
        memory: &mut Ahead,
        layout: &Layout,
        code_type: u64,
        addresses: &[u64],
    ) -> Result<(), Torn> {
        let type_at = layout.objects.type_at;
        let bytes = layout.code.bytes().max(type_at + 8);
        let heads = memory.read_each(addresses, bytes)?;
        for (&address, head) in addresses.iter().zip(heads.chunks_exact(bytes)) {
            if word_at(head, type_at) != code_type {
                return Err(Torn);
            }
            // The count of references changes all the time, and caches in between.
            let words = head_words(layout, head);
            if self.known.get(&address).is_none_or(|known| known.head != words) {
                self.known.insert(address, read(memory.memory, layout, head, words)?);
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, address: u64) -> Option<&Known> {
        self.known.get(&address)
    }
}

/// What says which code object it is.
fn head_words(layout: &Layout, head: &[u8]) -> Vec<u8> {
    let code = &layout.code;
    let words = [code.file, code.name, code.lines].map(|at| word_at(head, at));
    let mut found: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    found.extend(number_at(head, code.first_line).to_ne_bytes());
    found
}

fn read(memory: Memory, layout: &Layout, head: &[u8], words: Vec<u8>) -> Result<Known, Torn> {
    let code = &layout.code;
    let function = Function {
        name: text(memory, layout, word_at(head, code.name))?,
        file: text(memory, layout, word_at(head, code.file))?,
        first_line: number_at(head, code.first_line),
    };
    let table = bytes_object(memory, layout, word_at(head, code.lines)).unwrap_or_default();
    Ok(Known { head: words, function: Arc::new(function), table: table.into() })
}

impl Known {
    /// The line of an instruction, as a frame gives it.
    pub(crate) fn line(&self, layout: &Layout, code_address: u64, instruction: u64) -> i32 {
        let at = match layout.code.instructions {
            Some(from) => {
                let first = code_address.wrapping_add(from as u64);
                instruction.wrapping_sub(first) as i64
            }
            // Instructions have two bytes, and 3.10 counts them, where others count bytes.
            None if layout.minor == 10 => i64::from(instruction as u32 as i32) * 2,
            None => i64::from(instruction as u32 as i32),
        };
        line_at(layout.code.lines_are, &self.table, self.function.first_line, at)
    }
}

/// A text of Python, which keeps one, two or four bytes a character.
fn text(memory: Memory, layout: &Layout, address: u64) -> Result<String, Torn> {
    let texts = &layout.texts;
    let head = memory.read(address, texts.state.max(texts.length) + 8)?;
    let state = number_at(&head, texts.state) as u32;
    let (width, is_compact, is_ascii) =
        ((state >> 2) & 7, state & (1 << 5) != 0, state & (1 << 6) != 0);
    if !is_compact || !matches!(width, 1 | 2 | 4) {
        return Err(Torn);
    }
    let length = usize::try_from(word_at(&head, texts.length)).unwrap_or(usize::MAX).min(TEXT_MAX);
    let from = if is_ascii { texts.ascii_bytes } else { texts.compact_bytes };
    let bytes = memory.read(address.wrapping_add(from as u64), length * width as usize)?;
    let of_bytes = |bytes: &[u8]| match *bytes {
        [one] => u32::from(one),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    };
    let characters = bytes.chunks_exact(width as usize).map(of_bytes);
    Ok(characters.map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// The content of a `bytes`.
fn bytes_object(memory: Memory, layout: &Layout, address: u64) -> io::Result<Vec<u8>> {
    let at = |offset: usize| address.wrapping_add(offset as u64);
    let objects = &layout.objects;
    let size = usize::try_from(memory.word(at(objects.bytes_length))?).unwrap_or(0);
    memory.read(at(objects.bytes_content), size.min(TABLE_MAX))
}
