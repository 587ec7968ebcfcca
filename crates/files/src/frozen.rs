//! A file's bytes that stay as they are, whatever others do to the file.
//!
//! A copy is the simple way, and costs as much as reading. Linux has a better one: a lease. It is
//! given for a file that nobody has open for writing, and from then on whoever wants to write or
//! truncate it has to wait until we are notified. Then the bytes are copied, put in the place of
//! the map in one step, and the lease is released. So a map costs nothing as long as nobody
//! writes. Where there are no leases (files of others, some network file systems) the file is
//! copied at once.
//!
//! The kernel notifies us by a signal. It goes to a thread of its own that blocks it and waits for
//! it, so that no handler is needed and none is disturbed. After 45 seconds (`lease-break-time`)
//! the kernel lets writers go on even if we did not answer, as when this process is stopped.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libc::c_int;
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap_fixed};

use crate::folder::PRIVATE_MODE;
use crate::guard;
use crate::mapping::{Access, Mapping, read_into_memory};

/// To copy this much is quicker than to ask for a lease.
const COPIED_BYTES: u64 = 128 << 10;

const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;

/// As the kernel has it.
#[repr(C)]
struct OwnerThread {
    kind: c_int,
    id: c_int,
}

/// The bytes of a file as they were when this was made.
#[derive(Debug)]
pub struct Frozen {
    mapping: Mapping,
    has_lease: bool,
}

impl Frozen {
    pub fn of(file: File) -> io::Result<Frozen> {
        if file.metadata()?.len() > COPIED_BYTES
            && let Some(leases) = leases()
            && leases.take(&file).is_ok()
        {
            let mapping = Mapping::of(&file, Access::Everywhere)?;
            leases.hold(file, &mapping);
            return Ok(Frozen { mapping, has_lease: true });
        }
        Ok(Frozen { mapping: Mapping::copy_of(&file)?, has_lease: false })
    }
}

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_ref()
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.has_lease
            && let Some(leases) = leases()
        {
            let start = self.mapping.start() as usize;
            leases.held().retain(|lease| lease.start != start);
        }
    }
}

/// A file that nobody writes without our knowing.
struct Lease {
    file: File,
    start: usize,
    len: usize,
}

struct Leases {
    held: Mutex<Vec<Lease>>,
    /// The thread that waits, of which process.
    thread: c_int,
    process: u32,
}

/// Nothing where there can be no thread for them, and in a process that was forked off: the
/// thread is not in there.
fn leases() -> Option<&'static Leases> {
    static LEASES: OnceLock<Option<Leases>> = OnceLock::new();
    let leases = LEASES.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        let wait = move || {
            // SAFETY: asks for a number.
            let thread = unsafe { libc::gettid() };
            let signals = block_all_signals();
            if sender.send(thread).is_ok() {
                wait_for_writers(&signals);
            }
        };
        std::thread::Builder::new().name("spanwise-leases".to_owned()).spawn(wait).ok()?;
        let thread = receiver.recv().ok()?;
        Some(Leases { held: Mutex::default(), thread, process: std::process::id() })
    });
    leases.as_ref().filter(|leases| leases.process == std::process::id())
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, Vec<Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refused where somebody has the file open for writing.
    fn take(&self, file: &File) -> io::Result<()> {
        let owner = OwnerThread { kind: F_OWNER_TID, id: self.thread };
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open, and the owner outlives the call. Who is to be notified is
        // said first: by default it would be this process, which such a signal would end.
        let results = unsafe {
            [
                libc::fcntl(fd, F_SETOWN_EX, &raw const owner),
                libc::fcntl(fd, F_SETSIG, libc::SIGIO),
                libc::fcntl(fd, libc::F_SETLEASE, c_int::from(libc::F_RDLCK as i16)),
            ]
        };
        match results {
            [0, 0, 0] => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn hold(&self, file: File, mapping: &Mapping) {
        let (start, len) = (mapping.start() as usize, mapping.as_ref().len());
        self.held().push(Lease { file, start, len });
        // Somebody may have come in between.
        self.answer_writers();
    }

    /// Copies what somebody is about to write, and lets them.
    fn answer_writers(&self) {
        self.held().retain(|lease| {
            // SAFETY: the descriptor is open.
            let now = unsafe { libc::fcntl(lease.file.as_raw_fd(), libc::F_GETLEASE) };
            let is_wanted = now != c_int::from(libc::F_RDLCK as i16);
            if is_wanted {
                lease.protect();
            }
            // The lease ends with its file.
            !is_wanted
        });
    }
}

impl Lease {
    /// Puts bytes that nobody else can write in the place of the map: a copy in memory; without
    /// memory for that, one in a file without a name, which needs none; and without either, zeros.
    fn protect(&self) {
        let copied = put_copy_in_place(self).or_else(|_| put_file_in_place(self));
        if copied.is_err() && !guard::fill_with_zeros(self.start) {
            // The map is still that of the file, and what reads it relies on its bytes.
            std::process::abort();
        }
    }
}

/// Files for what does not fit into memory are made here.
const TEMPORARY_FOLDER: &str = "/var/tmp";

fn put_file_in_place(lease: &Lease) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let make = |folder: &Path| open(folder, flags, Mode::from_raw_mode(PRIVATE_MODE));
    let copy = make(Path::new(TEMPORARY_FOLDER)).or_else(|_| make(&std::env::temp_dir()))?;
    let copy = File::from(copy);
    // There may be no memory for more.
    let (mut piece, mut at) = ([0; 16 << 10], 0);
    while at < lease.len {
        let some = piece.len().min(lease.len - at);
        lease.file.read_exact_at(&mut piece[..some], at as u64)?;
        copy.write_all_at(&piece[..some], at as u64)?;
        at += some;
    }
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: as in `put_copy_in_place`; the file has no name, and nobody else has it open.
    unsafe { mmap(lease.start as *mut _, lease.len, ProtFlags::READ, flags, &copy, 0) }?;
    Ok(())
}

fn put_copy_in_place(lease: &Lease) -> io::Result<()> {
    let copy = read_into_memory(&lease.file, lease.len)?;
    let flags = MremapFlags::MAYMOVE;
    // SAFETY: the copy is new memory of that length, known to nobody else. It takes the place of a
    // map of the same length, which is there as long as the lease is held; and as nobody could
    // write the file yet, whoever reads from there sees the same bytes before and after.
    unsafe {
        mremap_fixed(copy.as_ptr().cast(), lease.len, lease.len, flags, lease.start as *mut _)?;
    }
    Ok(())
}

/// Blocks all signals of this thread; gives the one to wait for.
fn block_all_signals() -> libc::sigset_t {
    // SAFETY: all zeros is a valid set, and the pointers are to live ones.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, ptr::null_mut());
        let mut one: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut one);
        libc::sigaddset(&mut one, libc::SIGIO);
        one
    }
}

fn wait_for_writers(signals: &libc::sigset_t) {
    loop {
        // SAFETY: the set is valid, and nobody wants to know more.
        let signal = unsafe { libc::sigwaitinfo(signals, ptr::null_mut()) };
        if signal == libc::SIGIO
            && let Some(leases) = leases()
        {
            leases.answer_writers();
        }
    }
}
