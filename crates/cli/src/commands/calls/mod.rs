//! Recordings of calls: how their files are read, and which part of them is wanted.

pub(in crate::commands) mod options;

use std::path::PathBuf;

use anyhow::bail;
use spanwise_read::PerfOptions;
use spanwise_report::TraceOrProfile;

use crate::args::{CallsArgs, ReadArgs};
use crate::commands::profiles;
use crate::progress::Progress;

impl CallsArgs {
    /// What is read as one: each file, or all of them where they are snapshots.
    pub(in crate::commands) fn recordings<'p>(
        &self,
        paths: &'p [PathBuf],
    ) -> impl Iterator<Item = &'p [PathBuf]> + use<'p> {
        paths.chunks(if self.snapshots { paths.len().max(1) } else { 1 })
    }

    /// Opens one recording, and takes the part out of it that is wanted.
    pub(in crate::commands) fn open(
        &self,
        files: &[PathBuf],
        read: &ReadArgs,
        is_quiet: bool,
    ) -> anyhow::Result<TraceOrProfile> {
        let perf = self.perf_options()?;
        let selection = self.selection()?;
        let opened = match files {
            [file] if !perf.says_something() => profiles::open(file, read, is_quiet)?,
            // Options that only apply to the text of perf need the text of perf.
            files => {
                let progress = Progress::new(is_quiet);
                let trace = read.with_options(&progress, |options| {
                    spanwise_read::open_perf(files, options, &perf)
                })?;
                TraceOrProfile::Trace(Box::new(trace))
            }
        };
        match (opened, self.first_of_part()) {
            (opened, None) => Ok(opened),
            (TraceOrProfile::Trace(trace), Some(_)) => {
                let trace = spanwise_analyze::select_calls(&trace, &selection, read.begin());
                if trace.spans().is_empty() {
                    bail!("nothing of the recording is left: no call fits what was asked for");
                }
                Ok(TraceOrProfile::Trace(Box::new(trace)))
            }
            (TraceOrProfile::Profile(_), Some(option)) => {
                bail!("{}: a profile; {option} is for traces", files[0].display())
            }
        }
    }

    pub(in crate::commands) fn perf_options(&self) -> anyhow::Result<PerfOptions> {
        let traps = self.ocaml_traps.as_deref().map(options::traps).transpose()?;
        Ok(PerfOptions {
            traps: traps.unwrap_or_default(),
            maps: self.perf_map.clone(),
            is_without_inlines: self.no_inline,
        })
    }
}
