//! V8's CPU profiles among the events: `Profile` and `ProfileChunk`, or `CpuProfile` whole.
//!
//! Chrome's performance panel records JavaScript this way. Nodes of the tree of calls and
//! samples that name them come in chunks, with the time from each sample to the next. V8 samples a
//! thread all the time, also while it waits (`(idle)`), so a sample stands for the time until the
//! next one: that is how V8 and its viewers count it. The blocks of a text are read apart, so the
//! pieces are kept as they are until all are there.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{
    ArgValue, Batch, Frame, FrameKind, NO_CPU, Nanos, SampleEvent, SampleRow, StackId, TrackKind,
};

use crate::json::syntax::decimal::{Time, plain_micros};

/// What the samples are called.
const EVENT: &str = "cpu-profile";

/// The root of V8's trees, which is no function.
const ROOT: &str = "(root)";

/// What functions without a name are called, as in Chrome.
const ANONYMOUS: &str = "(anonymous)";

/// What an event said of a profile.
#[derive(Debug)]
pub(crate) struct ProfilePiece {
    pub(crate) process: String,
    pub(crate) thread: String,
    /// Joins the pieces of a profile; empty where the profile is whole.
    pub(crate) id: String,
    pub(crate) time: Nanos,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// `Profile`: where and when it began.
    Start(Nanos),
    Chunk(Chunk),
}

#[derive(Debug, Default)]
pub(crate) struct Chunk {
    start: Option<Nanos>,
    end: Option<Nanos>,
    nodes: Vec<Node>,
    /// Numbers of nodes.
    samples: Vec<i64>,
    /// From the sample before to each.
    deltas: Vec<Nanos>,
    /// The line that was executed in the innermost frame; 0 where it is not known.
    lines: Vec<u32>,
}

#[derive(Debug)]
struct Node {
    id: i64,
    parent: Option<i64>,
    function: String,
    file: String,
    line: u32,
}

impl Content {
    /// What the arguments of an event say; `None` where they are of no profile.
    pub(crate) fn read(name: &[u8], args: &[(String, ArgValue)], time: Nanos) -> Option<Content> {
        let data = map(member(args, "data"));
        let profile = map(member(data, "cpuProfile"));
        match name {
            b"Profile" => {
                let start = member(data, "startTime").and_then(nanos);
                Some(Content::Start(start.unwrap_or(time)))
            }
            b"ProfileChunk" | b"CpuProfile" => Some(Content::Chunk(Chunk::read(data, profile))),
            _ => None,
        }
    }
}

impl Chunk {
    fn read(data: &[(String, ArgValue)], profile: &[(String, ArgValue)]) -> Chunk {
        // What stands beside the profile in chunks stands inside of whole ones.
        let either = |key| member(data, key).or_else(|| member(profile, key));
        let numbers = |key| list(either(key)).iter();
        let mut chunk = Chunk {
            start: either("startTime").and_then(nanos),
            end: either("endTime").and_then(nanos),
            nodes: Vec::new(),
            samples: numbers("samples").filter_map(ArgValue::as_i64).collect(),
            deltas: numbers("timeDeltas").map(|delta| nanos(delta).unwrap_or(0)).collect(),
            lines: numbers("lines").map(line).collect(),
        };
        let mut parents = HashMap::new();
        for node in list(member(profile, "nodes")) {
            let node = map(Some(node));
            let Some(id) = member(node, "id").and_then(ArgValue::as_i64) else { continue };
            let children = list(member(node, "children")).iter().filter_map(ArgValue::as_i64);
            parents.extend(children.map(|child| (child, id)));
            let frame = map(member(node, "callFrame"));
            let text = |key| member(frame, key).and_then(ArgValue::as_text).unwrap_or("");
            chunk.nodes.push(Node {
                id,
                parent: member(node, "parent").and_then(ArgValue::as_i64),
                function: text("functionName").to_owned(),
                file: text("url").to_owned(),
                // Lines of functions count from 0, and -1 is none.
                line: member(frame, "lineNumber")
                    .and_then(ArgValue::as_i64)
                    .map_or(0, |line| u32::try_from(line.saturating_add(1)).unwrap_or(0)),
            });
        }
        for node in &mut chunk.nodes {
            node.parent = node.parent.or_else(|| parents.get(&node.id).copied());
        }
        chunk
    }
}

/// The samples of all pieces, in a batch; `None` where there are none.
pub(crate) fn samples(pieces: Vec<ProfilePiece>) -> Option<Batch> {
    let mut profiles: BTreeMap<(String, String, usize), Profile> = BTreeMap::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        let ProfilePiece { process, thread, id, time, content } = piece;
        // Whole profiles have no number that would join them with others.
        let apart = if id.is_empty() { at + 1 } else { 0 };
        let profile = profiles.entry((process, id, apart)).or_default();
        match content {
            Content::Start(start) => profile.start = Some((thread, start)),
            Content::Chunk(chunk) => {
                profile.chunk_thread.get_or_insert((thread, time));
                profile.chunks.push((time, chunk));
            }
        }
    }
    let profiles: Vec<(String, TimedProfile)> =
        profiles.into_iter().map(|((process, ..), profile)| (process, profile.timed())).collect();
    let mut gaps: Vec<Nanos> = profiles.iter().flat_map(|(_, profile)| profile.gaps()).collect();
    let interval_ns = median(&mut gaps);
    let mut batch = Batch::default();
    let (name, unit) = (batch.string(EVENT), batch.string("ns"));
    let event = batch.observed.event(SampleEvent { name, unit, interval_ns });
    for (process, profile) in &profiles {
        profile.fill(&mut batch, process, event, interval_ns.unwrap_or(0));
    }
    batch.seal();
    (!batch.observed.samples.is_empty()).then_some(batch)
}

/// The middle one.
pub(crate) fn median(values: &mut [Nanos]) -> Option<Nanos> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

/// All pieces of one profile.
#[derive(Default)]
struct Profile {
    /// The sampled thread, and since when.
    start: Option<(String, Nanos)>,
    /// Who wrote the chunks, and when first.
    chunk_thread: Option<(String, Nanos)>,
    chunks: Vec<(Nanos, Chunk)>,
}

/// A profile with the times of its samples.
struct TimedProfile {
    thread: String,
    end: Option<Nanos>,
    nodes: Vec<Node>,
    /// When, the node, and the line; in order of time.
    samples: Vec<(Nanos, i64, u32)>,
}

impl Profile {
    fn timed(mut self) -> TimedProfile {
        self.chunks.sort_by_key(|(time, _)| *time);
        let said = self.chunks.first().and_then(|(_, chunk)| chunk.start);
        let started = self.start.map(|(thread, start)| (thread, Some(start)));
        let (thread, start) = started
            .or_else(|| {
                self.chunk_thread.map(|(thread, time)| (thread, Some(said.unwrap_or(time))))
            })
            .unwrap_or_default();
        let mut time = start.unwrap_or(0);
        let mut timed = TimedProfile { thread, end: None, nodes: Vec::new(), samples: Vec::new() };
        for (_, chunk) in self.chunks {
            timed.nodes.extend(chunk.nodes);
            timed.end = chunk.end.or(timed.end);
            let mut lines = chunk.lines.into_iter();
            // A sample without a time is none.
            for (node, delta) in chunk.samples.into_iter().zip(chunk.deltas) {
                time = time.saturating_add(delta);
                timed.samples.push((time, node, lines.next().unwrap_or(0)));
            }
        }
        // Samples are at times written a few microseconds late, behind the next.
        timed.samples.sort_by_key(|(time, ..)| *time);
        timed
    }
}

impl TimedProfile {
    fn gaps(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.samples.windows(2).map(|two| two[1].0.saturating_sub(two[0].0))
    }

    fn fill(&self, batch: &mut Batch, process: &str, event: u16, interval: Nanos) {
        if self.samples.is_empty() {
            return;
        }
        let track = batch.track(TrackKind::Thread, process, &self.thread);
        let mut tree = Tree {
            nodes: self.nodes.iter().map(|node| (node.id, node)).collect(),
            stacks: HashMap::new(),
        };
        for (row, &(time, node, line)) in self.samples.iter().enumerate() {
            let next = self.samples.get(row + 1).map(|next| next.0);
            let end = next.or(self.end.filter(|end| *end >= time));
            let weight = end.map_or(interval, |end| end.saturating_sub(time));
            let stack = tree.stack(node, line, batch);
            let sample = SampleRow { time, track, cpu: NO_CPU, stack, event, weight };
            batch.observed.samples.push(sample);
        }
    }
}

/// The nodes of a profile by their numbers, and the stacks of those that were asked for.
struct Tree<'a> {
    nodes: HashMap<i64, &'a Node>,
    stacks: HashMap<i64, StackId>,
}

impl Tree<'_> {
    /// The stack of a node that executes a line, where that is known.
    fn stack(&mut self, node: i64, line: u32, batch: &mut Batch) -> StackId {
        match self.nodes.get(&node) {
            Some(&inner) if line != 0 && line != inner.line && inner.function != ROOT => {
                let caller = match inner.parent {
                    Some(parent) => self.of(parent, batch),
                    None => StackId::EMPTY,
                };
                push(caller, inner, line, batch)
            }
            _ => self.of(node, batch),
        }
    }

    fn of(&mut self, node: i64, batch: &mut Batch) -> StackId {
        let mut path = Vec::new();
        let mut next = Some(node);
        let mut stack = StackId::EMPTY;
        while let Some(id) = next {
            if let Some(&known) = self.stacks.get(&id) {
                stack = known;
                break;
            }
            let Some(&found) = self.nodes.get(&id) else { break };
            // Where a damaged tree is a ring, it is cut here.
            self.stacks.insert(id, StackId::EMPTY);
            path.push(found);
            next = found.parent;
        }
        for node in path.into_iter().rev() {
            if node.function != ROOT {
                stack = push(stack, node, node.line, batch);
            }
            self.stacks.insert(node.id, stack);
        }
        stack
    }
}

fn push(caller: StackId, node: &Node, line: u32, batch: &mut Batch) -> StackId {
    let function = if node.function.is_empty() { ANONYMOUS } else { &node.function };
    let (function, file) = (batch.string(function), batch.string(&node.file));
    let frame = Frame { function, file, line, kind: FrameKind::Script, ..Frame::default() };
    let frame = batch.observed.frame(frame);
    batch.observed.stack(caller, frame)
}

pub(crate) fn member<'a>(members: &'a [(String, ArgValue)], key: &str) -> Option<&'a ArgValue> {
    members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn map(value: Option<&ArgValue>) -> &[(String, ArgValue)] {
    match value {
        Some(ArgValue::Map(members)) => members,
        _ => &[],
    }
}

fn list(value: Option<&ArgValue>) -> &[ArgValue] {
    match value {
        Some(ArgValue::List(values)) => values,
        _ => &[],
    }
}

fn line(value: &ArgValue) -> u32 {
    value.as_i64().and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// Microseconds, as a number or as text.
pub(crate) fn nanos(value: &ArgValue) -> Option<Nanos> {
    match value {
        ArgValue::Int(micros) => micros.checked_mul(1000),
        ArgValue::Number(word) | ArgValue::Text(word) => match plain_micros(word.as_bytes()) {
            (Time::At(time), len) if len == word.len() => Some(time),
            _ => None,
        },
        _ => None,
    }
}
