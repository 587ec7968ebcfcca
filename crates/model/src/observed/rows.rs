//! What one reader thread observed, and how such rows of all threads are joined.

use std::collections::HashMap;

use super::{
    Frame, FrameId, Frames, NO_TIME, ObservedTables, SampleEvent, SampleEvents, SampleRow,
    SampleRows, Stacks, StateRow, ThreadStates,
};
use crate::{Nanos, QuickMap, StackId, StrId, TrackId};

/// Frames, stacks, samples and states of one batch, under the batch's own numbers.
#[derive(Debug)]
pub struct ObservedRows {
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, FrameId>,
    parents: Vec<StackId>,
    stack_frames: Vec<FrameId>,
    stack_ids: QuickMap<(u32, u32), StackId>,
    events: Vec<SampleEvent>,
    event_ids: HashMap<StrId, u16>,
    /// Samples, in any order.
    pub samples: SampleRows,
    /// Thread states, in any order.
    pub states: Vec<StateRow>,
}

impl Default for ObservedRows {
    fn default() -> Self {
        ObservedRows {
            frames: Vec::new(),
            frame_ids: HashMap::new(),
            parents: vec![StackId::EMPTY],
            stack_frames: vec![FrameId(0)],
            stack_ids: QuickMap::default(),
            events: Vec::new(),
            event_ids: HashMap::new(),
            samples: SampleRows::default(),
            states: Vec::new(),
        }
    }
}

impl ObservedRows {
    /// The number of a frame, new or known.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            FrameId(self.frames.len() as u32 - 1)
        })
    }

    /// The stack of a caller and one more frame, new or known.
    pub fn stack(&mut self, parent: StackId, frame: FrameId) -> StackId {
        *self.stack_ids.entry((parent.0, frame.0)).or_insert_with(|| {
            self.parents.push(parent);
            self.stack_frames.push(frame);
            StackId(self.parents.len() as u32 - 1)
        })
    }

    /// The number of an event, by its name; what else is said of it is what was said first.
    pub fn event(&mut self, event: SampleEvent) -> u16 {
        *self.event_ids.entry(event.name).or_insert_with(|| {
            self.events.push(event);
            // More events than can be numbered are counted with the last one.
            u16::try_from(self.events.len() - 1).unwrap_or(u16::MAX)
        })
    }

    /// Says how much CPU time passes between two samples of an event.
    pub fn set_interval(&mut self, event: u16, interval_ns: Option<Nanos>) {
        self.events[usize::from(event)].interval_ns = interval_ns;
    }
}

/// Translates a batch's numbers of strings and tracks into the trace's.
pub(crate) trait RowNumbers {
    fn string(&self, id: StrId) -> StrId;
    fn track(&self, id: TrackId) -> TrackId;
}

/// The tables of all batches, in the order of the source.
pub(crate) fn join<N: RowNumbers>(batches: Vec<(ObservedRows, &N)>) -> ObservedTables {
    let mut all = ObservedRows::default();
    for (rows, numbers) in batches {
        all.add(rows, numbers);
    }
    all.finish()
}

impl ObservedRows {
    /// The tables, with all rows in their final order.
    pub(crate) fn finish(mut self) -> ObservedTables {
        // Rows of one time stay in the order of the source.
        self.states.sort_by_key(|row| (row.track, row.start));
        ObservedTables {
            frames: self.frames.into_iter().collect::<Frames>(),
            stacks: Stacks {
                parent: self.parents.iter().map(|parent| parent.0).collect(),
                frame: self.stack_frames.iter().map(|frame| frame.0).collect(),
            },
            events: SampleEvents::new(self.events),
            samples: self.samples.finish(),
            states: self.states.into_iter().collect::<ThreadStates>(),
        }
    }
}

impl ObservedRows {
    pub(crate) fn add<N: RowNumbers>(&mut self, rows: ObservedRows, numbers: &N) {
        let frames: Vec<FrameId> = rows
            .frames
            .into_iter()
            .map(|frame| {
                self.frame(Frame {
                    function: numbers.string(frame.function),
                    file: numbers.string(frame.file),
                    mapping: numbers.string(frame.mapping),
                    ..frame
                })
            })
            .collect();
        let mut stacks = vec![StackId::EMPTY; rows.parents.len()];
        for row in 1..rows.parents.len() {
            let frame = frames[rows.stack_frames[row].index()];
            stacks[row] = self.stack(stacks[rows.parents[row].index()], frame);
        }
        let events: Vec<u16> = rows
            .events
            .into_iter()
            .map(|event| {
                let (name, unit) = (numbers.string(event.name), numbers.string(event.unit));
                self.event(SampleEvent { name, unit, ..event })
            })
            .collect();
        let mut samples = rows.samples;
        samples.renumber(
            |track| numbers.track(track),
            |stack| stacks[stack.index()],
            |event| events[usize::from(event)],
        );
        self.samples.append(samples);
        self.states.extend(rows.states.into_iter().map(|row| StateRow {
            track: numbers.track(row.track),
            stack: stacks[row.stack.index()],
            waker: row.waker.map(|track| numbers.track(track)),
            waker_stack: stacks[row.waker_stack.index()],
            ..row
        }));
    }
}

impl ObservedTables {
    /// The same tables as rows that can be added to others, later by `shift`. Rows keep their
    /// numbers, also where a file that we did not write holds a frame twice.
    pub(crate) fn to_rows(&self, shift: Nanos) -> ObservedRows {
        let moved = |time: Nanos| match time {
            NO_TIME => time,
            time => time.saturating_add(shift),
        };
        let samples = self.samples.iter().map(|row| SampleRow { time: moved(row.time), ..row });
        let states = self.states.iter().map(|row| StateRow { start: moved(row.start), ..row });
        ObservedRows {
            frames: (0..self.frames.len() as u32).map(|id| self.frames.get(FrameId(id))).collect(),
            parents: self.stacks.parent.iter().map(|&id| StackId(id)).collect(),
            stack_frames: self.stacks.frame.iter().map(|&id| FrameId(id)).collect(),
            events: self.events.rows().to_vec(),
            samples: samples.collect(),
            states: states.collect(),
            ..ObservedRows::default()
        }
    }
}
