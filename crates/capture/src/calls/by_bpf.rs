//! Hits by a small program of ours that runs in the kernel, where there is BPF: thousands of
//! functions are watched as easily as one.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::bpf::{self, Places};
use super::program::{self, HIT_BYTES};
use super::ring::HitRing;

/// Room for a million calls between two looks at the ring.
const RING_BYTES: u32 = 64 << 20;

pub(super) struct ByBpf {
    /// Closing them ends the watch; first, so that nothing is written into a ring that is gone.
    links: Vec<OwnedFd>,
    programs: [OwnedFd; 2],
    lost: OwnedFd,
    ring: HitRing,
    _ring: OwnedFd,
    lost_before: u64,
}

impl ByBpf {
    pub(super) fn begin() -> io::Result<ByBpf> {
        let (ring, lost) = (bpf::ring(RING_BYTES)?, bpf::counter()?);
        let load = |is_return| {
            bpf::program(&program::noting(ring.as_raw_fd(), lost.as_raw_fd(), is_return))
        };
        Ok(ByBpf {
            links: Vec::new(),
            programs: [load(false)?, load(true)?],
            lost,
            ring: HitRing::map(&ring, RING_BYTES as usize)?,
            _ring: ring,
            lost_before: 0,
        })
    }

    /// All at once; where the kernel does not take one of them, the others without it. Gives how
    /// many it did not take.
    pub(super) fn attach(
        &mut self,
        pid: i32,
        path: &[u8],
        places: &[(u64, u64)],
    ) -> io::Result<u64> {
        match (self.try_attach(pid, path, places), places.len()) {
            (Ok(links), _) => self.links.extend(links),
            (Err(error), _) if error.raw_os_error() == Some(libc::ESRCH) => {}
            (Err(error), 1) if is_odd_place(&error) => return Ok(1),
            (Err(error), count) if is_odd_place(&error) => {
                let (first, last) = places.split_at(count / 2);
                return Ok(self.attach(pid, path, first)? + self.attach(pid, path, last)?);
            }
            (Err(error), _) => return Err(error),
        }
        Ok(0)
    }

    pub(super) fn try_attach(
        &self,
        pid: i32,
        path: &[u8],
        places: &[(u64, u64)],
    ) -> io::Result<[OwnedFd; 2]> {
        let (offsets, cookies): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
        let [entry, back] = &self.programs;
        let at = |program, is_return| {
            let (offsets, cookies) = (&offsets, &cookies);
            bpf::attach(program, &Places { path, pid, offsets, cookies, is_return })
        };
        // Returns first: of a call that is seen, the return is seen as well.
        let back = at(back, true)?;
        Ok([at(entry, false)?, back])
    }

    /// What was noted since the last time, and how much there was no room for.
    pub(super) fn drain(&mut self) -> (Vec<u8>, u64) {
        let mut hits = Vec::new();
        self.ring.drain(|hit| hits.extend(hit.get(..HIT_BYTES as usize).unwrap_or_default()));
        let lost = bpf::counted(&self.lost).unwrap_or(self.lost_before);
        let new = lost.saturating_sub(self.lost_before);
        self.lost_before += new;
        (hits, new)
    }

    /// No more is noted from now on.
    pub(super) fn stop(&mut self) {
        self.links.clear();
    }
}

/// The kernel finds an instruction there that it cannot watch.
pub(super) fn is_odd_place(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EILSEQ | libc::EIO | ENOTSUPP)
    )
}

/// As the kernel calls it inside, and sometimes outside.
const ENOTSUPP: i32 = 524;
