//! Chrome's trace event format: JSON that every trace viewer opens.
//!
//! A repaired copy of any trace. What our reader had to repair is written as it should
//! have been; begin and end events become complete ones. Times are microseconds with
//! exactly three decimals, made of integers, so none is rounded (I1). Arrows stand at
//! the end: viewers bind an instant to what has begun before it in the file.

use std::io::{self, Write as _};

use spanwise_model::{
    ArgValue, CategoryId, Device, Nanos, SourceInfo, SpanId, StrId, Trace, Track, TrackId,
    TrackKind,
};

use super::flows::{self, Arrow};
use super::{args_of, is_plain_integer};
use crate::document::escape::write_json_string;

/// Ids of arrows that have no correlation id start here, beyond those of producers.
const FIRST_FREE_ID: u64 = 1 << 40;

/// Writes all of a trace.
pub fn write_chrome(trace: &Trace, out: &mut dyn io::Write) -> io::Result<()> {
    let out = io::BufWriter::with_capacity(64 << 10, out);
    let mut writer =
        Writer { trace, out, is_first: true, next_id: FIRST_FREE_ID, correlations: Vec::new() };
    writer.out.write_all(b"{\n")?;
    write_properties(trace.info(), &mut writer.out)?;
    writer.out.write_all(b"\"traceEvents\": [")?;
    writer.names()?;
    writer.spans()?;
    writer.instants()?;
    writer.counters()?;
    writer.arrows()?;
    writer.out.write_all(b"\n]\n}\n")?;
    writer.out.flush()
}

struct Writer<'a, 'o> {
    trace: &'a Trace,
    out: io::BufWriter<&'o mut dyn io::Write>,
    is_first: bool,
    next_id: u64,
    /// Correlation ids of launched spans that give one, in order of span.
    correlations: Vec<(SpanId, u64)>,
}

impl<'a> Writer<'a, '_> {
    fn text(&self, id: StrId) -> &'a str {
        self.trace.strings().get(id)
    }

    fn category_text(&self, category: CategoryId) -> &'a str {
        self.text(self.trace.categories().get(category).name)
    }

    fn free_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// `{"ph":…,"pid":…` of an event; the caller goes on with a comma.
    fn open(&mut self, phase: &str, process: StrId) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{{\"ph\":\"{phase}\",\"pid\":")?;
        write_id(self.text(process), &mut self.out)
    }

    fn member(&mut self, key: &str, text: &str) -> io::Result<()> {
        write!(self.out, ",\"{key}\":")?;
        write_json_string(text, &mut self.out)
    }

    fn thread(&mut self, thread: StrId) -> io::Result<()> {
        self.out.write_all(b",\"tid\":")?;
        write_id(self.text(thread), &mut self.out)
    }

    fn time(&mut self, key: &str, time: Nanos) -> io::Result<()> {
        let sign = if time < 0 { "-" } else { "" };
        let ns = time.unsigned_abs();
        write!(self.out, ",\"{key}\":{sign}{}.{:03}", ns / 1000, ns % 1000)
    }

    /// Names and places. Each thread gets its place, so that none is lost, with or
    /// without events, and all keep their order.
    fn names(&mut self) -> io::Result<()> {
        let tracks = self.trace.tracks();
        let mut named = std::collections::BTreeSet::new();
        for track in tracks.rows().iter().filter(|track| is_timeline(track)) {
            if track.process_name != StrId::EMPTY && named.insert(track.process) {
                self.name("process_name", track, track.process_name)?;
            }
            if track.thread_name != StrId::EMPTY {
                self.name("thread_name", track, track.thread_name)?;
            }
            self.open("M", track.process)?;
            self.thread(track.thread)?;
            let index = track.sort_index;
            write!(
                self.out,
                ",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{index}}}}}"
            )?;
        }
        for track in tracks.rows() {
            if track.process_name != StrId::EMPTY && named.insert(track.process) {
                self.open("M", track.process)?;
                self.member("name", "process_name")?;
                self.name_argument(track.process_name)?;
            }
        }
        Ok(())
    }

    fn name(&mut self, what: &str, track: &Track, name: StrId) -> io::Result<()> {
        self.open("M", track.process)?;
        self.thread(track.thread)?;
        self.member("name", what)?;
        self.name_argument(name)
    }

    fn name_argument(&mut self, name: StrId) -> io::Result<()> {
        self.out.write_all(b",\"args\":{\"name\":")?;
        write_json_string(self.text(name), &mut self.out)?;
        self.out.write_all(b"}}")
    }

    fn spans(&mut self) -> io::Result<()> {
        for track in self.trace.tracks().rows() {
            for span in track.span_ids() {
                match is_timeline(track) {
                    true => self.complete(track, span)?,
                    false => self.asynchronous(track, span)?,
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, track: &Track, span: SpanId) -> io::Result<()> {
        let spans = self.trace.spans();
        self.open("X", track.process)?;
        self.thread(track.thread)?;
        self.member("name", self.trace.name(span))?;
        self.member("cat", self.category_text(spans.category(span)))?;
        self.time("ts", spans.start(span))?;
        self.time("dur", spans.dur(span))?;
        let args = args_of(self.trace, span)?;
        if spans.launch(span).is_some()
            && let Some(id) = correlation(&args)
        {
            self.correlations.push((span, id));
        }
        self.close(&args)
    }

    /// Spans that belong to no thread: the category is their lane.
    fn asynchronous(&mut self, track: &Track, span: SpanId) -> io::Result<()> {
        let spans = self.trace.spans();
        let (id, lane) = (self.free_id(), self.text(track.thread));
        for (phase, time) in [("b", spans.start(span)), ("e", spans.end(span))] {
            self.open(phase, track.process)?;
            write!(self.out, ",\"id\":{id}")?;
            self.member("name", self.trace.name(span))?;
            self.member("cat", lane)?;
            self.time("ts", time)?;
            match phase {
                "b" => self.close(&args_of(self.trace, span)?)?,
                _ => self.close(&[])?,
            }
        }
        Ok(())
    }

    fn instants(&mut self) -> io::Result<()> {
        let instants = self.trace.instants();
        for row in 0..instants.len() {
            let track = self.trace.tracks().get(TrackId(instants.track[row]));
            if is_timeline(track) {
                self.open("i", track.process)?;
                self.out.write_all(b",\"s\":\"t\"")?;
                self.thread(track.thread)?;
                self.member("cat", self.category_text(instants.category[row].into()))?;
            } else {
                let id = self.free_id();
                self.open("n", track.process)?;
                write!(self.out, ",\"id\":{id}")?;
                self.member("cat", self.text(track.thread))?;
            }
            self.member("name", self.text(StrId(instants.name[row])))?;
            self.time("ts", instants.time[row])?;
            let args = self.trace.args_at(instants.offset[row]).map_err(io::Error::other)?;
            self.close(&args)?;
        }
        Ok(())
    }

    fn counters(&mut self) -> io::Result<()> {
        let counters = self.trace.counters();
        for row in 0..counters.len() {
            let track = self.trace.tracks().get(TrackId(counters.track[row]));
            self.open("C", track.process)?;
            self.member("name", self.text(track.thread))?;
            self.time("ts", counters.time[row])?;
            match counters.value[row] {
                value if value.is_finite() => {
                    write!(self.out, ",\"args\":{{\"value\":{value:?}}}}}")?;
                }
                // JSON has no such numbers; readers take them as text.
                value => write!(self.out, ",\"args\":{{\"value\":\"{value}\"}}}}")?,
            }
        }
        Ok(())
    }

    fn arrows(&mut self) -> io::Result<()> {
        let correlations = std::mem::take(&mut self.correlations);
        let mut correlations = correlations.into_iter().peekable();
        for arrow in flows::arrows(self.trace) {
            let category = match arrow.link {
                Some(row) => self.category_text(self.trace.links().category[row].into()),
                None => "ac2g",
            };
            let known = correlations.next_if(|(span, _)| arrow.link.is_none() && *span == arrow.to);
            let id = match known {
                Some((_, id)) => id,
                None => self.free_id(),
            };
            self.arrow(&arrow, category, id)?;
        }
        Ok(())
    }

    fn arrow(&mut self, arrow: &Arrow, category: &str, id: u64) -> io::Result<()> {
        let spans = self.trace.spans();
        let start = flows::innermost_time(self.trace, arrow.from, Nanos::MIN);
        let start = start.unwrap_or(spans.start(arrow.from));
        let to_start = spans.start(arrow.to);
        let end = flows::innermost_time(self.trace, arrow.to, start);
        let is_next =
            end.is_none() && to_start >= start && flows::is_first_to_begin(self.trace, arrow.to);
        let end = end.unwrap_or(to_start.max(start));
        let ends = [("s", arrow.from, start), ("f", arrow.to, end)];
        for (phase, span, time) in ends {
            let track = self.trace.tracks().get(spans.track(span));
            self.open(phase, track.process)?;
            self.thread(track.thread)?;
            write!(self.out, ",\"id\":{id}")?;
            self.member("name", category)?;
            self.member("cat", category)?;
            self.time("ts", time)?;
            if phase == "f" && !is_next {
                self.out.write_all(b",\"bp\":\"e\"")?;
            }
            self.close(&[])?;
        }
        Ok(())
    }

    fn close(&mut self, args: &[(String, ArgValue)]) -> io::Result<()> {
        if !args.is_empty() {
            self.out.write_all(b",\"args\":")?;
            write_members(args, &mut self.out)?;
        }
        self.out.write_all(b"}")
    }
}

/// Tracks whose events name a thread.
fn is_timeline(track: &Track) -> bool {
    !matches!(track.kind, TrackKind::Async | TrackKind::Counter)
}

/// An id of a process or a thread: a number if it reads as one.
fn write_id(text: &str, out: &mut dyn io::Write) -> io::Result<()> {
    match is_plain_integer(text) {
        true => out.write_all(text.as_bytes()),
        false => write_json_string(text, out),
    }
}

fn correlation(args: &[(String, ArgValue)]) -> Option<u64> {
    let (_, value) = args.iter().find(|(key, _)| key == "correlation")?;
    match value {
        ArgValue::Int(value) => u64::try_from(*value).ok(),
        ArgValue::Number(text) | ArgValue::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn write_members(members: &[(String, ArgValue)], out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"{")?;
    for (at, (key, value)) in members.iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        write_json_string(key, out)?;
        out.write_all(b":")?;
        write_value(value, out)?;
    }
    out.write_all(b"}")
}

fn write_value(value: &ArgValue, out: &mut dyn io::Write) -> io::Result<()> {
    match value {
        ArgValue::Null => out.write_all(b"null"),
        ArgValue::Bool(value) => write!(out, "{value}"),
        ArgValue::Int(value) => write!(out, "{value}"),
        ArgValue::Number(text) => out.write_all(text.as_bytes()),
        ArgValue::Text(text) => write_json_string(text, out),
        ArgValue::List(values) => {
            out.write_all(b"[")?;
            for (at, value) in values.iter().enumerate() {
                out.write_all(if at == 0 { b"" } else { b"," })?;
                write_value(value, out)?;
            }
            out.write_all(b"]")
        }
        ArgValue::Map(members) => write_members(members, out),
    }
}

/// What stands beside the events, each with a comma behind it.
fn write_properties(info: &SourceInfo, out: &mut dyn io::Write) -> io::Result<()> {
    for (key, value) in &info.properties {
        write_json_string(key, out)?;
        out.write_all(b": ")?;
        write_id(value, out)?;
        out.write_all(b",\n")?;
    }
    if let Some(base) = info.base_time_ns {
        writeln!(out, "\"baseTimeNanoseconds\": {base},")?;
    }
    let number = |key: &str, value: Option<i64>| Some((key.to_owned(), ArgValue::Int(value?)));
    let backend = info.backend.clone().map(|text| ("backend".to_owned(), ArgValue::Text(text)));
    let ranks = [number("rank", info.rank), number("world_size", info.world_size)];
    let distributed: Vec<_> = [backend].into_iter().chain(ranks).flatten().collect();
    if !distributed.is_empty() {
        out.write_all(b"\"distributedInfo\": ")?;
        write_members(&distributed, out)?;
        out.write_all(b",\n")?;
    }
    if !info.devices.is_empty() {
        out.write_all(b"\"deviceProperties\": ")?;
        write_value(&ArgValue::List(info.devices.iter().map(device).collect()), out)?;
        out.write_all(b",\n")?;
    }
    Ok(())
}

fn device(device: &Device) -> ArgValue {
    let number = |value: u64| ArgValue::Number(value.to_string());
    let capability = device.compute_capability.as_deref().and_then(|text| text.split_once('.'));
    let part = |text: &str| text.parse().ok().map(number);
    let members = [
        ("id", Some(ArgValue::Int(device.id))),
        ("name", Some(ArgValue::Text(device.name.clone()))),
        ("totalGlobalMem", device.memory_bytes.map(number)),
        ("numSms", device.multiprocessors.map(number)),
        ("computeMajor", capability.and_then(|(major, _)| part(major))),
        ("computeMinor", capability.and_then(|(_, minor)| part(minor))),
        ("warpSize", device.warp_size.map(number)),
    ];
    let known = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    ArgValue::Map(known.collect())
}
