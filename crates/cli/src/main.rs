//! `spanwise`: where did the time go, and why?

use std::process::ExitCode;

use clap::Parser;

mod args;
mod commands;
mod failure;
mod input;
mod old_names;
mod output;
mod progress;

fn main() -> ExitCode {
    let line = old_names::with_current_names(std::env::args_os().collect());
    if let Some(note) = &line.note {
        failure::note(note);
    }
    let cli = match args::Cli::try_parse_from(&line.words) {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    commands::run(&cli.command).unwrap_or_else(|error| failure::exit_code(&error))
}
