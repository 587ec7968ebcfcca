//! Stacks out of a copy of the thread's memory, by the unwinding tables of its files.
//!
//! `perf record --call-graph dwarf` keeps registers and the upper end of the stack with
//! each sample; who called whom is found here, as a debugger finds it.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use spanwise_files::FileBytes;

use crate::mapped_files::Files;
use crate::mappings::{Mapping, Maps};

/// More frames than this are a circle, or recursion that nobody reads.
const FRAMES_MAX: usize = 512;

/// A section of a file.
#[derive(Clone)]
struct Section {
    file: FileBytes,
    range: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.file.as_ref().get(self.range.clone()).unwrap_or(&[])
    }
}

/// What of a file is needed for unwinding: sections with their addresses.
struct Tables {
    text: Option<(Range<u64>, Section)>,
    eh_frame: Option<(Range<u64>, Section)>,
    eh_frame_hdr: Option<(Range<u64>, Section)>,
    /// Offset in the file, length, address.
    segments: Vec<(u64, u64, u64)>,
}

/// The registers of a thread that lead into its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

/// Unwinds the threads of all processes.
#[derive(Default)]
pub struct Unwinders {
    files: HashMap<Rc<str>, Option<Tables>>,
    processes: HashMap<i32, Process>,
}

struct Process {
    unwinder: UnwinderX86_64<Section>,
    cache: CacheX86_64,
}

impl Unwinders {
    /// The mappings of a process are not what they were.
    pub fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// Addresses from the innermost on, by the registers of a thread and what its memory has at
    /// an address; each but the first is where a call returns to.
    pub fn unwind(
        &mut self,
        files: &mut Files,
        maps: &Maps,
        pid: i32,
        registers: Registers,
        word_at: impl Fn(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let known = &mut self.files;
        let process = self.processes.entry(pid).or_insert_with(|| {
            let mut unwinder = UnwinderX86_64::new();
            for mapping in maps.of(pid) {
                let tables = known.entry(Rc::clone(&mapping.path));
                let tables =
                    tables.or_insert_with(|| files.get(&mapping.path).and_then(Tables::read));
                if let Some(module) = tables.as_ref().and_then(|tables| tables.module(mapping)) {
                    unwinder.add_module(module);
                }
            }
            Process { unwinder, cache: CacheX86_64::new() }
        });
        let Registers { ip, sp, bp } = registers;
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut word_at = |address: u64| word_at(address).ok_or(());
        let Process { unwinder, cache } = process;
        let mut frames = unwinder.iter_frames(ip, registers, cache, &mut word_at);
        let mut found = Vec::new();
        // Where the tables lead no further, what was found so far is good.
        while found.len() < FRAMES_MAX
            && let Ok(Some(frame)) = frames.next()
            && !is_kernel(frame.address())
        {
            found.push(frame.address());
        }
        found
    }
}

/// No address that a program returns to: without a table, a guess has gone wrong.
fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

impl Tables {
    fn read(file: FileBytes) -> Option<Tables> {
        let bytes = file.clone();
        let elf = object::File::parse(bytes.as_ref()).ok()?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let (offset, size) = section.file_range()?;
            let from = usize::try_from(offset).ok()?;
            let range = from..from.checked_add(usize::try_from(size).ok()?)?;
            let addresses = section.address()..section.address().checked_add(size)?;
            Some((addresses, Section { file: file.clone(), range }))
        };
        let segments = elf.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Some(Tables {
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            segments: segments.collect(),
        })
    }

    fn module(&self, mapping: &Mapping) -> Option<Module<Section>> {
        // The kernel maps whole pages, so a mapping may begin before its segment, in the page that
        // the segment before ends in: of two that fit, the mapping is of the latter.
        let &(offset, _, address) = self.segments.iter().rfind(|&&(offset, size, _)| {
            let end = offset.saturating_add(size);
            (offset & !0xfff) <= mapping.file_offset && mapping.file_offset < end
        })?;
        let first = address.wrapping_add(mapping.file_offset).wrapping_sub(offset);
        let base = mapping.start.wrapping_sub(first);
        let addresses = |part: &Option<(Range<u64>, Section)>| {
            part.as_ref().map(|(addresses, _)| addresses.clone())
        };
        let bytes =
            |part: &Option<(Range<u64>, Section)>| part.as_ref().map(|(_, bytes)| bytes.clone());
        let info = ExplicitModuleSectionInfo {
            text_svma: addresses(&self.text),
            text: bytes(&self.text),
            eh_frame_svma: addresses(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: addresses(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            // Zero, or of other systems' files.
            base_svma: 0,
            stubs_svma: None,
            stub_helper_svma: None,
            got_svma: None,
            unwind_info: None,
            debug_frame: None,
            text_segment_svma: None,
            text_segment: None,
        };
        let range = mapping.start..mapping.end;
        Some(Module::new(mapping.path.to_string(), range, base, info))
    }
}
