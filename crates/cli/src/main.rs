//! `spanwise`: where did the time go, and why?

use std::process::ExitCode;

use clap::Parser;

mod args;
mod commands;
mod failure;
mod input;
mod output;
mod progress;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    commands::run(&cli.command).unwrap_or_else(|error| failure::exit_code(&error))
}
