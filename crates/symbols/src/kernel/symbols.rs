//! Names of functions of the kernel.

use std::fs;

use crate::functions::Symbol;

/// The symbols of the kernel, where it is the one that runs here.
#[derive(Default)]
pub(crate) struct KernelSymbols {
    pub(crate) functions: Vec<(u64, String)>,
}

impl KernelSymbols {
    /// Addresses differ from start to start, so only the very kernel that was recorded will
    /// do: the same release and, where it is known, the same build id.
    pub(crate) fn running(release: &str, build_id: Option<&[u8]>) -> KernelSymbols {
        let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if release.is_empty() || own.trim_end() != release {
            return KernelSymbols::default();
        }
        let notes = fs::read("/sys/kernel/notes").unwrap_or_default();
        if build_id.is_some_and(|id| memchr::memmem::find(&notes, id).is_none()) {
            return KernelSymbols::default();
        }
        KernelSymbols::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    pub(crate) fn parse(text: &str) -> KernelSymbols {
        let function = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            // Hidden from this user: all are 0.
            (is_code && address != 0).then(|| (address, name.to_owned()))
        };
        let mut functions: Vec<(u64, String)> = text.lines().filter_map(function).collect();
        functions.sort();
        KernelSymbols { functions }
    }

    pub(crate) fn find(&self, ip: u64) -> Option<Symbol> {
        let after = self.functions.partition_point(|function| function.0 <= ip);
        let (start, name) = self.functions[..after].last()?;
        Some(Symbol { name: name.clone(), is_entry: *start == ip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_symbols_are_read() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t schedule\n\
                    ffffffff81000200 D data\n0000000000000000 T hidden\n";
        let kernel = KernelSymbols::parse(text);
        let found = kernel.find(0xffff_ffff_8100_0150).expect("schedule");
        assert_eq!((found.name.as_str(), found.is_entry), ("schedule", false));
        assert_eq!(kernel.find(0x1000), None);
    }
}
