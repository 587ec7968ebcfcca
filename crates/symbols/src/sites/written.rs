//! Places as users write them: a function, a line of the source, or an address.

use std::path::Path;

use super::named::function_probe_sites;
use super::{address_site, line_sites};

/// The name of a place in the code of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteName<'a> {
    Function(&'a str),
    /// `FILE:LINE`, the file by the end of its path.
    Line {
        file: &'a str,
        line: u64,
    },
    /// `0x…`, as the linker gave it.
    Address(u64),
}

impl<'a> SiteName<'a> {
    pub fn parse(text: &'a str) -> SiteName<'a> {
        let address = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        if let Some(Ok(address)) = address {
            return SiteName::Address(address);
        }
        match text.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
            Some((file, Ok(line))) if !file.is_empty() && !file.ends_with(':') => {
                SiteName::Line { file, line }
            }
            _ => SiteName::Function(text),
        }
    }

    /// Offsets in a file for probes, none where it has no such place; an error for each that must
    /// not be probed: one within an instruction would corrupt the program.
    pub fn sites_in(self, path: &Path) -> Vec<Result<u64, String>> {
        match self {
            SiteName::Function(name) => function_probe_sites(path, name),
            SiteName::Line { file, line } => line_sites(path, file, line),
            SiteName::Address(address) => {
                address_site(path, address).transpose().into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_of() {
        let check = |text, expected| assert_eq!(SiteName::parse(text), expected);
        check("main", SiteName::Function("main"));
        check("0x12ab", SiteName::Address(0x12ab));
        check("0xyz", SiteName::Function("0xyz"));
        check("a/b.c:12", SiteName::Line { file: "a/b.c", line: 12 });
        check("Cache::12", SiteName::Function("Cache::12"));
        check(":12", SiteName::Function(":12"));
        check("b.c:", SiteName::Function("b.c:"));
    }
}
