//! Traces written in the formats of other tools, and drawn.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use spanwise_analyze::{
    Backward, ProfileOptions, StackMode, ThreadProfile, profile, thread_profile,
};
use spanwise_model::Profile;
use spanwise_report::{
    ConvertFormat, ReportError, rank_of, write_output, write_profile, write_whole,
};
use spanwise_write::{FlameOptions, ProfileView, write_flame};

use super::error::{asked, of_report};
use super::opened::Trace;
use super::shared::SharedTrace;
use super::worker::work;

/// The profile of a trace: which one, which column, which frames, the stack of backward work, and
/// the prefix to omit.
type ProfileRequest = (Option<String>, Option<String>, String, String, String);

struct ParsedRequest {
    what: Option<ThreadProfile>,
    value: Option<String>,
    options: ProfileOptions,
}

fn parse(request: ProfileRequest) -> PyResult<ParsedRequest> {
    let (what, value, stack, backward, strip_prefix) = request;
    let what = what
        .map(|name| {
            value_of(&ThreadProfile::NAMES, &name)
                .ok_or_else(|| unknown("profile", &name, "cpu, off_cpu, locks and sched"))
        })
        .transpose()?;
    let stack = value_of(&StackMode::NAMES, &stack)
        .ok_or_else(|| unknown("stack", &stack, "mixed, python, ops and modules"))?;
    let backward = value_of(&Backward::NAMES, &backward)
        .ok_or_else(|| unknown("backward", &backward, "own and forward_stack"))?;
    if what.is_some_and(|what| what != ThreadProfile::Cpu) && backward != Backward::Own {
        return Err(asked("backward is about GPU work, and this profile is about waiting"));
    }
    if what == Some(ThreadProfile::States) && stack != StackMode::Mixed {
        return Err(asked("stack says what stacks are made of, and the profile sched has none"));
    }
    let options = ProfileOptions { stack, backward, strip_prefix, ..ProfileOptions::default() };
    Ok(ParsedRequest { what, value, options })
}

/// The value of a name.
fn value_of<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// Whether the request has none of the options of profiles.
fn is_plain(request: &ProfileRequest) -> bool {
    let (what, value, stack, backward, strip_prefix) = request;
    let is_usual = stack == "mixed" && backward == "own" && strip_prefix.is_empty();
    what.is_none() && value.is_none() && is_usual
}

fn unknown(option: &str, value: &str, known: &str) -> PyErr {
    asked(&format!("{option}: nothing named {value}; there are {known}"))
}

impl ParsedRequest {
    /// The profile, and the column to show first.
    fn profile(&self, held: &SharedTrace) -> Result<(Profile, usize), ReportError> {
        let mut options = self.options.clone();
        options.rank = rank_of(Path::new(&held.file));
        let made = match self.what {
            None => profile(held.trace(), &options),
            Some(what) => thread_profile(held.trace(), what, &options),
        };
        if self.what.is_some() && made.samples.is_empty() {
            let what = "nothing of that in it; docs/how-it-works/off-cpu.md says how to record it";
            return Err(ReportError::Request(format!("{}: {what}", held.file)));
        }
        let Some(name) = &self.value else {
            let shown = made.default_value;
            return Ok((made, shown));
        };
        let names: Vec<&str> = made.value_types.iter().map(|value| &*value.name).collect();
        match names.iter().position(|known| known == name) {
            Some(place) => Ok((made, place)),
            None => {
                let what = format!("no column named {name}; there are {}", names.join(", "));
                Err(ReportError::Request(what))
            }
        }
    }
}

/// Writes the whole trace, or a profile of it, in the format that the name or `to` says;
/// gives the bytes written.
#[pyfunction]
pub(crate) fn convert_trace(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    path: PathBuf,
    to: Option<String>,
    wanted: ProfileRequest,
) -> PyResult<usize> {
    let names = || ConvertFormat::names().collect::<Vec<_>>().join(", ");
    let format = match &to {
        Some(name) => ConvertFormat::parse(name).ok_or_else(|| unknown("to", name, &names()))?,
        None => ConvertFormat::of_path(&path).ok_or_else(|| {
            let what = "the ending names no format; say `to` with one of";
            asked(&format!("{}: {what} {}", path.display(), names()))
        })?,
    };
    if format.of_traces().is_some() && !is_plain(&wanted) {
        return Err(asked("a trace is written whole: other options are for profiles"));
    }
    let mut request = parse(wanted)?;
    request.options.by = format.frames(None);
    let held = Arc::clone(&trace.get().held);
    let done = work(py, None, move |_| {
        if let Some(format) = format.of_traces() {
            return write_to(&path, |out| write_whole(held.trace(), &path, format, out));
        }
        let (profile, value) = request.profile(&held)?;
        let name = file_name(&held.file);
        let view = ProfileView { name: &name, value };
        write_to(&path, |out| write_profile(&profile, &view, &path, format, out))
    })?;
    done.map_err(|error| of_report(&error))
}

/// Draws a flame graph, SVG or HTML by the ending; colors by what changed since `base`.
#[pyfunction]
pub(crate) fn draw_flame(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    base: Option<&Bound<'_, Trace>>,
    path: PathBuf,
    is_icicle: bool,
    wanted: ProfileRequest,
) -> PyResult<usize> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_html = match &*ending {
        "svg" => false,
        "html" | "htm" => true,
        _ => return Err(asked(&format!("{}: the ending must be .svg or .html", path.display()))),
    };
    let request = parse(wanted)?;
    let held = Arc::clone(&trace.get().held);
    let base = base.map(|base| Arc::clone(&base.get().held));
    let done = work(py, None, move |_| {
        let (profile, value) = request.profile(&held)?;
        let base_profile = base.as_ref().map(|base| request.profile(base)).transpose()?;
        let base_profile = base_profile.map(|(profile, _)| profile);
        let title = match &base {
            None => file_name(&held.file),
            Some(base) => format!("{} since {}", file_name(&held.file), file_name(&base.file)),
        };
        let options =
            FlameOptions { title: &title, value, is_icicle, is_html, base: base_profile.as_ref() };
        write_to(&path, |out| write_flame(&profile, &options, out))
    })?;
    done.map_err(|error| of_report(&error))
}

/// Gives how many bytes were written.
fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<usize, ReportError> {
    write_output(path, write).map(|written| written.bytes as usize)
}

fn file_name(file: &str) -> String {
    let name = Path::new(file).file_name();
    name.map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned())
}
