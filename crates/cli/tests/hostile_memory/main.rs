//! Files that are small and ask for much memory.
//!
//! What a byte of each format costs at worst is a table in `docs/reference/security.md`; each row
//! of it is measured here, on a file made to cost as much as we know how. Compressed files have no
//! such factor: they end at the limit of memory.

#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod inputs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kernel counts for a command what this process held when it started that: so tests take
/// turns, and everything here is made in small pieces.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How one command ended.
struct Ending {
    is_success: bool,
    stderr: String,
    /// The most memory that it held.
    peak_bytes: u64,
}

fn run(arguments: &[&str], file: &Path) -> Ending {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    let folder = file.parent().expect("files are in a folder");
    ended(command.args(arguments).arg(file), folder)
}

#[expect(clippy::zombie_processes, reason = "it is waited for, with what it used")]
fn ended(command: &mut Command, folder: &Path) -> Ending {
    let errors = folder.join("stderr");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(&errors).expect("the folder is ours"));
    let child = command.spawn().expect("the program was built");
    let (mut status, pid) = (0, child.id() as libc::pid_t);
    // SAFETY: an all-zero `rusage` is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both addresses are of live values; the child is ours and not waited for elsewhere.
    let waited = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    assert_eq!(waited, pid);
    Ending {
        is_success: status == 0,
        stderr: fs::read_to_string(&errors).expect("it was written"),
        peak_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("the folder is ours");
    path
}

/// The program itself, its threads and the map of the file, whatever is in it.
const BASE_BYTES: u64 = 24 << 20;

/// The rows of the table: the format, and the bytes of memory a byte of it may cost.
fn documented() -> Vec<(String, u64)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/security.md");
    let text = fs::read_to_string(path).expect("the page is in the repository");
    let table = text.split("<!-- memory per byte -->").nth(1).expect("the table is marked");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let row = |cells: Vec<&str>| {
        let factor = cells.last().and_then(|cell| cell.parse().ok()).expect("a whole number");
        (cells[0].to_owned(), factor)
    };
    cells.map(row).collect()
}

#[test]
fn a_byte_of_each_format_costs_no_more_than_documented() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let documented = documented();
    let inputs = inputs::all();
    let of_inputs: Vec<&str> = inputs.iter().map(|input| input.format).collect();
    let of_page: Vec<&str> = documented.iter().map(|row| &*row.0).collect();
    assert_eq!(of_inputs, of_page, "every format has a row and an input");
    for (input, (format, factor)) in inputs.iter().zip(&documented) {
        let made = |name, make: inputs::Make| {
            let bytes = make();
            (write(folder.path(), name, &bytes), bytes.len())
        };
        let (file, mut len) = made(input.file_name, input.bytes);
        let beside = input.beside.map(|(name, make)| {
            let (path, beside_len) = made(name, make);
            len += beside_len;
            path
        });
        let command = if input.is_profile { "report" } else { "info" };
        let ending = run(&[command, "--no-index", "--quiet"], &file);
        assert!(ending.is_success, "{format}: {}", ending.stderr);
        let held = ending.peak_bytes.saturating_sub(BASE_BYTES);
        let measured = held.div_ceil(len as u64);
        beside.into_iter().for_each(|path| fs::remove_file(path).expect("the folder is ours"));
        assert!(measured <= *factor, "{format}: {measured} instead of {factor}");
        // A bound that is far off says nothing.
        assert!(measured * 4 > *factor, "{format}: {measured}, far below the {factor} documented");
    }
}

const LIMIT: &str = "200M";

/// Whatever a file expands to, the process stays near its limit and says why it ends.
#[track_caller]
fn check_bomb(name: &str, bytes: &[u8], arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), name, bytes);
    let arguments = [arguments, &["--no-index", "--quiet", "--max-memory", LIMIT]].concat();
    let ending = run(&arguments, &file);
    assert!(!ending.is_success, "{name}: read whole");
    assert!(ending.stderr.contains("needs more memory than the limit"), "{}", ending.stderr);
    assert!(ending.stderr.contains("--max-memory"), "{}", ending.stderr);
    assert!(ending.peak_bytes < 320 << 20, "{name}: {} MB", ending.peak_bytes >> 20);
    assert!(bytes.len() < 4 << 20, "{name}: no bomb");
}

/// Half a gigabyte of equal events.
fn events() -> impl Iterator<Item = Vec<u8>> {
    let piece = br#"{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1},"#.repeat(25_000);
    std::iter::once(b"[".to_vec()).chain(std::iter::repeat_n(piece, 500))
}

#[test]
fn gzip_bombs_end_at_the_limit() {
    let _turn = turn();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    events().for_each(|piece| encoder.write_all(&piece).expect("memory takes it"));
    check_bomb("bomb.json.gz", &encoder.finish().expect("memory"), &["info"]);
}

#[test]
fn zstd_bombs_end_at_the_limit() {
    let _turn = turn();
    check_bomb("bomb.json.zst", &inputs::zstd(events()), &["info"]);
}

/// One stream of many equal events, again and again.
fn xz_bomb() -> Vec<u8> {
    let packed = |bytes: &[u8]| {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    };
    let mut pieces = events();
    let mut bytes = packed(&pieces.next().expect("the opening bracket"));
    let again = packed(&pieces.next().expect("events").repeat(25));
    bytes.extend(again.repeat(20));
    bytes
}

#[test]
fn xz_bombs_end_at_the_limit() {
    let _turn = turn();
    check_bomb("bomb.json.xz", &xz_bomb(), &["info"]);
}

/// Bombs end at limits that no option gives.
#[track_caller]
fn check_limit(mut command: Command, folder: &Path, most_bytes: u64) {
    let file = write(folder, "bomb.json.xz", &xz_bomb());
    let command = command.args(["info", "--no-index", "--quiet"]).arg(&file);
    let ending = ended(command, folder);
    assert!(!ending.is_success, "read whole");
    assert!(ending.stderr.contains("needs more memory than the limit"), "{}", ending.stderr);
    assert!(ending.peak_bytes < most_bytes, "{} MB", ending.peak_bytes >> 20);
}

#[test]
fn the_environment_sets_the_limit() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.env("SPANWISE_MAX_MEMORY", (200_u64 << 20).to_string());
    check_limit(command, folder.path(), 320 << 20);
}

/// A machine with little free memory is one whose `/proc/meminfo` says so, to this process alone.
#[test]
fn the_default_limit_is_a_part_of_the_free_memory() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let free_kilobytes = 400 << 10;
    let text = format!("MemTotal: {free_kilobytes} kB\nMemAvailable: {free_kilobytes} kB\n");
    let meminfo = write(folder.path(), "meminfo", text.as_bytes());
    let script = "mount --bind \"$0\" /proc/meminfo && exec \"$@\"";
    let with_little = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&meminfo).arg(program);
        command
    };
    if !with_little("true").output().is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: only root may mount over a file");
    }
    let program = env!("CARGO_BIN_EXE_spanwise");
    check_limit(with_little(program), folder.path(), 480 << 20);
}

#[test]
fn perf_bombs_end_at_the_limit() {
    let _turn = turn();
    check_bomb("perf.data", &inputs::packed_perf_data(16), &["info"]);
}

#[test]
fn perfetto_bombs_end_at_the_limit() {
    let _turn = turn();
    check_bomb("bomb.pftrace", &inputs::packed_perfetto(20), &["info"]);
}

#[test]
fn profile_bombs_end_at_the_limit() {
    let _turn = turn();
    let piece: String = (0..40_000).map(|row| format!("main;f{row} 1\n")).collect();
    let pieces = std::iter::repeat_n(piece.into_bytes(), 600);
    check_bomb("bomb.folded.zst", &inputs::zstd(pieces), &["report"]);
}
