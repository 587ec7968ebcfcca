//! Stacks by the addresses that the kernel recorded for them.
//!
//! A program that runs for minutes is sampled in the same places again and again: of millions of
//! samples, most have addresses that were seen before. Looking them all up as one is several
//! times as fast as finding the function of each.

use std::collections::HashMap;
use std::rc::Rc;

use spanwise_flow::{Place, StackRef};
use spanwise_model::QuickMap;

/// The functions of a chain of addresses.
#[derive(Debug, Clone)]
pub(super) struct KnownStack {
    pub(super) number: StackRef,
    /// From the outermost on.
    pub(super) frames: Rc<[Place]>,
}

/// Chains of each process, as long as nothing is mapped anew there.
#[derive(Debug, Default)]
pub(super) struct Chains {
    by_process: HashMap<i32, QuickMap<Box<[u64]>, KnownStack>>,
    /// How many addresses and frames all of them have.
    size: usize,
}

/// Beyond this all is forgotten, and learned again: some 100 MB.
const SIZE_MAX: usize = 2 << 20;

impl Chains {
    pub(super) fn find(&self, pid: i32, chain: &[u64]) -> Option<&KnownStack> {
        self.by_process.get(&pid)?.get(chain)
    }

    pub(super) fn add(&mut self, pid: i32, chain: Vec<u64>, stack: KnownStack) {
        self.size += chain.len() + stack.frames.len();
        if self.size > SIZE_MAX {
            *self = Chains { size: chain.len() + stack.frames.len(), ..Chains::default() };
        }
        self.by_process.entry(pid).or_default().insert(chain.into(), stack);
    }

    /// Something is mapped anew in a process; or, below 0, in the kernel.
    pub(super) fn forget(&mut self, pid: i32) {
        match pid {
            0.. => drop(self.by_process.remove(&pid)),
            _ => *self = Chains::default(),
        }
    }
}
