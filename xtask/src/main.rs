//! The project's own checks: `cargo run -p xtask -- tidy`.
//!
//! They hold what a machine can check of ARCHITECTURE.md and STYLE.md. Every
//! failure names its cure, so that nobody has to search for a rule. The same checks
//! run under `cargo test`, since a rule outside the tests is soon forgotten.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

mod code;
mod crates;
mod documents;
mod folders;
mod license;
mod numbers;
mod rust_files;
mod signatures;
mod tree;
mod words;

/// A rule that does not hold somewhere, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    place: String,
    what: String,
    cure: String,
}

impl Failure {
    fn new(place: impl Into<String>, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Failure { place: place.into(), what: what.into(), cure: cure.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    to fix: {}", self.place, self.what, self.cure)
    }
}

fn main() -> anyhow::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {}
        _ => bail!("usage: cargo run -p xtask -- tidy"),
    }
    let failures = tidy()?;
    let mut out = io::stdout().lock();
    for failure in &failures {
        writeln!(out, "{failure}")?;
    }
    writeln!(out, "tidy: {} to fix", failures.len())?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tidy() -> anyhow::Result<Vec<Failure>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent")?;
    let files = tree::read(root)?;
    let mut failures = crates::check(&metadata(root)?);
    failures.extend(documents::check(root, &files));
    failures.extend(folders::check(&files));
    failures.extend(numbers::check(&files));
    failures.extend(files.iter().flat_map(words::check));
    let rust = || files.iter().filter(|file| file.path.ends_with(".rs"));
    failures.extend(rust().flat_map(rust_files::check));
    failures.extend(rust().flat_map(signatures::check));
    Ok(failures)
}

fn metadata(root: &Path) -> anyhow::Result<serde_json::Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(["metadata", "--format-version=1"]).current_dir(root).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cargo metadata gives JSON")
}

#[test]
fn the_project_is_tidy() {
    let failures: Vec<String> =
        tidy().expect("the tree can be read").iter().map(Failure::to_string).collect();
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}
