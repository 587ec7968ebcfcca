//! Formats of files that traces and profiles are written in.

use std::io::{self, Write};
use std::path::Path;

use spanwise_analyze::{FrameBy, FunctionBy};
use spanwise_model::{Profile, Trace};
use spanwise_write::{PprofOptions, ProfileView, TraceFormat, write_trace};

/// A format of profiles, or of whole traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertFormat {
    Pprof,
    Folded,
    Speedscope,
    Firefox,
    Csv,
    Chrome,
    Perfetto,
    Fxt,
}

use ConvertFormat::{Chrome, Csv, Firefox, Folded, Fxt, Perfetto, Pprof, Speedscope};

/// Longer endings before those that they end with.
const ENDINGS: [(&str, ConvertFormat); 15] = [
    (".pb.gz", Pprof),
    (".pb", Pprof),
    (".pprof", Pprof),
    (".folded", Folded),
    (".collapsed", Folded),
    (".speedscope.json", Speedscope),
    (".firefox.json", Firefox),
    (".csv", Csv),
    (".json", Chrome),
    (".json.gz", Chrome),
    (".perfetto-trace", Perfetto),
    (".pftrace", Perfetto),
    (".perfetto", Perfetto),
    (".fxt", Fxt),
    (".fxt.gz", Fxt),
];

const NAMES: [(&str, ConvertFormat); 8] = [
    ("pprof", Pprof),
    ("folded", Folded),
    ("speedscope", Speedscope),
    ("firefox", Firefox),
    ("csv", Csv),
    ("chrome", Chrome),
    ("perfetto", Perfetto),
    ("fxt", Fxt),
];

impl ConvertFormat {
    /// What the ending of a file's name says about its format.
    pub fn of_path(output: &Path) -> Option<Self> {
        let name = output.file_name()?.to_string_lossy().to_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
    }

    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|&(_, format)| format)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _)| name)
    }

    /// What makes a frame of samples in such a file. Clients of pprof add lines up by function
    /// themselves, so it always has lines. The others have functions unless someone asks for
    /// lines, and formats without a field for these have them in names.
    pub fn frames(self, by: Option<FunctionBy>) -> FrameBy {
        match (self, by) {
            (Pprof, None) | (Pprof | Speedscope | Firefox, Some(FunctionBy::Line)) => FrameBy::Line,
            (_, Some(FunctionBy::Line)) => FrameBy::NamedLine,
            (_, None | Some(FunctionBy::Function)) => FrameBy::Function,
        }
    }

    /// The format of traces; `None` where it is one of profiles.
    pub fn of_traces(self) -> Option<TraceFormat> {
        match self {
            Chrome => Some(TraceFormat::Chrome),
            Perfetto => Some(TraceFormat::Perfetto),
            Fxt => Some(TraceFormat::Fxt),
            Pprof | Folded | Speedscope | Firefox | Csv => None,
        }
    }
}

/// Writes a profile; the name of the target says whether pprof is compressed.
pub fn write_profile(
    profile: &Profile,
    view: &ProfileView<'_>,
    target: &Path,
    format: ConvertFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Pprof => {
            let is_compressed = target.extension().is_none_or(|ending| ending != "pb");
            let options = PprofOptions { program: view.name, is_compressed };
            spanwise_write::write_pprof(profile, &options, out)
        }
        Folded => spanwise_write::write_folded(profile, view.value, out),
        Speedscope => spanwise_write::write_speedscope(profile, view, out),
        Firefox => spanwise_write::write_firefox(profile, view, out),
        Csv => spanwise_write::write_profile_csv(profile, out),
        Chrome | Perfetto | Fxt => Err(io::Error::other("a format of traces, not of profiles")),
    }
}

/// Writes a whole trace; the name of the target says whether it is compressed.
pub fn write_whole(
    trace: &Trace,
    target: &Path,
    format: TraceFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_compressed = target.extension().is_some_and(|ending| ending == "gz");
    write_trace(trace, format, is_compressed, out)
}
