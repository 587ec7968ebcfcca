//! What `spanwise compare` writes of two profiles, and profiles that do not compare.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use spanwise_model::{ProfileBuilder, StackId};
use spanwise_write::{PprofOptions, write_pprof};

const BASE: &str = "testdata/diff/before.folded";
const OTHER: &str = "testdata/diff/after.folded";

fn run(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(args).current_dir(root).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// What a command prints, which must succeed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    text(&output.stdout)
}

#[test]
fn folded_lines_have_the_base_and_the_other() {
    let folder = tempfile::tempdir().expect("a place for files");
    let target = folder.path().join("change.folded");
    let target = target.to_str().expect("a plain path");
    let said = printed(&["compare", BASE, OTHER, "-o", target]);
    assert!(said.starts_with(&format!("{target}: 7 samples, ")), "{said}");
    // Definitions that moved have the line of the other.
    let expected = "\
train.py(10): main 7 7
train.py(10): main;model.py(33): forward 10 10
train.py(10): main;model.py(33): forward;softmax 90 140
train.py(10): main;model.py(9): forward 40 45
train.py(10): main;model.py(9): forward;mm 300 180
train.py(10): main;new_loader 0 20
train.py(10): main;old_loader 60 0
";
    assert_eq!(fs::read_to_string(target).expect("was written"), expected);
}

#[test]
fn a_difference_for_pprof_can_be_read_drawn_and_converted() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (target, picture) = (path("change.pb.gz"), path("change.svg"));
    assert_eq!(printed(&["compare", "--quiet", BASE, OTHER, "-o", &target]), "");
    assert!(fs::read(&target).expect("was written").starts_with(&[0x1f, 0x8b]), "gzip");
    let rows = printed(&["convert", "--to", "csv", &target, "-o", "-"]);
    let mut sums = [0i64; 2];
    for row in rows.lines().skip(1) {
        let (rest, value) = row.rsplit_once(',').expect("a value");
        let is_base = rest.ends_with(",true");
        sums[usize::from(!is_base)] += value.parse::<i64>().expect("a whole number");
    }
    assert!(rows.starts_with("stack,pprof::base,samples_count\n"), "{rows}");
    assert_eq!(sums, [-507, 402]);
    let net = printed(&["convert", "--to", "folded", &target, "-o", "-"]);
    assert!(net.contains(";mm -120\n") && net.contains(";new_loader 20\n"), "{net}");
    printed(&["convert", "--quiet", &target, "-o", &picture]);
    assert!(fs::read_to_string(&picture).expect("was written").contains("new_loader"));
}

#[test]
fn columns_in_other_units_do_not_compare() {
    let folder = tempfile::tempdir().expect("a place for files");
    let [base, other] = ["nanoseconds", "bytes"].map(|unit| {
        let mut builder = ProfileBuilder::new(&[("spent", unit)], 0);
        let labels = builder.labels(Vec::new());
        builder.add(StackId::EMPTY, labels, 0, 5);
        let path = folder.path().join(format!("{unit}.pb"));
        let mut bytes = Vec::new();
        let options = PprofOptions { program: "test", is_compressed: false };
        write_pprof(&builder.finish(), &options, &mut bytes).expect("a vector takes all");
        fs::write(&path, bytes).expect("the folder is writable");
        path.to_str().expect("a plain path").to_owned()
    });
    let output = run(&["compare", &base, &other]);
    let expected = format!(
        "spanwise: error: spent is in nanoseconds in {base} and in bytes in {other}: they do not \
         compare\n"
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
}
