//! Options that several commands have.

use clap::{Args, ValueEnum};
use spanwise_write::Top;

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
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FormatArg::Text)]
    pub(crate) format: FormatArg,
    /// Colour in text; `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Text,
    Json,
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
}
