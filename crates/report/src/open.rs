//! What a path names becomes a trace or a profile; several traces become one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use spanwise_model::{MergePart, MergedClock, MergedTrace, Profile, Trace, merge};
use spanwise_read::{OpenOptions, ProfileFile, ReadError, ReadErrorKind};

use crate::{ReportError, rank_of};

/// What a file holds.
pub enum TraceOrProfile {
    Trace(Box<Trace>),
    Profile(Box<Profile>),
}

pub fn open(path: &Path, options: &OpenOptions<'_>) -> Result<TraceOrProfile, ReadError> {
    Ok(match spanwise_read::open(path, options) {
        Ok(trace) => TraceOrProfile::Trace(Box::new(trace)),
        Err(error) => TraceOrProfile::Profile(Box::new(profile_instead(path, error)?.profile)),
    })
}

/// The same for those who need samples: a profile is a trace with samples that have no times.
pub fn open_as_trace(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, ReadError> {
    match spanwise_read::open(path, options) {
        Ok(trace) => Ok(trace),
        Err(error) => Ok(profile_instead(path, error)?.into_trace()),
    }
}

/// A file that is not a trace may be a profile; if it is neither, the first error says more.
fn profile_instead(path: &Path, error: ReadError) -> Result<ProfileFile, ReadError> {
    if !matches!(error.kind, ReadErrorKind::NotATrace { .. }) {
        return Err(error);
    }
    spanwise_read::open_profile_file(path).map_err(|of_profile| match of_profile.kind {
        ReadErrorKind::TooLarge { .. } => of_profile,
        _ => error,
    })
}

/// The trace, or all of them on one timeline. Profiles are traces with nothing but samples.
pub fn open_as_one(
    paths: &[PathBuf],
    options: &OpenOptions<'_>,
) -> Result<MergedTrace, ReportError> {
    let mut traces = Vec::with_capacity(paths.len());
    for path in paths {
        traces.push(open_as_trace(path, options)?);
    }
    merge_traces(paths, traces)
}

/// Puts traces on one timeline, under names that distinguish them; one alone stays as it is.
pub fn merge_traces(paths: &[PathBuf], mut traces: Vec<Trace>) -> Result<MergedTrace, ReportError> {
    if traces.len() == 1
        && let Some(trace) = traces.pop()
    {
        return Ok(MergedTrace { trace, clock: MergedClock::Common });
    }
    let names = part_names(paths, &traces);
    let parts = names.into_iter().zip(traces).map(|(name, trace)| MergePart { name, trace });
    merge(parts.collect())
        .map_err(|error| ReportError::Request(format!("cannot be merged: {error}")))
}

/// What distinguishes the traces: the rank, or else the name of the file, or else its path.
fn part_names(paths: &[PathBuf], traces: &[Trace]) -> Vec<String> {
    let of = |name: fn(&Path, &Trace) -> Option<String>| {
        let names = paths.iter().zip(traces).map(|(path, trace)| name(path, trace));
        let names: Vec<String> = names.collect::<Option<_>>()?;
        let different: BTreeSet<&String> = names.iter().collect();
        (different.len() == names.len()).then_some(names)
    };
    let rank = |path: &Path, trace: &Trace| {
        let rank = trace.info().rank.or_else(|| rank_of(path))?;
        Some(format!("rank {rank}"))
    };
    let file = |path: &Path, _: &Trace| Some(path.file_name()?.to_string_lossy().into_owned());
    let paths_whole = || paths.iter().map(|path| path.display().to_string()).collect();
    of(rank).or_else(|| of(file)).unwrap_or_else(paths_whole)
}
