//! What is measured beside time, each as cheaply as it can be had.
//!
//! Files of the kernel stay open and are read from their beginning: half a microsecond instead
//! of four. Memory is read by a thread at most every [`FRESH_S`]: who asks sooner gets what was
//! seen before, since so short a time brings a few pages at most. Bytes read and written are
//! those of the thread, so that what our own thread writes is not among them, less what these
//! probes read. Torch is asked by a function of the Python side, where it is loaded.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use pyo3::prelude::*;
use spanwise_probe::raw::{self, Here};
use spanwise_probe::{Site, SiteKind};

use crate::core::rate;
use crate::spans::values::{QUANTITIES, Quantity};
use crate::sums::store::{Audience, Meaning, SiteFacts, store};

/// Memory of the process.
pub(crate) const MEMORY: u8 = 1;
/// CPU time of the thread.
pub(crate) const CPU_TIME: u8 = 2;
/// GPU memory, by the function that was given.
pub(crate) const GPU: u8 = 4;
/// Bytes read and written.
pub(crate) const IO: u8 = 8;
/// Memory again and again, from the hub's thread.
pub(crate) const SAMPLES: u8 = 16;
/// The probes that run at each span.
pub(crate) const OF_SPANS: u8 = MEMORY | CPU_TIME | GPU | IO;

/// For so long a thread takes what it saw of the memory for what there is.
const FRESH_S: f64 = 5e-6;

/// The same in ticks.
static FRESH_TICKS: AtomicU64 = AtomicU64::new(0);

/// Numbers of the counters' sites, by quantity.
static SITES: [AtomicU32; QUANTITIES.len()] = [const { AtomicU32::new(0) }; QUANTITIES.len()];

static MEMORY_FILE: RwLock<Option<File>> = RwLock::new(None);

/// How often the process has forked: files of the kernel are about the process that opened them.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What a thread has for its probes.
struct OfThread {
    /// Bytes that it has read and written, opened when first asked for; and in which process.
    moved: Cell<Option<(File, u32)>>,
    /// Bytes that its probes have read themselves.
    own_bytes: Cell<u64>,
    /// When memory was last read, and what it was.
    memory: Cell<(u64, f64)>,
}

thread_local! {
    static OF_THREAD: OfThread = const {
        OfThread {
            moved: Cell::new(None),
            own_bytes: Cell::new(0),
            memory: Cell::new((0, f64::NAN)),
        }
    };
}

/// Asks Torch and the GPU: gives memory in MiB and utilization in percent, or none.
static GPU_FUNCTION: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

const PAGE_BYTES: f64 = 4096.0;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Defines the counters, once; in a forked child, the files of the kernel are its own.
pub(crate) fn reopen() {
    for quantity in QUANTITIES {
        let known = &SITES[quantity as usize];
        if known.load(Ordering::Relaxed) == 0 {
            let site = Site::leak(SiteKind::Counter, quantity.name(), "", 0);
            let meaning = Meaning::Value(quantity);
            let facts = SiteFacts { meaning, name: 0, component: 0, audience: Audience::default() };
            store().define(site.number(), facts);
            known.store(site.number(), Ordering::Relaxed);
        }
    }
    FORKS.fetch_add(1, Ordering::Relaxed);
    *MEMORY_FILE.write().unwrap_or_else(PoisonError::into_inner) =
        File::open("/proc/self/statm").ok();
}

/// To be called when probes are about to run: what a while is in ticks is known well by then.
pub(crate) fn prepare() {
    FRESH_TICKS.store(rate().ticks(FRESH_S), Ordering::Relaxed);
}

/// Has the calling thread read the memory when it is next asked for, for trials.
pub(crate) fn forget_memory() {
    OF_THREAD.with(|thread| thread.memory.set((0, f64::NAN)));
}

pub(crate) fn set_gpu_function(function: Option<Py<PyAny>>) {
    *GPU_FUNCTION.lock().unwrap_or_else(PoisonError::into_inner) = function;
}

/// Memory of the process in MiB, and when; for the hub's thread, which records it too.
pub(crate) fn sample_memory() -> Option<(u64, f64)> {
    let mebibytes = memory()?;
    let tick = raw::now_always();
    value(raw::here(), raw::state(), tick, Quantity::Memory, mebibytes);
    Some((tick, mebibytes))
}

/// What was measured at one end of a span; what was not is not a number.
#[derive(Debug, Clone)]
pub(crate) struct Measured([f64; QUANTITIES.len()]);

/// Measures what is asked for. Called with the interpreter's lock, never while unwinding.
pub(crate) fn measure(wanted: u8) -> Measured {
    let mut found = Measured([f64::NAN; QUANTITIES.len()]);
    if wanted & GPU != 0 {
        gpu(&mut found);
    }
    OF_THREAD.with(|thread| {
        // Before what is read of the memory, which would be among it.
        if wanted & IO != 0 {
            bytes_moved(thread, &mut found);
        }
        if wanted & MEMORY != 0 {
            found.set(Quantity::Memory, recent_memory(thread));
        }
    });
    if wanted & CPU_TIME != 0 {
        found.set(Quantity::CpuTime, cpu_time_ns() as f64);
    }
    found
}

impl Measured {
    fn set(&mut self, quantity: Quantity, value: f64) {
        self.0[quantity as usize] = value;
    }

    /// What was measured, and how much it was.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Quantity, f64)> {
        let all = QUANTITIES.into_iter().map(|quantity| (quantity, self.0[quantity as usize]));
        all.filter(|row| !row.1.is_nan())
    }

    pub(crate) fn record(&self, here: Here, state: u32, tick: u64) {
        self.values().for_each(|(quantity, measured)| value(here, state, tick, quantity, measured));
    }
}

fn value(here: Here, state: u32, tick: u64, quantity: Quantity, value: f64) {
    let site = SITES[quantity as usize].load(Ordering::Relaxed);
    if state != raw::OFF && site != 0 {
        here.record(state, [tick, value.to_bits(), u64::from(site)]);
    }
}

/// Memory of the process in MiB, as the thread saw it last if that was just now.
fn recent_memory(thread: &OfThread) -> f64 {
    let (now, (seen_at, seen)) = (raw::now_always(), thread.memory.get());
    if now.saturating_sub(seen_at) < FRESH_TICKS.load(Ordering::Relaxed) && !seen.is_nan() {
        return seen;
    }
    let (pages, bytes) = resident_pages().unwrap_or((f64::NAN, 0));
    thread.own_bytes.set(thread.own_bytes.get() + bytes);
    let mebibytes = pages * PAGE_BYTES / MEBIBYTE;
    thread.memory.set((now, mebibytes));
    mebibytes
}

/// Resident memory of the process in MiB.
pub(crate) fn memory() -> Option<f64> {
    resident_pages().map(|(pages, _)| pages * PAGE_BYTES / MEBIBYTE)
}

/// Pages that the process has in memory, and how many bytes were read to know.
fn resident_pages() -> Option<(f64, u64)> {
    let file = MEMORY_FILE.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = [0; 64];
    let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
    let after = text[..len].iter().position(|&byte| byte == b' ')? + 1;
    Some((number(&text[after..len])? as f64, len as u64))
}

/// The number that a text begins with.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

fn bytes_moved(thread: &OfThread, found: &mut Measured) {
    let forks = FORKS.load(Ordering::Relaxed);
    let known = thread.moved.take().filter(|row| row.1 == forks);
    let opened = || File::open("/proc/thread-self/io").ok().map(|file| (file, forks));
    let Some((file, forks)) = known.or_else(opened) else { return };
    let mut text = [0; 256];
    let len = file.read_at(&mut text, 0).unwrap_or(0);
    thread.moved.set(Some((file, forks)));
    // The first two lines, with names of one length.
    let read = text[..len].strip_prefix(b"rchar: ".as_slice()).and_then(number);
    let second = text[..len].iter().position(|&byte| byte == b'\n').map_or(len, |at| at + 1);
    let written = text[second..len].strip_prefix(b"wchar: ".as_slice()).and_then(number);
    let own = thread.own_bytes.get();
    if let (Some(read), Some(written)) = (read, written) {
        found.set(Quantity::BytesRead, read.saturating_sub(own) as f64);
        found.set(Quantity::BytesWritten, written as f64);
    }
    thread.own_bytes.set(own + len as u64);
}

fn gpu(found: &mut Measured) {
    Python::attach(|py| {
        // Not held during the call, which may come here again.
        let function = {
            let known = GPU_FUNCTION.lock().unwrap_or_else(PoisonError::into_inner);
            known.as_ref().map(|function| function.clone_ref(py))
        };
        let Some(Ok(answer)) = function.map(|function| function.call0(py)) else { return };
        let Ok((memory, busy)) = answer.extract::<(Option<f64>, Option<f64>)>(py) else { return };
        found.set(Quantity::GpuMemory, memory.unwrap_or(f64::NAN));
        found.set(Quantity::GpuBusy, busy.unwrap_or(f64::NAN));
    });
}

/// Time of the calling thread on processors.
pub(crate) fn cpu_time_ns() -> i64 {
    #[repr(C)]
    struct Time {
        seconds: std::ffi::c_long,
        nanoseconds: std::ffi::c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: std::ffi::c_int, time: *mut Time) -> std::ffi::c_int;
    }
    const OF_THREAD: std::ffi::c_int = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the time is there to be written, and every Linux has this clock.
    unsafe { clock_gettime(OF_THREAD, &raw mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}
