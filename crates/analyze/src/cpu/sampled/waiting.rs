//! Waits of Python programs that keep nobody from working: workers without work, and threads that
//! wait for what others do.

use spanwise_model::{FrameId, FrameKind, StackId, Trace};

use crate::cpu::python::from_package;

/// What a wait means, by the Python functions on its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum PythonWait {
    #[default]
    Own,
    /// For the result or the end of something that others do: see those.
    ForOthers,
    /// For something to do.
    Idle,
}

/// Functions that wait for whoever calls them: these are asked what it means.
const PLUMBING: &[(&str, &[&str])] = &[
    ("multiprocessing/connection.py", &[]),
    ("multiprocessing/synchronize.py", &[]),
    ("multiprocessing/queues.py", &["get", "put", "empty", "poll"]),
    ("queue.py", &["get", "put"]),
    ("selectors.py", &[]),
    ("socket.py", &[]),
    ("threading.py", &["wait", "acquire", "__enter__", "wait_for", "_wait_for_tstate_lock"]),
];

/// Functions that take what others put into a queue.
const TAKES: &[(&str, &[&str])] =
    &[("queue.py", &["get"]), ("multiprocessing/queues.py", &["get"])];

/// Functions that threads and processes begin with that a program starts.
const STARTS: &[(&str, &[&str])] =
    &[("threading.py", &["run"]), ("multiprocessing/process.py", &["run"])];

const IDLE: &[(&str, &[&str])] = &[
    (
        "multiprocessing/pool.py",
        &["worker", "_handle_results", "_handle_tasks", "_handle_workers", "_wait_for_updates"],
    ),
    ("multiprocessing/queues.py", &["_feed"]),
    ("multiprocessing/managers.py", &["serve_forever", "accepter", "serve_client"]),
    ("multiprocessing/resource_tracker.py", &["main"]),
    ("multiprocessing/forkserver.py", &["main"]),
    ("concurrent/futures/thread.py", &["_worker"]),
    (
        "concurrent/futures/process.py",
        &["_process_worker", "wait_result_broken_or_wakeup", "_queue_management_worker"],
    ),
    ("asyncio/base_events.py", &["_run_once"]),
    ("socketserver.py", &["serve_forever"]),
    ("logging/handlers.py", &["_monitor"]),
    ("gunicorn/arbiter.py", &["run", "sleep"]),
    ("gunicorn/workers/sync.py", &["run", "wait", "accept", "run_for_one", "run_for_multiple"]),
    ("gunicorn/workers/gthread.py", &["run"]),
    ("uvicorn/server.py", &["main_loop"]),
    ("celery/worker/loops.py", &["asynloop", "synloop"]),
    ("waitress/wasyncore.py", &["poll", "loop"]),
];

const FOR_OTHERS: &[(&str, &[&str])] = &[
    ("multiprocessing/pool.py", &["get", "join", "next", "wait"]),
    ("multiprocessing/popen_fork.py", &["poll", "wait"]),
    ("multiprocessing/process.py", &["join"]),
    ("concurrent/futures/_base.py", &["as_completed", "result", "wait"]),
    ("subprocess.py", &["_communicate", "_try_wait", "_wait", "communicate", "wait"]),
    ("threading.py", &["join", "_shutdown"]),
];

/// For every stack what a wait on it means.
pub(crate) fn python_waits(trace: &Trace) -> Vec<PythonWait> {
    let stacks = trace.stacks();
    let frames = || (0..trace.frames().len() as u32).map(FrameId);
    let of_frame: Vec<Option<Option<PythonWait>>> =
        frames().map(|frame| of_frame(trace, frame)).collect();
    let is_one_of = |rows| -> Vec<bool> {
        frames()
            .map(|frame| python_function(trace, frame).is_some_and(|of| has(rows, of)))
            .collect()
    };
    let (takes, starts, in_loop) = (is_one_of(TAKES), is_one_of(STARTS), in_event_loop(trace));
    let mut found = vec![PythonWait::Own; stacks.len()];
    let mut is_worker = vec![false; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let (parent, frame) = (stacks.parent(id).index(), stacks.frame(id));
        let around = found[parent];
        let is = |rows: &[bool]| frame.is_some_and(|frame| rows[frame.index()]);
        is_worker[stack] = is_worker[parent] || is(&starts);
        found[stack] = match frame.and_then(|frame| of_frame[frame.index()]) {
            None => around,
            // Who takes from a queue waits for something to do if that is all it is there for.
            Some(_) if is(&takes) && around == PythonWait::Own => {
                match is_worker[parent] && !in_loop[stack] {
                    true => PythonWait::Idle,
                    false => PythonWait::ForOthers,
                }
            }
            Some(own) => own.unwrap_or(around),
        };
    }
    found
}

/// For every stack whether an event loop runs what is on it, and runs nothing else meanwhile.
pub(crate) fn in_event_loop(trace: &Trace) -> Vec<bool> {
    let frames = (0..trace.frames().len() as u32).map(|frame| trace.frames().get(FrameId(frame)));
    let runs_loop: Vec<bool> = frames
        .map(|frame| {
            let (file, function) =
                (trace.strings().get(frame.file), trace.strings().get(frame.function));
            let is_step =
                function.split(' ').next().is_some_and(|name| name.ends_with("_run_once"));
            is_step && from_package(file) == "asyncio/base_events.py"
        })
        .collect();
    let stacks = trace.stacks();
    let mut found = vec![false; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let own = stacks.frame(id).is_some_and(|frame| runs_loop[frame.index()]);
        found[stack] = own || found[stacks.parent(id).index()];
    }
    found
}

/// `None` for native code, and nothing inside for functions that wait for who calls them.
fn of_frame(trace: &Trace, frame: FrameId) -> Option<Option<PythonWait>> {
    python_function(trace, frame).map(meaning)
}

/// A Python function by the end of its file's path and by its name alone.
#[derive(Clone, Copy)]
struct PythonName<'a> {
    file: &'a str,
    name: &'a str,
}

fn python_function(trace: &Trace, frame: FrameId) -> Option<PythonName<'_>> {
    let frame = trace.frames().get(frame);
    let text = |id| trace.strings().get(id);
    let function = text(frame.function);
    let plain = function.split(' ').next().unwrap_or(function);
    let name = plain.rsplit('.').next().unwrap_or(plain);
    let is_python = frame.kind == FrameKind::Python;
    is_python.then(|| PythonName { file: from_package(text(frame.file)), name })
}

/// Whether a table has the function; rows without names have all of their file.
fn has(table: &[(&str, &[&str])], of: PythonName<'_>) -> bool {
    let mut rows = table.iter();
    rows.any(|(file, names)| *file == of.file && (names.is_empty() || names.contains(&of.name)))
}

fn meaning(of: PythonName<'_>) -> Option<PythonWait> {
    match (has(IDLE, of), has(FOR_OTHERS, of), has(PLUMBING, of)) {
        (true, ..) => Some(PythonWait::Idle),
        (_, true, _) => Some(PythonWait::ForOthers),
        (.., true) => None,
        _ => Some(PythonWait::Own),
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::BlockedOn;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn the_function_that_asked_for_the_wait_says_what_it_means() {
        let check = |file: &str, name: &str, expected| {
            assert_eq!(meaning(PythonName { file, name }), expected, "{file} {name}");
        };
        check("multiprocessing/pool.py", "worker", Some(PythonWait::Idle));
        check("multiprocessing/pool.py", "wait", Some(PythonWait::ForOthers));
        check("multiprocessing/connection.py", "_recv", None);
        check("threading.py", "wait", None);
        check("threading.py", "join", Some(PythonWait::ForOthers));
        check("app.py", "wait", Some(PythonWait::Own));
    }

    #[test]
    fn who_takes_from_a_queue_is_idle_in_a_thread_of_its_own_alone() {
        let (run, loop_) = (
            "run@/lib/python3.11/threading.py:9",
            "_run_once@/lib/python3.11/asyncio/base_events.py:9",
        );
        let (own, get) = ("consume@app.py:2", "get@/lib/python3.11/queue.py:7");
        let wait = "wait@/lib/python3.11/threading.py:3";
        let check = |stack: &[&str], expected| {
            let mut sample = Sample::default();
            sample.wait("1", BlockedOn::Lock, 0, 10, stack);
            let trace = sample.finish();
            let found = python_waits(&trace)[trace.thread_states().stack[0] as usize];
            assert_eq!(found, expected, "{stack:?}");
        };
        check(&[run, own, get, wait], PythonWait::Idle);
        check(&[own, get, wait], PythonWait::ForOthers);
        check(&[run, loop_, own, get, wait], PythonWait::ForOthers);
        check(&[run, own, wait], PythonWait::Own);
    }
}
