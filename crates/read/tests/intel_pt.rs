//! Recordings of Intel PT, made of programs that were stepped: the calls that we read are those
//! that were made.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod recorded;
mod shadow;
#[path = "../../pt/tests/stepping/mod.rs"]
mod stepping;

use std::path::{Path, PathBuf};

use shadow::symbols::Symbols;
use spanwise_model::{NoticeKind, SpanId, Trace, TrackKind};
use spanwise_read::OpenOptions;
use stepping::cpus::{Keeping, Sharing, write_on_cpus};
use stepping::perf_data::{AuxSource, File, PiecePlace, TracedThread, ZERO, write};
use stepping::record::{Recorder, without_repetitions};
use stepping::small::{CODE, CODE_AT, check_seed, streams};
use stepping::{Built, Code, RecorderOptions, Step, SteppedProgram, build, step};

const STATIC: [&str; 3] = ["-O1", "-static", "-no-pie"];

/// Time enough between two packets for each call to have some of it.
const OPTIONS: fn() -> RecorderOptions =
    || RecorderOptions { ticks_per_instruction: 1000, ..RecorderOptions::default() };

/// A program and its steps; the program stays, for its code is in no recording.
struct Case {
    built: Built,
    stepped: SteppedProgram,
    /// Functions that no file names: address, size, name.
    made: Vec<(u64, u64, &'static str)>,
}

impl Case {
    fn new(name: &str, flags: &[&str], limit: usize) -> Option<Case> {
        let built = build(name, flags)?;
        let path = built.path.to_str().expect("a path of ours");
        let main = built.address("main").expect("every program has one");
        let stepped = step(&[path], &[(path, main)], limit);
        Some(Case::of(built, stepped))
    }

    fn of(built: Built, mut stepped: SteppedProgram) -> Case {
        for steps in stepped.threads.values_mut() {
            *steps = without_repetitions(steps, &stepped.code);
        }
        Case { built, stepped, made: Vec::new() }
    }

    fn threads(&self) -> Vec<TracedThread<'_>> {
        let threads = self.stepped.threads.iter();
        threads.map(|(&tid, steps)| TracedThread { tid, steps }).collect()
    }

    fn apart(&self) -> Vec<u8> {
        write(self.stepped.pid, &self.threads(), &self.stepped.code, OPTIONS())
    }

    fn shared(&self, cpus: usize, turn: usize, keeping: Keeping) -> Vec<u8> {
        let sharing = Sharing { cpus, turn, keeping };
        let options = RecorderOptions { psb_every: 300, ..OPTIONS() };
        write_on_cpus(self.stepped.pid, &self.threads(), &self.stepped.code, options, sharing)
    }

    fn read(&self, recording: &[u8]) -> Trace {
        let name = format!("{}.data", self.stepped.pid);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pt").join(name);
        std::fs::write(&path, recording).expect("written");
        let trace = read(&path);
        drop(std::fs::remove_file(&path));
        trace
    }

    /// How many of a thread's steps packets record, if nothing ends its trace.
    fn recorded(&self, steps: &[Step]) -> usize {
        let recorded = Recorder::record(steps, &self.stepped.code, OPTIONS()).instructions.len();
        let mut left = recorded + 1;
        let recorded = steps.iter().take_while(|step| {
            left -= usize::from(!step.is_diverted);
            left > 0
        });
        recorded.count() + 1
    }

    #[track_caller]
    fn check_apart(&self, least: usize) {
        self.check(&self.apart(), |steps| self.recorded(steps), least);
    }

    #[track_caller]
    fn check_shared(&self, cpus: usize, turn: usize, keeping: Keeping, least: usize) {
        self.check(&self.shared(cpus, turn, keeping), <[Step]>::len, least);
    }

    /// All threads of a recording have made the calls that they made.
    #[track_caller]
    fn check(&self, recording: &[u8], recorded: impl Fn(&[Step]) -> usize, least: usize) {
        self.check_trace(&self.read(recording), recorded, least);
    }

    fn symbols(&self) -> Symbols {
        let mut symbols = Symbols::of(&self.stepped.code);
        self.made.iter().for_each(|&(start, len, name)| symbols.add(start, len, name));
        symbols
    }

    #[track_caller]
    fn check_trace(&self, trace: &Trace, recorded: impl Fn(&[Step]) -> usize, least: usize) {
        let symbols = self.symbols();
        let lost = trace.notices().iter().filter(|notice| notice.kind == NoticeKind::DecodeError);
        assert_eq!(lost.count(), 0);
        for (tid, steps) in &self.stepped.threads {
            let found = found(trace, *tid);
            let steps = &steps[..recorded(steps)];
            check_same(&found, &shadow::calls(steps, &self.stepped.code, &symbols));
            assert!(found.len() >= least, "only {} calls", found.len());
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if self.built.path.starts_with(env!("CARGO_TARGET_TMPDIR")) {
            drop(std::fs::remove_file(&self.built.path));
        }
    }
}

fn read(path: &Path) -> Trace {
    let trace = spanwise_read::open(
        path,
        &OpenOptions { index: spanwise_read::IndexUse::Ignore, ..OpenOptions::default() },
    )
    .expect("a recording");
    trace.check().expect("a sound trace");
    trace
}

/// The calls of a thread, without the frames that stand for what was not traced.
fn found(trace: &Trace, tid: i32) -> Vec<(usize, String)> {
    let is_of = |kind: TrackKind, name: &str| kind == TrackKind::Thread && name == tid.to_string();
    let strings = trace.strings();
    let mut tracks = trace.tracks().iter();
    let found = tracks.find(|(_, track)| is_of(track.kind, strings.get(track.thread)));
    let Some((_, track)) = found else { return Vec::new() };
    let is_call = |span: SpanId| {
        let category = trace.categories().get(trace.spans().category(span));
        strings.get(category.name) == "function"
    };
    let depth = |span: SpanId| {
        let above =
            std::iter::successors(trace.spans().parent(span), |&at| trace.spans().parent(at));
        above.filter(|&above| is_call(above)).count()
    };
    // Among calls of the last instant, nesting is unknown.
    let end = track.span_ids().map(|span| trace.spans().end(span)).max();
    let is_before_end = |&span: &SpanId| is_call(span) && Some(trace.spans().start(span)) != end;
    let calls = track.span_ids().filter(is_before_end);
    calls.map(|span| (depth(span), trace.name(span).to_owned())).collect()
}

#[track_caller]
fn check_same(found: &[(usize, String)], made: &[shadow::Line]) {
    let is_same = |(found, made): &(&(usize, String), &shadow::Line)| {
        found.0 == made.0 && made.1.contains(&found.1)
    };
    let same = found.iter().zip(made).take_while(is_same).count();
    if same < found.len() || same + 8 < made.len() {
        let from = same.saturating_sub(12);
        let lines = (from..same + 8).map(|at| {
            let mark = if at == same { "here" } else { "" };
            format!("{mark:5}{:60?} {:?}\n", found.get(at), made.get(at))
        });
        let lines: String = lines.collect();
        panic!("after {same} calls of {} and {}:\n{lines}", found.len(), made.len());
    }
}

#[test]
fn recursion_and_function_pointers() {
    let Some(case) = Case::new("sorts.c", &STATIC, 20_000) else { return };
    case.check_apart(300);
}

#[test]
fn deep_recursion_and_jump_tables() {
    let Some(case) = Case::new("tables.c", &["-O2", "-static", "-no-pie"], 20_000) else { return };
    case.check_apart(300);
}

#[test]
fn stacks_that_are_left_all_at_once() {
    let Some(case) = Case::new("leaps.c", &STATIC, 20_000) else { return };
    case.check_apart(100);
}

#[test]
fn signal_handlers() {
    let Some(case) = Case::new("signals.c", &STATIC, 20_000) else { return };
    case.check_apart(20);
}

#[test]
fn virtual_calls_and_containers() {
    let Some(case) = Case::new("shapes.cc", &["-O1"], 30_000) else { return };
    case.check_apart(200);
}

#[test]
fn exceptions() {
    let Some(case) = Case::new("throws.cc", &["-O1"], 60_000) else { return };
    case.check_apart(500);
}

#[test]
fn rust_with_a_panic() {
    let Some(case) = Case::new("traits.rs", &["-Copt-level=1"], 30_000) else { return };
    case.check_apart(200);
}

#[test]
fn threads() {
    let Some(case) = Case::new("threads.c", &["-O1", "-pthread"], 30_000) else { return };
    assert_eq!(case.stepped.threads.len(), 3);
    case.check_apart(20);
    for (cpus, turn) in [(1, 20), (1, 500), (2, 300), (2, 47), (5, 1000)] {
        case.check_shared(cpus, turn, Keeping::Whole, 20);
    }
    case.check_shared(2, 300, Keeping::Pieces(999), 20);
    case.check_shared(2, 300, Keeping::Copies(3000, 1000), 20);
}

/// What fuzzing of the reader begins with.
#[test]
fn seeds_of_recordings() {
    for (name, bytes) in streams(CODE_AT) {
        let mut file = File::default();
        file.info(AuxSource::OfProcessors);
        file.named(5, 5, "small");
        let code =
            Code { start: CODE_AT, bytes: CODE.to_vec(), file: "/code".to_owned(), file_offset: 0 };
        file.mapped(5, &code);
        file.switched((5, 5), ZERO + 990, 0, false);
        let half = bytes.len() / 2;
        for (at, piece) in [(0, &bytes[..half]), (half, &bytes[half..])] {
            file.piece(5, PiecePlace { queue: 0, tid: -1, cpu: 0, offset: at as u64 }, piece, 0);
        }
        file.switched((5, 5), ZERO + 9000, 0, true);
        let recording = file.finish_on("6.1.0", &RecorderOptions::default());
        let mut input = vec![2, 40];
        input.extend(CODE);
        input.resize(2 + 32, 0x90);
        check_seed("intel_pt", name, &[input, recording].concat());
    }
}

/// What a full ring had no room for is reported, and everything before and after is there.
#[test]
fn rings_that_were_full() {
    let Some(case) = Case::new("sorts.c", &STATIC, 20_000) else { return };
    let whole = case.read(&case.shared(1, 2000, Keeping::Whole));
    let full = case.read(&case.shared(1, 2000, Keeping::Full(700)));
    let count = |trace: &Trace, kind: NoticeKind| {
        trace.notices().iter().filter(|notice| notice.kind == kind).map(|n| n.count).sum::<u64>()
    };
    assert_eq!(count(&whole, NoticeKind::EventsLost) + count(&whole, NoticeKind::DecodeError), 0);
    assert!(count(&full, NoticeKind::EventsLost) > 1 && count(&full, NoticeKind::DecodeError) > 1);
    let calls = |trace: &Trace| found(trace, case.stepped.pid).len();
    let (all, some) = (calls(&whole), calls(&full));
    assert!(some < all && some > all / 3, "{some} of {all}");
}

#[test]
fn code_of_the_kernel_in_the_program() {
    let Some(case) = Case::new("clocks.c", &["-O1"], 30_000) else { return };
    let vdso = case.stepped.code.iter().find(|code| code.file == "[vdso]").expect("there is one");
    let steps = &case.stepped.threads[&case.stepped.pid];
    let is_there = |step: &&Step| step.ip.wrapping_sub(vdso.start) < vdso.bytes.len() as u64;
    assert!(steps.iter().filter(is_there).count() > 100);
    case.check_apart(60);
}

/// A runtime that makes code has written it down, with a name.
#[test]
fn code_that_was_made_at_run_time() {
    let Some(mut case) = Case::new("makes.c", &STATIC, 20_000) else { return };
    let made = case.stepped.code.iter().find(|code| code.file.is_empty()).expect("made code");
    let (start, code) = (made.start + 64, made.bytes[64..83].to_vec());
    let pid = case.stepped.pid;
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pt").join(format!("jit-{pid}.dump"));
    // The process knows itself by another number, as in a container.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pt-{pid}"));
    std::fs::create_dir_all(&folder).expect("writable");
    let path = folder.join("jit-1.dump");
    std::fs::write(&path, dump(pid, start, &code, "made_function")).expect("written");
    case.made.push((start, code.len() as u64, "made_function"));
    let file = path.to_str().expect("a path of ours").to_owned();
    let marker = Code { start: 0x6000_0000_0000, bytes: vec![0; 4096], file, file_offset: 0 };
    case.stepped.code.push(marker);
    case.check_apart(400);
    // The recorder's copy counts more, and is that of the process whatever it calls itself.
    std::fs::write(&path, dump(pid, start, &code, "of_another")).expect("written");
    std::fs::write(&beside, dump(1, start, &code, "made_function")).expect("written");
    case.check_apart(400);
    std::fs::remove_file(&beside).expect("it was there");
    // Without a name there, that of the runtime's map counts.
    std::fs::write(&path, dump(pid, start, &code, "")).expect("written");
    let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    std::fs::write(&map, format!("{start:x} {:x} made_function\n", code.len())).expect("written");
    case.check_apart(400);
    drop(std::fs::remove_file(&map));
    drop(std::fs::remove_dir_all(&folder));
    // Without it, what ran there is lost, and said to be.
    let trace = case.read(&case.apart());
    let lost = trace.notices().iter().filter(|notice| notice.kind == NoticeKind::DecodeError);
    assert!(lost.map(|notice| notice.count).sum::<u64>() > 10);
}

/// What a runtime writes down: a head, and a function with its code.
fn dump(pid: i32, start: u64, code: &[u8], name: &str) -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let pid = u64::from(pid as u32);
    let head = words(&[0x4a69_5444 | 1 << 32, 40 | 62 << 32, pid << 32, 0, 0]);
    let (len, name) = (code.len() as u64, [name.as_bytes(), b"\0"].concat());
    let size = 16 + 40 + name.len() as u64 + len;
    let load = words(&[size << 32, 0, pid | pid << 32, start, start, len, 1]);
    [head, load, name, code.to_vec()].concat()
}

#[test]
fn python() {
    const PLACES: &str = "import sys, sysconfig as s; print(sys.executable); v = s.get_config_var; \
        print(v('LIBDIR') + '/' + v('INSTSONAME') if v('Py_ENABLE_SHARED') else sys.executable)";
    let output = std::process::Command::new("python3").args(["-c", PLACES]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return stepping::build::skip("Python is not stepped: there is none");
    };
    let places = String::from_utf8_lossy(&output.stdout).into_owned();
    let (program, library) = places.trim().split_once('\n').expect("two lines");
    let [Some(built), Some(library_built)] =
        [program, library].map(|path| stepping::build::existing(Path::new(path)))
    else {
        return;
    };
    let eval = library_built.address("_PyEval_EvalFrameDefault");
    let (Some(main), Some(eval)) = (built.address("main"), eval) else {
        return stepping::build::skip("Python is not stepped: its functions are not named");
    };
    let places = [(program, main), (library, eval)];
    let stepped = step(&[program, "-S", "-c", "print(sum(range(9)))"], &places, 30_000);
    Case::of(built, stepped).check_apart(500);
}

/// The kernel's code, kept beside the records.
#[test]
fn the_kernel() {
    let base = 0xffff_ffff_8100_0100;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pt").join("kernel.perf");
    std::fs::create_dir_all(folder.join("kcore_dir")).expect("can be made");
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    // An ELF core of one part.
    let head = [
        &b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0"[..],
        &words(&[0, 64, 0]),
        &b"\0\0\0\0\x40\0\x38\0\x01\0\0\0\0\0\0\0"[..],
        &words(&[1 | 7 << 32, 120, base, 0, CODE.len() as u64, CODE.len() as u64, 1]),
    ];
    let kcore = [&head.concat()[..], &CODE].concat();
    std::fs::write(folder.join("kcore_dir/kcore"), kcore).expect("written");
    let symbols = format!("{base:x} T entry\n{:x} t helper\n{:x} T end\n", base + 16, base + 24);
    std::fs::write(folder.join("kcore_dir/kallsyms"), symbols).expect("written");
    let stream = streams(base).remove(0).1;
    let mut file = File::default();
    file.info(AuxSource::OfProcessors);
    file.named(5, 5, "small");
    file.switched((5, 5), ZERO + 990, 0, false);
    file.piece(5, PiecePlace { queue: 0, tid: -1, cpu: 0, offset: 0 }, &stream, 0);
    std::fs::write(folder.join("data"), file.finish(&RecorderOptions::default())).expect("written");
    let trace = read(&folder);
    let count = |name: &str| trace.spans().ids().filter(|&at| trace.name(at) == name).count();
    assert_eq!(trace.notices().iter().count(), 0);
    assert_eq!((count("entry"), count("helper")), (1, 240));
    drop(std::fs::remove_dir_all(&folder));
}
