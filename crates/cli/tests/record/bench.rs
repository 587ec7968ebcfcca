//! What the tests share: programs, and ways to look at what was recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use spanwise_model::{SpanId, Trace};
use spanwise_read::{IndexUse, OpenOptions};
use tempfile::TempDir;

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with compiled programs, on a machine that lets us record.
pub(crate) struct Bench {
    folder: TempDir,
}

impl Bench {
    /// `None`, with a word about it, where nothing can be recorded.
    pub(crate) fn set_up() -> Option<Bench> {
        let doctor = spanwise().arg("doctor").output().expect("built for this test");
        if !doctor.status.success() {
            eprintln!("skipped: the kernel does not let us record");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        Some(Bench { folder })
    }

    /// The same, where this is possible, too: words of what the doctor says.
    pub(crate) fn with(ability: &str) -> Option<Bench> {
        let doctor = spanwise().args(["doctor", "--format", "csv"]).output();
        let findings = text(&doctor.expect("built for this test").stdout);
        if !findings.lines().any(|row| row.starts_with("yes") && row.contains(ability)) {
            eprintln!("skipped: the kernel does not allow: {ability}");
            return None;
        }
        Bench::set_up()
    }

    /// Whether programs in the kernel copy the frames of Python at each sample; a word where not.
    pub(crate) fn copies_frames(&self) -> bool {
        let doctor = self.run(&["doctor", "--format", "csv"]);
        let findings = text(&doctor.stdout);
        let ability = "threads that switch all the time";
        let can = findings.lines().any(|row| row.starts_with("yes") && row.contains(ability));
        if !can {
            eprintln!("skipped: the kernel does not allow: {ability}");
        }
        can
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of this folder; `None`, with a word, without a compiler.
    pub(crate) fn compile(&self, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs");
        let program = self.path(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-g0", "-pthread", "-fno-optimize-sibling-calls"]);
        compiler.args(flags).arg("-o").arg(&program).arg(sources.join(source));
        match compiler.status() {
            Err(_) => {
                eprintln!("skipped: there is no C compiler");
                None
            }
            Ok(status) => {
                assert!(status.success(), "{source} compiles");
                Some(program)
            }
        }
    }

    /// The program of the tests, as distributions compile: without frame pointers.
    pub(crate) fn deep(&self) -> Option<PathBuf> {
        self.compile("deep.c", "deep", &["-fomit-frame-pointer"])
    }

    /// `spanwise`, in this folder.
    pub(crate) fn spanwise(&self, args: &[&str]) -> Command {
        let mut command = spanwise();
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// The same without the right to load programs into the kernel; `None`, with a word, where
    /// that cannot be taken away.
    pub(crate) fn without_bpf(&self, args: &[&str]) -> Option<Command> {
        let command = |args: &[&str]| {
            let mut command = Command::new("setpriv");
            command.arg("--bounding-set=-bpf,-sys_admin").arg(env!("CARGO_BIN_EXE_spanwise"));
            command.args(args).current_dir(self.folder.path());
            command
        };
        let doctor = command(&["doctor", "--format", "csv"]).output();
        let is_without = doctor.is_ok_and(|output| {
            let findings = text(&output.stdout);
            let ability = "threads that switch all the time";
            findings.lines().any(|row| row.starts_with("no") && row.contains(ability))
        });
        if !is_without {
            eprintln!("skipped: setpriv cannot take the right to BPF away");
            return None;
        }
        Some(command(args))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.spanwise(args).output().expect("built for this test")
    }

    pub(crate) fn open(&self, recording: &str) -> Trace {
        self.open_with(recording, false)
    }

    /// With functions of Python told by the line that they are on.
    pub(crate) fn open_by_line(&self, recording: &str) -> Trace {
        self.open_with(recording, true)
    }

    fn open_with(&self, recording: &str, has_python_lines: bool) -> Trace {
        let index = IndexUse::Ignore;
        let options = OpenOptions { index, has_python_lines, ..OpenOptions::default() };
        let trace = spanwise_read::open(&self.path(recording), &options).expect("a recording");
        assert_eq!(trace.check(), Ok(()));
        trace
    }
}

fn spanwise() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spanwise"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that is killed, by its number, when the test is done with it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Running(command.spawn().expect("it can be run"))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_none()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid()]).status();
        assert!(status.expect("kill").success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("it ends", || {
            status = self.0.try_wait().expect("a child of ours");
            status.is_some()
        });
        status.expect("just seen")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks again and again until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(20));
    }
}

fn name(trace: &Trace, span: SpanId) -> &str {
    trace.strings().get(trace.spans().name(span))
}

/// The names of a span and what it stands on, from the innermost on.
fn stack(trace: &Trace, span: SpanId) -> Vec<&str> {
    let above = |span: &SpanId| trace.spans().parent(*span);
    std::iter::successors(Some(span), above).map(|span| name(trace, span)).collect()
}

/// Of each thread, by its name and number: how many spans have one of these names.
pub(crate) fn count_by_thread(trace: &Trace, wanted: &[&str]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for (_, track) in trace.tracks().iter() {
        let key = [track.thread_name, track.thread].map(|id| trace.strings().get(id).to_owned());
        let count = track.span_ids().filter(|&span| wanted.contains(&name(trace, span))).count();
        *counts.entry(key.into()).or_default() += count;
    }
    counts
}

/// Stacks whose innermost function is the one that works.
pub(crate) fn working_stacks(trace: &Trace) -> Vec<Vec<&str>> {
    stacks_of(trace, "leaf_work")
}

/// The stacks of all spans of this name, from the innermost on.
pub(crate) fn stacks_of<'a>(trace: &'a Trace, wanted: &str) -> Vec<Vec<&'a str>> {
    let mut stacks = Vec::new();
    for (_, track) in trace.tracks().iter() {
        let found = track.span_ids().filter(|&span| name(trace, span) == wanted);
        stacks.extend(found.map(|span| stack(trace, span)));
    }
    stacks
}

/// How long all spans of this name lasted together, and all threads together.
pub(crate) fn time_of(trace: &Trace, wanted: &str) -> (i128, i128) {
    let (mut found, mut all) = (0, 0);
    for (_, track) in trace.tracks().iter() {
        let spans = trace.spans();
        let length = |span: SpanId| i128::from(spans.dur(span));
        let is_wanted = |span: &SpanId| name(trace, *span) == wanted;
        found += track.span_ids().filter(is_wanted).map(length).sum::<i128>();
        let is_outermost = |span: &SpanId| spans.parent(*span).is_none();
        all += track.span_ids().filter(is_outermost).map(length).sum::<i128>();
    }
    (found, all)
}
