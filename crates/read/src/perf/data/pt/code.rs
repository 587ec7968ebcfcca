//! The code that ran: bytes of the files that were mapped, and where their functions are.

use std::collections::BTreeMap;
use std::rc::Rc;

use spanwise_files::FileBytes;
use spanwise_pt::{Functions, Image, ImageSwitch, Program, TickScale};
use spanwise_symbols::{Files, KernelCode, Mapping, Symbols, is_jit_dump};

use super::side::{Side, Turn, Version};

/// The code of each version of each process that ran, and of the kernel where it was kept.
pub(super) struct Codes<'a> {
    versions: BTreeMap<(i32, usize), Code>,
    kernel: Option<&'a KernelCode>,
}

#[derive(Default)]
struct Code {
    /// In the order of mapping.
    mapped: Vec<(Mapping, FileBytes)>,
    ranges: Ranges,
}

/// Where functions begin and end, by address; an end that is the beginning is not known.
#[derive(Default)]
struct Ranges(Vec<(u64, u64)>);

impl Functions for Ranges {
    fn around(&self, ip: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|range| range.0 <= ip);
        let next = self.0.get(after).map_or(u64::MAX, |range| range.0);
        let &(start, end) = self.0[..after].last()?;
        // Between functions are those without a name, such as stubs for calls of other files.
        Some(match () {
            () if start == end || ip < end => (start, if start == end { next } else { end }),
            () => (end, next),
        })
    }
}

impl<'a> Codes<'a> {
    pub(super) fn new(
        side: &Side,
        turns: &[(Turn, usize)],
        files: &mut Files,
        symbols: &mut Symbols,
        kernel: Option<&'a KernelCode>,
    ) -> Codes<'a> {
        let starts = kernel.map(|_| symbols.kernel_starts(files)).unwrap_or_default();
        let mut versions = BTreeMap::new();
        for &(turn, number) in turns {
            let version = side.version(turn.pid, number);
            versions
                .entry((turn.pid, number))
                .or_insert_with(|| code(version, files, symbols, &starts));
        }
        Codes { versions, kernel }
    }

    /// What ran in each turn; turns keep their numbers.
    pub(super) fn program(&self, turns: &[(Turn, usize)], scale: TickScale) -> Program<'_> {
        let mut images = Vec::new();
        let mut numbers = BTreeMap::new();
        for (&key, code) in &self.versions {
            let mut image = Image::new(Some(&code.ranges));
            for (mapping, bytes) in &code.mapped {
                let bytes: &[u8] = bytes.as_ref();
                let from = usize::try_from(mapping.file_offset).unwrap_or(usize::MAX);
                let len = usize::try_from(mapping.end - mapping.start).unwrap_or(usize::MAX);
                let bytes = bytes.get(from..).unwrap_or_default();
                image.map(mapping.start, &bytes[..bytes.len().min(len)]);
            }
            for (start, bytes) in self.kernel.into_iter().flat_map(KernelCode::parts) {
                image.map(start, bytes);
            }
            numbers.insert(key, images.len());
            images.push(image);
        }
        let mut since = 0;
        let switches = turns.iter().map(|&(turn, number)| {
            since = scale.ticks(turn.since).max(since);
            ImageSwitch { since, image: numbers.get(&(turn.pid, number)).copied().unwrap_or(0) }
        });
        let switches = switches.collect();
        Program::new(images, switches)
    }
}

fn code(
    version: Option<&Version>,
    files: &mut Files,
    symbols: &mut Symbols,
    kernel_starts: &[u64],
) -> Code {
    let mut code = Code::default();
    let mut ranges: BTreeMap<u64, u64> = kernel_starts.iter().map(|&at| (at, at)).collect();
    for mapping in version.into_iter().flat_map(|version| &version.maps) {
        let path: &Rc<str> = &mapping.path;
        let Some(bytes) = files.get(path) else { continue };
        let end = if is_jit_dump(path) { mapping.end } else { mapping.start };
        ranges.insert(mapping.start, end);
        ranges.extend(symbols.ranges(files, mapping));
        code.mapped.push((mapping.clone(), bytes));
    }
    code.ranges = Ranges(ranges.into_iter().collect());
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_in_a_function_or_between_two() {
        let ranges = Ranges(vec![(10, 10), (20, 30), (40, 40), (50, 60)]);
        let check = |ip, expected| assert_eq!(ranges.around(ip), expected);
        check(5, None);
        check(10, Some((10, 20)));
        check(29, Some((20, 30)));
        check(30, Some((30, 40)));
        check(45, Some((40, 50)));
        check(60, Some((60, u64::MAX)));
    }
}
