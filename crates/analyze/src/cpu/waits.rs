//! Classifies blocking calls by name.
//!
//! Their time is busy time of the thread, but nobody gains from making the code in
//! them faster. The table is data: a new way to wait is a new line.

use spanwise_model::{NO_ROW, SpanId, SpanKind, Trace};

use crate::cpu::python::Frame;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// Until the GPU has finished.
    Gpu,
    /// Autograd's own threads, which run the backward pass.
    Autograd,
    /// A lock, an event or a condition.
    Lock,
    /// An item in a queue.
    Queue,
    /// A file, a socket or a pipe.
    Io,
    /// The end of a thread or a process.
    Join,
    /// Time to pass.
    Sleep,
    /// A processor: it could go on.
    Cpu,
    /// Something that the recording does not name.
    Unknown,
}

/// Runtime calls that return only when the GPU has come so far.
const RUNTIME: &[&str] = &[
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "hipDeviceSynchronize",
    "hipStreamSynchronize",
    "hipEventSynchronize",
    "hipMemcpy",
];

/// Functions without Python code: how the text after `<built-in ` begins.
const BUILT_IN: &[(&str, WaitKind)] = &[
    ("method run_backward of torch._C._EngineBase", WaitKind::Autograd),
    ("method acquire of _thread.", WaitKind::Lock),
    ("method __enter__ of _thread.", WaitKind::Lock),
    ("method acquire of _multiprocessing.SemLock", WaitKind::Lock),
    ("method __enter__ of _multiprocessing.SemLock", WaitKind::Lock),
    ("method get of _queue.SimpleQueue", WaitKind::Queue),
    ("method poll of select.", WaitKind::Io),
    ("method control of select.", WaitKind::Io),
    ("function select", WaitKind::Io),
    ("method recv of _socket.", WaitKind::Io),
    ("method recv_into of _socket.", WaitKind::Io),
    ("method accept of _socket.", WaitKind::Io),
    ("function waitpid", WaitKind::Join),
    ("function sleep", WaitKind::Sleep),
];

/// Functions of the standard library: file and name.
const PYTHON: &[(&str, &str, WaitKind)] = &[
    ("threading.py", "wait", WaitKind::Lock),
    ("threading.py", "wait_for", WaitKind::Lock),
    ("threading.py", "acquire", WaitKind::Lock),
    ("threading.py", "join", WaitKind::Join),
    ("threading.py", "_wait_for_tstate_lock", WaitKind::Join),
    ("queue.py", "get", WaitKind::Queue),
    ("multiprocessing/queues.py", "get", WaitKind::Queue),
    ("multiprocessing/connection.py", "wait", WaitKind::Io),
    ("multiprocessing/connection.py", "poll", WaitKind::Io),
    ("multiprocessing/popen_fork.py", "wait", WaitKind::Join),
    ("selectors.py", "select", WaitKind::Io),
    ("concurrent/futures/_base.py", "result", WaitKind::Lock),
    ("subprocess.py", "wait", WaitKind::Join),
];

fn wait_kind(kind: SpanKind, name: &str) -> Option<WaitKind> {
    match kind {
        SpanKind::Runtime => RUNTIME.contains(&name).then_some(WaitKind::Gpu),
        SpanKind::Python => match Frame::parse(name) {
            Frame::BuiltIn(text) => {
                let known = BUILT_IN.iter().find(|(begin, _)| begins_with_word(text, begin));
                known.map(|&(_, kind)| kind)
            }
            Frame::Code { file, function } => {
                let same = |row: &&(&str, &str, WaitKind)| row.0 == file && row.1 == function;
                PYTHON.iter().find(same).map(|row| row.2)
            }
            Frame::Module | Frame::Unknown => None,
        },
        _ => None,
    }
}

/// "function select" begins "function select of x", not "function selection".
fn begins_with_word(text: &str, begin: &str) -> bool {
    text.strip_prefix(begin).is_some_and(|rest| {
        begin.ends_with('.') || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// What spans wait for, found once a name.
pub(crate) struct WaitMarks<'a> {
    trace: &'a Trace,
    span_kinds: Vec<SpanKind>,
    /// Each name is looked up once a kind; in practice a name has one kind.
    by_name: Vec<Option<(SpanKind, Option<WaitKind>)>>,
}

impl<'a> WaitMarks<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let span_kinds = trace.categories().rows().iter().map(|row| row.kind).collect();
        WaitMarks { trace, span_kinds, by_name: vec![None; trace.strings().len()] }
    }

    /// What the span itself waits for.
    pub(crate) fn kind(&mut self, span: SpanId) -> Option<WaitKind> {
        let spans = self.trace.spans();
        let kind = self.span_kinds[spans.category(span).index()];
        let slot = &mut self.by_name[spans.name(span).index()];
        let wait = match *slot {
            Some((of, wait)) if of == kind => wait,
            _ => wait_kind(kind, self.trace.name(span)),
        };
        *slot = Some((kind, wait));
        wait
    }
}

/// Which spans wait, and for the sake of which call.
///
/// Only the self time of such a span is waiting: what it calls may well work, as
/// the backward pass of a model on the CPU does inside `run_backward`.
pub struct WaitClassifier {
    kinds: Vec<Option<WaitKind>>,
    /// The outermost waiting span around each: a queue waits by taking locks, and
    /// it is the queue that the program asked for.
    calls: Vec<u32>,
}

impl WaitClassifier {
    /// One forward pass: a parent always stands before its children (I3).
    pub fn new(trace: &Trace) -> Self {
        let spans = trace.spans();
        let mut marks = WaitMarks::new(trace);
        let mut calls = vec![NO_ROW; spans.len()];
        let mut kinds = vec![None; spans.len()];
        for span in spans.ids() {
            let row = span.index();
            let wait = marks.kind(span);
            kinds[row] = wait;
            let around = spans.parent(span).map_or(NO_ROW, |parent| calls[parent.index()]);
            calls[row] = match wait {
                Some(_) if around == NO_ROW => row as u32,
                _ => around,
            };
        }
        WaitClassifier { kinds, calls }
    }

    /// What the span itself waits for.
    pub fn kind(&self, span: SpanId) -> Option<WaitKind> {
        self.kinds[span.index()]
    }

    /// The outermost waiting span around this one, itself included.
    pub fn call(&self, span: SpanId) -> Option<SpanId> {
        Some(self.calls[span.index()]).filter(|&row| row != NO_ROW).map(SpanId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: SpanKind, name: &str, expected: Option<WaitKind>) {
        assert_eq!(wait_kind(kind, name), expected, "{name}");
    }

    #[test]
    fn runtime_calls_wait_for_the_gpu() {
        check(SpanKind::Runtime, "cudaStreamSynchronize", Some(WaitKind::Gpu));
        check(SpanKind::Runtime, "cudaMemcpyAsync", None);
    }

    #[test]
    fn built_in_functions_are_known_by_their_beginning() {
        let lock = "<built-in method acquire of _thread.lock object at 0x7f>";
        check(SpanKind::Python, lock, Some(WaitKind::Lock));
        check(SpanKind::Python, "<built-in function sleep>", Some(WaitKind::Sleep));
        check(SpanKind::Python, "<built-in function select_scatter>", None);
    }

    #[test]
    fn library_functions_are_known_by_file_and_name() {
        check(SpanKind::Python, "threading.py(355): wait", Some(WaitKind::Lock));
        check(SpanKind::Python, "my/threading.py(355): wait", None);
        check(SpanKind::Operator, "threading.py(355): wait", None);
    }
}
