//! SQLite's allocator, with each query's memory counted.
//!
//! The system's allocator does the work. A request that would take a query beyond its limit is
//! answered as if memory had run out, which SQLite turns into an error of that query.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

use crate::running::{give_memory, take_memory};

/// The functions that do the work.
struct Standard {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static STANDARD: OnceLock<Standard> = OnceLock::new();

/// Has SQLite count; must come before its first use in the process. The error is SQLite's code.
pub(crate) fn install() -> Result<(), c_int> {
    static INSTALLED: OnceLock<Result<(), c_int>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let mut methods = ffi::sqlite3_mem_methods {
            xMalloc: None,
            xFree: None,
            xRealloc: None,
            xSize: None,
            xRoundup: None,
            xInit: None,
            xShutdown: None,
            pAppData: std::ptr::null_mut(),
        };
        // SAFETY: the option takes a pointer to the methods, which it fills.
        checked(unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) })?;
        let (Some(malloc), Some(free), Some(realloc), Some(size)) =
            (methods.xMalloc, methods.xFree, methods.xRealloc, methods.xSize)
        else {
            return Err(ffi::SQLITE_MISUSE);
        };
        STANDARD.get_or_init(|| Standard { malloc, free, realloc, size });
        methods.xMalloc = Some(allocate);
        methods.xFree = Some(release);
        methods.xRealloc = Some(resize);
        // SAFETY: the option takes a pointer to the methods, which it copies. Ours keep what SQLite
        // asks of an allocator, because they hand everything on.
        checked(unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw mut methods) })?;
        // SQLite's own sums need a lock around every allocation, which queries would share.
        // SAFETY: the option takes one integer.
        checked(unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) })
    })
}

fn checked(code: c_int) -> Result<(), c_int> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let Some(standard) = STANDARD.get() else { return std::ptr::null_mut() };
    if !take_memory(counted(bytes)) {
        return std::ptr::null_mut();
    }
    // SAFETY: SQLite asks us as it would ask the standard function.
    let memory = unsafe { (standard.malloc)(bytes) };
    if memory.is_null() {
        give_memory(counted(bytes));
        return memory;
    }
    // SAFETY: the standard function has just given it.
    let held = counted(unsafe { (standard.size)(memory) });
    // It may hold more than was asked for; a little too much in use does no harm.
    take_memory(held.saturating_sub(counted(bytes)));
    memory
}

unsafe extern "C" fn release(memory: *mut c_void) {
    let Some(standard) = STANDARD.get().filter(|_| !memory.is_null()) else { return };
    // SAFETY: SQLite returns what `allocate` or `resize` gave it, once.
    unsafe {
        give_memory(counted((standard.size)(memory)));
        (standard.free)(memory);
    }
}

unsafe extern "C" fn resize(memory: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(standard) = STANDARD.get() else { return std::ptr::null_mut() };
    // SAFETY: `memory` is of `allocate` or `resize`, and was not returned.
    let before = counted(unsafe { (standard.size)(memory) });
    if !take_memory(counted(bytes).saturating_sub(before)) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above; where it fails, `memory` stays as it was.
    let resized = unsafe { (standard.realloc)(memory, bytes) };
    match resized.is_null() {
        true => give_memory(counted(bytes).saturating_sub(before)),
        false => give_memory(before.saturating_sub(counted(bytes))),
    }
    resized
}

fn counted(bytes: c_int) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}
