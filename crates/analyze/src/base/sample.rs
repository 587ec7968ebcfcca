//! Small traces for the tests, through the same door as real ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanwise_model::{
    ArgValue, ArgsSource, Batch, BlockedOn, FlowPhase, FlowRow, Frame, FrameKind, InstantRow,
    NO_CPU, NO_KEY, NO_LOCK, SampleEvent, SampleRow, SourceInfo, SpanKind, SpanRow, StackId,
    StateRow, ThreadState, Trace, TraceBuilder, TrackId, TrackKind,
};

/// A trace of process 1 and GPU 0, span by span.
#[derive(Default)]
pub(crate) struct Sample {
    batch: Batch,
    rows: u64,
    args: Args,
}

/// Arguments by offset.
#[derive(Default)]
struct Args(BTreeMap<u64, Vec<(String, ArgValue)>>);

impl ArgsSource for Args {
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        Ok(self.0.get(&offset).cloned().unwrap_or_default())
    }
}

impl Sample {
    pub(crate) fn span(
        &mut self,
        thread: &str,
        kind: SpanKind,
        name: &str,
        start: i64,
        dur: i64,
    ) -> &mut Self {
        let track = self.track("1", thread);
        self.keyed(track, kind, name, start, dur, NO_KEY)
    }

    /// A runtime call with a correlation id.
    pub(crate) fn call(&mut self, thread: &str, start: i64, dur: i64, correlation: u64) {
        let track = self.track("1", thread);
        self.keyed(track, SpanKind::Runtime, "cudaLaunchKernel", start, dur, correlation);
    }

    /// GPU work with a correlation id.
    pub(crate) fn work(
        &mut self,
        stream: &str,
        kind: SpanKind,
        name: &str,
        times: (i64, i64),
        correlation: u64,
    ) {
        let track = self.track("0", stream);
        self.keyed(track, kind, name, times.0, times.1, correlation);
    }

    fn track(&mut self, process: &str, thread: &str) -> TrackId {
        self.batch.track(TrackKind::Thread, process, thread)
    }

    fn keyed(
        &mut self,
        track: TrackId,
        kind: SpanKind,
        name: &str,
        start: i64,
        dur: i64,
        key: u64,
    ) -> &mut Self {
        let category = self.batch.category(&format!("{kind:?}"), kind);
        let name = self.batch.string(name);
        let offset = self.rows;
        self.batch.push_span(track, SpanRow { start, dur, key, offset, name, category });
        self.rows += 1;
        self
    }

    /// An arrow of autograd from the forward to the backward operator.
    pub(crate) fn forward_backward(&mut self, from: (&str, i64), to: (&str, i64), key: u64) {
        for ((thread, time), phase) in [(from, FlowPhase::Start), (to, FlowPhase::End)] {
            let track = self.batch.track(TrackKind::Thread, "1", thread);
            let category = self.batch.category("fwdbwd", SpanKind::Other);
            self.batch.flows.push(FlowRow {
                time,
                key,
                offset: self.rows,
                track,
                category,
                phase,
                binds_enclosing: true,
                is_launch: false,
            });
            self.rows += 1;
        }
    }

    /// An allocation, or a free where `bytes` is below 0, of a device of PyTorch's sort 0
    /// (CPU) or 1 (GPU).
    pub(crate) fn memory(
        &mut self,
        thread: &str,
        time: i64,
        sort: i64,
        address: i64,
        bytes: i64,
        total: i64,
    ) {
        let track = self.batch.track(TrackKind::Thread, "1", thread);
        let category = self.batch.category("cpu_instant_event", SpanKind::Other);
        let (name, offset) = (self.batch.string("[memory]"), self.rows);
        self.batch.instants.push(InstantRow { time, offset, name, track, category });
        let number = if sort == 0 { -1 } else { 0 };
        let args = [
            ("Device Type", sort),
            ("Device Id", number),
            ("Addr", address),
            ("Bytes", bytes),
            ("Total Allocated", total),
            ("Total Reserved", sort * 1000),
        ];
        let args = args.map(|(key, value)| (key.to_owned(), ArgValue::Int(value)));
        self.args.0.insert(offset, args.into());
        self.rows += 1;
    }

    /// A state of a thread of process 1, without a stack.
    pub(crate) fn state(&mut self, thread: &str, state: ThreadState, start: i64, dur: i64) {
        let track = self.batch.track(TrackKind::Thread, "1", thread);
        self.batch.observed.states.push(StateRow {
            start,
            dur,
            track,
            cpu: NO_CPU,
            state,
            stack: StackId::EMPTY,
            waker: None,
            waker_stack: StackId::EMPTY,
            lock: NO_LOCK,
            stand_in: 0,
        });
    }

    /// The same with the stack that the thread stood on, outermost function first.
    pub(crate) fn wait(
        &mut self,
        thread: &str,
        on: BlockedOn,
        start: i64,
        dur: i64,
        stack: &[&str],
    ) {
        self.state(thread, ThreadState::Blocked(on), start, dur);
        let stack = self.stack(stack);
        if let Some(row) = self.batch.observed.states.last_mut() {
            row.stack = stack;
        }
    }

    /// The last wait has the stack of the one so many rows behind it.
    pub(crate) fn stands_in(&mut self, distance: i32) {
        if let Some(row) = self.batch.observed.states.last_mut() {
            row.stand_in = distance;
        }
    }

    /// The thread that ended the last wait, and its stack then.
    pub(crate) fn woken_by(&mut self, thread: &str, stack: &[&str]) {
        let waker = self.batch.track(TrackKind::Thread, "1", thread);
        let waker_stack = self.stack(stack);
        if let Some(row) = self.batch.observed.states.last_mut() {
            (row.waker, row.waker_stack) = (Some(waker), waker_stack);
        }
    }

    /// An event with an interval between samples, where it is taken at a steady rate.
    pub(crate) fn event(&mut self, name: &str, unit: &str, interval_ns: Option<i64>) -> u16 {
        let (name, unit) = (self.batch.string(name), self.batch.string(unit));
        self.batch.observed.event(SampleEvent { name, unit, interval_ns })
    }

    /// A sample of a thread (process and number) with its stack, outermost function first.
    pub(crate) fn taken(
        &mut self,
        process: &str,
        thread: &str,
        event: u16,
        weight: i64,
        time: i64,
        stack: &[&str],
    ) {
        let track = self.batch.track(TrackKind::Thread, process, thread);
        let stack = self.stack(stack);
        let row = SampleRow { time, track, cpu: NO_CPU, stack, event, weight };
        self.batch.observed.samples.push(row);
    }

    /// A function may be followed by the line that was executed: `f@a.c:12`. Those of `.py` files
    /// are of Python. Native ones may be followed by the file that was mapped: `f%/lib/a.so`.
    fn stack(&mut self, functions: &[&str]) -> StackId {
        functions.iter().fold(StackId::EMPTY, |caller, function| {
            let place = function.split_once('@');
            let (function, place) = place.unwrap_or((function, ""));
            let (function, mapping) = function.split_once('%').unwrap_or((function, ""));
            let mapping = self.batch.string(mapping);
            let (file, line) = place.rsplit_once(':').unwrap_or_default();
            let (function, file) = (self.batch.string(function), self.batch.string(file));
            let line = line.parse().unwrap_or(0);
            let is_python = place.contains(".py:") || place.starts_with("<frozen ");
            let kind = if is_python { FrameKind::Python } else { FrameKind::Native };
            let frame = Frame { function, file, line, mapping, kind, ..Frame::default() };
            let frame = self.batch.observed.frame(frame);
            self.batch.observed.stack(caller, frame)
        })
    }

    pub(crate) fn finish(&mut self) -> Arc<Trace> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.seal();
        let mut builder = TraceBuilder::new(1);
        builder.push(batch);
        let args = std::mem::take(&mut self.args);
        Arc::new(builder.finish(SourceInfo::default(), Some(Box::new(args))))
    }
}
