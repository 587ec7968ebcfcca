//! `spanwise`: where did the time go, and why?

use std::process::ExitCode;

use clap::Parser;

mod args;
mod commands;
mod failure;
mod output;
mod progress;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, which may be closed: that is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::ERROR } else { 0 });
        }
    };
    commands::run(&cli.command).unwrap_or_else(|error| failure::exit_code(&error))
}
