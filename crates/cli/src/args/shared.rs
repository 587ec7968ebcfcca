//! Options that several commands have.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use spanwise_write::{Format, Top};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Rows of each list, in every format; 0 for all [default: 15]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

impl TopArgs {
    pub(crate) fn rows(&self) -> Top {
        match self.top {
            None => Top::First(15),
            Some(0) => Top::All,
            Some(rows) => Top::First(rows),
        }
    }
}

/// A number of bytes, with K, M, G or T behind it.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[number.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

fn memory_size(text: &str) -> Result<u64, String> {
    bytes(text).ok_or("write a number of bytes, or with K, M, G or T behind it".to_owned())
}

/// A heading of the help.
const READING: &str = "Reading";

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Read the trace itself; neither use nor write an index beside it
    #[arg(long, help_heading = READING)]
    pub(crate) no_index: bool,
    /// Distinguish Python functions in recordings by the line that each is on, not by its first;
    /// uses no index
    #[arg(long, help_heading = READING)]
    pub(crate) python_lines: bool,
    /// Threads that may read at once; 0 for one per core
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = READING)]
    threads: usize,
    /// Refuse what would make this process hold more memory than this, such as 8G; by default
    /// three quarters of what is free
    #[arg(long, value_name = "SIZE", value_parser = memory_size, help_heading = READING)]
    max_memory: Option<u64>,
}

impl ReadArgs {
    /// How many threads may read; sets the limit of memory that they share.
    pub(crate) fn begin(&self) -> usize {
        if let Some(bytes) = self.max_memory {
            spanwise_read::set_memory_max(bytes);
        }
        self.threads
    }
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// For people (text) or for programs: raw integers, with the unit in the key
    #[arg(long, value_name = "FORMAT", value_parser = choice(&Format::NAMES, &[]))]
    #[arg(default_value = "text")]
    pub(crate) format: Format,
    /// Colour in text; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
}

/// Parses the names that a type has for its values; of several for one, the first is shown.
/// `about` explains the values in the order of their first names, where that is needed.
pub(crate) fn choice<T: Copy + PartialEq + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
    about: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    let is_first = |at: usize| names[..at].iter().all(|(_, value)| *value != names[at].1);
    let possible = names.iter().enumerate().map(|(at, &(name, _))| {
        let shown = PossibleValue::new(name).hide(!is_first(at));
        match about.get(at) {
            Some(&about) => shown.help(about),
            None => shown,
        }
    });
    let value_of = |name: String| names.iter().find(|(known, _)| *known == name);
    PossibleValuesParser::new(possible)
        .map(move |name| value_of(name).map_or(names[0].1, |&(_, value)| value))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
}
