//! Formats of files, by the name that `--to` has for them or by the ending of the file.

use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use spanwise_report::ConvertFormat;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// What other tools read: a profile, or the trace itself.
    Of(ConvertFormat),
    /// A picture; a page around it where the file is one.
    FlameGraph,
    /// The report as a page.
    Page,
}

impl FileFormat {
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        match &*ending(path) {
            "svg" => Some(FileFormat::FlameGraph),
            "html" | "htm" => Some(FileFormat::Page),
            _ => ConvertFormat::of_path(path).map(FileFormat::Of),
        }
    }

    pub(crate) fn parser() -> impl TypedValueParser<Value = FileFormat> {
        let names = ConvertFormat::names().chain(["flame", "html"]);
        PossibleValuesParser::new(names).try_map(|name| match name.as_str() {
            "flame" => Ok(FileFormat::FlameGraph),
            "html" => Ok(FileFormat::Page),
            name => ConvertFormat::parse(name).map(FileFormat::Of).ok_or("no such format"),
        })
    }

    /// True where a trace becomes a profile first.
    pub(crate) fn is_of_profiles(self) -> bool {
        match self {
            FileFormat::Of(format) => format.of_traces().is_none(),
            FileFormat::FlameGraph => true,
            FileFormat::Page => false,
        }
    }
}

/// The last ending of a file's name.
pub(crate) fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}
