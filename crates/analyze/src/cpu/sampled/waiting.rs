//! Waits of Python programs that keep nobody from working: workers without work, and threads that
//! wait for what others do.

use spanwise_model::{FrameId, FrameKind, StackId, Trace};

use crate::cpu::python::from_package;

/// What a wait means, by the Python functions on its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum PythonWait {
    #[default]
    Own,
    /// For the result or the end of something that others do: look at those.
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
    let of_frame: Vec<Option<Option<PythonWait>>> =
        (0..trace.frames().len() as u32).map(|frame| of_frame(trace, FrameId(frame))).collect();
    let mut found = vec![PythonWait::Own; stacks.len()];
    for stack in 1..stacks.len() {
        let id = StackId(stack as u32);
        let around = found[stacks.parent(id).index()];
        let own = stacks.frame(id).and_then(|frame| of_frame[frame.index()]);
        found[stack] = own.map_or(around, |own| own.unwrap_or(around));
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
    let frame = trace.frames().get(frame);
    let text = |id| trace.strings().get(id);
    let function = text(frame.function);
    let plain = function.split(' ').next().unwrap_or(function);
    let name = plain.rsplit('.').next().unwrap_or(plain);
    (frame.kind == FrameKind::Python).then(|| meaning(from_package(text(frame.file)), name))
}

fn meaning(file: &str, name: &str) -> Option<PythonWait> {
    let has = |table: &[(&str, &[&str])]| {
        let mut rows = table.iter();
        rows.any(|(of, names)| *of == file && (names.is_empty() || names.contains(&name)))
    };
    match (has(IDLE), has(FOR_OTHERS), has(PLUMBING)) {
        (true, ..) => Some(PythonWait::Idle),
        (_, true, _) => Some(PythonWait::ForOthers),
        (.., true) => None,
        _ => Some(PythonWait::Own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_asked_for_the_wait_says_what_it_means() {
        let check = |file: &str, name: &str, expected| {
            assert_eq!(meaning(file, name), expected, "{file} {name}");
        };
        check("multiprocessing/pool.py", "worker", Some(PythonWait::Idle));
        check("multiprocessing/pool.py", "wait", Some(PythonWait::ForOthers));
        check("multiprocessing/connection.py", "_recv", None);
        check("threading.py", "wait", None);
        check("threading.py", "join", Some(PythonWait::ForOthers));
        check("app.py", "wait", Some(PythonWait::Own));
    }
}
