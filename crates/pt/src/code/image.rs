//! The program: its code by address, and which code was mapped at which time.

/// Bytes at an address.
#[derive(Debug, Clone, Copy)]
struct Section<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl Section<'_> {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// Where functions start and end, which shows the jumps that leave them.
pub trait Functions: Sync {
    /// The first address of the function that contains `ip`, and the first after it.
    fn around(&self, ip: u64) -> Option<(u64, u64)>;
}

/// Code of one address space at one time.
#[derive(Clone, Default)]
pub struct Image<'a> {
    /// Ascending, none overlapping.
    sections: Vec<Section<'a>>,
    functions: Option<&'a dyn Functions>,
}

impl<'a> Image<'a> {
    /// An image without code. Without `functions`, each mapping counts as one function.
    pub fn new(functions: Option<&'a dyn Functions>) -> Self {
        Image { sections: Vec::new(), functions }
    }

    /// Maps bytes, in place of what was mapped there before.
    pub fn map(&mut self, start: u64, bytes: &'a [u8]) {
        let room = usize::try_from(u64::MAX - start).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            return;
        }
        self.unmap(start, start + bytes.len() as u64);
        let at = self.sections.partition_point(|section| section.start < start);
        self.sections.insert(at, Section { start, bytes });
    }

    /// Removes mappings from `start` to before `end`.
    pub fn unmap(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.sections.partition_point(|section| section.end() <= start);
        let to = self.sections.partition_point(|section| section.start < end);
        if from >= to {
            return;
        }
        let (first, last) = (self.sections[from], self.sections[to - 1]);
        let mut kept = Vec::new();
        if first.start < start {
            let len = (start - first.start) as usize;
            kept.push(Section { start: first.start, bytes: &first.bytes[..len] });
        }
        if last.end() > end {
            let skipped = (end - last.start) as usize;
            kept.push(Section { start: end, bytes: &last.bytes[skipped..] });
        }
        self.sections.splice(from..to, kept);
    }

    /// The bytes from `ip` on, to the end of their section; none where nothing is mapped.
    pub(crate) fn bytes(&self, ip: u64) -> &'a [u8] {
        let next = self.sections.partition_point(|section| section.start <= ip);
        let section = next.checked_sub(1).map(|at| self.sections[at]);
        section.map_or(&[], |section| {
            let skipped = usize::try_from(ip - section.start).unwrap_or(usize::MAX);
            section.bytes.get(skipped..).unwrap_or(&[])
        })
    }

    /// The function that contains an address; its whole section if functions are unknown.
    pub(crate) fn function(&self, ip: u64) -> (u64, u64) {
        if let Some(found) = self.functions.and_then(|functions| functions.around(ip)) {
            return found;
        }
        let next = self.sections.partition_point(|section| section.start <= ip);
        let section = next.checked_sub(1).map(|at| self.sections[at]);
        section
            .filter(|section| ip < section.end())
            .map_or((ip, ip), |section| (section.start, section.end()))
    }
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self.sections.iter().map(|section| section.start..section.end());
        out.debug_list().entries(ranges).finish()
    }
}

/// From a time on, the processor runs the code of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSwitch {
    /// Time stamp counter.
    pub since: u64,
    /// Position of the image in those of the [`Program`].
    pub image: usize,
}

/// The code that ran, over time: address spaces change when another process gets the processor,
/// and when a process maps code.
#[derive(Debug, Clone, Default)]
pub struct Program<'a> {
    images: Vec<Image<'a>>,
    /// Ascending by time.
    switches: Vec<ImageSwitch>,
}

impl<'a> Program<'a> {
    /// `switches` ascend by time; the first also applies before its time.
    ///
    /// # Panics
    ///
    /// If they do not ascend, or have images that do not exist.
    pub fn new(images: Vec<Image<'a>>, switches: Vec<ImageSwitch>) -> Self {
        assert!(switches.is_sorted_by_key(|switch| switch.since));
        assert!(switches.iter().all(|switch| switch.image < images.len()));
        Program { images, switches }
    }

    /// One image throughout.
    pub fn single(image: Image<'a>) -> Self {
        Program { images: vec![image], switches: vec![ImageSwitch { since: 0, image: 0 }] }
    }

    pub(crate) fn images(&self) -> &[Image<'a>] {
        &self.images
    }

    pub(crate) fn image_of(&self, switch: usize) -> Option<usize> {
        self.switches.get(switch).map(|switch| switch.image)
    }

    /// When a switch happened; the first also applies before its time.
    pub(crate) fn since(&self, switch: usize) -> u64 {
        if switch == 0 { 0 } else { self.switches.get(switch).map_or(0, |at| at.since) }
    }

    /// The switch in effect at a time, and when the next one happens.
    pub(crate) fn switch_at(&self, ticks: u64) -> (usize, u64) {
        let next = self.switches.partition_point(|switch| switch.since <= ticks).max(1);
        (next - 1, self.switches.get(next).map_or(u64::MAX, |switch| switch.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    /// Maps and unmaps at random, and compares with an array of 40 bytes.
    #[test]
    fn what_is_mapped_last_counts() {
        let mut image = Image::default();
        let mut memory = [None; 40];
        let mut seed = 1_u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..400 {
            let (start, len) = (random(24) as usize, random(16) as usize);
            if random(3) == 0 {
                image.unmap(start as u64, (start + len) as u64);
                memory[start..start + len].fill(None);
            } else {
                image.map(start as u64, &BYTES[..len]);
                (0..len).for_each(|at| memory[start + at] = Some(BYTES[at]));
            }
            for (ip, &byte) in memory.iter().enumerate() {
                assert_eq!(image.bytes(ip as u64).first().copied(), byte, "{image:?} at {ip}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_address_space_are_no_problem() {
        let mut image = Image::default();
        image.map(u64::MAX - 4, &BYTES);
        image.map(0, &BYTES);
        assert_eq!(image.bytes(u64::MAX - 2), [2, 3]);
        assert_eq!(image.bytes(u64::MAX), []);
        image.unmap(0, u64::MAX);
        assert_eq!(image.bytes(3), []);
    }

    #[test]
    fn switches_are_found_by_time() {
        let switch = |since| ImageSwitch { since, image: 0 };
        let switches = vec![switch(10), switch(20), switch(20), switch(30)];
        let program = Program::new(vec![Image::default()], switches);
        let check = |ticks, expected| assert_eq!(program.switch_at(ticks), expected);
        check(0, (0, 20));
        check(10, (0, 20));
        check(19, (0, 20));
        check(20, (2, 30));
        check(30, (3, u64::MAX));
        assert_eq!(Program::default().image_of(0), None);
    }
}
