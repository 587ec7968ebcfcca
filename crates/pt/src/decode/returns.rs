//! Where calls return to, as the processor remembers it.

/// How many the processor remembers.
const DEPTH: usize = 64;

/// Where a call returns to: the address; and, so that it needs no lookup, the block that
/// made the call, with the number of the code that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Return {
    pub(crate) ip: u64,
    pub(crate) call: u32,
    pub(crate) cache: u32,
}

/// The latest calls; older ones are forgotten.
#[derive(Debug, Clone)]
pub(crate) struct Returns {
    ring: [Return; DEPTH],
    top: usize,
    len: usize,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { ring: [Return::default(); DEPTH], top: 0, len: 0 }
    }
}

impl Returns {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(crate) fn push(&mut self, to: Return) {
        self.top = (self.top + 1) % DEPTH;
        self.ring[self.top] = to;
        self.len = (self.len + 1).min(DEPTH);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Return> {
        self.len = self.len.checked_sub(1)?;
        let to = self.ring[self.top];
        self.top = (self.top + DEPTH - 1) % DEPTH;
        Some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_come_back_first() {
        let mut returns = Returns::default();
        let to = |ip| Return { ip, ..Return::default() };
        (0..100).for_each(|ip| returns.push(to(ip)));
        for ip in (36..100).rev() {
            assert_eq!(returns.pop(), Some(to(ip)));
        }
        assert_eq!(returns.pop(), None);
        returns.push(to(7));
        returns.clear();
        assert_eq!(returns.pop(), None);
    }
}
