//! Reports in one file: harmless whatever the trace says, no larger than asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOSTILE: &str =
    "</title></style></text><script>alert(1)</script><img src=x onerror=alert(2)>";

fn spanwise(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(arguments).args(["--no-index", "--quiet"]);
    command.output().expect("the program starts")
}

fn testdata(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.to_str().expect("a path of ours").to_owned()
}

fn page(arguments: &[&str], folder: &Path) -> String {
    let path = folder.join("page.html");
    let target = path.to_str().expect("a path of ours");
    let output = spanwise(&[arguments, &["-o", target]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(&path).expect("a page");
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()).collect();
    assert!(entries.iter().all(|entry| !entry.to_string_lossy().contains(".making-")));
    page
}

/// A trace whose every string is hostile: a thread and a stream, launches, arguments, metadata.
fn hostile_trace(folder: &Path) -> String {
    let event = |cat: &str, tid: u32, ts: u32, dur: u32, args: &str| {
        let pid = if tid == 7 { 0 } else { 1 };
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{HOSTILE}","pid":{pid},"tid":{tid},"ts":{ts},"#)
            + &format!(r#""dur":{dur},"args":{{{args}}}}}"#)
    };
    let meta = |name: &str, pid: u32, tid: u32| {
        format!(
            r#"{{"ph":"M","name":"{name}","pid":{pid},"tid":{tid},"args":{{"name":"{HOSTILE}"}}}}"#
        )
    };
    let events = [
        meta("process_name", 1, 1),
        meta("thread_name", 1, 1),
        meta("process_name", 0, 7),
        event("python_function", 1, 0, 90, ""),
        event("cpu_op", 1, 10, 40, ""),
        event("cuda_runtime", 1, 20, 5, r#""correlation":1"#),
        event("kernel", 7, 40, 30, r#""correlation":1,"stream":7,"device":0"#),
        event(HOSTILE, 1, 60, 10, &format!(r#""{HOSTILE}":"{HOSTILE}""#)),
    ];
    let devices = format!(r#"[{{"id":0,"name":"{HOSTILE}"}}]"#);
    let about =
        format!(r#""schemaVersion":1,"secret_host":4815162342,"deviceProperties":{devices}"#);
    let text = format!(r#"{{{about},"traceEvents":[{}]}}"#, events.join(","));
    let path = folder.join("trace.json");
    std::fs::write(&path, text).expect("room");
    path.to_str().expect("a path of ours").to_owned()
}

#[test]
fn a_trace_of_scripts_makes_no_markup() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = hostile_trace(folder.path());
    let compared = ["compare", trace.as_str(), trace.as_str(), "--with-metadata"];
    for arguments in [&["convert", trace.as_str(), "--with-metadata"][..], &compared] {
        let page = page(arguments, folder.path());
        assert_eq!(page.matches("<script").count(), 1, "only our own");
        assert_eq!(page.matches("</script").count(), 1, "only our own");
        assert_eq!(page.matches("<img").count(), 0);
        assert_eq!(page.matches("</title></style>").count(), 0);
        assert!(page.contains("&lt;script&gt;alert(1)"), "the names are there, as text");
        assert!(page.contains("script-src 'sha256-"));
        assert!(!page.contains("unsafe-inline"));
    }
}

#[test]
fn metadata_is_told_only_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = hostile_trace(folder.path());
    let place = folder.path().to_str().expect("a path of ours");
    let without = page(&["convert", &trace], folder.path());
    assert!(!without.contains("secret_host") && !without.contains(place));
    let with = page(&["convert", &trace, "--with-metadata"], folder.path());
    assert!(with.contains("secret_host") && with.contains(place));
}

#[test]
fn a_page_has_its_pictures_and_keeps_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = testdata("kineto/llama_small.json.gz");
    let whole = page(&["convert", &trace], folder.path());
    for part in ["id=\"findings\"", "id=\"breakdown\"", "class=\"timeline\"", "class=\"flame\""] {
        assert!(whole.contains(part), "{part}");
    }
    assert!(whole.len() <= 5 << 20 && !whole.contains("To stay below"));
    let mut sizes = Vec::new();
    for size in ["400K", "200K", "100K"] {
        let smaller = page(&["convert", &trace, "--max-size", size], folder.path());
        let most = size.trim_end_matches('K').parse::<usize>().expect("a number") << 10;
        assert!(smaller.len() <= most, "{size}: {}", smaller.len());
        assert!(smaller.len() == whole.len() || smaller.contains("To stay below"), "{size}");
        sizes.push(smaller.len());
    }
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[2] < whole.len(), "{sizes:?}");
    let target = folder.path().join("tiny.html");
    let output =
        spanwise(&["convert", &trace, "--max-size", "1K", "-o", target.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!target.exists());
}

#[test]
fn a_comparison_has_both_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, other) =
        (testdata("kineto/llama_small.json.gz"), testdata("kineto/llama_small_eager.json.gz"));
    let page = page(&["compare", &base, &other], folder.path());
    assert!(page.contains("llama_small_eager.json.gz compared with llama_small.json.gz"));
    assert!(page.contains("class=\"flame\"") && page.contains(" points</title>"));
    let target = folder.path().join("two.html");
    let output = spanwise(&["convert", &base, &other, "-o", target.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(2));
}
