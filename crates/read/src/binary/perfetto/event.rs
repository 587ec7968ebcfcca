//! One track event.

use spanwise_model::{
    CategoryId, CounterRow, FlowPhase, InstantRow, NO_KEY, Nanos, NoticeKind, SpanKind, SpanRow,
    StrId, TrackId,
};
use spanwise_protobuf::Value;

use super::tracks::ThreadDescriptor;
use super::{Packet, Reader};
use crate::assembly::{Edge, FlowPoint};

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// A track is given when everything is read; until then a number stands in.
const LATER: TrackId = TrackId(0);

#[derive(Default)]
struct Event<'a> {
    kind: u64,
    name_iid: Option<u64>,
    name: Option<Value<'a>>,
    category_iids: Vec<u64>,
    category: Option<Value<'a>>,
    track: Option<u64>,
    value: Option<f64>,
    flows: Vec<u64>,
    last_flows: Vec<u64>,
    delta_us: Option<i64>,
    whole_us: Option<i64>,
    legacy: Option<Legacy>,
}

/// What the older kinds of events say.
#[derive(Default)]
struct Legacy {
    phase: u8,
    name_iid: Option<u64>,
    duration_us: i64,
    id: Option<u64>,
    bind_id: Option<u64>,
    direction: u64,
    pid: Option<i64>,
    tid: Option<i64>,
}

impl<'a> Event<'a> {
    fn new(message: Value<'a>) -> (Self, bool) {
        let mut event = Event::default();
        let is_whole = message.message().each(|number, value| match number {
            1 => event.delta_us = Some(value.number() as i64),
            16 => event.whole_us = Some(value.number() as i64),
            3 => _ = value.add_varints(&mut event.category_iids),
            6 => event.legacy = Some(Legacy::new(value)),
            9 => event.kind = value.number(),
            10 => event.name_iid = Some(value.number()),
            11 => event.track = Some(value.number()),
            22 => event.category = event.category.or(Some(value)),
            23 => event.name = Some(value),
            30 => event.value = Some(value.number() as i64 as f64),
            44 => event.value = Some(f64::from_bits(value.number())),
            36 => _ = value.add_varints(&mut event.flows),
            42 => _ = value.add_varints(&mut event.last_flows),
            47 => _ = value.add_fixed64(&mut event.flows),
            48 => _ = value.add_fixed64(&mut event.last_flows),
            _ => {}
        });
        (event, is_whole)
    }
}

impl Legacy {
    fn new(message: Value<'_>) -> Self {
        let mut legacy = Legacy::default();
        message.message().each(|number, value| match number {
            1 => legacy.name_iid = Some(value.number()),
            2 => legacy.phase = u8::try_from(value.number()).unwrap_or(0),
            3 => legacy.duration_us = value.number() as i64,
            6 | 10 | 11 => legacy.id = Some(value.number()),
            8 => legacy.bind_id = Some(value.number()),
            13 => legacy.direction = value.number(),
            18 => legacy.pid = Some(value.number() as i32 as i64),
            19 => legacy.tid = Some(value.number() as i32 as i64),
            _ => {}
        });
        legacy
    }
}

impl Reader {
    /// Takes in an event; `time` is that of its packet.
    pub(super) fn event(
        &mut self,
        packet: &Packet<'_>,
        time: Option<Nanos>,
        message: Value<'_>,
        offset: u64,
    ) {
        let (event, is_whole) = Event::new(message);
        if !is_whole {
            return self.skipped(NoticeKind::EventSkipped, offset);
        }
        let sequence = self.sequences.entry(packet.sequence).or_default();
        let own_time = sequence.micros(event.delta_us, event.whole_us);
        let Some(time) = own_time.or(time) else {
            return self.skipped(NoticeKind::NoTime, offset);
        };
        let default = sequence.default_track.or(sequence.thread_track);
        let track = event.track.or(default).unwrap_or(0);
        let texts = self.texts(packet.sequence, &event);
        self.flows(packet, &event, time, offset);
        if let Some(legacy) = &event.legacy {
            return self.legacy(legacy, track, time, texts, offset);
        }
        let edge = Edge { lane: track, time, offset, begin: None };
        let phase = match event.kind {
            BEGIN => {
                self.assembly.edges.push(Edge { begin: Some(texts), ..edge });
                b'B'
            }
            END => {
                self.assembly.edges.push(edge);
                b'E'
            }
            INSTANT => {
                self.instant(track, time, texts.0, texts.1, offset);
                b'i'
            }
            COUNTER => {
                let value = event.value.unwrap_or(0.0);
                let row = CounterRow { time, offset, value, track: LATER };
                self.counters.push((track, row));
                b'C'
            }
            _ => return self.skipped(NoticeKind::UnknownPhase, offset),
        };
        *self.assembly.batch.phases.entry(phase).or_insert(0) += 1;
    }

    fn instant(&mut self, track: u64, time: Nanos, name: StrId, category: CategoryId, offset: u64) {
        self.instants.push((track, InstantRow { time, offset, name, track: LATER, category }));
    }

    fn legacy(
        &mut self,
        legacy: &Legacy,
        track: u64,
        time: Nanos,
        texts: (StrId, CategoryId),
        offset: u64,
    ) {
        let track = match (legacy.pid, legacy.tid) {
            (None, None) => track,
            (pid, tid) => self.tracks.thread(ThreadDescriptor {
                pid: pid.unwrap_or(0),
                tid: tid.unwrap_or(0),
                name: String::new(),
            }),
        };
        // Spans of an id nest in a lane of their own.
        let lane = match (legacy.phase, legacy.id) {
            (b'b' | b'e' | b'S' | b'F' | b'n', Some(id)) => self.tracks.lane(track, id),
            _ => track,
        };
        let edge = Edge { lane, time, offset, begin: None };
        let begin = Edge { begin: Some(texts), ..edge };
        match legacy.phase {
            b'B' | b'b' | b'S' => self.assembly.edges.push(begin),
            b'E' | b'e' | b'F' => self.assembly.edges.push(edge),
            b'X' => match legacy.duration_us.checked_mul(1000).filter(|&dur| dur >= 0) {
                Some(dur) => {
                    let (name, category) = texts;
                    let row = SpanRow { start: time, dur, key: NO_KEY, offset, name, category };
                    self.completes.push((track, row));
                }
                None => return self.skipped(NoticeKind::NegativeDuration, offset),
            },
            b'i' | b'I' | b'R' | b'n' => self.instant(lane, time, texts.0, texts.1, offset),
            // Points of arrows were taken already.
            b's' | b't' | b'f' => {}
            _ => return self.skipped(NoticeKind::UnknownPhase, offset),
        }
        *self.assembly.batch.phases.entry(legacy.phase).or_insert(0) += 1;
    }

    fn texts(&mut self, sequence_id: u64, event: &Event<'_>) -> (StrId, CategoryId) {
        let batch = &mut self.assembly.batch;
        let sequence = self.sequences.entry(sequence_id).or_default();
        let legacy_iid = event.legacy.as_ref().and_then(|legacy| legacy.name_iid);
        let name = match (event.name, event.name_iid.or(legacy_iid)) {
            (Some(name), _) => batch.string(&name.text()),
            (None, Some(iid)) => sequence.names.get(&iid).copied().unwrap_or(StrId::EMPTY),
            (None, None) => StrId::EMPTY,
        };
        let known = event.category_iids.first().and_then(|iid| sequence.categories.get(iid));
        let category = match (known, event.category) {
            (Some(&known), _) => known,
            (None, Some(name)) => {
                let kind = crate::json::kineto::span_kind(name.bytes());
                batch.category(&name.text(), kind)
            }
            (None, None) => batch.category("", SpanKind::Other),
        };
        (name, category)
    }

    fn flows(&mut self, packet: &Packet<'_>, event: &Event<'_>, time: Nanos, offset: u64) {
        let categories = &self.sequences[&packet.sequence].categories;
        let mut flow_categories = packet.flow_categories.iter();
        for &id in &event.flows {
            let category = flow_categories.next().and_then(|iid| categories.get(iid)).copied();
            let phase = FlowPhase::Step;
            self.assembly.flows.push(FlowPoint { id, time, event: offset, phase, category });
        }
        for &id in &event.last_flows {
            let phase = FlowPhase::End;
            self.assembly.flows.push(FlowPoint { id, time, event: offset, phase, category: None });
        }
        if let Some(legacy) = &event.legacy
            && let Some(id) = legacy.bind_id
        {
            let phase = match legacy.direction {
                1 => FlowPhase::End,
                2 => FlowPhase::Start,
                _ => FlowPhase::Step,
            };
            self.assembly.flows.push(FlowPoint { id, time, event: offset, phase, category: None });
        }
    }
}
