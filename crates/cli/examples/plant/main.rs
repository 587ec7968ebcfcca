//! Slows operators of a real trace on purpose, and counts how often `spanwise compare` sees it.
//!
//! ```text
//! cargo build --release -p spanwise --example plant
//! target/release/examples/plant slow TRACE OUT OPERATOR PERCENT [gpu|host] [SEED]
//! target/release/examples/plant power REP1 REP2 [TRIALS]
//! ```
//!
//! `slow` writes a trace in which an operator takes so much longer, with noise from step to
//! step; `power` needs two recordings of one program, for their noise.
//! `docs/how-it-works/comparison.md` has the results.
#![allow(clippy::print_stdout, reason = "a tool for developers, which prints its table")]

mod noise;
mod power;
mod slow;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

const USAGE: &str = "usage: plant slow TRACE OUT OPERATOR PERCENT [gpu|host] [SEED]\n       \
                     plant power REP1 REP2 [TRIALS]";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["slow", trace, out, operator, percent, rest @ ..] => {
            let plan = slow::Plan {
                operator,
                percent: percent.parse().context("PERCENT is a number")?,
                is_on_host: match rest.first() {
                    None | Some(&"gpu") => false,
                    Some(&"host") => true,
                    Some(place) => bail!("{place}: gpu or host\n{USAGE}"),
                },
                noise_percent: 0.5,
                seed: rest.get(1).unwrap_or(&"1").parse().context("SEED is a number")?,
            };
            let slowed = slow::slowed(&Arc::new(open(trace)?), &plan)?;
            let mut file = std::fs::File::create(out)?;
            spanwise_write::write_chrome(&slowed, &mut file)?;
        }
        ["power", first, second, rest @ ..] => {
            let trials = rest.first().unwrap_or(&"200").parse().context("TRIALS is a number")?;
            print!("{}", power::table([&open(first)?.into(), &open(second)?.into()], trials)?);
        }
        _ => bail!("{USAGE}"),
    }
    Ok(())
}

fn open(path: &str) -> anyhow::Result<Trace> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Ok(spanwise_read::open(Path::new(path), &options)?)
}
