//! What was mapped where, in which process, at which time.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A piece of a file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub path: Rc<str>,
}

/// The mappings of all processes, as of the record that was read last.
#[derive(Debug, Default)]
pub struct Maps {
    processes: HashMap<i32, BTreeMap<u64, Mapping>>,
    kernel: BTreeMap<u64, Mapping>,
}

impl Maps {
    /// A new mapping takes the place of what it covers.
    pub fn map(&mut self, pid: i32, mapping: Mapping, is_kernel: bool) {
        if mapping.start >= mapping.end {
            return;
        }
        let maps = match is_kernel {
            true => &mut self.kernel,
            false => self.processes.entry(pid).or_default(),
        };
        clear(maps, mapping.start, mapping.end);
        maps.insert(mapping.start, mapping);
    }

    /// Something that is not executed takes the place of what was there; true where there was
    /// something. No address of code is in it, and its file may be executed elsewhere.
    pub fn unmap(&mut self, pid: i32, start: u64, end: u64) -> bool {
        self.processes.get_mut(&pid).is_some_and(|maps| clear(maps, start, end))
    }

    /// A new process begins with what its parent had.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child
            && let Some(maps) = self.processes.get(&parent).cloned()
        {
            self.processes.insert(child, maps);
        }
    }

    /// Another program takes the place of the one that ran.
    pub fn exec(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// The mappings of a process.
    pub fn of(&self, pid: i32) -> impl Iterator<Item = &Mapping> {
        self.processes.get(&pid).into_iter().flat_map(BTreeMap::values)
    }

    pub fn find(&self, pid: i32, ip: u64) -> Option<&Mapping> {
        let at = |maps: &'_ BTreeMap<u64, Mapping>| {
            let (&start, mapping) = maps.range(..=ip).next_back()?;
            (ip < mapping.end).then_some(start)
        };
        if ip >> 63 == 1 {
            return at(&self.kernel).map(|start| &self.kernel[&start]);
        }
        let maps = self.processes.get(&pid)?;
        at(maps).map(|start| &maps[&start])
    }
}

/// Takes away what lies between two addresses; true where there was something.
fn clear(maps: &mut BTreeMap<u64, Mapping>, start: u64, end: u64) -> bool {
    let below = maps.range(..end).rev();
    let covered: Vec<u64> =
        below.take_while(|(_, old)| old.end > start).map(|(&at, _)| at).collect();
    for &at in &covered {
        let Some(old) = maps.remove(&at) else { continue };
        if old.start < start {
            maps.insert(old.start, Mapping { end: start, ..old.clone() });
        }
        if old.end > end {
            let file_offset = old.file_offset.wrapping_add(end - old.start);
            maps.insert(end, Mapping { start: end, file_offset, ..old });
        }
    }
    !covered.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping { start, end, file_offset: 0, path: path.into() }
    }

    #[test]
    fn what_is_mapped_last_counts() {
        let mut maps = Maps::default();
        maps.map(1, mapping(0x1000, 0x9000, "a"), false);
        maps.map(1, mapping(0x3000, 0x5000, "b"), false);
        let check = |ip: u64, path: &str, file_offset: u64| {
            let found = maps.find(1, ip).expect("mapped");
            assert_eq!((&*found.path, found.file_offset), (path, file_offset), "{ip:x}");
        };
        check(0x1000, "a", 0);
        check(0x2fff, "a", 0);
        check(0x3000, "b", 0);
        check(0x5000, "a", 0x4000);
        assert_eq!(maps.find(1, 0x9000), None);
        assert_eq!(maps.find(2, 0x1000), None);
    }

    #[test]
    fn what_is_not_executed_leaves_a_hole() {
        let mut maps = Maps::default();
        maps.map(1, mapping(0x1000, 0x9000, "a"), false);
        assert!(!maps.unmap(1, 0x9000, 0xa000) && !maps.unmap(2, 0x1000, 0x9000));
        assert!(maps.unmap(1, 0x3000, 0x5000));
        assert_eq!(maps.find(1, 0x3000), None);
        assert_eq!(maps.find(1, 0x4fff), None);
        let behind = maps.find(1, 0x5000).expect("still there");
        assert_eq!((behind.start, behind.file_offset), (0x5000, 0x4000));
        assert_eq!(maps.find(1, 0x2fff).map(|before| before.end), Some(0x3000));
    }

    #[test]
    fn children_have_what_their_parents_had_until_they_run_something_else() {
        let mut maps = Maps::default();
        maps.map(1, mapping(0x1000, 0x2000, "a"), false);
        maps.fork(1, 2);
        assert!(maps.find(2, 0x1000).is_some());
        maps.exec(2);
        assert!(maps.find(2, 0x1000).is_none() && maps.find(1, 0x1000).is_some());
    }
}
