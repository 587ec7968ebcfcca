//! Where OCaml's exception handlers are: raising one jumps over any number of frames.

/// Addresses of instructions, as an OCaml program's notes have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traps {
    /// Where handlers begin.
    pub enter: Vec<u64>,
    /// Behind which a handler is in force.
    pub push: Vec<u64>,
    /// Behind which it no longer is.
    pub pop: Vec<u64>,
}

/// What a straight run of instructions did to the handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrapChange {
    Push,
    Pop,
}

impl Traps {
    pub fn is_empty(&self) -> bool {
        self.enter.is_empty() && self.push.is_empty() && self.pop.is_empty()
    }

    pub(crate) fn is_handler(&self, ip: u64) -> bool {
        self.enter.contains(&ip)
    }

    /// What happened between two addresses, both included, in order.
    pub(crate) fn between(&self, from: u64, to: u64) -> Vec<TrapChange> {
        let inside = |ip: &&u64| (from..=to).contains(ip);
        let pushes = self.push.iter().filter(inside).map(|&ip| (ip, TrapChange::Push));
        let pops = self.pop.iter().filter(inside).map(|&ip| (ip, TrapChange::Pop));
        let mut changes: Vec<(u64, TrapChange)> = pushes.chain(pops).collect();
        changes.sort_by_key(|&(ip, _)| ip);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}
