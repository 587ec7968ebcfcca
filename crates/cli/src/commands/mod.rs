//! One command, one file.

use std::path::Path;
use std::process::ExitCode;

use spanwise_model::{Summary, Trace};
use spanwise_read::{IndexUse, OpenOptions, ReadError};

use crate::args::{Command, ReadArgs};
use crate::failure::note;
use crate::progress::Progress;

mod call_patterns;
mod choose;
mod compare;
mod completions;
mod convert;
mod convert_trace;
mod correlate;
mod decode;
mod diff;
mod doctor;
mod flame;
mod fusion;
mod html;
mod index;
mod info;
mod overhead;
mod profiles;
mod query;
mod record;
mod record_calls;
mod record_pt;
pub(crate) mod report;
mod top;
mod top_session;
mod verify;
mod view;
mod view_in;
mod watched_functions;

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => record::run(args),
        Command::Attach(args) => record::attach(args),
        Command::Top(args) => top::run(args),
        Command::Overhead(args) => overhead::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Info(args) => info::run(args),
        Command::Report(args) => report::run(args),
        Command::View(args) => view::run(args),
        Command::Query(args) => query::run(args),
        Command::Html(args) => html::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Correlate(args) => correlate::run(args),
        Command::Flame(args) => flame::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Fusion(args) => fusion::run(args),
        Command::Index(args) => index::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Completions(args) => completions::run(args),
    }
}

impl ReadArgs {
    fn open(&self, path: &Path, progress: &Progress) -> Result<Trace, ReadError> {
        self.with_options(progress, |options| spanwise_read::open(path, options))
    }

    fn summary(&self, path: &Path, progress: &Progress) -> Result<Summary, ReadError> {
        self.with_options(progress, |options| spanwise_read::summary(path, options))
    }

    fn with_options<T>(&self, progress: &Progress, read: impl FnOnce(&OpenOptions<'_>) -> T) -> T {
        let update = |done, total| progress.update(done, total);
        read(&OpenOptions {
            index: if self.no_index { IndexUse::Ignore } else { IndexUse::ReadOrWrite },
            threads: self.threads.begin(),
            progress: Some(&update),
            has_python_lines: self.python_lines,
            notes: Some(&note),
        })
    }
}
