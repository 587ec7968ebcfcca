//! The kernel's `bpf` call, as far as it is needed: maps, programs, probes of many functions.

pub(crate) mod exchange;
pub(crate) mod noting;
pub(crate) mod program;
pub(crate) mod ring;
pub(crate) mod sums;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use program::Instruction;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOK_UP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROGRAM_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const LINK_CREATE: libc::c_int = 28;

const HASH: u32 = 1;
const ARRAY: u32 = 2;
/// Of an array: it can be mapped into our memory.
const CAN_BE_MAPPED: u32 = 1 << 10;
/// One that forgets what was not used for long, where it is full.
const FORGETTING_HASH: u32 = 9;
const RING: u32 = 27;
/// One for each processor, that nobody else writes to.
const PROCESSOR_ARRAY: u32 = 6;
const KPROBE: u32 = 2;
const RAW_TRACEPOINT: u32 = 17;
const EVENT_ARRAY: u32 = 4;
const TRACING: u32 = 26;
/// Of a program for a function of the kernel: when the function returns.
const AT_RETURN: u32 = 25;
const PERF_EVENT: u32 = 7;
const UPROBE_MULTI: u32 = 48;

/// What is asked for: words in the kernel's layout, zeros behind them.
#[repr(C, align(8))]
struct Request([u8; 128]);

impl Request {
    fn new(words: &[(usize, u64)], numbers: &[(usize, u32)]) -> Request {
        let mut bytes = [0; 128];
        for &(at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        for &(at, number) in numbers {
            bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        Request(bytes)
    }

    /// Every address in it must be of memory that lives through the call and that the
    /// request may read (or, of a result, write).
    fn call(&self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the kernel reads the request, which is as long as we say; the addresses in
        // it are those of live values of the functions below.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(self), size_of::<Request>())
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    fn make(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        let fd = libc::c_int::try_from(self.call(command)?).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr() as u64
}

/// A ring that programs write into; a power of two, and not less than a page.
pub(crate) fn ring(bytes: u32) -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, RING), (12, bytes)]).make(MAP_CREATE)
}

/// One number that programs count with.
pub(crate) fn counter() -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, ARRAY), (4, 4), (8, 8), (12, 1)]).make(MAP_CREATE)
}

pub(crate) fn counted(counter: &OwnedFd) -> io::Result<u64> {
    let (key, value) = ([0_u32], [0_u64]);
    let mut value = value;
    let words = [(8, address(&key)), (16, value.as_mut_ptr() as u64)];
    Request::new(&words, &[(0, counter.as_raw_fd() as u32)]).call(MAP_LOOK_UP)?;
    // SAFETY: the value is ours and initialised; it is read again because the kernel has
    // written there, which the compiler does not see.
    Ok(unsafe { value.as_ptr().read_volatile() })
}

/// Numbers that programs and we both change, in memory that we can map.
pub(crate) fn shared_numbers(bytes: u32) -> io::Result<OwnedFd> {
    let numbers = [(0, ARRAY), (4, 4), (8, bytes), (12, 1), (16, CAN_BE_MAPPED)];
    Request::new(&[], &numbers).make(MAP_CREATE)
}

/// A table from numbers of threads to some 64-bit numbers each.
pub(crate) fn table(value_words: usize, entries: u32) -> io::Result<OwnedFd> {
    let numbers = [(0, HASH), (4, 4), (8, 8 * value_words as u32), (12, entries)];
    Request::new(&[], &numbers).make(MAP_CREATE)
}

/// Events that programs write to, by processor.
pub(crate) fn events(entries: u32) -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, EVENT_ARRAY), (4, 4), (8, 4), (12, entries)]).make(MAP_CREATE)
}

/// Lets programs write to an event.
pub(crate) fn put_event(events: &OwnedFd, processor: u32, event: &OwnedFd) -> io::Result<()> {
    let (key, value) = ([processor], [event.as_raw_fd()]);
    let words = [(8, address(&key)), (16, address(&value))];
    Request::new(&words, &[(0, events.as_raw_fd() as u32)]).call(MAP_UPDATE).map(drop)
}

pub(crate) fn put(table: &OwnedFd, key: u32, value: u64) -> io::Result<()> {
    let (key, value) = ([key], [value]);
    let words = [(8, address(&key)), (16, address(&value))];
    Request::new(&words, &[(0, table.as_raw_fd() as u32)]).call(MAP_UPDATE).map(drop)
}

/// A table from 32-bit numbers to values of this many bytes, which takes memory as it grows.
pub(crate) fn growing_table(value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    const AS_IT_GROWS: u32 = 1;
    let numbers = [(0, HASH), (4, 4), (8, value_bytes), (12, entries), (16, AS_IT_GROWS)];
    Request::new(&[], &numbers).make(MAP_CREATE)
}

/// Room for programs to work in: so many pieces of so many bytes, on each processor.
pub(crate) fn room(bytes: u32, pieces: u32) -> io::Result<OwnedFd> {
    let numbers = [(0, PROCESSOR_ARRAY), (4, 4), (8, bytes), (12, pieces)];
    Request::new(&[], &numbers).make(MAP_CREATE)
}

/// Takes a key out of a table; an error where it is not there.
pub(crate) fn delete(table: &OwnedFd, key: u32) -> io::Result<()> {
    let key = [key];
    let words = [(8, address(&key))];
    Request::new(&words, &[(0, table.as_raw_fd() as u32)]).call(MAP_DELETE).map(drop)
}

/// The words must be as many bytes as values of the table have.
pub(crate) fn put_words(table: &OwnedFd, key: u32, words: &[u64]) -> io::Result<()> {
    let key = [key];
    let addresses = [(8, address(&key)), (16, address(words))];
    Request::new(&addresses, &[(0, table.as_raw_fd() as u32)]).call(MAP_UPDATE).map(drop)
}

/// Whether a key is in a table whose values have so many words.
pub(crate) fn has(table: &OwnedFd, key: u32, value_words: usize) -> bool {
    let key = [key];
    let mut value = vec![0_u64; value_words];
    let words = [(8, address(&key)), (16, value.as_mut_ptr() as u64)];
    Request::new(&words, &[(0, table.as_raw_fd() as u32)]).call(MAP_LOOK_UP).is_ok()
}

/// An array of 64-bit numbers.
pub(crate) fn numbers(entries: u32) -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, ARRAY), (4, 4), (8, 8), (12, entries)]).make(MAP_CREATE)
}

/// Tables whose keys are two words.
pub(crate) fn wide_table(value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, HASH), (4, 16), (8, value_bytes), (12, entries)]).make(MAP_CREATE)
}

pub(crate) fn forgetting_table(entries: u32) -> io::Result<OwnedFd> {
    Request::new(&[], &[(0, FORGETTING_HASH), (4, 16), (8, 8), (12, entries)]).make(MAP_CREATE)
}

/// All keys and values of such a table; values have so many words, as many as the table's.
pub(crate) fn entries(table: &OwnedFd, value_words: usize) -> Vec<([u64; 2], Vec<u64>)> {
    let mut all = Vec::new();
    let mut key: Option<[u64; 2]> = None;
    loop {
        let mut next = [0_u64; 2];
        let from = key.as_ref().map_or(0, |key| address(key));
        let words = [(8, from), (16, next.as_mut_ptr() as u64)];
        let numbers = [(0, table.as_raw_fd() as u32)];
        if Request::new(&words, &numbers).call(MAP_NEXT_KEY).is_err() {
            return all;
        }
        // SAFETY: it is ours and initialised; the kernel has written there, unseen.
        let next = unsafe { (&raw const next).read_volatile() };
        let mut value = vec![0_u64; value_words];
        let words = [(8, address(&next)), (16, value.as_mut_ptr() as u64)];
        if Request::new(&words, &numbers).call(MAP_LOOK_UP).is_ok() {
            all.push((next, value));
        }
        key = Some(next);
    }
}

/// A program for the places of functions.
pub(crate) fn program(text: &[Instruction]) -> io::Result<OwnedFd> {
    load(text, KPROBE, UPROBE_MULTI)
}

/// A program for a tracepoint.
pub(crate) fn tracepoint_program(text: &[Instruction]) -> io::Result<OwnedFd> {
    load(text, RAW_TRACEPOINT, 0)
}

/// A program that runs when a function of the kernel returns, by the number of that function.
pub(crate) fn return_program(text: &[Instruction], function: u32) -> io::Result<OwnedFd> {
    load_for(text, TRACING, AT_RETURN, function)
}

/// Runs such a program until what it gives is closed.
pub(crate) fn attach_to_return(program: &OwnedFd) -> io::Result<OwnedFd> {
    Request::new(&[], &[(8, program.as_raw_fd() as u32)]).make(RAW_TRACEPOINT_OPEN)
}

/// A program that decides which samples of an event are taken.
pub(crate) fn sample_program(text: &[Instruction]) -> io::Result<OwnedFd> {
    load(text, PERF_EVENT, 0)
}

fn load(text: &[Instruction], kind: u32, attached_as: u32) -> io::Result<OwnedFd> {
    load_for(text, kind, attached_as, 0)
}

fn load_for(
    text: &[Instruction],
    kind: u32,
    attached_as: u32,
    function: u32,
) -> io::Result<OwnedFd> {
    // What the kernel's functions ask of those who call them.
    let licence = c"Dual MIT/GPL".to_bytes_with_nul();
    let words = [(8, address(text)), (16, address(licence))];
    let numbers = [(0, kind), (4, text.len() as u32), (68, attached_as), (108, function)];
    Request::new(&words, &numbers).make(PROGRAM_LOAD)
}

/// Runs a program whenever a tracepoint is passed, by whomever, until what it gives is closed.
/// Events of tracepoints would do so as well, but a program of theirs decides what every recorder
/// on the machine sees, and switches from idle processors are not reported to it everywhere.
pub(crate) fn attach_to_tracepoint(program: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let words = [(0, address(name.to_bytes_with_nul()))];
    Request::new(&words, &[(8, program.as_raw_fd() as u32)]).make(RAW_TRACEPOINT_OPEN)
}

/// Places in a file.
pub(crate) struct Places<'a> {
    pub(crate) path: &'a [u8],
    /// One process, or 0 for all that have the file in their memory.
    pub(crate) pid: i32,
    pub(crate) offsets: &'a [u64],
    /// What the program knows of each.
    pub(crate) cookies: &'a [u64],
}

/// Runs a program at these places, as long as what it gives is open.
pub(crate) fn attach(program: &OwnedFd, places: &Places<'_>) -> io::Result<OwnedFd> {
    let path = CString::new(places.path)?;
    let words = [
        (16, address(path.as_bytes_with_nul())),
        (24, address(places.offsets)),
        (40, address(places.cookies)),
    ];
    let numbers = [
        (0, program.as_raw_fd() as u32),
        (8, UPROBE_MULTI),
        (48, places.offsets.len() as u32),
        (56, places.pid as u32),
    ];
    Request::new(&words, &numbers).make(LINK_CREATE)
}
