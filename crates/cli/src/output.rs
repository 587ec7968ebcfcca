//! Standard output: buffered, with the right style.

use std::io::{self, BufWriter, IsTerminal, StdoutLock};

use spanwise_write::Style;

use crate::args::{ColorArg, OutputArgs};

/// Where standard output is not a terminal and COLUMNS does not say otherwise.
const WIDTH_ELSEWHERE: usize = 120;

impl OutputArgs {
    pub(crate) fn style(&self) -> Style {
        match self.color {
            ColorArg::Always => Style { color: true, width: width() },
            ColorArg::Never => Style { color: false, width: width() },
            ColorArg::Auto => stdout_style(),
        }
    }
}

/// As it suits standard output.
pub(crate) fn stdout_style() -> Style {
    Style { color: io::stdout().is_terminal() && may_color(), width: width() }
}

/// As it suits standard error.
pub(crate) fn stderr_style() -> Style {
    Style { color: io::stderr().is_terminal() && may_color(), width: width() }
}

fn may_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout());
    asked
        .or_else(|| terminal().map(|(width, _)| usize::from(width.0)))
        .filter(|&width| width >= 20)
        .unwrap_or(WIDTH_ELSEWHERE)
}

pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}
