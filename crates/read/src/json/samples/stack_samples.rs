//! `samples` and `stackFrames` beside the events: how catapult's format holds samples, which
//! Hermes, the engine of React Native, writes as well.
//!
//! Both are read element by element, since they may be as long as a file. A sample has a time,
//! a thread, a frame with its callers, the event that took it as its name, and a weight.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{
    ArgValue, Batch, Frame, FrameKind, NO_CPU, Nanos, SampleEvent, SampleRow, StackId, TrackKind,
};

use super::cpu_profiles::{median, member, nanos};

/// What the event of samples without a name is called.
const UNNAMED: &str = "samples";

#[derive(Debug, Default)]
pub(crate) struct StackSamples {
    texts: Texts,
    frames: HashMap<u32, FrameEntry>,
    samples: Vec<Entry>,
    /// What was neither a frame nor a sample.
    pub(crate) skipped: u64,
}

/// Texts that come again and again.
#[derive(Debug, Default)]
struct Texts {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

#[derive(Debug)]
struct FrameEntry {
    name: u32,
    category: u32,
    parent: Option<u32>,
}

/// When samples were taken, by process and thread.
type TimesOfThreads = BTreeMap<(Option<u32>, u32), Vec<Nanos>>;

#[derive(Debug)]
struct Entry {
    time: Nanos,
    cpu: u16,
    process: Option<u32>,
    thread: u32,
    event: u32,
    frame: Option<u32>,
    weight: i64,
}

impl Texts {
    fn number(&mut self, text: String) -> u32 {
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() as u32 - 1
        })
    }

    /// A number or a text, as text.
    fn value(&mut self, value: &ArgValue) -> Option<u32> {
        match value {
            ArgValue::Int(value) => Some(self.number(value.to_string())),
            ArgValue::Number(word) | ArgValue::Text(word) => Some(self.number(word.clone())),
            _ => None,
        }
    }

    fn get(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }
}

impl StackSamples {
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    pub(crate) fn add_frame(&mut self, id: &str, members: &[(String, ArgValue)]) {
        let mut text = |key| member(members, key).and_then(|value| self.texts.value(value));
        let (Some(name), category, parent) = (text("name"), text("category"), text("parent"))
        else {
            self.skipped += 1;
            return;
        };
        let category = category.unwrap_or_else(|| self.texts.number(String::new()));
        let id = self.texts.number(id.to_owned());
        self.frames.insert(id, FrameEntry { name, category, parent });
    }

    pub(crate) fn add_sample(&mut self, members: &[(String, ArgValue)]) {
        let mut text = |key| member(members, key).and_then(|value| self.texts.value(value));
        let (Some(thread), Some(time)) = (text("tid"), member(members, "ts").and_then(nanos))
        else {
            self.skipped += 1;
            return;
        };
        let (process, frame, event) = (text("pid"), text("sf"), text("name"));
        let event = event.unwrap_or_else(|| self.texts.number(String::new()));
        let cpu = member(members, "cpu").and_then(whole).and_then(|cpu| u16::try_from(cpu).ok());
        let weight = member(members, "weight").and_then(whole).unwrap_or(1);
        let cpu = cpu.unwrap_or(NO_CPU);
        self.samples.push(Entry { time, cpu, process, thread, event, frame, weight });
    }

    /// The samples in a batch; `None` where there are none. `threads` are those that events
    /// mentioned, each with its process.
    pub(crate) fn batch(&self, threads: &HashMap<String, Option<String>>) -> Option<Batch> {
        if self.samples.is_empty() {
            return None;
        }
        let mut batch = Batch::default();
        let events = self.events(&mut batch);
        let mut stacks = HashMap::new();
        let is_script = self.frames.values().any(|frame| self.is_script(frame));
        for entry in &self.samples {
            let thread = self.texts.get(entry.thread);
            let process = match entry.process {
                Some(process) => self.texts.get(process),
                None => threads.get(thread).and_then(Option::as_deref).unwrap_or(thread),
            };
            let track = batch.track(TrackKind::Thread, process, thread);
            let stack = match entry.frame {
                Some(frame) => self.stack(frame, is_script, &mut stacks, &mut batch),
                None => StackId::EMPTY,
            };
            let Entry { time, cpu, weight, .. } = *entry;
            let event = events[&entry.event];
            batch.observed.samples.push(SampleRow { time, track, cpu, stack, event, weight });
        }
        batch.seal();
        Some(batch)
    }

    /// The number of each event.
    fn events(&self, batch: &mut Batch) -> HashMap<u32, u16> {
        let mut times: BTreeMap<u32, TimesOfThreads> = BTreeMap::new();
        let mut weighted = BTreeMap::new();
        for entry in &self.samples {
            let of_threads = times.entry(entry.event).or_default();
            of_threads.entry((entry.process, entry.thread)).or_default().push(entry.time);
            *weighted.entry(entry.event).or_insert(false) |= entry.weight != 1;
        }
        let number = |(event, of_threads): (u32, TimesOfThreads)| {
            let mut gaps = Vec::new();
            for mut times in of_threads.into_values() {
                times.sort_unstable();
                gaps.extend(times.windows(2).map(|two| two[1].saturating_sub(two[0])));
            }
            let name = match self.texts.get(event) {
                "" => UNNAMED,
                name => name,
            };
            // Weights that are all 1 count samples, whatever took them.
            let unit = match weighted[&event] {
                true => name.split(':').next().unwrap_or(name),
                false => UNNAMED,
            };
            let interval_ns = median(&mut gaps).filter(|&gap| gap > 0);
            let (name, unit) = (batch.string(name), batch.string(unit));
            (event, batch.observed.event(SampleEvent { name, unit, interval_ns }))
        };
        times.into_iter().map(number).collect()
    }

    fn is_script(&self, frame: &FrameEntry) -> bool {
        self.texts.get(frame.category).eq_ignore_ascii_case("javascript")
    }

    fn stack(
        &self,
        frame: u32,
        is_script: bool,
        stacks: &mut HashMap<u32, StackId>,
        batch: &mut Batch,
    ) -> StackId {
        let mut path = Vec::new();
        let mut next = Some(frame);
        let mut stack = StackId::EMPTY;
        while let Some(id) = next {
            if let Some(&known) = stacks.get(&id) {
                stack = known;
                break;
            }
            let Some(found) = self.frames.get(&id) else { break };
            // Where damaged frames call each other in a ring, it is cut here.
            stacks.insert(id, StackId::EMPTY);
            path.push((id, found));
            next = found.parent;
        }
        for (id, entry) in path.into_iter().rev() {
            let frame = self.frame(entry, is_script, batch);
            let frame = batch.observed.frame(frame);
            stack = batch.observed.stack(stack, frame);
            stacks.insert(id, stack);
        }
        stack
    }

    fn frame(&self, entry: &FrameEntry, is_script: bool, batch: &mut Batch) -> Frame {
        let (name, category) = (self.texts.get(entry.name), self.texts.get(entry.category));
        if is_script {
            let (function, file, line) = script_place(name);
            let (function, file) = (batch.string(function), batch.string(file));
            let kind = FrameKind::Script;
            return Frame { function, file, line, kind, ..Frame::default() };
        }
        let kind = match category {
            "kernel" | "[kernel.kallsyms]" => FrameKind::Kernel,
            _ => FrameKind::Native,
        };
        let (function, mapping) = (batch.string(name), batch.string(category));
        Frame { function, mapping, kind, ..Frame::default() }
    }
}

/// `name(file:line:column)`, as Hermes writes it; others have only a name.
fn script_place(name: &str) -> (&str, &str, u32) {
    let parts = || {
        let inside = name.strip_suffix(')')?;
        let (place, column) = inside.rsplit_once(':')?;
        let (place, line) = place.rsplit_once(':')?;
        column.parse::<u32>().ok()?;
        let (function, file) = place.split_once('(')?;
        Some((function, file, line.parse().ok()?))
    };
    parts().unwrap_or((name, "", 0))
}

fn whole(value: &ArgValue) -> Option<i64> {
    match value {
        ArgValue::Int(value) => Some(*value),
        ArgValue::Number(word) | ArgValue::Text(word) => word.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hermes_hold_places() {
        let check = |name, expected| assert_eq!(script_place(name), expected, "{name}");
        check("f(http://h:8081/i.bundle?a=b:12:7)", ("f", "http://h:8081/i.bundle?a=b", 12));
        check("(native)", ("(native)", "", 0));
        check("f", ("f", "", 0));
        check("g(x)", ("g(x)", "", 0));
    }
}
