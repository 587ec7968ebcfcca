//! Tests the invariants I2–I4 of a trace, in one pass per table.

use crate::{FrameKind, NO_ROW, ObservedTables, Stacks, ThreadState, ThreadStates, Trace};

/// Which invariant does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table} row {row}: {what}")]
pub struct Violation {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub row: usize,
    /// What is wrong with it.
    pub what: String,
}

fn violation(table: &'static str, row: usize, what: impl Into<String>) -> Violation {
    Violation { table, row, what: what.into() }
}

/// How many kinds of frames there are.
const FRAME_KINDS: u8 = FrameKind::ALL.len() as u8;

/// Columns with their number of values, and how many there must be (I2).
fn equal_lengths(lengths: &[(&'static str, usize, usize)]) -> Result<(), Violation> {
    match lengths.iter().find(|(_, len, rows)| len != rows) {
        Some(&(column, len, rows)) => {
            Err(violation(column, len.min(rows), format!("{len} values for {rows} rows")))
        }
        None => Ok(()),
    }
}

/// Row 0 is the empty stack; every other stack stands behind its caller's.
fn check_stacks(stacks: &Stacks, frames: usize) -> Result<(), Violation> {
    if stacks.parent.first() != Some(&0) {
        return Err(violation("stacks", 0, "row 0 is not the empty stack"));
    }
    for (row, (&parent, &frame)) in
        stacks.parent.iter().zip(stacks.frame.iter()).enumerate().skip(1)
    {
        if parent as usize >= row {
            return Err(violation("stacks.parent", row, format!("{parent} does not stand before")));
        }
        if frame as usize >= frames {
            return Err(violation("stacks.frame", row, format!("{frame} of {frames}")));
        }
    }
    Ok(())
}

fn ascending<'a>(
    table: &'static str,
    mut keys: impl Iterator<Item = (&'a u32, &'a i64)>,
) -> Result<(), Violation> {
    let mut before = (0, i64::MIN);
    match keys.position(|(&track, &time)| {
        let key = (track, time);
        std::mem::replace(&mut before, key) > key
    }) {
        Some(row) => Err(violation(table, row, "out of order")),
        None => Ok(()),
    }
}

/// States are known, and those of a track follow one another.
fn check_states(states: &ThreadStates) -> Result<(), Violation> {
    ascending("thread_states", states.track.iter().zip(states.start.iter()))?;
    let mut reached = (0, i64::MIN);
    for row in 0..states.len() {
        let (track, start, dur) = (states.track[row], states.start[row], states.dur[row]);
        let Some(end) = start.checked_add(dur).filter(|_| dur >= 0) else {
            return Err(violation("thread_states", row, format!("duration {dur} at {start}")));
        };
        if track == reached.0 && start < reached.1 {
            return Err(violation("thread_states", row, "overlaps the state before"));
        }
        if ThreadState::from_code(states.state[row]).is_none() {
            return Err(violation("thread_states.state", row, "an unknown state"));
        }
        let sampled = row.checked_add_signed(states.stand_in[row] as isize);
        if sampled.and_then(|row| states.track.get(row)) != Some(&track) {
            return Err(violation("thread_states.stand_in", row, "a row of another thread"));
        }
        reached = (track, end);
    }
    Ok(())
}

impl Trace {
    /// Tests I2–I4. A trace that passes cannot make an analysis index out of range.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_lengths()?;
        self.check_ids()?;
        self.check_observed()?;
        self.check_tracks()?;
        self.check_span_order()
    }

    fn check_lengths(&self) -> Result<(), Violation> {
        let spans = &self.spans;
        let lengths = [
            ("spans.dur", spans.dur.len(), spans.len()),
            ("spans.name", spans.name.len(), spans.len()),
            ("spans.category", spans.category.len(), spans.len()),
            ("spans.track", spans.track.len(), spans.len()),
            ("spans.parent", spans.parent.len(), spans.len()),
            ("spans.launch", spans.launch.len(), spans.len()),
            ("spans.offset", spans.offset.len(), spans.len()),
            ("instants.name", self.instants.name.len(), self.instants.len()),
            ("instants.category", self.instants.category.len(), self.instants.len()),
            ("instants.track", self.instants.track.len(), self.instants.len()),
            ("instants.offset", self.instants.offset.len(), self.instants.len()),
            ("counters.track", self.counters.track.len(), self.counters.len()),
            ("counters.value", self.counters.value.len(), self.counters.len()),
            ("links.to", self.links.to.len(), self.links.len()),
            ("links.category", self.links.category.len(), self.links.len()),
        ];
        equal_lengths(&lengths)
    }

    fn check_ids(&self) -> Result<(), Violation> {
        let strings = self.strings.len();
        let categories = self.categories.rows().len();
        let (tracks, spans) = (self.tracks.len(), self.spans.len());
        below("spans.name", &self.spans.name, strings)?;
        below_u16("spans.category", &self.spans.category, categories)?;
        rows_below("spans.launch", &self.spans.launch, spans)?;
        below("instants.name", &self.instants.name, strings)?;
        below_u16("instants.category", &self.instants.category, categories)?;
        below("instants.track", &self.instants.track, tracks)?;
        below("counters.track", &self.counters.track, tracks)?;
        below("links.from", &self.links.from, spans)?;
        below("links.to", &self.links.to, spans)?;
        below_u16("links.category", &self.links.category, categories)?;
        for (row, category) in self.categories.rows().iter().enumerate() {
            if category.name.index() >= strings {
                return Err(violation("categories", row, "name beyond the strings"));
            }
        }
        Ok(())
    }

    fn check_observed(&self) -> Result<(), Violation> {
        let ObservedTables { frames, stacks, events, samples, states } = &self.observed;
        let lengths = [
            ("frames.file", frames.file.len(), frames.len()),
            ("frames.line", frames.line.len(), frames.len()),
            ("frames.mapping", frames.mapping.len(), frames.len()),
            ("frames.address", frames.address.len(), frames.len()),
            ("frames.kind", frames.kind.len(), frames.len()),
            ("frames.inlined", frames.inlined.len(), frames.len()),
            ("stacks.frame", stacks.frame.len(), stacks.len()),
            ("samples.track", samples.track.len(), samples.len()),
            ("samples.cpu", samples.cpu.len(), samples.len()),
            ("samples.stack", samples.stack.len(), samples.len()),
            ("samples.event", samples.event.len(), samples.len()),
            ("samples.weight", samples.weight.len(), samples.len()),
            ("thread_states.dur", states.dur.len(), states.len()),
            ("thread_states.track", states.track.len(), states.len()),
            ("thread_states.cpu", states.cpu.len(), states.len()),
            ("thread_states.state", states.state.len(), states.len()),
            ("thread_states.stack", states.stack.len(), states.len()),
            ("thread_states.waker", states.waker.len(), states.len()),
            ("thread_states.waker_stack", states.waker_stack.len(), states.len()),
            ("thread_states.lock", states.lock.len(), states.len()),
            ("thread_states.stand_in", states.stand_in.len(), states.len()),
        ];
        equal_lengths(&lengths)?;
        let (strings, tracks) = (self.strings.len(), self.tracks.len());
        below("frames.function", &frames.function, strings)?;
        below("frames.file", &frames.file, strings)?;
        below("frames.mapping", &frames.mapping, strings)?;
        if let Some(row) = frames.kind.iter().position(|&kind| kind >= FRAME_KINDS) {
            return Err(violation("frames.kind", row, "an unknown kind of frame"));
        }
        check_stacks(stacks, frames.len())?;
        for (row, event) in events.rows().iter().enumerate() {
            if event.name.index() >= strings || event.unit.index() >= strings {
                return Err(violation("sample_events", row, "text beyond the strings"));
            }
        }
        below("samples.track", &samples.track, tracks)?;
        below("samples.stack", &samples.stack, stacks.len())?;
        below_u16("samples.event", &samples.event, events.len())?;
        let keys = samples.track.iter().zip(samples.time.iter());
        ascending("samples", keys)?;
        below("thread_states.track", &states.track, tracks)?;
        below("thread_states.stack", &states.stack, stacks.len())?;
        rows_below("thread_states.waker", &states.waker, tracks)?;
        check_states(states)
    }

    fn check_tracks(&self) -> Result<(), Violation> {
        let mut reached = 0;
        for (row, track) in self.tracks.rows().iter().enumerate() {
            let texts = [track.process, track.thread, track.process_name, track.thread_name];
            if texts.iter().any(|text| text.index() >= self.strings.len()) {
                return Err(violation("tracks", row, "text beyond the strings"));
            }
            if track.spans.start != reached || track.spans.end < reached {
                return Err(violation("tracks", row, "rows do not follow the track before"));
            }
            reached = track.spans.end;
        }
        match reached as usize == self.spans.len() {
            true => Ok(()),
            false => Err(violation("tracks", self.tracks.len(), "rows do not cover all spans")),
        }
    }

    /// Order, parents and times inside each track (I3).
    fn check_span_order(&self) -> Result<(), Violation> {
        for (id, track) in self.tracks.iter() {
            let rows = track.rows();
            let starts = &self.spans.start[rows.clone()];
            let durs = &self.spans.dur[rows.clone()];
            let parents = &self.spans.parent[rows.clone()];
            let tracks = &self.spans.track[rows.clone()];
            let mut before = (i64::MIN, i64::MAX);
            for at in 0..starts.len() {
                let row = rows.start + at;
                let (start, dur, parent) = (starts[at], durs[at], parents[at]);
                if dur < 0 || start.checked_add(dur).is_none() {
                    return Err(violation("spans", row, format!("duration {dur} at {start}")));
                }
                if start < before.0 || (start == before.0 && dur > before.1) {
                    return Err(violation("spans", row, "out of order (I3)"));
                }
                if tracks[at] != id.0 {
                    return Err(violation("spans", row, "stands in another track's rows"));
                }
                let is_inside = (rows.start..row).contains(&(parent as usize));
                if parent != NO_ROW && !is_inside {
                    return Err(violation("spans", row, format!("parent {parent} (I3)")));
                }
                before = (start, dur);
            }
        }
        Ok(())
    }
}

fn below(column: &'static str, values: &[u32], limit: usize) -> Result<(), Violation> {
    // The maximum first: it vectorises, the search for the culprit need not.
    if values.iter().copied().max().is_none_or(|max| (max as usize) < limit) {
        return Ok(());
    }
    let row = values.iter().position(|&value| value as usize >= limit).expect("the maximum");
    Err(violation(column, row, format!("{} is beyond {limit}", values[row])))
}

fn below_u16(column: &'static str, values: &[u16], limit: usize) -> Result<(), Violation> {
    if values.iter().copied().max().is_none_or(|max| usize::from(max) < limit) {
        return Ok(());
    }
    let row = values.iter().position(|&value| usize::from(value) >= limit).expect("the maximum");
    Err(violation(column, row, format!("{} is beyond {limit}", values[row])))
}

fn rows_below(column: &'static str, values: &[u32], limit: usize) -> Result<(), Violation> {
    let bad = |&value: &u32| value != NO_ROW && value as usize >= limit;
    match values.iter().position(bad) {
        Some(row) => Err(violation(column, row, format!("{} is beyond {limit}", values[row]))),
        None => Ok(()),
    }
}
