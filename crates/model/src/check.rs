//! Tests the invariants I2–I4 of a trace, in one pass a table.

use crate::{NO_ROW, Trace};

/// Which invariant does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table} row {row}: {what}")]
pub struct Violation {
    pub table: &'static str,
    pub row: usize,
    pub what: String,
}

fn violation(table: &'static str, row: usize, what: impl Into<String>) -> Violation {
    Violation { table, row, what: what.into() }
}

impl Trace {
    /// Tests I2–I4. A trace that passes cannot make an analysis index out of range.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_lengths()?;
        self.check_ids()?;
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
        match lengths.iter().find(|(_, len, rows)| len != rows) {
            Some(&(column, len, rows)) => {
                Err(violation(column, len.min(rows), format!("{len} values for {rows} rows")))
            }
            None => Ok(()),
        }
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
