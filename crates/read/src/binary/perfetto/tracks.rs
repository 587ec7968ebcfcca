//! Descriptors of tracks become tracks of the trace.
//!
//! A descriptor may come after the events of its track, so tracks are identified by
//! uuid until everything is read.

use std::collections::HashMap;

use spanwise_model::{Batch, TrackId, TrackKind, TrackLabel};
use spanwise_protobuf::Value;

/// How far up a parent is searched for: a bound for descriptors that lead in a circle.
const PARENTS_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
struct Descriptor {
    parent: u64,
    name: String,
    thread: Option<ThreadDescriptor>,
    /// Pid and name of a process.
    process: Option<(i64, String)>,
    sort_rank: i64,
    // What our own writer adds.
    process_text: Option<String>,
    thread_text: Option<String>,
    lane_text: Option<String>,
    is_unnamed: bool,
}

#[derive(Default)]
pub(super) struct Tracks {
    descriptors: HashMap<u64, Descriptor>,
    /// In order of description.
    order: Vec<u64>,
    process_names: HashMap<String, String>,
    known: HashMap<u64, TrackId>,
}

/// A thread of the system, as a descriptor names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadDescriptor {
    pub(super) pid: i64,
    pub(super) tid: i64,
    pub(super) name: String,
}

pub(super) fn thread_of(value: Value<'_>) -> ThreadDescriptor {
    let mut thread = ThreadDescriptor::default();
    value.message().each(|number, value| match number {
        1 => thread.pid = value.number() as i64,
        2 => thread.tid = value.number() as i64,
        5 => thread.name = value.text(),
        _ => {}
    });
    thread
}

impl Tracks {
    pub(super) fn describe(&mut self, message: Value<'_>) {
        let mut new = Descriptor::default();
        let mut uuid = 0;
        message.message().each(|number, value| match number {
            1 => uuid = value.number(),
            2 | 10 => new.name = value.text(),
            3 => {
                let mut process = (0, String::new());
                value.message().each(|number, value| match number {
                    1 => process.0 = value.number() as i64,
                    6 => process.1 = value.text(),
                    _ => {}
                });
                new.process = Some(process);
            }
            4 => new.thread = Some(thread_of(value)),
            5 => new.parent = value.number(),
            12 => new.sort_rank = value.number() as i64,
            50_001 => new.process_text = Some(value.text()),
            50_002 => new.thread_text = Some(value.text()),
            50_003 => new.lane_text = Some(value.text()),
            50_004 => new.is_unnamed = true,
            _ => {}
        });
        if let Some((pid, name)) = new.process.as_ref().filter(|(_, name)| !name.is_empty())
            && !new.is_unnamed
        {
            let text = new.process_text.clone().unwrap_or_else(|| pid.to_string());
            self.process_names.insert(text, name.clone());
        }
        if self.descriptors.insert(uuid, new).is_none() {
            self.order.push(uuid);
        }
    }

    /// A thread that is described outside of tracks, as old writers do.
    pub(super) fn thread(&mut self, thread: ThreadDescriptor) -> u64 {
        let ThreadDescriptor { pid, tid, name } = &thread;
        let uuid = spanwise_model::hash_bytes(format!("{pid} {tid}").as_bytes()) | 1 << 63;
        let known = self.descriptors.get(&uuid).and_then(|known| known.thread.as_ref());
        if known.is_some_and(|known| name.is_empty() || known.name == *name) {
            return uuid;
        }
        let new = Descriptor { thread: Some(thread), ..Descriptor::default() };
        if self.descriptors.insert(uuid, new).is_none() {
            self.order.push(uuid);
        }
        uuid
    }

    /// A lane beside a track, for the spans of one id.
    pub(super) fn lane(&mut self, track: u64, id: u64) -> u64 {
        let uuid = spanwise_model::hash_bytes(format!("{track} {id} lane").as_bytes()) | 1 << 63;
        let name = "async".to_owned();
        let new = || Descriptor { parent: track, name, ..Descriptor::default() };
        self.descriptors.entry(uuid).or_insert_with(new);
        uuid
    }

    /// Makes tracks of all threads, so that one without events is there too.
    pub(super) fn make_threads(&mut self, batch: &mut Batch) {
        for uuid in std::mem::take(&mut self.order) {
            let descriptor = &self.descriptors[&uuid];
            if descriptor.thread.is_some() || descriptor.thread_text.is_some() {
                self.track(batch, uuid);
            }
        }
    }

    /// The track of a counter's values.
    pub(super) fn counter(&mut self, batch: &mut Batch, uuid: u64) -> TrackId {
        let descriptor = self.descriptors.get(&uuid).cloned().unwrap_or_default();
        let name = match descriptor.lane_text {
            Some(lane) => lane,
            None if descriptor.name.is_empty() => format!("counter {uuid}"),
            None => descriptor.name,
        };
        let process = descriptor.process_text.unwrap_or_else(|| self.process_text(uuid));
        let track = batch.track(TrackKind::Counter, &process, &name);
        self.label_process(batch, track, &process);
        track
    }

    /// The track that a uuid stands for.
    pub(super) fn track(&mut self, batch: &mut Batch, uuid: u64) -> TrackId {
        if let Some(&known) = self.known.get(&uuid) {
            return known;
        }
        let track = self.new_track(batch, uuid);
        self.known.insert(uuid, track);
        track
    }

    fn new_track(&mut self, batch: &mut Batch, uuid: u64) -> TrackId {
        let own = self.descriptors.get(&uuid).cloned().unwrap_or_default();
        if let (Some(process), Some(lane)) = (&own.process_text, &own.lane_text) {
            let track = batch.track(TrackKind::Async, process, lane);
            self.label_process(batch, track, process);
            return track;
        }
        if let (Some(process), Some(thread)) = (&own.process_text, &own.thread_text) {
            let name = own.thread.as_ref().map_or(&own.name, |thread| &thread.name);
            let name = if own.is_unnamed { "" } else { name };
            return self.new_thread(batch, process, thread, name, own.sort_rank);
        }
        let nearest = self.chain(uuid).find(|uuid| {
            let descriptor = self.descriptors.get(uuid);
            descriptor.is_some_and(|found| found.thread.is_some() || found.process.is_some())
        });
        let nearest = nearest.and_then(|uuid| self.descriptors.get(&uuid)).cloned();
        let thread = nearest.and_then(|found| Some((found.thread?, found.sort_rank)));
        if let Some((ThreadDescriptor { pid, tid, name }, rank)) = &thread
            && (own.thread.is_some() || own.name.is_empty() || own.name == *name)
        {
            return self.new_thread(batch, &pid.to_string(), &tid.to_string(), name, *rank);
        }
        let process = self.process_text(uuid);
        // A track without a name is part of the nearest one that has one.
        let mut names = self.chain(uuid).filter_map(|uuid| self.descriptors.get(&uuid));
        let lane = names.find(|found| !found.name.is_empty()).map(|found| found.name.clone());
        let track = batch.track(TrackKind::Async, &process, &lane.unwrap_or_default());
        self.label_process(batch, track, &process);
        track
    }

    fn new_thread(
        &self,
        batch: &mut Batch,
        process: &str,
        thread: &str,
        name: &str,
        rank: i64,
    ) -> TrackId {
        let track = batch.track(TrackKind::Thread, process, thread);
        if !name.is_empty() {
            let name = batch.string(name);
            batch.label(track, TrackLabel::ThreadName(name));
        }
        if rank != 0 {
            batch.label(track, TrackLabel::ThreadSort(rank));
        }
        self.label_process(batch, track, process);
        track
    }

    fn label_process(&self, batch: &mut Batch, track: TrackId, process: &str) {
        if let Some(name) = self.process_names.get(process) {
            let name = batch.string(name);
            batch.label(track, TrackLabel::ProcessName(name));
        }
    }

    /// The id of the process around a track.
    fn process_text(&self, uuid: u64) -> String {
        let mut found = self.chain(uuid).filter_map(|uuid| self.descriptors.get(&uuid));
        let pid = found.find_map(|found| {
            let of_thread = found.thread.as_ref().map(|thread| thread.pid);
            let pid = of_thread.or(found.process.as_ref().map(|(pid, _)| *pid));
            found.process_text.clone().or_else(|| pid.map(|pid| pid.to_string()))
        });
        pid.unwrap_or_default()
    }

    /// A track and its parents, from the inside out.
    fn chain(&self, uuid: u64) -> impl Iterator<Item = u64> {
        let parent = |uuid: &u64| {
            let parent = self.descriptors.get(uuid)?.parent;
            (parent != 0).then_some(parent)
        };
        std::iter::successors(Some(uuid), parent).take(PARENTS_MAX)
    }
}
