//! What this machine lets this user record, found by trying.
//!
//! Settings alone do not decide: root, capabilities, containers and the kernel's own build all
//! have a say. So each ability is tried on this very process, and settings only explain.

use std::io;
use std::path::Path;

use spanwise_symbols::ProbePlaces;

use super::processes;
use super::processes::setting;
use super::sys;
use crate::calls::ReturnsBy;
use crate::follow::Followed;
use crate::perf::event::{Attr, Stacks};
use crate::perf::probe::Probe;
use crate::perf::ring::Ring;
use crate::perf::rings::{Rings, TraceMemory};
use crate::pt::{INTEL_PT, TraceSource};
use crate::python::Memory;
use crate::torch::Torch;
use crate::{CallsBy, calls, single_step};

/// Something that a recording may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Stack samples of one's own programs.
    Sampling,
    /// Samples inside the kernel.
    KernelFrames,
    /// When threads leave their processor and come back.
    Switches,
    /// The same of threads that switch all the time, at a cost that one does not notice.
    ManySwitches,
    /// Copies of stacks, for code without frame pointers.
    StackCopies,
    /// Rings that are large enough for such copies.
    LargeRings,
    /// Names of the kernel's functions.
    KernelNames,
    /// Processes of other users.
    OtherUsers,
    /// Calls of a function, as a trigger.
    Probes,
    /// Signals that a program sends itself, as a trigger.
    Signals,
    /// The memory of interpreters.
    PythonFrames,
    /// Calls of functions, one by one.
    Calls,
    /// The same of a few functions, where there is no BPF.
    CallsByProbes,
    /// Branches of a function, one by one.
    Steps,
    /// PyTorch's profiler in programs that are started.
    Torch,
    /// All branches, by the hardware.
    IntelPt,
}

/// What was found about an ability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub ability: Ability,
    /// What it is good for.
    pub what: &'static str,
    pub is_there: bool,
    /// What was tried and what came of it.
    pub detail: String,
    /// A command that would give it.
    pub cure: Option<String>,
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Tries everything.
pub fn examine() -> Vec<Finding> {
    let abilities = [
        Ability::Sampling,
        Ability::Switches,
        Ability::ManySwitches,
        Ability::StackCopies,
        Ability::KernelFrames,
        Ability::KernelNames,
        Ability::LargeRings,
        Ability::OtherUsers,
        Ability::Probes,
        Ability::Signals,
        Ability::PythonFrames,
        Ability::Calls,
        Ability::CallsByProbes,
        Ability::Steps,
        Ability::Torch,
        Ability::IntelPt,
    ];
    abilities.map(examine_one).into()
}

/// Tries one ability.
pub fn examine_one(ability: Ability) -> Finding {
    let clock = Attr::clock(1, Stacks::FramePointers);
    let copies = Attr::clock(1, Stacks::Dwarf { bytes: 8192 }).without_kernel();
    match ability {
        Ability::Sampling => {
            sampling(ability, "stack samples of your programs", clock.without_kernel())
        }
        Ability::Switches => {
            let switches = Attr::switch_records().without_kernel();
            sampling(ability, "when threads wait, and how long", switches)
        }
        Ability::ManySwitches => many_switches(),
        Ability::StackCopies if !cfg!(target_arch = "x86_64") => Finding {
            ability,
            what: "stacks of code without frame pointers",
            is_there: false,
            detail: "only on x86-64".to_owned(),
            cure: None,
        },
        Ability::StackCopies => sampling(ability, "stacks of code without frame pointers", copies),
        Ability::KernelFrames => sampling(ability, "what the kernel does for them", clock),
        Ability::LargeRings => large_rings(clock.without_kernel()),
        Ability::KernelNames => kernel_names(),
        Ability::OtherUsers => other_users(),
        Ability::Probes => probes(),
        Ability::Signals => signals(),
        Ability::PythonFrames => python_frames(),
        Ability::Calls => calls(),
        Ability::CallsByProbes => calls_by_probes(),
        Ability::Steps => steps(),
        Ability::Torch => torch(),
        Ability::IntelPt => intel_pt(Path::new(INTEL_PT)),
    }
}

/// Opens an event of this process, and closes it again.
fn sampling(ability: Ability, what: &'static str, attr: Attr) -> Finding {
    match sys::open_event(&attr, 0, -1) {
        Ok(_) => found(ability, what, "tried: the kernel allows it".to_owned()),
        Err(error) => refused(ability, what, &error),
    }
}

fn found(ability: Ability, what: &'static str, detail: String) -> Finding {
    Finding { ability, what, is_there: true, detail, cure: None }
}

fn refused(ability: Ability, what: &'static str, error: &io::Error) -> Finding {
    let needed = if ability == Ability::KernelFrames { 1 } else { 2 };
    let paranoid = setting(PARANOID);
    let (detail, cure) = match (error.raw_os_error(), paranoid) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > needed => (
            format!("kernel.perf_event_paranoid is {level}"),
            Some(format!("sudo sysctl kernel.perf_event_paranoid={needed}")),
        ),
        (Some(libc::EACCES | libc::EPERM), _) => (
            format!("{error}; a container's seccomp filter, perhaps"),
            Some("docker run --cap-add PERFMON --security-opt seccomp=unconfined …".to_owned()),
        ),
        (Some(libc::ENOSYS), _) => ("the kernel was built without perf events".to_owned(), None),
        _ => (error.to_string(), None),
    };
    Finding { ability, what, is_there: false, detail, cure }
}

fn large_rings(attr: Attr) -> Finding {
    const WANTED: usize = 8 << 20;
    let (ability, what) = (Ability::LargeRings, "room for copies of deep stacks");
    let event = match sys::open_event(&attr, 0, 0) {
        Ok(event) => event,
        Err(error) => return refused(ability, what, &error),
    };
    let sizes = std::iter::successors(Some(WANTED), |size| Some(size / 2));
    let mut sizes = sizes.take_while(|&size| size >= sys::page_bytes());
    let largest = sizes.find(|&size| Ring::map(&event, size).is_ok());
    let kib = |bytes: usize| bytes / 1024;
    match largest {
        Some(WANTED) => found(ability, what, format!("{} KiB for each processor", kib(WANTED))),
        size => Finding {
            ability,
            what,
            is_there: false,
            detail: format!("{} KiB for each processor", kib(size.unwrap_or(0))),
            cure: Some("sudo sysctl kernel.perf_event_mlock_kb=8196".to_owned()),
        },
    }
}

fn kernel_names() -> Finding {
    let (ability, what) = (Ability::KernelNames, "names of the kernel's functions");
    match processes::kernel_text() {
        Some(_) => found(ability, what, "/proc/kallsyms shows addresses".to_owned()),
        None => Finding {
            ability,
            what,
            is_there: false,
            detail: "/proc/kallsyms hides addresses".to_owned(),
            cure: Some(
                "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1".to_owned(),
            ),
        },
    }
}

/// Opens the trace of this process with rings, and closes it again.
fn intel_pt(folder: &Path) -> Finding {
    let (ability, what) = (Ability::IntelPt, "every call, by the processor (--backend intel-pt)");
    let Ok(source) = TraceSource::read(folder) else {
        let detail = "the kernel has no intel_pt: another processor, or a virtual machine";
        return Finding { ability, what, is_there: false, detail: detail.to_owned(), cure: None };
    };
    let tried = source.config(&[]).map_err(io::Error::other).and_then(|config| {
        let attr = Attr::hardware_trace(source.kind, config).without_kernel();
        let memory = TraceMemory { bytes: 1, keeps_last: true, filter: None };
        Rings::open_trace("intel_pt", attr, &[0], &memory)
    });
    match tried {
        Ok(_) => found(
            ability,
            what,
            "tried: the kernel allows it. We have had no such machine: please send us a \
             recording, also one that reads well"
                .to_owned(),
        ),
        Err(error) => refused(ability, what, &error),
    }
}

/// The first process is always root's.
fn other_users() -> Finding {
    let (ability, what) = (Ability::OtherUsers, "attach to processes of other users");
    let attr = Attr::clock(1, Stacks::FramePointers).without_kernel();
    match sys::open_event(&attr, 1, -1) {
        Ok(_) => found(ability, what, "tried on process 1".to_owned()),
        Err(error) => Finding {
            ability,
            what,
            is_there: false,
            detail: format!("tried on process 1: {error}"),
            cure: Some(AS_ROOT.to_owned()),
        },
    }
}

/// Not `setcap` on the program: whoever may run it could then read the memory of every process.
const AS_ROOT: &str = "sudo $(which spanwise) attach -p PID";

/// A probe of this very program, where nobody passes meanwhile.
fn probes() -> Finding {
    let (ability, what) = (Ability::Probes, "snapshots when a function is called (--trigger)");
    let tried = own_function().and_then(|(path, places)| {
        let path = str::from_utf8(&path).map_err(io::Error::other)?;
        let probe = Probe::define(path, places.entry, &[])?;
        sys::open_event(&Attr::tracepoint(probe.number), 0, -1).map(drop)
    });
    match tried {
        Ok(()) => found(ability, what, "tried: the kernel allows it".to_owned()),
        Err(error) => lacks(ability, what, format!("tried: {error}"), tracing_cure(&error)),
    }
}

/// A function of this program: its file, and where in it.
fn own_function() -> io::Result<(Vec<u8>, ProbePlaces)> {
    let own = calls::own_function();
    own.ok_or_else(|| io::Error::other("this program is not in its own memory"))
}

fn many_switches() -> Finding {
    let (ability, what) =
        (Ability::ManySwitches, "threads that switch all the time, at little cost");
    match Followed::begin(&[std::process::id() as i32], false, false) {
        Ok(_) => found(ability, what, "tried: the kernel runs a program for it".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            lacks(ability, what, format!("tried: {error}"), "run spanwise as root")
        }
        Err(error) => Finding {
            ability,
            what,
            is_there: false,
            detail: format!("tried: {error}; it is recorded, and slows such programs down more"),
            cure: None,
        },
    }
}

fn calls() -> Finding {
    let (ability, what) = (Ability::Calls, "every call of chosen functions (--calls)");
    match try_calls(CallsBy::Bpf) {
        Ok(ReturnsBy::Program) => {
            let detail = "tried: the kernel allows it, and that its program performs returns";
            found(ability, what, detail.to_owned())
        }
        Ok(ReturnsBy::Stepping) => {
            let detail = "tried: the kernel allows it; it executes each return as a single step, \
                          which costs microseconds";
            found(ability, what, detail.to_owned())
        }
        Err(error) => {
            let cure = match error.raw_os_error() {
                Some(libc::EINVAL) => "use a kernel of 6.6 or later",
                _ => "run spanwise as root",
            };
            lacks(ability, what, format!("tried: {error}"), cure)
        }
    }
}

fn try_calls(by: CallsBy) -> io::Result<ReturnsBy> {
    own_function().and_then(|(path, places)| calls::try_on_ourselves(by, &path, &places))
}

pub(crate) fn has_calls_by_bpf() -> bool {
    try_calls(CallsBy::Bpf).is_ok()
}

fn calls_by_probes() -> Finding {
    let (ability, what) = (Ability::CallsByProbes, "calls without BPF (--calls-by uprobes)");
    match try_calls(CallsBy::Probes) {
        Ok(_) => found(ability, what, "tried: the kernel allows it".to_owned()),
        Err(error) => lacks(ability, what, format!("tried: {error}"), tracing_cure(&error)),
    }
}

/// What is asked of the kernel's tracing needs its folder, and to be root there.
fn tracing_cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound if sys::is_root() => "mount -t tracefs tracefs /sys/kernel/tracing",
        io::ErrorKind::NotFound => {
            "sudo mount -t tracefs tracefs /sys/kernel/tracing, and run spanwise as root"
        }
        _ => "run spanwise as root",
    }
}

fn lacks(ability: Ability, what: &'static str, detail: String, cure: &str) -> Finding {
    Finding { ability, what, is_there: false, detail, cure: Some(cure.to_owned()) }
}

fn signals() -> Finding {
    let (ability, what) = (Ability::Signals, "snapshots at a signal (--trigger-signal)");
    let number = processes::signal_tracepoint();
    let number = number.ok_or_else(|| match processes::tracing_folder() {
        Some(_) => io::ErrorKind::PermissionDenied.into(),
        None => io::Error::new(io::ErrorKind::NotFound, "no tracing folder"),
    });
    match number.and_then(|number| sys::open_event(&Attr::tracepoint(number), 0, -1)) {
        Ok(_) => found(ability, what, "tried: the kernel allows it".to_owned()),
        Err(error) => lacks(ability, what, format!("tried: {error}"), tracing_cure(&error)),
    }
}

/// Whether one may read the memory of processes: one's own is a start, that of a stranger the
/// proof.
fn python_frames() -> Finding {
    let (ability, what) = (Ability::PythonFrames, "functions of Python");
    let here = 0x5ca1ab1e_u64;
    let own = Memory { pid: std::process::id() as i32 }.word(&raw const here as u64);
    match own {
        Ok(read) if read == here => {}
        Ok(_) => return lacks(ability, what, "tried: other memory than ours".to_owned(), ""),
        Err(error) => {
            let cure = "docker run --cap-add SYS_PTRACE …";
            return lacks(ability, what, format!("tried: {error}"), cure);
        }
    }
    let scope = setting(PTRACE_SCOPE).unwrap_or(0);
    let any = processes::mappings(1).first().map(|mapping| mapping.start);
    let may_all = any.is_some_and(|start| Memory { pid: 1 }.word(start).is_ok());
    let detail = match (may_all, scope) {
        (true, _) => "tried on process 1".to_owned(),
        (false, 0) => "of your own processes".to_owned(),
        (false, scope) => format!("of programs that `run` starts: ptrace_scope is {scope}"),
    };
    let cure = (!may_all && scope > 0).then(|| "sudo sysctl kernel.yama.ptrace_scope=0".to_owned());
    Finding { cure, ..found(ability, what, detail) }
}

fn steps() -> Finding {
    let (ability, what) = (Ability::Steps, "every branch of a function (--single-step)");
    match single_step::try_on_a_child() {
        Ok(()) => found(ability, what, "tried on a process of our own".to_owned()),
        Err(error) => {
            let cure = match error.kind() {
                io::ErrorKind::PermissionDenied => "run spanwise as root",
                _ => "Linux 5.13 or later, on x86-64, with hardware breakpoints",
            };
            lacks(ability, what, format!("tried: {error}"), cure)
        }
    }
}

fn torch() -> Finding {
    let (ability, what) = (Ability::Torch, "PyTorch's profiler in programs (--torch)");
    match Torch::try_on_python() {
        Ok(found_there) => found(ability, what, format!("tried: {found_there}")),
        Err(error) => {
            let cure = "run programs by a Python whose environment is not ignored (-E, -I)";
            lacks(ability, what, format!("tried: {error}"), cure)
        }
    }
}

const PTRACE_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Rights that a file gives are given to everybody who may run it.
    #[test]
    fn no_cure_gives_rights_to_everybody() {
        assert!(!AS_ROOT.contains("setcap"));
        for finding in examine() {
            let cure = finding.cure.unwrap_or_default();
            assert!(!cure.contains("setcap"), "{:?}: {cure}", finding.ability);
        }
    }

    #[test]
    fn intel_pt_is_there_only_where_the_kernel_opens_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |number: Option<&str>, detail: &str| {
            if let Some(number) = number {
                fs::write(folder.path().join("type"), number).expect("writable");
            }
            let finding = intel_pt(folder.path());
            let is_said = finding.detail.contains(detail) && !finding.detail.is_empty();
            assert!(!finding.is_there && is_said, "{number:?}: {}", finding.detail);
        };
        check(None, "no intel_pt");
        check(Some("x\n"), "no intel_pt");
        // A source that no kernel has: what it says about that is up to it.
        check(Some("4000000\n"), "");
    }
}
