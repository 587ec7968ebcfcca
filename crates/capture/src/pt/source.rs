//! What the kernel says about the trace of Intel's processors, and what it is to be asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Where the kernel describes it.
pub(crate) const INTEL_PT: &str = "/sys/bus/event_source/devices/intel_pt";

/// A source of traces, as its folder of the system describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceSource {
    /// Its number among the sources of events.
    pub(crate) kind: u32,
    /// Where in the configuration each of its settings stands: the lowest bit, and how many.
    settings: BTreeMap<String, (u32, u32)>,
    /// What the processor can do; of values that may be chosen, a bit each.
    abilities: BTreeMap<String, u64>,
    /// How fast the counter of cycles runs, in multiples of the bus.
    pub(crate) counter_ratio: u64,
    /// Ticks of that counter for those of the crystal.
    pub(crate) ticks_per_crystal: (u64, u64),
    /// How many ranges of code it can be kept to.
    pub(crate) filters_max: usize,
}

/// Settings whose values are chosen among those that the processor has.
const CHOSEN: [(&str, &str); 3] = [
    ("mtc_period", "mtc_periods"),
    ("cyc_thresh", "cycle_thresholds"),
    ("psb_period", "psb_periods"),
];

impl TraceSource {
    /// Reads such a folder; an error where it is none, or has no number.
    pub fn read(folder: &Path) -> io::Result<TraceSource> {
        let text = |name: &str| fs::read_to_string(folder.join(name));
        let number = |name: &str| text(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let kind = text("type")?.trim().parse().map_err(io::Error::other)?;
        let mut source = TraceSource { kind, ..TraceSource::default() };
        for (name, text) in files(&folder.join("format")) {
            source.settings.extend(bits(&text).map(|bits| (name, bits)));
        }
        for (name, text) in files(&folder.join("caps")) {
            let value = u64::from_str_radix(text.trim(), 16);
            source.abilities.extend(value.ok().map(|value| (name, value)));
        }
        source.counter_ratio = number("max_nonturbo_ratio").unwrap_or(0);
        let ratio = text("tsc_art_ratio").unwrap_or_default();
        let ratio = ratio.trim().split_once(':');
        let ratio = ratio.and_then(|(ticks, per)| Some((ticks.parse().ok()?, per.parse().ok()?)));
        source.ticks_per_crystal = ratio.unwrap_or((0, 0));
        source.filters_max = number("nr_addr_filters").unwrap_or(0) as usize;
        Ok(source)
    }

    fn can(&self, ability: &str) -> bool {
        self.abilities.get(ability).is_some_and(|&value| value != 0)
    }

    /// The bits of a setting; none where the kernel does not know it.
    pub(crate) fn bits_of(&self, setting: &str) -> u64 {
        self.settings.get(setting).map_or(0, |&(shift, len)| mask(len) << shift)
    }

    /// The configuration with some settings as somebody wants them, and the others such that
    /// times are as fine as the processor can give them.
    pub(crate) fn config(&self, wanted: &[(String, u64)]) -> Result<u64, String> {
        let mut values = self.usual(|name| wanted.iter().any(|row| row.0 == name && row.1 == 0));
        for (name, value) in wanted {
            self.check(name, *value)?;
            values.insert(name, *value);
        }
        let place = |(name, value): (&str, u64)| {
            self.settings.get(name).map_or(0, |&(shift, len)| (value & mask(len)) << shift)
        };
        Ok(values.into_iter().map(place).fold(0, |config, bits| config | bits))
    }

    fn usual(&self, is_off: impl Fn(&str) -> bool) -> BTreeMap<&str, u64> {
        let mut values = BTreeMap::from([("tsc", 1)]);
        // Older kernels have neither, and follow branches without being asked.
        if self.settings.contains_key("pt") {
            values.extend([("pt", 1), ("branch", 1)]);
        }
        if self.can("mtc") && !is_off("mtc") {
            values.extend([("mtc", 1), ("mtc_period", self.nearest("mtc_periods", 0))]);
        }
        if self.can("psb_cyc") {
            values.insert("psb_period", self.nearest("psb_periods", 3));
            if !is_off("cyc") {
                values.extend([("cyc", 1), ("cyc_thresh", self.nearest("cycle_thresholds", 1))]);
            }
        }
        values
    }

    /// The value that one may choose which is nearest to the wanted one.
    fn nearest(&self, ability: &str, wanted: u64) -> u64 {
        let may = self.abilities.get(ability).copied().unwrap_or(0);
        let values = (0..64).filter(|value| may >> value & 1 == 1);
        values.min_by_key(|value: &u64| value.abs_diff(wanted)).unwrap_or(0)
    }

    fn check(&self, name: &str, value: u64) -> Result<(), String> {
        let Some(&(_, len)) = self.settings.get(name) else {
            let known: Vec<&str> = self.settings.keys().map(String::as_str).collect();
            return Err(format!(
                "{name}: the kernel has no such setting, but {}",
                known.join(", ")
            ));
        };
        if value > mask(len) {
            return Err(format!("{name}={value}: at most {}", mask(len)));
        }
        let chosen = CHOSEN.iter().find(|row| row.0 == name);
        let may = chosen.and_then(|row| self.abilities.get(row.1)).copied();
        match may {
            Some(may) if value > 0 && (value > 63 || may >> value & 1 == 0) => {
                let values = (0..64).filter(|value| may >> value & 1 == 1);
                let values: Vec<String> = values.map(|value: u64| value.to_string()).collect();
                Err(format!("{name}={value}: this processor has {}", values.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

/// The files of a folder and what they hold, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), text))
    };
    entries.filter_map(read).collect()
}

/// `config:14-17` or `config:9`: the lowest bit, and how many.
fn bits(text: &str) -> Option<(u32, u32)> {
    let range = text.trim().strip_prefix("config:")?;
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high && high < 64).then_some((low, high - low + 1))
}

fn mask(len: u32) -> u64 {
    u64::MAX >> (64 - len.clamp(1, 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(abilities: &[(&str, &str)]) -> TraceSource {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("type", "8\n"), ("tsc_art_ratio", "168:2\n")] {
            fs::write(folder.path().join(name), text).expect("writable");
        }
        for name in ["format", "caps"] {
            fs::create_dir(folder.path().join(name)).expect("writable");
        }
        let settings = [
            ("pt", "config:0\n"),
            ("cyc", "config:1\n"),
            ("mtc", "config:9\n"),
            ("tsc", "config:10\n"),
            ("noretcomp", "config:11\n"),
            ("branch", "config:13\n"),
            ("mtc_period", "config:14-17\n"),
            ("cyc_thresh", "config:19-22\n"),
            ("psb_period", "config:24-27\n"),
            ("odd", "config1:3\n"),
        ];
        for (name, text) in settings {
            fs::write(folder.path().join("format").join(name), text).expect("writable");
        }
        for (name, text) in abilities {
            fs::write(folder.path().join("caps").join(name), text).expect("writable");
        }
        TraceSource::read(folder.path()).expect("a source")
    }

    const ALL: [(&str, &str); 5] = [
        ("mtc", "1\n"),
        ("mtc_periods", "249\n"),
        ("psb_cyc", "1\n"),
        ("cycle_thresholds", "1fff\n"),
        ("psb_periods", "3f\n"),
    ];

    #[track_caller]
    fn check(abilities: &[(&str, &str)], wanted: &[(&str, u64)], expected: Result<u64, &str>) {
        let wanted: Vec<(String, u64)> =
            wanted.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let found = source(abilities).config(&wanted);
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e));
    }

    #[test]
    fn times_are_as_fine_as_the_processor_gives_them() {
        let base = 1 | 1 << 10 | 1 << 13;
        check(&[], &[], Ok(base));
        check(&ALL[..2], &[], Ok(base | 1 << 9));
        let all = base | 1 << 9 | 1 << 1 | 1 << 19 | 3 << 24;
        check(&ALL, &[], Ok(all));
        check(&ALL, &[("noretcomp", 1), ("mtc_period", 3)], Ok(all | 1 << 11 | 3 << 14));
        check(&ALL, &[("cyc", 0), ("tsc", 0)], Ok(1 | 1 << 13 | 1 << 9 | 3 << 24));
    }

    #[test]
    fn what_the_processor_has_not_is_refused() {
        check(&ALL, &[("mtc_period", 1)], Err("mtc_period=1: this processor has 0, 3, 6, 9"));
        check(&ALL, &[("cyc_thresh", 16)], Err("cyc_thresh=16: at most 15"));
        let known = "branch, cyc, cyc_thresh, mtc, mtc_period, noretcomp, psb_period, pt, tsc";
        let unknown = format!("odd: the kernel has no such setting, but {known}");
        check(&ALL, &[("odd", 1)], Err(&unknown));
    }

    #[test]
    fn a_folder_without_a_number_is_no_source() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(TraceSource::read(folder.path()).is_err());
        fs::write(folder.path().join("type"), "x\n").expect("writable");
        assert!(TraceSource::read(folder.path()).is_err());
        let source = source(&[]);
        assert_eq!((source.kind, source.ticks_per_crystal, source.filters_max), (8, (168, 2), 0));
    }
}
