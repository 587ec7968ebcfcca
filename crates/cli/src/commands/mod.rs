//! One command, one file.

use std::path::Path;
use std::process::ExitCode;

use spanwise_model::{Summary, Trace};
use spanwise_read::{IndexUse, OpenOptions, ReadError};

use crate::args::{Command, ReadArgs};
use crate::failure::note;
use crate::progress::Progress;

mod calls;
mod comparing;
mod profiles;
mod query;
mod recording;
pub(crate) mod report;
mod shell;
mod traces;
mod viewing;

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => recording::run::run(args),
        Command::Attach(args) => recording::run::attach(args),
        Command::Top(args) => recording::top::run(args),
        Command::Overhead(args) => shell::overhead::run(args),
        Command::Doctor(args) => recording::doctor::run(args),
        Command::Info(args) => traces::info::run(args),
        Command::Report(args) => report::run(args),
        Command::View(args) => viewing::view::run(args),
        Command::Query(args) => query::run(args),
        Command::Convert(args) => profiles::convert::run(args),
        Command::Correlate(args) => comparing::correlate::run(args),
        Command::Compare(args) => comparing::compare::run(args),
        Command::Completions(args) => shell::completions::run(args),
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
            threads: self.begin(),
            progress: Some(&update),
            has_python_lines: self.python_lines,
            notes: Some(&note),
        })
    }
}
