//! The map that a runtime writes of the code it made: `START SIZE NAME`, in hexadecimal.

/// Functions by address, for code that no file holds.
#[derive(Debug, Clone, Default)]
pub struct JitMap {
    /// Start, end, name; by start.
    entries: Vec<(u64, u64, String)>,
}

impl JitMap {
    /// How the map of a process is called, in the folder for temporary files and in recordings.
    pub fn file_name(pid: i32) -> String {
        format!("perf-{pid}.map")
    }

    /// Lines that are no entries are passed over: runtimes write their own remarks.
    pub fn read(text: &[u8]) -> JitMap {
        let lines = text.split(|&byte| byte == b'\n');
        let entry = |line: &[u8]| {
            let (start, rest) = split_word(line.trim_ascii());
            let (size, name) = split_word(rest);
            let start = hexadecimal(start)?;
            let end = start.checked_add(hexadecimal(size)?)?;
            let name = String::from_utf8_lossy(name.trim_ascii()).into_owned();
            (!name.is_empty()).then_some((start, end, name))
        };
        let mut entries: Vec<(u64, u64, String)> = lines.filter_map(entry).collect();
        // Of code that was made again at the same address, the latest counts.
        entries.sort_by_key(|entry| entry.0);
        JitMap { entries }
    }

    /// Takes in the entries of another map.
    pub fn extend(&mut self, other: JitMap) {
        self.entries.extend(other.entries);
        self.entries.sort_by_key(|entry| entry.0);
    }

    #[inline]
    pub fn find(&self, ip: u64) -> Option<&str> {
        self.find_entry(ip).map(|found| found.0)
    }

    /// The name, and whether the function begins there.
    pub fn find_entry(&self, ip: u64) -> Option<(&str, bool)> {
        let after = self.entries.partition_point(|entry| entry.0 <= ip);
        let (start, end, name) = self.entries[..after].last()?;
        (ip < *end).then_some((name, ip == *start))
    }
}

/// The first word and what follows it.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr2(b' ', b'\t', text).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii_start())
}

/// An address in hexadecimal digits and nothing else, with or without `0x`.
fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_names() {
        let map = JitMap::read(b"1000 10 LazyCompile:~f a.js:1\n0x2000 0x20 Lmain;::run\n# x\n");
        let check = |ip, name| assert_eq!(map.find(ip), name, "{ip:x}");
        check(0xfff, None);
        check(0x1000, Some("LazyCompile:~f a.js:1"));
        check(0x100f, Some("LazyCompile:~f a.js:1"));
        check(0x1010, None);
        check(0x2001, Some("Lmain;::run"));
    }
}
