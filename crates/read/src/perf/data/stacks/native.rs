//! The functions of native code and of the kernel on a stack, with what was put into them.

use std::rc::Rc;

use spanwise_callstack::{FunctionId, Location, StackRef};
use spanwise_model::StrId;
use spanwise_symbols::{AddressLines, Mapping, Symbol};

use super::chains::ChainAddress;
use crate::perf::data::State;
use crate::perf::data::file::sample;
use crate::perf::script::lanes::Join;

/// What stands at an address.
#[derive(Clone)]
pub(crate) struct AddressSymbol {
    pub(crate) function: FunctionId,
    pub(crate) is_entry: bool,
    /// The file of the source and the line, where they are known.
    stands: (StrId, u32),
    /// What the compiler put into the function there, from the outermost on.
    inlined: Rc<[InlinedSymbol]>,
}

#[derive(Clone, Copy)]
struct InlinedSymbol {
    pub(crate) function: FunctionId,
    stands: (StrId, u32),
}

/// No line of any source.
const NOWHERE: (StrId, u32) = (StrId::EMPTY, 0);

/// From here on, addresses in a stack are marks: "what follows is the kernel's".
const MARKS_FROM: u64 = u64::MAX - 4094;

/// The addresses of the kernel's chain. The address that was sampled is the innermost, whatever
/// the chain begins with: chains may leave out the kernel's part (`--call-graph dwarf` of a user
/// who may not see it, `exclude_callchain_kernel`), and then perf says the same.
fn innermost_first(sample: &sample::Sample<'_>) -> Vec<u64> {
    let chain = sample.chain.as_deref().unwrap_or_default();
    let first = chain.iter().position(|&ip| ip < MARKS_FROM);
    match (sample.ip, first) {
        (None, _) | (Some(0), Some(_)) => chain.to_vec(),
        (Some(ip), Some(at)) if chain[at] == ip => chain.to_vec(),
        // A precise address is a few instructions before the one where the chain was taken.
        (Some(ip), Some(at)) if chain[at] >> 63 == ip >> 63 => {
            let mut chain = chain.to_vec();
            chain[at] = ip;
            chain
        }
        // Two parts of one stack, each with an innermost address.
        (Some(ip), _) => [&[ip, u64::MAX], chain].concat(),
    }
}

/// The addresses of a chain without its marks, innermost first. The innermost of each part is
/// where it stands; the others are where they return to.
fn addresses(ips: &[u64]) -> impl Iterator<Item = ChainAddress> + '_ {
    let mut is_return = false;
    ips.iter().filter_map(move |&ip| {
        if ip >= MARKS_FROM {
            is_return = false;
            return None;
        }
        Some(ChainAddress { ip, is_return: std::mem::replace(&mut is_return, true) })
    })
}

/// What was unwound begins at the program's own innermost address, which is what was sampled where
/// the kernel had no part in it: that counts once.
fn without_innermost_of(ips: &mut Vec<u64>, unwound: &[u64]) {
    let last = ips.iter().rposition(|&ip| ip < MARKS_FROM);
    if let Some(last) = last.filter(|&last| unwound.first() == Some(&ips[last])) {
        ips.remove(last);
    }
}

impl State<'_> {
    /// The stack, from the outermost frame on.
    pub(crate) fn native_frames(&mut self, pid: i32, sample: &sample::Sample<'_>) -> Vec<Location> {
        let mut ips = innermost_first(sample);
        if let (Some(stacks), Some(stack)) = (&mut self.stacks, &sample.stack) {
            let word_at = |address| stack.word_at(address);
            let unwound = stacks.unwind(&mut self.files, &self.maps, pid, stack.registers, word_at);
            without_innermost_of(&mut ips, &unwound);
            ips.push(u64::MAX);
            ips.extend(unwound);
        }
        self.frames_of(pid, &ips)
    }

    /// The number of the stack of a chain alone, found without the functions where they are known.
    pub(crate) fn stack_number(&mut self, pid: i32, sample: &sample::Sample<'_>) -> StackRef {
        let mut stack = StackRef::NONE;
        let ips = innermost_first(sample);
        for at in addresses(&ips).collect::<Vec<_>>().into_iter().rev() {
            stack = match self.chains.find(pid, stack, at) {
                Some(known) => known,
                None => {
                    let mut frames = Vec::new();
                    self.push_places(pid, at.ip, at.is_return, &mut frames);
                    frames.reverse();
                    let called = self.timeline.stack(stack, &frames);
                    self.chains.add(pid, stack, at, called);
                    called
                }
            };
        }
        stack
    }

    fn frames_of(&mut self, pid: i32, ips: &[u64]) -> Vec<Location> {
        let mut frames: Vec<Location> = Vec::new();
        for ChainAddress { ip, is_return } in addresses(ips) {
            self.push_places(pid, ip, is_return, &mut frames);
        }
        frames.reverse();
        frames
    }

    /// The innermost first: what was put into a function, then the function itself.
    pub(crate) fn push_places(
        &mut self,
        pid: i32,
        ip: u64,
        is_return: bool,
        frames: &mut Vec<Location>,
    ) {
        let inside = if is_return { ip.saturating_sub(1) } else { ip };
        let mapping = self.maps.find(pid, ip).cloned();
        let found = match (self.runtime_name(pid, inside, mapping.as_ref()), mapping) {
            (Some((name, is_entry)), mapping) => {
                let file = mapping.map_or(Rc::default(), |mapping| mapping.path);
                let function = self.names().function(&name, &file);
                AddressSymbol { function, is_entry, stands: NOWHERE, inlined: Rc::default() }
            }
            (None, Some(mapping)) if ip >> 63 == 0 => self.function(&mapping, inside),
            (None, mapping) => {
                self.kernel_function(mapping.map_or("", |_| "[kernel.kallsyms]"), inside)
            }
        };
        let AddressSymbol { function, is_entry, stands: (source, line), inlined } = found;
        frames.extend(inlined.iter().rev().map(|&InlinedSymbol { function, stands }| {
            let (source, line) = stands;
            Location { ip, function, is_entry: false, is_inlined: true, source, line }
        }));
        let is_entry = is_entry && !is_return;
        frames.push(Location { ip, function, is_entry, is_inlined: false, source, line });
    }

    pub(crate) fn kernel_function(&mut self, file: &str, ip: u64) -> AddressSymbol {
        let is_kernel = ip >> 63 == 1;
        let found = is_kernel.then(|| self.symbols.find_kernel(&self.files, ip)).flatten();
        let (function, is_entry) = match found {
            Some(Symbol { name, is_entry }) => (self.names().function(&name, file), is_entry),
            None => (self.made_or_unknown(ip, file), false),
        };
        AddressSymbol { function, is_entry, stands: NOWHERE, inlined: Rc::default() }
    }

    fn function(&mut self, mapping: &Mapping, ip: u64) -> AddressSymbol {
        let offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        let key = (Rc::clone(&mapping.path), offset);
        if let Some(known) = self.places.get(&key) {
            return known.clone();
        }
        let (mut function, is_entry) = self.symbol_at(mapping, ip);
        if self.names().is_unknown(function)
            && let Some(name) = self.symbols.find_unnamed(&mut self.files, mapping, ip)
        {
            function = self.names().unnamed(&name, &mapping.path);
        }
        let inlines = self.inlines.as_mut();
        let located = inlines.map(|inlines| inlines.find(&mut self.files, mapping, ip));
        let AddressLines { own, inlined } = located.unwrap_or_default();
        let names = self.timeline.names();
        let stands = (names.string(&own.file), own.line);
        let inlined = inlined.iter().map(|call| InlinedSymbol {
            function: names.function(&call.name, &mapping.path),
            stands: (names.string(&call.stands.file), call.stands.line),
        });
        let found = AddressSymbol { function, is_entry, stands, inlined: inlined.collect() };
        self.places.insert(key, found.clone());
        found
    }

    pub(crate) fn symbol_at(&mut self, mapping: &Mapping, ip: u64) -> (FunctionId, bool) {
        match self.symbols.find(&mut self.files, mapping, ip) {
            Some(Symbol { name, is_entry }) => {
                (self.names().function(&name, &mapping.path), is_entry)
            }
            None => (self.made_or_unknown(ip, &mapping.path), false),
        }
    }

    /// The name that a runtime has for code of its own, and whether it begins there.
    pub(crate) fn runtime_name(
        &mut self,
        pid: i32,
        ip: u64,
        mapping: Option<&Mapping>,
    ) -> Option<(String, bool)> {
        let may_be = ip >> 63 == 0 && mapping.is_none_or(|mapping| is_anonymous(&mapping.path));
        let is_from_here = self.files.are_of_here();
        let map = may_be.then(|| self.jit_maps.of(pid, is_from_here));
        let found = map.and_then(|map| map.find_entry(ip));
        found.map(|(name, is_entry)| (name.to_owned(), is_entry))
    }

    /// Code that no file names may have been made by a runtime.
    fn made_or_unknown(&mut self, ip: u64, file: &str) -> FunctionId {
        match self.map.find(ip) {
            Some(name) => self.timeline.names().function(name, file),
            None => self.timeline.names().unknown(file),
        }
    }
}

/// Memory that is no file's, as the kernel names it.
fn is_anonymous(path: &str) -> bool {
    let is_file = path.starts_with('/') && !path.starts_with("//") || path == "[vdso]";
    !is_file || path.starts_with("/memfd:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0xffff_ffff_8100_0000;
    const USER_MARK: u64 = u64::MAX - 511;

    #[track_caller]
    fn check(ip: u64, chain: &[u64], expected: &[u64]) {
        let (ip, chain) = (Some(ip), Some(chain.to_vec()));
        let sample = sample::Sample { ip, chain, ..sample::Sample::default() };
        assert_eq!(innermost_first(&sample), expected);
    }

    #[test]
    fn the_innermost_function_stands_once_on_a_stack_that_was_unwound() {
        let check = |ips: &[u64], unwound: &[u64], expected: &[u64]| {
            let mut found = ips.to_vec();
            without_innermost_of(&mut found, unwound);
            assert_eq!(found, expected);
        };
        check(&[7, u64::MAX], &[7, 9], &[u64::MAX]);
        check(&[KERNEL, u64::MAX, USER_MARK], &[7, 9], &[KERNEL, u64::MAX, USER_MARK]);
        check(&[7, u64::MAX], &[], &[7, u64::MAX]);
        check(&[], &[7], &[]);
    }

    #[test]
    fn what_was_sampled_is_innermost_also_where_the_chain_leaves_it_out() {
        check(7, &[USER_MARK, 7, 9], &[USER_MARK, 7, 9]);
        check(6, &[USER_MARK, 7, 9], &[USER_MARK, 6, 9]);
        check(KERNEL, &[], &[KERNEL, u64::MAX]);
        check(KERNEL, &[USER_MARK, 7, 9], &[KERNEL, u64::MAX, USER_MARK, 7, 9]);
        check(0, &[USER_MARK, 7, 9], &[USER_MARK, 7, 9]);
    }
    #[test]
    fn files_are_not_asked_a_runtime() {
        let check = |path, expected| assert_eq!(is_anonymous(path), expected, "{path}");
        check("//anon", true);
        check("[heap]", true);
        check("/memfd:code (deleted)", true);
        check("anon_inode:[x]", true);
        check("/bin/true", false);
        check("[vdso]", false);
    }
}
