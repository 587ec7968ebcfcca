//! An index reproduces the trace it was made from, or is not used (I8): whatever
//! happens to it, to its source, or to those who write it.

mod traces;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use spanwise_model::Trace;
use spanwise_read::OpenOptions;
use tempfile::TempDir;
use traces::{at_root, committed, image, read};

/// Opens as everybody does: from the index, if there is one.
#[track_caller]
fn open(path: &Path) -> Trace {
    let trace = spanwise_read::open(path, &OpenOptions::default()).expect("a trace");
    assert_eq!(trace.check(), Ok(()));
    trace
}

/// A trace in a folder of its own, with its index.
struct Indexed {
    /// Removed with this.
    #[expect(dead_code, reason = "its end removes the folder")]
    folder: TempDir,
    source: PathBuf,
    index: PathBuf,
    image: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Indexed {
    fn new(path: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let source = folder.path().join(&name);
        fs::copy(path, &source).expect("copied");
        let index = folder.path().join(format!("{name}.spanwise"));
        let image = image(&open(&source));
        let files = files_of(&index);
        Indexed { folder, source, index, image, files }
    }

    fn small() -> Self {
        Indexed::new(&at_root("testdata/chrome/kinds_of_events.json"))
    }

    /// The trace opens as ever, and its index is as it was.
    #[track_caller]
    fn check_rebuilt(&self, what: &str) {
        assert!(image(&open(&self.source)) == self.image, "{what}: another trace");
        assert!(files_of(&self.index) == self.files, "{what}: the index was not rebuilt");
    }

    /// Changes a table, and makes checksums right again: what is read then is the
    /// index, or nothing of it.
    fn forge(&self, table: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let path = self.index.join(table);
        let mut bytes = fs::read(&path).expect("readable");
        edit(&mut bytes);
        fs::write(&path, &bytes).expect("writable");
        self.forge_manifest(|manifest| {
            let tables = manifest["tables"].as_array_mut().expect("tables");
            let place = tables.iter_mut().find(|place| place["file"] == table).expect("there");
            place["checksum"] = crc32fast::hash(&bytes).into();
            place["bytes"] = bytes.len().into();
        });
    }

    fn forge_manifest(&self, edit: impl FnOnce(&mut Value)) {
        let path = self.index.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).expect("readable"))
            .expect("a manifest is JSON");
        edit(&mut manifest);
        manifest.as_object_mut().expect("an object").remove("checksum");
        let mut text = manifest.to_string();
        text.pop();
        let sum = crc32fast::hash(text.as_bytes());
        fs::write(&path, format!("{text},\"checksum\":\"{sum:08x}\"}}")).expect("writable");
    }
}

fn files_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths = traces::files_below(folder);
    let file = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read(&path).expect("readable"))
    };
    paths.into_iter().map(file).collect()
}

#[test]
fn every_trace_comes_back_whole() {
    for path in committed() {
        let indexed = Indexed::new(&path);
        // Samples and states have tables of their own, where there are any.
        let summary = read(&indexed.source).expect("a trace").summary();
        let is_observed = summary.samples > 0 || summary.thread_states > 0;
        let files = if is_observed { 13 } else { 8 };
        assert_eq!(indexed.files.len(), files, "{}", path.display());
        let (from_source, from_index) =
            (read(&indexed.source).expect("a trace"), open(&indexed.source));
        assert!(image(&from_source) == indexed.image, "{}", path.display());
        assert!(image(&from_index) == indexed.image, "{}", path.display());
        let summary = spanwise_read::summary(&indexed.source, &OpenOptions::default());
        assert_eq!(summary.expect("a summary"), from_source.summary());
        for span in from_source.spans().ids().step_by(97) {
            assert_eq!(from_source.args(span), from_index.args(span), "{}", path.display());
        }
    }
}

#[test]
fn the_index_is_what_is_read() {
    let indexed = Indexed::small();
    indexed.forge("strings.arrow", |bytes| {
        let at = bytes.windows(7).position(|text| text == b"receive").expect("a name");
        bytes[at..at + 7].copy_from_slice(b"RECEIVE");
    });
    let trace = open(&indexed.source);
    assert!(trace.spans().ids().any(|span| trace.name(span) == "RECEIVE"));
}

#[test]
fn a_changed_source_is_read_anew() {
    let check = |change: &dyn Fn(&Path)| {
        let indexed = Indexed::small();
        change(&indexed.source);
        let expected = image(&read(&indexed.source).expect("a trace"));
        assert!(image(&open(&indexed.source)) == expected);
        assert!(files_of(&indexed.index) != indexed.files, "the index was not rebuilt");
        assert!(image(&open(&indexed.source)) == expected);
    };
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).expect("a time");
    let set_modified = |path: &Path, time| {
        File::options().append(true).open(path).expect("ours").set_modified(time).expect("set");
    };
    let replace = |path: &Path, old: &str, new: &str| {
        let text = fs::read_to_string(path).expect("text");
        fs::write(path, text.replacen(old, new, 1)).expect("writable");
    };
    check(&|path| replace(path, "receive", "received"));
    check(&|path| set_modified(path, modified(path) + Duration::from_nanos(1)));
    check(&|path| {
        let time = modified(path);
        replace(path, "receive", "RECEIVE");
        set_modified(path, time);
    });
}

#[test]
fn a_damaged_byte_anywhere_is_noticed() {
    let indexed = Indexed::small();
    for (name, bytes) in &indexed.files {
        for percent in 0..=100 {
            let at = (bytes.len() - 1) * percent / 100;
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (percent % 8);
            fs::write(indexed.index.join(name), damaged).expect("writable");
            indexed.check_rebuilt(&format!("{name} damaged at {at}"));
        }
    }
}

#[test]
fn cut_and_missing_files_are_noticed() {
    let indexed = Indexed::small();
    for (name, bytes) in &indexed.files {
        for part in 0..4 {
            let cut = &bytes[..bytes.len() * part / 4];
            fs::write(indexed.index.join(name), cut).expect("writable");
            indexed.check_rebuilt(&format!("{name} cut to {}", cut.len()));
        }
        fs::remove_file(indexed.index.join(name)).expect("there");
        indexed.check_rebuilt(&format!("{name} is missing"));
        fs::remove_file(indexed.index.join(name)).expect("there");
        fs::create_dir(indexed.index.join(name)).expect("made");
        indexed.check_rebuilt(&format!("{name} is a folder"));
        let moved = indexed.index.with_extension("elsewhere");
        fs::rename(indexed.index.join(name), &moved).expect("moved");
        symlink(Path::new("absent"), indexed.index.join(name)).expect("linked");
        indexed.check_rebuilt(&format!("{name} is a dead link"));
    }
}

#[test]
fn forged_content_is_refused() {
    let check = |what: &str, forge: &dyn Fn(&Indexed)| {
        let indexed = Indexed::small();
        forge(&indexed);
        indexed.check_rebuilt(what);
    };
    check("another version", &|indexed| indexed.forge_manifest(|m| m["version"] = 999.into()));
    check("no version", &|indexed| indexed.forge_manifest(|m| m["version"] = Value::Null));
    check("no tables", &|indexed| indexed.forge_manifest(|m| m["tables"] = Value::Array(vec![])));
    for (key, value) in [("offset", u64::MAX), ("bytes", u64::MAX), ("offset", 1), ("bytes", 0)] {
        check("a column elsewhere", &move |indexed| {
            indexed.forge_manifest(|m| m["tables"][3]["columns"][0][key] = value.into());
        });
    }
    for rows in [0, 1, u64::MAX, u64::MAX / 8] {
        check("other rows", &move |indexed| {
            indexed.forge_manifest(|m| m["tables"][3]["rows"] = rows.into());
        });
    }
    for table in ["strings", "categories", "tracks", "spans", "instants", "links"] {
        check(table, &move |indexed| {
            indexed.forge(&format!("{table}.arrow"), |bytes| bytes.fill(0xff));
        });
    }
}

#[test]
fn other_things_in_its_place_are_no_index() {
    let indexed = Indexed::small();
    let aside = indexed.index.with_extension("aside");
    fs::rename(&indexed.index, &aside).expect("moved");
    symlink(&aside, &indexed.index).expect("linked");
    let cache = tempfile::tempdir().expect("a folder");
    let open_with_cache = || {
        let mut command = start_child(&indexed.source);
        let child = command.env("XDG_CACHE_HOME", cache.path()).spawn().expect("started");
        check_child(child, &indexed.image);
        assert!(indexed.index.is_symlink(), "what is no index stays");
    };
    open_with_cache();
    fs::remove_dir_all(&aside).expect("removed");
    open_with_cache();
    fs::remove_file(&indexed.index).expect("removed");
    indexed.check_rebuilt("nothing in its place");

    // Half an index, made by somebody who was killed: old ones go, young ones stay.
    let making = |age: u64| {
        let name = format!("{}.making-1-{age}", indexed.index.display());
        fs::create_dir(&name).expect("made");
        fs::write(Path::new(&name).join("spans.arrow"), b"half").expect("writable");
        let time = SystemTime::now() - Duration::from_secs(age);
        File::open(&name).expect("there").set_modified(time).expect("set");
        PathBuf::from(name)
    };
    let (old, young) = (making(7200), making(0));
    indexed.check_rebuilt("beside half an index");
    fs::remove_dir_all(&indexed.index).expect("removed");
    indexed.check_rebuilt("beside half an index");
    assert_eq!((old.exists(), young.exists()), (false, true));
}

#[test]
fn many_threads_get_the_right_trace() {
    let indexed = Indexed::small();
    for round in 0..20 {
        if round % 2 == 0 {
            fs::remove_dir_all(&indexed.index).expect("removed");
        } else {
            fs::write(indexed.index.join("spans.arrow"), b"").expect("writable");
        }
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| assert!(image(&open(&indexed.source)) == indexed.image));
            }
        });
        indexed.check_rebuilt("after many threads");
        let left = traces::files_below(indexed.source.parent().expect("a folder")).len();
        assert_eq!(left, 9, "half-made folders were left");
    }
}

const CHILD_TRACE: &str = "SPANWISE_TEST_CHILD_TRACE";

/// Not a test: what other tests start as a process of its own. It opens a trace,
/// or indexes it again and again, and prints a checksum of what it read.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child() {
    let Some(path) = std::env::var_os(CHILD_TRACE).map(PathBuf::from) else { return };
    while std::env::var_os("SPANWISE_TEST_CHILD_WRITES").is_some() {
        let _ = spanwise_read::write_index(&path, &OpenOptions::default());
    }
    println!("read {:08x}", crc32fast::hash(image(&open(&path)).as_bytes()));
}

fn start_child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child", "--nocapture", "--test-threads", "1"]);
    command.env(CHILD_TRACE, path).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

#[track_caller]
fn check_child(child: std::process::Child, image: &str) {
    let output = child.wait_with_output().expect("it ends");
    let expected = format!("read {:08x}", crc32fast::hash(image.as_bytes()));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&expected));
}

#[test]
fn many_processes_get_the_right_trace() {
    let indexed = Indexed::small();
    for _ in 0..8 {
        fs::remove_dir_all(&indexed.index).expect("removed");
        let children: Vec<_> =
            (0..4).map(|_| start_child(&indexed.source).spawn().expect("started")).collect();
        children.into_iter().for_each(|child| check_child(child, &indexed.image));
        indexed.check_rebuilt("after many processes");
    }
}

#[test]
fn a_killed_writer_does_no_harm() {
    let indexed = Indexed::new(&at_root("testdata/kineto/llama_small.json.gz"));
    let mut seed = 12345u64;
    for round in 0..30 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut command = start_child(&indexed.source);
        let mut child = command.env("SPANWISE_TEST_CHILD_WRITES", "1").spawn().expect("started");
        std::thread::sleep(Duration::from_millis(5 + (seed >> 33) % 120));
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(image(&open(&indexed.source)) == indexed.image, "round {round}");
    }
}

/// Where no index can be written beside the trace, it goes to the user's cache.
#[test]
fn the_cache_is_the_second_choice() {
    let indexed = Indexed::small();
    let cache = tempfile::tempdir().expect("a folder");
    fs::remove_dir_all(&indexed.index).expect("removed");
    fs::write(&indexed.index, b"somebody's file").expect("writable");
    for _ in 0..2 {
        let mut command = start_child(&indexed.source);
        let child = command.env("XDG_CACHE_HOME", cache.path()).spawn().expect("started");
        check_child(child, &indexed.image);
        let cached = traces::files_below(&cache.path().join("spanwise"));
        assert_eq!(cached.len(), 8, "{cached:?}");
        assert_eq!(fs::read(&indexed.index).expect("still there"), b"somebody's file");
    }
    let beside = traces::files_below(indexed.source.parent().expect("a folder"));
    assert_eq!(beside.len(), 2, "{beside:?}");
}
