//! What the commands about profiles share: reading them and writing files.

pub(super) mod convert;
pub(super) mod flame;
pub(super) mod page;

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use spanwise_analyze::{
    Backward, FrameBy, ProfileOptions, StackMode, ThreadProfile, event_profile, thread_profile,
};
use spanwise_model::{Profile, Trace};
use spanwise_read::ReadError;
use spanwise_report::{TraceOrProfile, rank_of, write_output};

use crate::args::{ProfileArgs, ReadArgs};
use crate::output::stdout;
use crate::progress::Progress;

impl ProfileArgs {
    /// The profile of a trace, or one that a file holds already.
    pub(super) fn profile_of(
        &self,
        opened: TraceOrProfile,
        path: &Path,
        by: FrameBy,
    ) -> anyhow::Result<Profile> {
        let trace = match opened {
            TraceOrProfile::Trace(trace) => trace,
            TraceOrProfile::Profile(profile) => return self.adapted(*profile, path),
        };
        let options = ProfileOptions {
            stack: self.stack,
            backward: self.backward,
            rank: rank_of(path),
            strip_prefix: self.strip_prefix.clone(),
            by,
        };
        let profile = match self.profile {
            _ if self.event.is_some() => self.of_event(path, &trace, &options)?,
            None => spanwise_analyze::profile(&trace, &options),
            Some(what) => self.of_threads(path, &trace, what, &options)?,
        };
        drop_behind(trace);
        Ok(profile)
    }

    /// Samples of one event.
    fn of_event(
        &self,
        path: &Path,
        trace: &Trace,
        options: &ProfileOptions,
    ) -> anyhow::Result<Profile> {
        let event = self.event.as_deref().unwrap_or_default();
        if let Some(profile) = event_profile(trace, event, options) {
            return Ok(profile);
        }
        let names = trace.sample_events().rows().iter().map(|row| trace.strings().get(row.name));
        let names: Vec<&str> = names.collect();
        match &names[..] {
            [] => bail!("{}: no samples in it", path.display()),
            names => bail!(
                "{}: no samples of the event {event}; there are {}",
                path.display(),
                names.join(", ")
            ),
        }
    }

    /// What threads did by a recording of switches and locks, where there is one.
    fn of_threads(
        &self,
        path: &Path,
        trace: &Trace,
        what: ThreadProfile,
        options: &ProfileOptions,
    ) -> anyhow::Result<Profile> {
        let about = match what {
            ThreadProfile::Cpu => "work of threads",
            ThreadProfile::OffCpu | ThreadProfile::States => "switches of threads",
            ThreadProfile::Locks => "waits for locks",
        };
        if what != ThreadProfile::Cpu && options.backward != Backward::Own {
            bail!("--backward is about GPU work, and this --profile is about waiting");
        }
        if what == ThreadProfile::States && options.stack != StackMode::Mixed {
            bail!("--stack says what stacks are made of, and --profile sched has none");
        }
        let profile = thread_profile(trace, what, options);
        if profile.samples.is_empty() {
            bail!(
                "{}: no {about} in it; docs/how-to/find-waits.md explains how to record them",
                path.display()
            );
        }
        Ok(profile)
    }

    /// A profile that a file holds, as the options ask for it.
    fn adapted(&self, profile: Profile, path: &Path) -> anyhow::Result<Profile> {
        let file = path.display();
        if self.stack != StackMode::Mixed || self.backward != Backward::Own {
            bail!("{file}: a profile; its stacks are made: --stack and --backward are for traces");
        }
        if self.profile.is_some() || self.event.is_some() {
            bail!("{file}: a profile already: --profile and --event are for traces");
        }
        if self.strip_prefix.is_empty() {
            return Ok(profile);
        }
        Ok(spanwise_analyze::without_prefix(&profile, &self.strip_prefix))
    }

    /// The column that was asked for, or the profile's own first.
    pub(super) fn column(&self, profile: &Profile) -> anyhow::Result<usize> {
        column(self.value.as_deref(), profile)
    }
}

/// Gives back the memory of a trace while what was made of it is written: for gigabytes
/// that takes some time.
fn drop_behind(trace: Box<Trace>) {
    // Where no thread is to be had, the closure is dropped here, and the trace with it.
    drop(std::thread::Builder::new().spawn(move || drop(trace)));
}

/// The column of that name; without a name, the profile's own first.
pub(super) fn column(name: Option<&str>, profile: &Profile) -> anyhow::Result<usize> {
    let Some(name) = name else { return Ok(profile.default_value) };
    let names: Vec<&str> = profile.value_types.iter().map(|value| &*value.name).collect();
    match names.iter().position(|&known| known == name) {
        Some(index) => Ok(index),
        None => bail!("no column named {name}; there are {}", names.join(", ")),
    }
}

/// The trace or the profile that a file holds.
pub(super) fn open(path: &Path, read: &ReadArgs, quiet: bool) -> Result<TraceOrProfile, ReadError> {
    let progress = Progress::new(quiet);
    read.with_options(&progress, |options| spanwise_report::open(path, options))
}

/// The same where samples are asked, which profiles have too.
pub(super) fn open_as_trace(path: &Path, read: &ReadArgs, quiet: bool) -> Result<Trace, ReadError> {
    let progress = Progress::new(quiet);
    read.with_options(&progress, |options| spanwise_report::open_as_trace(path, options))
}

/// Where something is written; `-` is standard output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) is_quiet: bool,
}

/// Writes a file and says so, with how many of what are in it.
pub(super) fn write_file(
    target: Target<'_>,
    count: usize,
    what: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    if target.path == Path::new("-") {
        let mut out = stdout();
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    let written = write_output(target.path, write)?;
    // What is printed must not end up in what was written.
    if !target.is_quiet && !written.is_stdout {
        let text = |number: i128| spanwise_write::count_text(number);
        let (count, bytes) = (text(count as i128), text(written.bytes.into()));
        writeln!(stdout(), "{}: {count} {what}, {bytes} bytes", target.path.display())?;
    }
    Ok(())
}
