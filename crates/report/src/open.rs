//! What a path names becomes a trace or a profile; several traces become one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use spanwise_model::{MergePart, Merged, MergedClock, Profile, Trace, merge};
use spanwise_read::{OpenOptions, ProfileFile, ReadError, ReadErrorKind};

use crate::{AnswerError, rank_of};

/// What a file turned out to hold.
pub enum Opened {
    Trace(Box<Trace>),
    Profile(Box<Profile>),
}

pub fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Opened, ReadError> {
    Ok(match open_file(path, options)? {
        TraceOrProfile::Trace(trace) => Opened::Trace(trace),
        TraceOrProfile::Profile(file) => Opened::Profile(Box::new(file.profile)),
    })
}

/// The same for those who ask samples: a profile is a trace with samples that have no times.
pub fn open_as_trace(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, ReadError> {
    Ok(match open_file(path, options)? {
        TraceOrProfile::Trace(trace) => *trace,
        TraceOrProfile::Profile(file) => file.into_trace(),
    })
}

enum TraceOrProfile {
    Trace(Box<Trace>),
    Profile(Box<ProfileFile>),
}

/// What is no trace may be a profile; if it is neither, that it is no trace says more.
fn open_file(path: &Path, options: &OpenOptions<'_>) -> Result<TraceOrProfile, ReadError> {
    match spanwise_read::open(path, options) {
        Ok(trace) => Ok(TraceOrProfile::Trace(Box::new(trace))),
        Err(error @ ReadError { kind: ReadErrorKind::NotATrace { .. }, .. }) => {
            let file = spanwise_read::open_profile_file(path).map_err(|of_profile| {
                let is_too_large = matches!(of_profile.kind, ReadErrorKind::TooLarge { .. });
                if is_too_large { of_profile } else { error }
            })?;
            Ok(TraceOrProfile::Profile(Box::new(file)))
        }
        Err(error) => Err(error),
    }
}

/// The trace, or all of them on one timeline. Profiles are traces with nothing but samples.
pub fn open_as_one(paths: &[PathBuf], options: &OpenOptions<'_>) -> Result<Merged, AnswerError> {
    let mut traces = Vec::with_capacity(paths.len());
    for path in paths {
        traces.push(open_as_trace(path, options)?);
    }
    merge_traces(paths, traces)
}

/// Puts traces on one timeline, under names that tell them apart; one alone stays as it is.
pub fn merge_traces(paths: &[PathBuf], mut traces: Vec<Trace>) -> Result<Merged, AnswerError> {
    if traces.len() == 1
        && let Some(trace) = traces.pop()
    {
        return Ok(Merged { trace, clock: MergedClock::Common });
    }
    let names = part_names(paths, &traces);
    let parts = names.into_iter().zip(traces).map(|(name, trace)| MergePart { name, trace });
    merge(parts.collect()).map_err(|error| AnswerError::Asked(format!("cannot be merged: {error}")))
}

/// What tells the traces apart: the rank, or else the name of the file, or else its path.
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
