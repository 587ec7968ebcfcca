//! Files that are no files, links and folders of others, and somebody who exchanges them while
//! root works: nothing hangs, nothing is taken in without end, and nothing is written elsewhere.
//!
//! What needs two users needs root; where it is not, each test says so.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const NOBODY: u32 = 65534;
const TRIES: usize = 200;
const ATTACKED: &str = "SPANWISE_TEST_ATTACKED";

const TRACE: &str = r#"[{"ph":"X","name":"f","pid":1,"tid":1,"ts":1,"dur":12000},
{"ph":"X","name":"g","pid":1,"tid":1,"ts":2,"dur":5}]"#;

/// A folder with a trace in it.
struct Ground {
    root: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let root = tempfile::tempdir().expect("a folder");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let ground = Ground { root };
        fs::write(ground.at("t.json"), TRACE).expect("writable");
        ground
    }

    /// For a test with two users.
    fn of_two() -> Option<Ground> {
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            return Some(Ground::new());
        }
        eprintln!("skipped: only root can be two users");
        None
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The program in this folder, with a cache of its own. It is ended where it hangs, and has
    /// memory for what it does, not for more.
    fn spanwise(&self, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        let script = "ulimit -v 3000000; exec timeout -k 1 20 \"$0\" \"$@\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_spanwise")]).args(args);
        command.current_dir(self.root.path()).env("XDG_CACHE_HOME", self.at("cache"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.spanwise(args).stdin(Stdio::null()).output().expect("it starts")
    }

    /// Ends well; what it says beside its answer.
    #[track_caller]
    fn check(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {:?}: {said}", output.status);
        said
    }

    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("started").success());
        path
    }
}

/// Commands that write a file in a format of their own, without its name.
const WRITERS: [&[&str]; 4] = [
    &["convert", "--to", "folded", "t.json", "-o"],
    &["convert", "--to", "chrome", "t.json", "-o"],
    &["convert", "--to", "html", "t.json", "-o"],
    &["compare", "t.json", "t.json", "--save-baseline"],
];

#[test]
fn devices_and_pipes_are_written_to() {
    let ground = Ground::new();
    let device = ground.at("null");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output();
    let has_device = made.expect("started").status.success();
    let pipe = ground.pipe("pipe");
    // As the machine's own is; that would not survive a failure of this test.
    symlink("/proc/self/fd/1", ground.at("stdout")).expect("writable");
    for writer in &WRITERS[..3] {
        if has_device {
            ground.check(&[writer, &["null"][..]].concat());
            assert!(fs::metadata(&device).expect("there").file_type().is_char_device());
        }
        let path = pipe.clone();
        let reader = std::thread::spawn(move || fs::read(path).expect("readable"));
        ground.check(&[writer, &["pipe"][..]].concat());
        let through = reader.join().expect("no panic");
        assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
        ground.check(&[writer, &["file"][..]].concat());
        assert_eq!(through.len(), fs::read(ground.at("file")).expect("there").len());
        let output = ground.run(&[writer, &["stdout"][..]].concat());
        assert_eq!(output.stdout.len(), through.len(), "and nothing else");
    }
}

#[test]
fn what_a_shell_puts_between_two_programs_is_written_to() {
    let ground = Ground::new();
    let script = "\"$0\" convert --quiet --to folded t.json -o >(cat >out; touch done)
        until [ -e done ]; do sleep 0.01; done";
    let mut bash = Command::new("timeout");
    bash.args(["20", "bash", "-c", script, env!("CARGO_BIN_EXE_spanwise")]);
    let Ok(status) = bash.current_dir(ground.root.path()).status() else { return };
    assert!(status.success());
    assert!(fs::read_to_string(ground.at("out")).expect("there").contains("f;g"));
}

#[test]
fn own_links_are_followed_and_those_of_others_are_not() {
    let ground = Ground::new();
    fs::create_dir(ground.at("inner")).expect("writable");
    symlink("inner/file", ground.at("link")).expect("writable");
    ground.check(&[WRITERS[0], &["link"][..]].concat());
    assert!(ground.at("link").is_symlink() && ground.at("inner/file").is_file());
    let Some(ground) = Ground::of_two() else { return };
    fs::write(ground.at("secret"), "safe").expect("writable");
    symlink("secret", ground.at("link")).expect("writable");
    lchown(ground.at("link"), Some(NOBODY), None).expect("root may");
    for writer in WRITERS {
        let output = ground.run(&[writer, &["link"][..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("a symbolic link of user 65534"), "{writer:?}: {said}");
        assert_eq!(fs::read_to_string(ground.at("secret")).expect("there"), "safe");
    }
}

/// Puts a pipe, a link without end and a link to itself at a path; the command ends each time.
#[track_caller]
fn check_at(ground: &Ground, path: &str, args: &[&str], ends_well: bool) {
    for target in [None, Some("/dev/zero"), Some("x")] {
        let _ = fs::remove_file(ground.at(path));
        let _ = fs::remove_dir_all(ground.at("cache"));
        match target {
            None => drop(ground.pipe(path)),
            Some("x") => symlink(ground.at(path), ground.at(path)).expect("writable"),
            Some(target) => symlink(target, ground.at(path)).expect("writable"),
        }
        let output = ground.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        let ended = output.status.code();
        assert!(matches!(ended, Some(0 | 2)), "{path} {target:?} {args:?}: {ended:?} {said}");
        assert!(!ends_well || ended == Some(0), "{path} {target:?} {args:?}: {said}");
    }
    fs::remove_file(ground.at(path)).expect("still there");
}

#[test]
fn nothing_hangs_at_files_of_an_index_that_are_none() {
    let ground = Ground::new();
    let tables = ["strings", "categories", "tracks", "spans", "instants", "counters", "links"];
    let tables = tables.map(|table| format!("t.json.spanwise/{table}.arrow"));
    for file in tables.iter().map(String::as_str).chain(["t.json.spanwise/manifest.json"]) {
        for args in [&["info", "t.json"][..], &["report", "t.json"]] {
            let _ = fs::remove_dir_all(ground.at("t.json.spanwise"));
            ground.check(&["info", "--index", "-q", "t.json"]);
            check_at(&ground, file, args, true);
        }
    }
    let _ = fs::remove_dir_all(ground.at("t.json.spanwise"));
    fs::create_dir(ground.at("t.json.spanwise")).expect("writable");
    check_at(&ground, "t.json.spanwise/manifest.json", &["info", "t.json"], true);
    fs::remove_dir(ground.at("t.json.spanwise")).expect("ours");
    check_at(&ground, "t.json.spanwise", &["info", "t.json"], true);
}

#[test]
fn nothing_hangs_at_files_beside_records_that_are_none() {
    let ground = Ground::new();
    let records: &[u8] = include_bytes!("../../../fuzz/corpus/perf_data/small");
    let folder = ground.at("rec.spanwise-recording");
    fs::create_dir_all(folder.join("kcore_dir")).expect("writable");
    // The first byte of that input is not of the records.
    fs::write(folder.join("perf.data"), &records[1..]).expect("writable");
    let files = [
        "recording.json",
        "python.samples",
        "calls.hits",
        "steps.branches",
        "perf-1.map",
        "torch-1-1.json",
        "kcore_dir/kcore",
        "kcore_dir/kallsyms",
    ];
    for file in files.map(|file| format!("rec.spanwise-recording/{file}")) {
        for path in ["rec.spanwise-recording", "rec.spanwise-recording/perf.data"] {
            check_at(&ground, &file, &["info", "--no-index", path], true);
        }
    }
    fs::remove_file(folder.join("perf.data")).expect("ours");
    let file = "rec.spanwise-recording/perf.data";
    check_at(&ground, file, &["info", "rec.spanwise-recording"], false);
}

#[test]
fn files_that_are_named_have_an_end() {
    let ground = Ground::new();
    for args in [
        &["compare", "--baseline", "/dev/zero", "t.json"][..],
        &["report", "--check", "/dev/zero", "t.json"],
        &["report", "--classes", "/dev/zero", "t.json"],
    ] {
        let output = ground.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
}

#[test]
fn what_is_no_index_is_left_alone() {
    let ground = Ground::new();
    fs::create_dir(ground.at("t.json.spanwise")).expect("writable");
    fs::write(ground.at("t.json.spanwise/mine"), "precious").expect("writable");
    let said = ground.check(&["info", "t.json"]);
    assert!(
        said.contains("is not an index of spanwise and is left alone; the index is in"),
        "{said}"
    );
    assert_eq!(fs::read(ground.at("t.json.spanwise/mine")).expect("there"), b"precious");
    // The one elsewhere is used without a word.
    assert_eq!(ground.check(&["info", "t.json"]), "");
    fs::remove_dir_all(ground.at("t.json.spanwise")).expect("ours");
    fs::remove_dir_all(ground.at("cache")).expect("ours");
    fs::write(ground.at("t.json.spanwise"), "precious").expect("writable");
    assert!(ground.check(&["info", "t.json"]).contains("left alone"));
    assert_eq!(fs::read(ground.at("t.json.spanwise")).expect("there"), b"precious");
}

/// Durations of an index are a thousandth of those of its trace, and all checksums are right.
fn forge(index: &Path) {
    let change = |path: &Path, from: &[u8], to: &[u8]| {
        let mut bytes = fs::read(path).expect("readable");
        let places: Vec<usize> =
            (0..=bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|&at| bytes[at..at + to.len()].copy_from_slice(to));
        fs::write(path, &bytes).expect("writable");
        bytes
    };
    let crc = |bytes: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        sum.sum()
    };
    let spans = index.join("spans.arrow");
    let before = crc(&fs::read(&spans).expect("readable")).to_string();
    let (long, short) = (12_000_000_i64.to_le_bytes(), 12_000_i64.to_le_bytes());
    let after = crc(&change(&spans, &long, &short)).to_string();
    let path = index.join("manifest.json");
    let text = fs::read_to_string(&path).expect("text").replacen(&before, &after, 1);
    let (body, _) = text.split_once(",\"checksum\":\"").expect("its own checksum");
    let sum = crc(body.as_bytes());
    fs::write(&path, format!("{body},\"checksum\":\"{sum:08x}\"}}")).expect("writable");
}

#[test]
fn an_index_that_somebody_else_may_have_written_is_not_used() {
    let Some(ground) = Ground::of_two() else { return };
    let index = ground.at("t.json.spanwise");
    let report = |ground: &Ground| {
        let output = ground.run(&["report", "--section", "functions", "--format", "csv", "t.json"]);
        assert!(output.status.success(), "{output:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    ground.check(&["info", "--index", "-q", "t.json"]);
    let (right, _) = report(&ground);
    forge(&index);
    let (forged, said) = report(&ground);
    assert!(forged != right && said.is_empty(), "one's own is believed: {said}");
    let check = |name: &str, owner: u32, mode: u32| {
        let _ = fs::remove_dir_all(ground.at("cache"));
        let _ = fs::remove_dir_all(&index);
        ground.check(&["info", "--index", "-q", "t.json"]);
        forge(&index);
        let path = index.join(name);
        chown(&path, Some(owner), None).expect("root may");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
        let (found, said) = report(&ground);
        assert!(found == right, "{name} {owner} {mode:o}: {said}");
        said
    };
    for (name, owner, mode) in [
        ("", NOBODY, 0o755),
        ("", 0, 0o775),
        ("", 0, 0o757),
        ("manifest.json", NOBODY, 0o644),
        ("manifest.json", 0, 0o666),
    ] {
        let said = check(name, owner, mode);
        assert!(said.contains("this index is not used"), "{name}: {said}");
    }
    check("spans.arrow", NOBODY, 0o644);
    check("spans.arrow", 0, 0o664);
}

#[test]
fn roots_index_of_somebody_elses_trace_is_in_roots_cache() {
    let Some(ground) = Ground::of_two() else { return };
    chown(ground.root.path(), Some(NOBODY), None).expect("root may");
    ground.check(&["info", "--index", "-q", "t.json"]);
    assert!(!ground.at("t.json.spanwise").exists());
    let cache = fs::metadata(ground.at("cache")).expect("there");
    assert_eq!((cache.uid(), cache.mode() & 0o777), (0, 0o700));
}

struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }
}

/// What an index or a recording consists of.
const MADE: [&str; 5] =
    ["manifest.json", "spans.arrow", "strings.arrow", "perf.data", "recording.json"];

/// Not a test: exchanges every folder of root's that appears for one with links to root's files.
#[test]
fn attacker() {
    let Some(root) = std::env::var_os(ATTACKED).map(PathBuf::from) else { return };
    let theirs = root.join("theirs");
    let parent = std::os::unix::process::parent_id();
    for round in 0_u64.. {
        let evil = theirs.join(format!("evil-{round}"));
        fs::create_dir(&evil).expect("ours");
        for name in MADE {
            symlink(root.join("secret").join(name), evil.join(name)).expect("ours");
        }
        // Should the test be killed, so is this.
        while std::os::unix::process::parent_id() == parent {
            let entries = fs::read_dir(&theirs).expect("ours").flatten();
            let entries = entries.filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == 0));
            let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let is_new = |name: &String| name.contains(".making-") || name.starts_with("new");
            let Some(new) = names.find(is_new) else {
                std::thread::yield_now();
                continue;
            };
            if fs::rename(theirs.join(&new), theirs.join(format!("stolen-{round}"))).is_ok() {
                let _ = fs::rename(&evil, theirs.join(new));
                break;
            }
        }
        if std::os::unix::process::parent_id() != parent {
            return;
        }
    }
}

/// Root works in a folder whose owner exchanges what is made there.
fn check_attack(tries: usize, command: impl Fn(&Ground, usize)) {
    let Some(ground) = Ground::of_two() else { return };
    for name in ["theirs", "secret"] {
        fs::create_dir(ground.at(name)).expect("writable");
    }
    for name in MADE {
        fs::write(ground.at("secret").join(name), "safe").expect("writable");
    }
    fs::copy(ground.at("t.json"), ground.at("theirs/t.json")).expect("copied");
    chown(ground.at("theirs"), Some(NOBODY), Some(NOBODY)).expect("root may");
    let mut attack = Command::new(std::env::current_exe().expect("this test"));
    attack.args(["--exact", "attacker"]).env(ATTACKED, ground.root.path());
    attack.uid(NOBODY).gid(NOBODY).stdout(Stdio::null());
    let attacker = Attacker(attack.spawn().expect("started"));
    (0..tries).for_each(|number| command(&ground, number));
    drop(attacker);
    for name in MADE {
        let text = fs::read_to_string(ground.at("secret").join(name)).expect("there");
        assert_eq!(text, "safe", "{name} was overwritten");
    }
    assert_eq!(fs::read_dir(ground.at("secret")).expect("ours").count(), MADE.len());
}

#[test]
fn an_index_is_never_written_elsewhere() {
    check_attack(TRIES, |ground, _| {
        let mut index = ground.spanwise(&["info", "--index", "-q", "theirs/t.json"]);
        index.stderr(Stdio::null()).status().expect("it starts");
    });
}

#[test]
fn a_recording_is_never_written_elsewhere() {
    let ground = Ground::new();
    let run = |ground: &Ground, folder: &str, options: &[&str]| {
        let args = ["run", "-q", "--no-decode", "--rate", "97", "--recording", folder];
        let mut run = ground.spanwise(&[&args[..], options, &["--", "true"]].concat());
        run.stderr(Stdio::null()).stdout(Stdio::null()).status().expect("it starts")
    };
    if !run(&ground, "first", &[]).success() {
        eprintln!("skipped: this machine does not let us record");
        return;
    }
    // Written while the program runs, or all at once at its end.
    for options in [&[][..], &["--snapshot-size", "1M"]] {
        check_attack(TRIES, |ground, number| {
            run(ground, &format!("theirs/new-{number}"), options);
        });
    }
}

#[test]
fn a_program_of_a_long_name_is_recorded() {
    let ground = Ground::new();
    let name = "x".repeat(240);
    fs::copy("/bin/true", ground.at(&name)).expect("copied");
    let program = format!("./{name}");
    let mut run = ground.spanwise(&["run", "-q", "--no-decode", "--", &program]);
    let mut said = String::new();
    let mut child = run.stderr(Stdio::piped()).spawn().expect("it starts");
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("readable");
    assert!(child.wait().is_ok() && !said.contains("name too long"), "{said}");
}
