//! Words of findings about recorded programs.

use spanwise_analyze::{
    CpuFunction, CpuSpent, CpuStarvation, OffCpuWaits, SpentOn, share_error_percent,
};
use spanwise_model::BlockedOn;
use spanwise_write::{Paragraph, count_text, fitted_name, nanos_rounded_text, percent_text};

use crate::sections::cpu::off_cpu::caller_text;
use crate::sections::cpu::sampled::last_part;

/// Shares from samples say how many these are, and by how much the share may be off.
fn basis(samples: u64, all: u64) -> String {
    // Sums of samples do not say of how many.
    if all == 0 {
        return "number of samples unknown".to_owned();
    }
    let counts = format!("{} of {} samples", count_text(samples.into()), count_text(all.into()));
    match share_error_percent(samples, all) {
        Some(percent) => format!("{counts}, ± {percent:.1} %"),
        None => counts,
    }
}

pub(crate) fn cpu_spent(spent: &CpuSpent, name_width: usize) -> Paragraph {
    let (what, advice) = cpu_words(spent.on);
    let function = match &spent.function {
        Some(module) if spent.on == SpentOn::Import => format!(
            " {} of it for the module {}.",
            nanos_rounded_text(spent.function_ns),
            fitted_name(module, name_width)
        ),
        Some(function) => format!(
            " {} of it under {}{}.",
            nanos_rounded_text(spent.function_ns),
            fitted_name(function, name_width),
            line_text(", most of that on line ", spent.line)
        ),
        None => String::new(),
    };
    Paragraph {
        title: format!("{} of the CPU time {what}", percent_text(spent.spent_ns, spent.cpu_ns)),
        evidence: format!(
            "{} of {} ({}).{function}",
            nanos_rounded_text(spent.spent_ns),
            nanos_rounded_text(spent.cpu_ns),
            basis(spent.samples, spent.all_samples)
        ),
        advice: advice.to_owned(),
    }
}

fn cpu_words(on: SpentOn) -> (&'static str, &'static str) {
    match on {
        SpentOn::DataLoading => (
            "loads data",
            "Load in worker processes, ahead of time, or make loading an item cheaper.",
        ),
        SpentOn::Preprocessing => (
            "is numerical work in NumPy and similar libraries",
            "Do it once ahead of time, on fewer or smaller arrays, in place, or in other \
             processes.",
        ),
        SpentOn::Serialization => (
            "is spent on pickling",
            "Send less: share memory, send indices instead of data, or batch messages.",
        ),
        SpentOn::EventLoop => (
            "is overhead of the event loop",
            "Await fewer and larger pieces of work: each await costs a turn of the loop.",
        ),
        SpentOn::Allocation => (
            "is spent allocating and freeing memory",
            "Reuse buffers, allocate larger pieces less often, or keep objects alive in the \
             loop that makes them.",
        ),
        SpentOn::Import => (
            "is spent importing modules",
            "This is start-up time. Import rarely used modules inside the functions that need \
             them; python -X importtime lists modules.",
        ),
    }
}

/// A line, where it is known.
fn line_text(before: &str, line: u32) -> String {
    if line > 0 { format!("{before}{line}") } else { String::new() }
}

pub(crate) fn cpu_function(function: &CpuFunction, name_width: usize) -> Paragraph {
    let name = fitted_name(&function.function, name_width);
    let share = percent_text(function.own_ns, function.cpu_ns);
    let native = match function.native_ns {
        Some(ns) if ns > 0 => format!(", {} of it in native code it calls", nanos_rounded_text(ns)),
        _ => String::new(),
    };
    // Names of Python functions have the file.
    let file = match last_part(&function.file) {
        "" => String::new(),
        file => format!("{file}:"),
    };
    let language = if function.is_python { "the Python function " } else { "" };
    Paragraph {
        title: format!("{share} of the CPU time is spent in {language}{name}"),
        evidence: format!(
            "{} of {} ({}){native}{}.",
            nanos_rounded_text(function.own_ns),
            nanos_rounded_text(function.cpu_ns),
            basis(function.samples, function.all_samples),
            line_text(&format!("; most on line {file}"), function.line)
        ),
        advice: match (function.is_python, function.line > 0) {
            (true, _) => "Start with this function; --section python-lines shows its lines.",
            (false, true) => "Start with this function; --section cpu-lines shows its lines.",
            (false, false) if function.function.starts_with("[unknown]") => {
                "This file has no symbols: install its debug information, or compile it with -g."
            }
            (false, false) => "Start with this function; convert -o flame.svg shows its callers.",
        }
        .to_owned(),
    }
}

pub(crate) fn off_cpu(waits: &OffCpuWaits) -> Paragraph {
    let (what, advice) = match waits.blocks_event_loop && waits.on.is_idle() {
        true => ("waits", ""),
        false => wait_words(waits.on),
    };
    let place = match waits.stack.is_empty() {
        true => String::new(),
        false => format!(" in {}", caller_text(&waits.stack)),
    };
    let others = match waits.threads {
        1 => String::new(),
        threads => format!("; {threads} threads together {}", nanos_rounded_text(waits.total_ns)),
    };
    let waker = match &waits.waker {
        Some(waker) if waits.waker_stack.is_empty() => format!(" Mostly ended by {waker}."),
        Some(waker) => {
            format!(" Mostly ended by {waker} in {}.", caller_text(&waits.waker_stack))
        }
        None => String::new(),
    };
    Paragraph {
        title: format!(
            "{} {what} for {} of the time{}{place}",
            waits.thread,
            percent_text(waits.thread_ns, waits.window_ns),
            if waits.blocks_event_loop { ", with its event loop blocked," } else { "" }
        ),
        evidence: format!(
            "{} of {}{others}; {} {}, the longest, {}, starts at {}.{waker}",
            nanos_rounded_text(waits.thread_ns),
            nanos_rounded_text(waits.window_ns),
            count_text(waits.count.into()),
            if waits.count == 1 { "wait" } else { "waits" },
            nanos_rounded_text(waits.longest_ns),
            nanos_rounded_text(waits.longest_from)
        ),
        advice: match (waits.blocks_event_loop, waits.is_for_others) {
            (true, _) => {
                "Nothing else runs in the event loop meanwhile: await it, or move it to a thread \
                 (asyncio.to_thread)."
            }
            (false, true) => "It waits for other threads: see what those do.",
            (false, false) => advice,
        }
        .to_owned(),
    }
}

/// What a thread does meanwhile, and what may help.
fn wait_words(on: BlockedOn) -> (&'static str, &'static str) {
    const LOCK: &str = "Hold it for a shorter time, or use one per thread; --section locks shows \
                        who held it.";
    match on {
        BlockedOn::Mutex => ("waits for a mutex", LOCK),
        BlockedOn::ReadWriteLock => ("waits for a read-write lock", LOCK),
        BlockedOn::Lock => ("waits for a lock", LOCK),
        BlockedOn::FileLock => ("waits for a lock on a file", LOCK),
        BlockedOn::Futex => ("waits for another thread (futex)", LOCK),
        BlockedOn::KernelLock => (
            "waits for a lock in the kernel",
            "Let fewer threads map memory or open files at the same time.",
        ),
        BlockedOn::Gil => (
            "waits for Python's GIL",
            "Use processes instead of threads, native code that releases the GIL, or a \
             free-threaded build.",
        ),
        BlockedOn::Condition => (
            "waits for a condition",
            "See which thread signals it, and what that thread does meanwhile.",
        ),
        BlockedOn::Semaphore => (
            "waits for a semaphore",
            "See which thread posts it, and what that thread does meanwhile.",
        ),
        BlockedOn::Barrier => ("waits at a barrier", "Give all threads the same amount of work."),
        BlockedOn::Join => {
            ("waits for the end of a thread", "See what that thread does: it is the actual work.")
        }
        BlockedOn::Child => {
            ("waits for the end of a process", "See what that process does: it is the actual work.")
        }
        BlockedOn::Sleep => ("sleeps", "Wait for an event instead of sleeping, or sleep less."),
        BlockedOn::Fsync => (
            "waits until data is on the disk (fsync)",
            "Sync less often: commit in groups, or sync in the background.",
        ),
        BlockedOn::DiskRead => {
            ("waits for disk reads", "Read ahead, in larger pieces, or keep the data in memory.")
        }
        BlockedOn::DiskWrite => {
            ("waits for disk writes", "Write in larger pieces, or in the background.")
        }
        BlockedOn::PageFault => (
            "waits for pages of memory",
            "The file was not in memory yet, or memory is low: read ahead, or use less.",
        ),
        BlockedOn::Memory => ("waits for memory", "The machine is low on memory: use less."),
        BlockedOn::Socket => (
            "waits for a socket",
            "The other side is slow: send more at once, or overlap requests.",
        ),
        BlockedOn::Pipe => {
            ("waits for a pipe", "See what the process at the other end does meanwhile.")
        }
        BlockedOn::Terminal => ("waits for the terminal", "It waits for input."),
        BlockedOn::Stopped => ("is stopped by a signal or a debugger", "Something stopped it."),
        BlockedOn::Io => ("waits for I/O", "Overlap it with work, or do it ahead of time."),
        BlockedOn::Poll | BlockedOn::Parked | BlockedOn::Signal => {
            ("waits for something to do", "Nothing keeps it from working.")
        }
        BlockedOn::Unknown => {
            ("waits for something that was not recorded", "Record stacks of waits.")
        }
    }
}

pub(crate) fn cpu_starvation(starved: &CpuStarvation) -> Paragraph {
    let able_ns = starved.waiting_ns + starved.running_ns;
    Paragraph {
        title: format!(
            "Runnable threads waited for a CPU {} of the time",
            percent_text(starved.waiting_ns, able_ns)
        ),
        evidence: format!(
            "{} of {} that they were running or runnable, over {} {}; {} of it after they were \
             preempted.",
            nanos_rounded_text(starved.waiting_ns),
            nanos_rounded_text(able_ns),
            starved.threads,
            if starved.threads == 1 { "thread" } else { "threads" },
            nanos_rounded_text(starved.preempted_ns)
        ),
        advice: match starved.is_by_others {
            true => {
                "Other programs used the CPUs, or a CPU quota was exhausted: move other programs \
                 elsewhere, or raise the quota."
            }
            false => {
                "There were more runnable threads than CPUs, or a CPU quota was exhausted: start \
                 fewer threads, move other programs elsewhere, or raise the quota."
            }
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_words_of_its_own_kind() {
        for on in BlockedOn::ALL {
            let (what, advice) = wait_words(on);
            assert!(!what.is_empty() && advice.ends_with('.'), "{on:?}");
        }
    }

    #[test]
    fn waits_name_the_place_and_who_ended_them() {
        let waits = OffCpuWaits {
            on: BlockedOn::Mutex,
            total_ns: 80,
            count: 3,
            longest_from: 10,
            longest_ns: 40,
            window_ns: 100,
            threads: 2,
            thread: "worker 7".to_owned(),
            thread_ns: 50,
            stack: vec!["main".to_owned(), "push".to_owned()],
            waker: Some("worker 8".to_owned()),
            waker_stack: vec!["main".to_owned(), "pop".to_owned()],
            is_for_others: false,
            blocks_event_loop: false,
        };
        let paragraph = off_cpu(&waits);
        assert_eq!(
            paragraph.title,
            "worker 7 waits for a mutex for 50.0 % of the time in push < main"
        );
        assert_eq!(
            paragraph.evidence,
            "50 ns of 100 ns; 2 threads together 80 ns; 3 waits, the longest, 40 ns, starts at \
             10 ns. Mostly ended by worker 8 in pop < main."
        );
    }
}
