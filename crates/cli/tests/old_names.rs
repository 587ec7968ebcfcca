//! Commands by their old names write what the current ones write, and say so.

use std::path::Path;
use std::process::{Command, Output};

const TRACE: &str = "testdata/kineto/llama_small.json.gz";
const EAGER: &str = "testdata/kineto/llama_small_eager.json.gz";
const CALLS: &str = "testdata/perf/kernel_and_user.perf";

fn spanwise(args: &[&str], target: &Path) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(args).arg("--no-index").arg("-o").arg(target).current_dir(root);
    command.output().expect("the binary was built for this test")
}

/// Both write the same file of this name.
#[track_caller]
fn check(name: &str, old: &[&str], current: &[&str]) {
    let folder = tempfile::tempdir().expect("a place for files");
    let target = folder.path().join(name);
    let [old, current] = [old, current].map(|args| {
        let output = spanwise(args, &target);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        (std::fs::read(&target).expect("was written"), said)
    });
    assert!(old.1.starts_with("spanwise: note: `spanwise ") && old.1.lines().count() == 1);
    assert_eq!(current.1, "");
    assert!(old.0 == current.0 && !old.0.is_empty(), "{name}");
}

#[test]
fn pictures_and_pages_are_the_same() {
    check("a.svg", &["flame", "--value", "gpu", TRACE], &["convert", "--value", "gpu", TRACE]);
    check("a.html", &["flame", TRACE], &["convert", "--to", "flame", TRACE]);
    check("b.html", &["html", TRACE], &["convert", TRACE]);
    check("c.svg", &["flame", "--diff", TRACE, EAGER], &["compare", TRACE, EAGER]);
    check("d.html", &["html", "--compare", TRACE, EAGER], &["compare", TRACE, EAGER]);
}

#[test]
fn profiles_and_traces_are_the_same() {
    check("a.pb.gz", &["diff", TRACE, EAGER], &["compare", TRACE, EAGER]);
    check("a.json", &["merge", TRACE, EAGER], &["convert", TRACE, EAGER]);
    check("a.fxt", &["decode", "--include", "f", CALLS], &["convert", "--include", "f", CALLS]);
    check("a.folded", &["decode", CALLS], &["convert", CALLS]);
}
