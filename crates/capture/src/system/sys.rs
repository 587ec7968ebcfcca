//! The few calls of the system that the standard library does not have.
//!
//! Each function is safe to call with any values: what it is given by number (a process, a
//! descriptor) the kernel checks.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::perf::event::Attr;

/// Opens an event of one thread (and those that it will make) on one processor.
pub(crate) fn open_event(attr: &Attr, tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    open_grouped(attr, tid, cpu, None)
}

/// The same, of one group with an event that leads it.
pub(crate) fn open_grouped(
    attr: &Attr,
    tid: i32,
    cpu: i32,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let leader: libc::c_int = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is a live structure in the kernel's layout, which says its own size and
    // which the kernel only reads; the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            tid,
            cpu,
            leader,
            CLOSE_ON_EXEC,
        )
    };
    let fd = libc::c_int::try_from(checked(fd)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;

pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_ENABLE, 0)
}

pub(crate) fn disable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_DISABLE, 0)
}

/// Lets an event write into the ring of another.
pub(crate) fn set_output(event: &OwnedFd, ring_of: &OwnedFd) -> io::Result<()> {
    control(event, IOC_SET_OUTPUT, ring_of.as_raw_fd())
}

/// Lets a program of the kernel see what the event is about to record.
pub(crate) fn set_program(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    const IOC_SET_BPF: libc::c_ulong = 0x4004_2408;
    control(event, IOC_SET_BPF, program.as_raw_fd())
}

fn control(event: &OwnedFd, request: libc::c_ulong, value: libc::c_int) -> io::Result<()> {
    // SAFETY: these requests take a number; none of them is given memory.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, value) };
    checked(result.into()).map(|_| ())
}

/// Lets a tracepoint report only what fits a condition, or a trace only of some code.
pub(crate) fn set_filter(event: &OwnedFd, filter: &CStr) -> io::Result<()> {
    const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;
    // SAFETY: the kernel reads a text that ends with zero and lives through the call.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) };
    checked(result.into()).map(|_| ())
}

/// The number that records of the event carry.
pub(crate) fn event_id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0_u64;
    // SAFETY: the kernel writes one 64-bit number, and `id` is one that lives long enough.
    let result =
        unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID as _, std::ptr::from_mut(&mut id)) };
    checked(result.into()).map(|_| id)
}

/// Waits until one of the descriptors can be read, or the time is over.
pub(crate) fn wait_for(descriptors: &[BorrowedFd<'_>], most: Duration) -> io::Result<()> {
    let poll_for =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = descriptors.iter().map(poll_for).collect();
    let count = libc::nfds_t::try_from(polled.len()).map_err(io::Error::other)?;
    let most_ms = libc::c_int::try_from(most.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the array is as long as we say and lives through the call.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), count, most_ms) };
    match checked(result.into()) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// True where there is something to be read, or nothing ever will be.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live structure, as we say.
    unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
}

/// Copies this process: 0 in the copy, the copy's number here.
pub(crate) fn fork_before_threads() -> io::Result<libc::pid_t> {
    // SAFETY: callers have made no thread yet, so that the copy finds no lock taken, and may do
    // whatever this process may.
    let pid = unsafe { libc::fork() };
    checked(pid.into()).map(|_| pid)
}

/// Makes a copy of this process independent of where it came from: its group, and all of its
/// descriptors but these.
pub(crate) fn stand_alone(kept: &[libc::c_int]) {
    let mut kept: Vec<libc::c_uint> = kept.iter().map(|&fd| fd as libc::c_uint).collect();
    kept.sort_unstable();
    let mut from = 0;
    // SAFETY: descriptors of the other process are used by nobody here, so closing them keeps
    // none of its events and files open.
    unsafe {
        libc::setsid();
        for fd in kept {
            if fd > from {
                libc::close_range(from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::close_range(from, libc::c_uint::MAX, 0);
    }
}

/// Ends this process alone, without what the one that it was copied from would do at its end.
pub(crate) fn end_at_once() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(0) }
}

/// True where a child of ours has ended, or is not ours; to be asked until then.
pub(crate) fn has_ended(child: libc::pid_t) -> bool {
    // SAFETY: nothing is written; the child's number is given out to nobody else before this.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// A clock in nanoseconds.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, and `time` is one.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    let (seconds, nanos) = (time.tv_sec as i128, time.tv_nsec as i128);
    u64::try_from(seconds * 1_000_000_000 + nanos).unwrap_or(0)
}

/// How much of the processors' time a process has used; 0 where it is gone.
pub(crate) fn process_cpu_ns(pid: i32) -> u64 {
    // As the C library makes such a clock of the number of a process.
    const ALL_THREADS: libc::clockid_t = 2;
    clock_ns(!pid << 3 | ALL_THREADS)
}

/// The processor's counter of ticks; one that stands still where there is none.
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register that every processor of this sort has.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Name of the host, release of the kernel, sort of processor.
pub(crate) fn system_names() -> [String; 3] {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the kernel fills one `utsname`; all zeros are a valid one, should it fail.
    let names = unsafe {
        libc::uname(names.as_mut_ptr());
        names.assume_init()
    };
    let text = |name: &[libc::c_char]| {
        let bytes: Vec<u8> = name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    [text(&names.nodename), text(&names.release), text(&names.machine)]
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: takes a number and gives one.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The number of the thread that asks.
#[cfg(test)]
pub(crate) fn thread_id() -> i32 {
    // SAFETY: takes nothing and gives a number.
    unsafe { libc::gettid() }
}

/// Whether we may do everything.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes nothing and gives a number.
    unsafe { libc::geteuid() == 0 }
}

/// The user and the group in whose name this process acts.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: both take nothing and give a number.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// True where the kernel gives capabilities to whoever runs a file.
pub(crate) fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: two texts that end with zero; nothing is written, since only the size is asked for.
    let size = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// Allows as many open files as may be had: an event of each thread on each processor is one.
pub(crate) fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are given one `rlimit` that lives through them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// How much this thread lets others go first.
pub(crate) fn niceness() -> i32 {
    // SAFETY: reads a number that the kernel keeps of the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Changes that, where this is allowed.
pub(crate) fn set_niceness(niceness: i32) {
    // SAFETY: sets a number that the kernel keeps of the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
}

/// True where a process with this number exists.
pub(crate) fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 is never delivered; only its permission is checked.
    let result = unsafe { libc::kill(pid, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Hands a signal on to a process.
pub(crate) fn send(pid: i32, signal: libc::c_int) {
    // SAFETY: takes two numbers. That the process is gone is no harm: its status was not
    // fetched yet, so its number belongs to nobody else.
    unsafe {
        libc::kill(pid, signal);
    }
}
