//! Programs in several languages, built when a test wants them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program and its functions: address in the file, size, name.
pub struct Built {
    pub path: PathBuf,
    pub functions: Vec<(u64, u64, String)>,
}

impl Built {
    pub fn address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|function| function.2 == name).map(|function| function.0)
    }
}

/// Builds a program of `tests/programs`; `None`, with a word, where there is no compiler.
pub fn build(name: &str, flags: &[&str]) -> Option<Built> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pt/tests/programs").join(name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pt");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    // Tests run side by side, and each takes its own away.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{name}-{}-{count}", std::process::id()));
    let compiler = match name.rsplit('.').next() {
        Some("rs") => "rustc",
        Some("cc") => "c++",
        _ => "cc",
    };
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&path).arg(&source);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{compiler}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            skip(&format!("{name} is not stepped: {compiler}: {error}"));
            return None;
        }
    }
    let functions = functions(&path)?;
    Some(Built { path, functions })
}

/// A program that is there already.
pub fn existing(path: &Path) -> Option<Built> {
    if !path.exists() {
        skip(&format!("{} is not stepped: it is not there", path.display()));
        return None;
    }
    Some(Built { path: path.to_owned(), functions: functions(path)? })
}

#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

fn functions(path: &Path) -> Option<Vec<(u64, u64, String)>> {
    let mut found = Vec::new();
    for flags in [&["-S", "--defined-only"][..], &["-D", "-S", "--defined-only"]] {
        let output = match Command::new("nm").args(flags).arg(path).output() {
            Ok(output) => output,
            Err(error) => {
                skip(&format!("{} is not stepped: nm: {error}", path.display()));
                return None;
            }
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [address, size, "T" | "t" | "W" | "w" | "i", name] = words[..] {
                let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
                let name = name.split('@').next().unwrap_or(name);
                found.push((number(address), number(size), name.to_owned()));
            }
        }
    }
    found.sort();
    found.dedup();
    Some(found)
}
