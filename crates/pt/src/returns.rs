//! Where calls return to, as the processor remembers it.

/// How many the processor remembers.
const DEPTH: usize = 64;

/// The latest calls; older ones are forgotten.
#[derive(Debug, Clone)]
pub(crate) struct Returns {
    ring: [u64; DEPTH],
    top: usize,
    len: usize,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { ring: [0; DEPTH], top: 0, len: 0 }
    }
}

impl Returns {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(crate) fn push(&mut self, ip: u64) {
        self.top = (self.top + 1) % DEPTH;
        self.ring[self.top] = ip;
        self.len = (self.len + 1).min(DEPTH);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        let ip = self.ring[self.top];
        self.top = (self.top + DEPTH - 1) % DEPTH;
        Some(ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_come_back_first() {
        let mut returns = Returns::default();
        (0..100).for_each(|ip| returns.push(ip));
        for ip in (36..100).rev() {
            assert_eq!(returns.pop(), Some(ip));
        }
        assert_eq!(returns.pop(), None);
        returns.push(7);
        returns.clear();
        assert_eq!(returns.pop(), None);
    }
}
