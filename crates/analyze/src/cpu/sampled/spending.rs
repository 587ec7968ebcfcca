//! What the time of a recorded program went into, by the functions on its stacks.

use std::collections::BTreeMap;

use spanwise_model::{Frame, FrameId, FrameKind, StackId, ThreadState, Trace, TrackId};

use super::data_loading::{DataLoadingSign, loads_data};
use super::python::interpreting::interpreting_stacks;
use super::python::start_up::{imported_modules, module_name};
use crate::cpu::python::from_package;
use crate::{Facts, SpentOn, TotalNanos};

/// How a frame is known to belong.
enum Sign {
    /// A Python frame: how its file begins.
    File(&'static str),
    /// A Python frame: file and function.
    Function(&'static str, &'static str),
    /// Native code: a part of the name of its file.
    Mapping(&'static str),
    /// Native code or the kernel: the whole name of the function.
    Native(&'static str),
}

const SIGNS: &[(SpentOn, Sign)] = &[
    (SpentOn::DataLoading, Sign::Function("torch/utils/data/dataloader.py", "__next__")),
    (SpentOn::Preprocessing, Sign::File("numpy/")),
    (SpentOn::Preprocessing, Sign::File("PIL/")),
    (SpentOn::Preprocessing, Sign::File("cv2/")),
    (SpentOn::Preprocessing, Sign::File("scipy/")),
    (SpentOn::Preprocessing, Sign::File("pandas/")),
    (SpentOn::Preprocessing, Sign::File("torchvision/transforms/")),
    (SpentOn::Preprocessing, Sign::File("torchaudio/transforms/")),
    (SpentOn::Preprocessing, Sign::Mapping("_multiarray_umath")),
    (SpentOn::Preprocessing, Sign::Mapping("openblas")),
    (SpentOn::Serialization, Sign::File("pickle.py")),
    (SpentOn::Serialization, Sign::File("multiprocessing/reduction.py")),
    (SpentOn::Serialization, Sign::File("torch/multiprocessing/reductions.py")),
    (SpentOn::Serialization, Sign::Mapping("_pickle.")),
    (SpentOn::Serialization, Sign::Native("_pickle_dumps")),
    (SpentOn::Serialization, Sign::Native("_pickle_loads")),
    (SpentOn::Serialization, Sign::Native("_pickle_Pickler_dump")),
    (SpentOn::Serialization, Sign::Native("_pickle_Unpickler_load")),
    (SpentOn::EventLoop, Sign::File("asyncio/")),
    (SpentOn::EventLoop, Sign::File("uvloop/")),
    (SpentOn::Import, Sign::Function("<frozen importlib._bootstrap>", "_find_and_load")),
    (SpentOn::Import, Sign::Function("importlib/_bootstrap.py", "_find_and_load")),
    (
        SpentOn::Import,
        Sign::Function("<frozen importlib._bootstrap>", "_install_external_importers"),
    ),
    (SpentOn::Import, Sign::Native("pymain_init")),
    (SpentOn::Import, Sign::Native("Py_InitializeFromConfig")),
    (SpentOn::Import, Sign::Native("init_import_site")),
    (SpentOn::Allocation, Sign::Native("cudaMalloc")),
    (SpentOn::Allocation, Sign::Native("cudaFree")),
    (SpentOn::Allocation, Sign::Native("malloc")),
    (SpentOn::Allocation, Sign::Native("__libc_malloc")),
    (SpentOn::Allocation, Sign::Native("__GI___libc_malloc")),
    (SpentOn::Allocation, Sign::Native("__libc_calloc")),
    (SpentOn::Allocation, Sign::Native("__calloc")),
    (SpentOn::Allocation, Sign::Native("calloc")),
    (SpentOn::Allocation, Sign::Native("realloc")),
    (SpentOn::Allocation, Sign::Native("__GI___libc_realloc")),
    (SpentOn::Allocation, Sign::Native("_int_malloc")),
    (SpentOn::Allocation, Sign::Native("_int_free")),
    (SpentOn::Allocation, Sign::Native("__GI___libc_free")),
    (SpentOn::Allocation, Sign::Native("__free")),
    (SpentOn::Allocation, Sign::Native("cfree")),
    (SpentOn::Allocation, Sign::Native("free")),
    (SpentOn::Allocation, Sign::Native("gc_collect_main")),
    (SpentOn::Allocation, Sign::Native("gc_collect_region")),
    (SpentOn::Allocation, Sign::Native("bytearray___init__")),
    (SpentOn::Allocation, Sign::Native("bytearray_init")),
    (SpentOn::Allocation, Sign::Native("PyByteArray_Resize")),
    (SpentOn::Allocation, Sign::Native("bytearray_dealloc")),
    (SpentOn::Allocation, Sign::Native("asm_exc_page_fault")),
    (SpentOn::Allocation, Sign::Native("exc_page_fault")),
    (SpentOn::Allocation, Sign::Native("do_user_addr_fault")),
    (SpentOn::Allocation, Sign::Native("__x64_sys_mmap")),
    (SpentOn::Allocation, Sign::Native("__x64_sys_munmap")),
    (SpentOn::Allocation, Sign::Native("__x64_sys_brk")),
    (SpentOn::Allocation, Sign::Native("__x64_sys_madvise")),
];

/// What a frame says by itself, as bits.
fn signs(trace: &Trace, frame: &Frame) -> u8 {
    let text = |id| trace.strings().get(id);
    let file = from_package(text(frame.file));
    let function = text(frame.function);
    let plain = function.split([' ', '@']).next().unwrap_or(function);
    let mapping = text(frame.mapping);
    let is_python = frame.kind == FrameKind::Python;
    let own = if is_python { loads_data(text(frame.file), plain) } else { DataLoadingSign::None };
    let own = match own {
        DataLoadingSign::Loads => SpentOn::DataLoading.bit(),
        DataLoadingSign::Iterates => IN_ITERATION,
        DataLoadingSign::LoadsInIteration => IF_IN_ITERATION,
        DataLoadingSign::None => 0,
    };
    let fits = |sign: &Sign| match sign {
        Sign::File(begin) => is_python && file.starts_with(begin),
        Sign::Function(of, is) => is_python && file == *of && plain == *is,
        Sign::Mapping(part) => {
            !is_python && mapping.rsplit('/').next().is_some_and(|name| name.contains(part))
        }
        Sign::Native(is) => !is_python && plain == *is,
    };
    SIGNS.iter().filter(|(_, sign)| fits(sign)).fold(own, |bits, (on, _)| bits | on.bit())
}

/// Bits that no [`SpentOn`] has: inside of what iterates; and what loads data only there.
const IN_ITERATION: u8 = 1 << 6;
const IF_IN_ITERATION: u8 = 1 << 7;

/// What a frame says, wherever it stands.
#[derive(Clone, Copy)]
struct FrameSigns {
    bits: u8,
    is_python: bool,
    /// A call of the system that an event loop makes for others: what polls is its own.
    is_io: bool,
}

impl FrameSigns {
    fn of(trace: &Trace, frame: &Frame) -> FrameSigns {
        let name = trace.strings().get(frame.function);
        let call = name.split_once("_sys_").map(|(_, call)| call);
        let is_poll = |call: &str| call.contains("poll") || call.contains("select");
        FrameSigns {
            bits: signs(trace, frame),
            is_python: frame.kind == FrameKind::Python,
            is_io: frame.kind == FrameKind::Kernel && call.is_some_and(|call| !is_poll(call)),
        }
    }
}

/// For every stack what its time goes into, as bits.
pub(super) fn spending_of_stacks(trace: &Trace) -> Vec<u8> {
    let frames = (0..trace.frames().len() as u32).map(|frame| trace.frames().get(FrameId(frame)));
    let of_frame: Vec<FrameSigns> = frames.map(|frame| FrameSigns::of(trace, &frame)).collect();
    let inherited = SpentOn::ALL
        .iter()
        .filter(|on| on.counts_calls())
        .fold(IN_ITERATION, |bits, on| bits | on.bit());
    let stacks = trace.stacks();
    let mut bits = vec![0_u8; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let Some(frame) = stacks.frame(id) else { continue };
        let around = bits[stacks.parent(id).index()];
        let FrameSigns { bits: own, is_python, is_io } = of_frame[frame.index()];
        // An event loop runs other people's functions: what those take is not its own. Native
        // code belongs to the function that called it.
        let around = if is_python || is_io { around & inherited } else { around };
        let loads = own & IF_IN_ITERATION != 0 && around & IN_ITERATION != 0;
        let loads = if loads { SpentOn::DataLoading.bit() } else { 0 };
        let all = own & !IF_IN_ITERATION | around | loads;
        // What start-up needs memory for, and the like, is start-up.
        let import = SpentOn::Import.bit();
        bits[stack] = if all & import != 0 { import } else { all };
    }
    bits
}

/// Time of one thread by what it went into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SpentTime {
    pub(crate) cpu_ns: TotalNanos,
    /// Blocked, except where it waited for something to do.
    pub(crate) blocked_ns: TotalNanos,
    /// Without a processor, where the stack of that is known.
    pub(crate) runnable_ns: TotalNanos,
    pub(crate) samples: u64,
}

/// What threads spent their time on; also by the Python function that they were in.
#[derive(Debug, Default)]
pub(crate) struct ObservedSpending {
    pub(crate) by_thread: BTreeMap<(TrackId, SpentOn), SpentTime>,
    /// CPU time by the innermost Python function of the program's own, or else of any, and by
    /// the line that it was on; of imports by module.
    by_function: BTreeMap<(SpentOn, String), BTreeMap<u32, TotalNanos>>,
    /// CPU time of the interpreter at work on Python code, by thread; only threads that ran some.
    pub(crate) python: BTreeMap<TrackId, SpentTime>,
}

impl ObservedSpending {
    pub(crate) fn new(facts: &Facts) -> Self {
        let (trace, time) = (facts.trace(), facts.cpu_time());
        let bits = spending_of_stacks(trace);
        let interpreting = interpreting_stacks(trace);
        let elsewhere = [SpentOn::Preprocessing, SpentOn::Serialization, SpentOn::Allocation]
            .iter()
            .fold(0, |bits, on| bits | on.bit());
        let callers = super::python_callers(trace);
        let modules = imported_modules(trace);
        let samples = trace.samples();
        let mut found = ObservedSpending::default();
        for row in (0..samples.len()).filter(|&row| Some(samples.event[row]) == time.event) {
            let (track, stack) = (TrackId(samples.track[row]), samples.stack[row] as usize);
            let ns = i128::from(time.sample_ns[row]);
            for on in SpentOn::ALL.into_iter().filter(|on| bits[stack] & on.bit() != 0) {
                let spent = found.by_thread.entry((track, on)).or_default();
                (spent.cpu_ns, spent.samples) = (spent.cpu_ns + ns, spent.samples + 1);
                // Of imports, what was imported says more than the function that was at it.
                let is_import = on == SpentOn::Import;
                let function = if is_import { modules[stack] } else { callers[stack] };
                if let Some(function) = function {
                    let frame = trace.frames().get(function);
                    let name = match is_import {
                        true => module_name(trace.strings().get(frame.file)),
                        false => super::frame_name(trace, &frame),
                    };
                    let lines = found.by_function.entry((on, name)).or_default();
                    *lines.entry(frame.line).or_default() += ns;
                }
            }
            if callers[stack].is_some() {
                let spent = found.python.entry(track).or_default();
                if interpreting[stack] && bits[stack] & elsewhere == 0 {
                    (spent.cpu_ns, spent.samples) = (spent.cpu_ns + ns, spent.samples + 1);
                }
            }
        }
        for state in trace.thread_states().iter_counted() {
            let (bits, ns) = (bits[state.stack.index()], i128::from(state.dur));
            for on in SpentOn::ALL.into_iter().filter(|on| bits & on.bit() != 0) {
                let spent = found.by_thread.entry((state.track, on)).or_default();
                match state.state {
                    ThreadState::Blocked(reason)
                        if !(reason.is_idle() && on == SpentOn::EventLoop) =>
                    {
                        spent.blocked_ns += ns;
                    }
                    ThreadState::Runnable(_) => spent.runnable_ns += ns,
                    _ => {}
                }
            }
        }
        found
    }

    /// CPU time of all threads, and how many samples show it.
    pub(crate) fn total(&self, on: SpentOn) -> SpentTime {
        let rows = self.by_thread.iter().filter(|((_, of), _)| *of == on);
        rows.fold(SpentTime::default(), |sum, (_, row)| SpentTime {
            cpu_ns: sum.cpu_ns + row.cpu_ns,
            blocked_ns: sum.blocked_ns + row.blocked_ns,
            runnable_ns: sum.runnable_ns + row.runnable_ns,
            samples: sum.samples + row.samples,
        })
    }

    /// The Python function with most of it.
    pub(crate) fn function(&self, on: SpentOn) -> Option<SpentIn<'_>> {
        let rows = self.by_function.iter().filter(|((of, _), _)| *of == on);
        let rows = rows.map(|((_, name), lines)| {
            let most = lines.iter().max_by_key(|&(&line, &ns)| (ns, std::cmp::Reverse(line)));
            let line = most.map_or(0, |(&line, _)| line);
            SpentIn { function: name, line, cpu_ns: lines.values().sum() }
        });
        rows.max_by_key(|row| (row.cpu_ns, std::cmp::Reverse(row.function)))
    }
}

/// A Python function that time was spent under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpentIn<'a> {
    pub(crate) function: &'a str,
    /// The line that most of it was on; 0 where that is not known.
    pub(crate) line: u32,
    pub(crate) cpu_ns: TotalNanos,
}

/// The thread that a recording is about: of those that ran Python, or of all where none did,
/// the one that ran longest.
pub(crate) fn main_observed(facts: &Facts) -> Option<TrackId> {
    let (trace, time) = (facts.trace(), facts.cpu_time());
    let frames = trace.frames();
    let ends_in_python: Vec<bool> =
        super::python_callers(trace).into_iter().map(|frame| frame.is_some()).collect();
    let mut runs_python = vec![false; trace.tracks().len()];
    let samples = trace.samples();
    if !frames.is_empty() {
        for (&track, &stack) in samples.track.iter().zip(samples.stack.iter()) {
            runs_python[track as usize] |= ends_in_python[stack as usize];
        }
    }
    let ran = time.track_ns.iter().enumerate().filter(|&(_, &ns)| ns > 0);
    let longest = ran.rev().max_by_key(|&(track, &ns)| (runs_python[track], ns))?;
    Some(TrackId(longest.0 as u32))
}
