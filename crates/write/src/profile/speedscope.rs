//! speedscope's own format: sampled profiles, one for each thread and device.
//!
//! Frames are shared and distinguished by name alone, since that is what the viewer adds
//! up by; a name with several places keeps none. Recordings of an aggregate have no
//! order in time, so samples follow the order of the profile and the viewer's "Left
//! Heavy" and "Sandwich" are the pages to use.

use std::collections::HashMap;
use std::io::{self, Write as _};

use spanwise_model::{Profile, StackId, StrId};

use super::json::{write_array, write_column};
use super::lanes::{Lane, heaviest, lanes};
use super::{NO_STACK, ProfileView, value_type};
use crate::document::escape::write_json_string;

/// Writes the chosen value of every sample. Fails where one is below 0, as in a
/// difference of profiles: the viewer cannot show those.
pub fn write_speedscope(
    profile: &Profile,
    view: &ProfileView<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let unit = match value_type(profile, view.value)?.unit.as_str() {
        unit @ ("nanoseconds" | "microseconds" | "milliseconds" | "seconds" | "bytes") => unit,
        _ => "none",
    };
    let lanes = lanes(profile, view.value, view.name);
    let mut rows = lanes.iter().flat_map(|lane| &lane.rows);
    if let Some(&row) = rows.find(|&&row| profile.values_of(row)[view.value] < 0) {
        let value = profile.values_of(row)[view.value];
        let what = format!("sample {row} is {value}; speedscope has no values below 0");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let frames = Frames::new(profile);
    let mut out = io::BufWriter::new(out);
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n")?;
    out.write_all(b"\"exporter\":\"spanwise\",\"name\":")?;
    write_json_string(view.name, &mut out)?;
    write!(out, ",\"activeProfileIndex\":{},\n\"shared\":{{\"frames\":[", heaviest(&lanes))?;
    frames.write(profile, &mut out)?;
    out.write_all(b"]},\n\"profiles\":[")?;
    for (at, lane) in lanes.iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        write_lane(profile, lane, &frames, view.value, unit, &mut out)?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

fn write_lane(
    profile: &Profile,
    lane: &Lane,
    frames: &Frames,
    value: usize,
    unit: &str,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
    write_json_string(&lane.name, out)?;
    write!(out, ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{}", lane.total)?;
    out.write_all(b",\"samples\":[")?;
    let mut stack = Vec::new();
    for (at, &row) in lane.rows.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        frames.stack(profile, profile.samples[row].stack, &mut stack);
        write_array(stack.iter(), out)?;
    }
    out.write_all(b"]")?;
    let weights = lane.rows.iter().map(|&row| profile.values_of(row)[value]);
    write_column("weights", weights, out)?;
    out.write_all(b"}")
}

/// The shared frames.
struct Frames {
    /// A name, and the place where all frames of that name agree on one.
    list: Vec<(StrId, Option<(StrId, i64)>)>,
    /// For each frame of the profile, its row of `list`.
    rows: Vec<usize>,
}

impl Frames {
    fn new(profile: &Profile) -> Self {
        let mut list: Vec<(StrId, Option<(StrId, i64)>)> = Vec::new();
        let mut known = HashMap::new();
        let row_of = |frame: &spanwise_model::ProfileFrame| {
            let place = (frame.file, frame.line);
            let row = *known.entry(frame.name).or_insert_with(|| {
                list.push((frame.name, Some(place)));
                list.len() - 1
            });
            if list[row].1 != Some(place) {
                list[row].1 = None;
            }
            row
        };
        let rows = profile.frames.iter().map(row_of).collect();
        Frames { list, rows }
    }

    /// Numbers of a stack's frames, from the root on.
    fn stack(&self, profile: &Profile, stack: StackId, numbers: &mut Vec<usize>) {
        numbers.clear();
        let mut at = stack;
        while at != StackId::EMPTY {
            numbers.push(self.rows[profile.stack_frames[at.index()] as usize]);
            at = StackId(profile.stack_parents[at.index()]);
        }
        if numbers.is_empty() {
            numbers.push(self.list.len());
        }
        numbers.reverse();
    }

    /// One object a frame. The last stands for samples that have none; it is written
    /// where there are such samples.
    fn write(&self, profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
        for (at, &(name, place)) in self.list.iter().enumerate() {
            out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            out.write_all(b"{\"name\":")?;
            write_json_string(profile.text(name), out)?;
            let (file, line) = place.unwrap_or((StrId::EMPTY, 0));
            if file != StrId::EMPTY {
                out.write_all(b",\"file\":")?;
                write_json_string(profile.text(file), out)?;
            }
            if line > 0 {
                write!(out, ",\"line\":{line}")?;
            }
            out.write_all(b"}")?;
        }
        if profile.samples.iter().any(|sample| sample.stack == StackId::EMPTY) {
            let comma = if self.list.is_empty() { "" } else { "," };
            write!(out, "{comma}\n{{\"name\":\"{NO_STACK}\"}}")?;
        }
        Ok(())
    }
}
