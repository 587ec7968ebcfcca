//! Firefox Profiler's processed format, version 48.
//!
//! Threads are the lanes; each has its own tables and strings, as that version wants.
//! The profiler upgrades files of older versions when it opens them, so an old version
//! that is known well beats the newest. Frames are colored by category: one for each
//! group of frames. An aggregate has no order in time: samples stand one after the
//! other, each as long as its value where that is a time.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write as _};

use spanwise_model::{Profile, StackId, StrId};

use super::json::{OrNull, write_column, write_strings};
use super::lanes::{Lane, heaviest, lanes};
use super::{NO_STACK, ProfileView, value_type};
use crate::document::escape::write_json_string;

const PROCESSED_VERSION: u32 = 48;
/// Of the format that Firefox itself records; the profiler wants a number.
const GECKO_VERSION: u32 = 30;

/// What the profiler paints categories in. Grey is the first one's, "Other".
const COLORS: [&str; 9] =
    ["blue", "orange", "green", "purple", "yellow", "magenta", "lightblue", "red", "brown"];

/// Writes the chosen value of every sample.
pub fn write_firefox(
    profile: &Profile,
    view: &ProfileView<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let weight = Weight::of(&value_type(profile, view.value)?.unit);
    let lanes = lanes(profile, view.value, view.name);
    let categories = Categories::new(profile);
    let mut out = io::BufWriter::new(out);
    write_meta(profile, view.name, heaviest(&lanes), &categories, &mut out)?;
    out.write_all(b",\n\"libs\":[],\"pages\":[],\"counters\":[],\n\"threads\":[")?;
    for (at, lane) in lanes.iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        out.write_all(b"{\"processType\":\"default\",\"processStartupTime\":0,")?;
        out.write_all(b"\"processShutdownTime\":null,\"registerTime\":0,")?;
        out.write_all(b"\"unregisterTime\":null,\"pausedRanges\":[],\"processName\":")?;
        write_json_string(view.name, &mut out)?;
        out.write_all(b",\"name\":")?;
        write_json_string(&lane.name, &mut out)?;
        let is_main = at == 0;
        write!(out, ",\"isMainThread\":{is_main},\"pid\":\"1\",\"tid\":{}", at + 1)?;
        let tables = Tables::new(profile, lane);
        write_samples(profile, lane, view.value, weight, &tables, &mut out)?;
        write_stacks(profile, &tables, &categories, &mut out)?;
        write_functions(profile, &tables, &mut out)?;
        write_empty_tables(&mut out)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

fn write_meta(
    profile: &Profile,
    name: &str,
    selected: usize,
    categories: &Categories<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let start_time = Millis(i128::from(profile.time_ns.unwrap_or(0)));
    write!(out, "{{\"meta\":{{\"interval\":1,\"startTime\":{start_time},\"processType\":0")?;
    out.write_all(b",\"product\":")?;
    write_json_string(name, out)?;
    write!(out, ",\"stackwalk\":0,\"version\":{GECKO_VERSION}")?;
    write!(out, ",\"preprocessedProfileVersion\":{PROCESSED_VERSION}")?;
    out.write_all(b",\"symbolicated\":true,\"importedFrom\":\"spanwise\"")?;
    out.write_all(b",\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true")?;
    out.write_all(b",\"sourceCodeIsNotOnSearchfox\":true,\"keepProfileThreadOrder\":true")?;
    write!(out, ",\"initialSelectedThreads\":[{selected}],\"markerSchema\":[]")?;
    out.write_all(b",\"categories\":[")?;
    for (at, name) in categories.names.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        let color = if at == 0 { "grey" } else { COLORS[(at - 1) % COLORS.len()] };
        out.write_all(b"{\"name\":")?;
        write_json_string(name, out)?;
        write!(out, ",\"color\":\"{color}\",\"subcategories\":[\"Other\"]}}")?;
    }
    out.write_all(b"]}")
}

/// How values become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Times in a unit of this many nanoseconds.
    Time(i128),
    Bytes,
    Count,
}

impl Weight {
    fn of(unit: &str) -> Self {
        match unit {
            "nanoseconds" => Weight::Time(1),
            "microseconds" => Weight::Time(1_000),
            "milliseconds" => Weight::Time(1_000_000),
            "seconds" => Weight::Time(1_000_000_000),
            "bytes" => Weight::Bytes,
            _ => Weight::Count,
        }
    }
}

/// Nanoseconds, shown as milliseconds.
struct Millis(i128);

impl Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:06}", ns / 1_000_000, ns % 1_000_000)
    }
}

/// A category for each group of frames.
struct Categories<'p> {
    names: Vec<&'p str>,
    /// By frame of the profile.
    of_frames: Vec<usize>,
}

impl<'p> Categories<'p> {
    fn new(profile: &'p Profile) -> Self {
        let mut names = vec!["Other"];
        let mut known = HashMap::from([(StrId::EMPTY, 0)]);
        let category_of = |frame: &spanwise_model::ProfileFrame| {
            *known.entry(frame.group).or_insert_with(|| {
                names.push(profile.text(frame.group));
                names.len() - 1
            })
        };
        let of_frames = profile.frames.iter().map(category_of).collect();
        Categories { names, of_frames }
    }
}

/// The part of the profile's tables that a lane uses, numbered anew.
struct Tables {
    /// Rows of the profile's stacks; row 0 is the empty one.
    stacks: Vec<usize>,
    new_stacks: HashMap<usize, usize>,
    /// Frames of the profile; `None` stands for [`NO_STACK`].
    frames: Vec<Option<usize>>,
    new_frames: HashMap<Option<usize>, usize>,
}

impl Tables {
    fn new(profile: &Profile, lane: &Lane) -> Self {
        let mut is_used = vec![false; profile.stack_parents.len()];
        for &row in &lane.rows {
            let mut stack = profile.samples[row].stack.index();
            while !std::mem::replace(&mut is_used[stack], true) {
                // The empty stack is its own parent; others end before it.
                let parent = profile.stack_parents[stack] as usize;
                if parent == StackId::EMPTY.index() {
                    break;
                }
                stack = parent;
            }
        }
        let stacks: Vec<usize> = (0..is_used.len()).filter(|&stack| is_used[stack]).collect();
        let new_stacks = stacks.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let (mut frames, mut new_frames) = (Vec::new(), HashMap::new());
        for &stack in &stacks {
            let frame = frame_of(profile, stack);
            new_frames.entry(frame).or_insert_with(|| {
                frames.push(frame);
                frames.len() - 1
            });
        }
        Tables { stacks, new_stacks, frames, new_frames }
    }
}

fn frame_of(profile: &Profile, stack: usize) -> Option<usize> {
    (stack != StackId::EMPTY.index()).then(|| profile.stack_frames[stack] as usize)
}

fn write_samples(
    profile: &Profile,
    lane: &Lane,
    value: usize,
    weight: Weight,
    tables: &Tables,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let weight_type = match weight {
        Weight::Time(_) => "tracing-ms",
        Weight::Bytes => "bytes",
        Weight::Count => "samples",
    };
    write!(out, ",\n\"samples\":{{\"length\":{},", lane.rows.len())?;
    write!(out, "\"weightType\":\"{weight_type}\"")?;
    let stacks = lane.rows.iter().map(|&row| {
        let stack = profile.samples[row].stack.index();
        tables.new_stacks[&stack]
    });
    write_column("stack", stacks, out)?;
    let values = lane.rows.iter().map(|&row| i128::from(profile.values_of(row)[value]));
    match weight {
        Weight::Time(unit_ns) => {
            let times = values.clone().scan(0, |reached, value| {
                let from = *reached;
                *reached += (value * unit_ns).abs();
                Some(Millis(from))
            });
            write_column("time", times, out)?;
            write_column("weight", values.map(|value| Millis(value * unit_ns)), out)?;
        }
        Weight::Bytes | Weight::Count => {
            write_column("time", 0..lane.rows.len(), out)?;
            write_column("weight", values, out)?;
        }
    }
    out.write_all(b"}")
}

fn write_stacks(
    profile: &Profile,
    tables: &Tables,
    categories: &Categories<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let category = |frame: Option<usize>| frame.map_or(0, |frame| categories.of_frames[frame]);
    write!(out, ",\n\"stackTable\":{{\"length\":{}", tables.stacks.len())?;
    let frames = tables.stacks.iter().map(|&stack| frame_of(profile, stack));
    write_column("frame", frames.clone().map(|frame| tables.new_frames[&frame]), out)?;
    let parents = tables.stacks.iter().map(|&stack| {
        let parent = profile.stack_parents[stack] as usize;
        let is_root = parent == StackId::EMPTY.index();
        OrNull((!is_root).then(|| tables.new_stacks[&parent]))
    });
    write_column("prefix", parents, out)?;
    write_column("category", frames.clone().map(category), out)?;
    write_column("subcategory", frames.map(|_| 0), out)?;
    write!(out, "}},\n\"frameTable\":{{\"length\":{}", tables.frames.len())?;
    let frames = tables.frames.iter().copied();
    let line = |frame: Option<usize>| {
        OrNull(frame.map(|frame| profile.frames[frame].line).filter(|&line| line > 0))
    };
    write_column("address", frames.clone().map(|_| -1), out)?;
    write_column("inlineDepth", frames.clone().map(|_| 0), out)?;
    write_column("category", frames.clone().map(category), out)?;
    write_column("subcategory", frames.clone().map(|_| 0), out)?;
    write_column("func", 0..tables.frames.len(), out)?;
    for unknown in ["nativeSymbol", "innerWindowID", "implementation"] {
        write_column(unknown, frames.clone().map(|_| "null"), out)?;
    }
    write_column("line", frames.clone().map(line), out)?;
    write_column("column", frames.map(|_| "null"), out)?;
    out.write_all(b"}")
}

/// A function for each frame, and the strings.
fn write_functions(profile: &Profile, tables: &Tables, out: &mut dyn io::Write) -> io::Result<()> {
    let mut strings = Vec::new();
    let mut known = HashMap::new();
    let mut number = |text: &'_ str| {
        *known.entry(text.to_owned()).or_insert_with(|| {
            strings.push(text.to_owned());
            strings.len() - 1
        })
    };
    let frames = || tables.frames.iter().map(|&frame| frame.map(|frame| &profile.frames[frame]));
    let names: Vec<usize> = frames()
        .map(|frame| number(frame.map_or(NO_STACK, |frame| profile.text(frame.name))))
        .collect();
    let files: Vec<OrNull<usize>> = frames()
        .map(|frame| frame.map_or("", |frame| profile.text(frame.file)))
        .map(|file| OrNull((!file.is_empty()).then(|| number(file))))
        .collect();
    let lines = frames().map(|frame| OrNull(frame.map(|frame| frame.line).filter(|&l| l > 0)));
    write!(out, ",\n\"funcTable\":{{\"length\":{}", names.len())?;
    write_column("name", names.iter(), out)?;
    write_column("isJS", frames().map(|_| false), out)?;
    write_column("relevantForJS", frames().map(|_| false), out)?;
    write_column("resource", frames().map(|_| -1), out)?;
    write_column("fileName", files.iter(), out)?;
    write_column("lineNumber", lines, out)?;
    write_column("columnNumber", frames().map(|_| "null"), out)?;
    out.write_all(b"},\n\"stringArray\":")?;
    write_strings(strings.iter().map(String::as_str), out)
}

/// What a thread must have, even if there is nothing in it.
fn write_empty_tables(out: &mut dyn io::Write) -> io::Result<()> {
    let tables: [(&str, &[&str]); 3] = [
        ("markers", &["data", "name", "startTime", "endTime", "phase", "category"]),
        ("resourceTable", &["lib", "name", "host", "type"]),
        ("nativeSymbols", &["libIndex", "address", "name", "functionSize"]),
    ];
    for (table, columns) in tables {
        write!(out, ",\n\"{table}\":{{\"length\":0")?;
        for column in columns {
            write!(out, ",\"{column}\":[]")?;
        }
        out.write_all(b"}")?;
    }
    Ok(())
}
