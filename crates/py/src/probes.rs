//! What is measured beside time, each as cheaply as it can be had.
//!
//! Files of the kernel stay open and are read from their beginning: half a microsecond instead
//! of four. Torch is asked by a function of the Python side, where it is loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, RwLock};

use pyo3::prelude::*;
use spanwise_probe::raw;
use spanwise_probe::{Site, SiteKind};

use crate::store::{Audience, Meaning, SiteFacts, store};
use crate::values::{QUANTITIES, Quantity};

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

/// Sites of the counters, by quantity.
static SITES: RwLock<Vec<&'static Site>> = RwLock::new(Vec::new());

static MEMORY_FILE: RwLock<Option<File>> = RwLock::new(None);
static IO_FILE: RwLock<Option<File>> = RwLock::new(None);

/// Asks Torch and the GPU: gives memory in MiB and utilization in percent, or none.
static GPU_FUNCTION: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

const PAGE_BYTES: f64 = 4096.0;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Defines the counters, once; in a forked child, the files of the kernel are its own.
pub(crate) fn reopen() {
    let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
    if sites.is_empty() {
        for quantity in QUANTITIES {
            let site = Site::leak(SiteKind::Counter, quantity.name(), "", 0);
            let (name, component) = (0, 0);
            let meaning = Meaning::Value(quantity);
            let audience = Audience::default();
            store().define(site.number(), SiteFacts { meaning, name, component, audience });
            sites.push(site);
        }
    }
    *MEMORY_FILE.write().unwrap_or_else(PoisonError::into_inner) =
        File::open("/proc/self/statm").ok();
    *IO_FILE.write().unwrap_or_else(PoisonError::into_inner) = File::open("/proc/self/io").ok();
}

pub(crate) fn set_gpu_function(function: Option<Py<PyAny>>) {
    *GPU_FUNCTION.lock().unwrap_or_else(PoisonError::into_inner) = function;
}

/// Memory of the process in MiB, and when; for the hub's thread, which records it too.
pub(crate) fn sample_memory() -> Option<(u64, f64)> {
    let mebibytes = memory()?;
    let tick = raw::now_always();
    value(raw::state(), tick, Quantity::Memory, mebibytes);
    Some((tick, mebibytes))
}

/// What was measured at one end of a span.
#[derive(Debug, Default, Clone)]
pub(crate) struct Measured(pub(crate) Vec<(Quantity, f64)>);

/// Measures what is asked for. Called with the interpreter's lock, never while unwinding.
pub(crate) fn measure(wanted: u8) -> Measured {
    let mut found = Vec::new();
    if wanted & GPU != 0 {
        gpu(&mut found);
    }
    if wanted & IO != 0 {
        bytes_moved(&mut found);
    }
    if wanted & MEMORY != 0 {
        found.extend(memory().map(|mebibytes| (Quantity::Memory, mebibytes)));
    }
    if wanted & CPU_TIME != 0 {
        found.push((Quantity::CpuTime, cpu_time_ns() as f64));
    }
    Measured(found)
}

impl Measured {
    pub(crate) fn record(&self, state: u32, tick: u64) {
        self.0.iter().for_each(|&(quantity, measured)| value(state, tick, quantity, measured));
    }
}

fn value(state: u32, tick: u64, quantity: Quantity, value: f64) {
    let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = sites.get(quantity as usize)
        && state != raw::OFF
    {
        raw::record(state, [tick, value.to_bits(), u64::from(site.number())]);
    }
}

/// Resident memory of the process in MiB.
pub(crate) fn memory() -> Option<f64> {
    let file = MEMORY_FILE.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = [0; 128];
    let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
    let mut fields = std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace();
    let pages: u64 = fields.nth(1)?.parse().ok()?;
    Some(pages as f64 * PAGE_BYTES / MEBIBYTE)
}

fn bytes_moved(found: &mut Vec<(Quantity, f64)>) {
    let file = IO_FILE.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = [0; 512];
    let Some(Ok(len)) = file.as_ref().map(|file| file.read_at(&mut text, 0)) else { return };
    let text = String::from_utf8_lossy(&text[..len]);
    for (key, quantity) in [("rchar: ", Quantity::BytesRead), ("wchar: ", Quantity::BytesWritten)] {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        found.extend(line.and_then(|value| value.parse().ok()).map(|value| (quantity, value)));
    }
}

fn gpu(found: &mut Vec<(Quantity, f64)>) {
    Python::attach(|py| {
        // Not held during the call, which may come here again.
        let function = {
            let known = GPU_FUNCTION.lock().unwrap_or_else(PoisonError::into_inner);
            known.as_ref().map(|function| function.clone_ref(py))
        };
        let Some(Ok(answer)) = function.map(|function| function.call0(py)) else { return };
        let Ok((memory, busy)) = answer.extract::<(Option<f64>, Option<f64>)>(py) else { return };
        found.extend(memory.map(|mebibytes| (Quantity::GpuMemory, mebibytes)));
        found.extend(busy.map(|percent| (Quantity::GpuBusy, percent)));
    });
}

/// Time of the calling thread on processors.
fn cpu_time_ns() -> i64 {
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
