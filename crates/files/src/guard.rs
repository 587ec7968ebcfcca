//! Keeps a process alive whose mapped file was cut short by others.
//!
//! To read a page of a map that its file no longer has is a bus error, which ends a process. The
//! handler here puts zeros in the place of what is gone and notes it, so that whoever reads can
//! say so. It knows the maps by a table of fixed size, allocates nothing and takes no lock;
//! errors elsewhere in memory go to the handler that was there before.

use std::mem;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// More than any process maps at once: programs and libraries are the most.
const SLOTS: usize = 4096;

/// Where no map begins.
const FREE: usize = 0;
const TAKEN: usize = 1;

/// A map that is watched.
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    is_cut: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot { start: AtomicUsize::new(FREE), len: AtomicUsize::new(0), is_cut: AtomicBool::new(false) }
}; SLOTS];

/// Where the search for a free slot starts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The handler before ours, as the system reports it.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static BEFORE_FLAGS: AtomicI32 = AtomicI32::new(0);
/// It has had its turn; should the error come back, the process ends.
static HAS_PASSED_ON: AtomicBool = AtomicBool::new(false);

/// A map is watched as long as this lives.
#[derive(Debug)]
pub(crate) struct Watch(usize);

impl Watch {
    /// Nothing where there is no room. The map must be there until this is dropped, and be the
    /// only one at its addresses.
    pub(crate) fn new(start: usize, len: usize) -> Option<Watch> {
        ensure_installed().then_some(())?;
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        for index in (0..SLOTS).map(|step| first.wrapping_add(step) % SLOTS) {
            let slot = &TABLE[index];
            let taken =
                slot.start.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                slot.is_cut.store(false, Ordering::Relaxed);
                slot.len.store(len, Ordering::Relaxed);
                slot.start.store(start, Ordering::Release);
                return Some(Watch(index));
            }
        }
        None
    }

    /// Whether something was read that the file no longer had.
    pub(crate) fn is_cut(&self) -> bool {
        TABLE[self.0].is_cut.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        TABLE[self.0].start.store(FREE, Ordering::Release);
    }
}

/// Others may install a handler after us, such as Python's `faulthandler`: checked with each map.
fn ensure_installed() -> bool {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let ours = on_bus_error as *const () as usize;
    // SAFETY: all zeros is a valid `sigaction`; both calls get pointers to live ones or null.
    unsafe {
        let mut now: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &mut now) == 0 && now.sa_sigaction == ours {
            return true;
        }
        let _one = INSTALLING.lock();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &mut now) != 0 {
            return false;
        }
        if now.sa_sigaction == ours {
            return true;
        }
        BEFORE.store(now.sa_sigaction, Ordering::Release);
        BEFORE_FLAGS.store(now.sa_flags, Ordering::Release);
        let mut new: libc::sigaction = mem::zeroed();
        new.sa_sigaction = ours;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &new, ptr::null_mut()) == 0
    }
}

extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over a valid `siginfo_t`, and an address where the error is its
    // own (a positive code), not sent by a process.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code > 0 && fill_with_zeros(address) {
        return;
    }
    pass_on(signal, info, context);
}

/// True where the address is in a map that is watched: what follows there is zeros from now on.
pub(crate) fn fill_with_zeros(address: usize) -> bool {
    let covers = |slot: &&Slot| {
        let start = slot.start.load(Ordering::Acquire);
        start > TAKEN && address.wrapping_sub(start) < slot.len.load(Ordering::Relaxed)
    };
    let Some(slot) = TABLE.iter().find(covers) else { return false };
    let start = slot.start.load(Ordering::Acquire);
    // SAFETY: asks for a number.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let from = address & !(page_bytes - 1);
    let len = start.wrapping_add(slot.len.load(Ordering::Relaxed)).saturating_sub(from);
    slot.is_cut.store(true, Ordering::Release);
    // SAFETY: the range is inside of a map of ours that is read only, and stays as long as the
    // slot is taken; `mmap` is a plain system call, and `errno` is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let filled = libc::mmap(from as *mut c_void, len, libc::PROT_READ, flags, -1, 0);
        *errno = before;
        filled != libc::MAP_FAILED
    }
}

fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: as above.
    let is_sent = unsafe { (*info).si_code <= 0 };
    if before == libc::SIG_IGN && is_sent {
        return;
    }
    let is_handler = before != libc::SIG_DFL && before != libc::SIG_IGN;
    if is_handler && !HAS_PASSED_ON.swap(true, Ordering::AcqRel) {
        // SAFETY: this was installed as a handler of the kind that its flags say.
        unsafe {
            if BEFORE_FLAGS.load(Ordering::Acquire) & libc::SA_SIGINFO == 0 {
                mem::transmute::<usize, extern "C" fn(c_int)>(before)(signal);
            } else {
                type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
                mem::transmute::<usize, Handler>(before)(signal, info, context);
            }
        }
        return;
    }
    // SAFETY: what the system does by itself; where the signal was sent, it comes again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if is_sent {
            libc::raise(signal);
        }
    }
}
