//! GPU work and time of threads, added up by all that any row distinguishes.
//!
//! A trace has millions of pieces of time, and several groupings are made of them. Pieces
//! that agree in operator, line, module and the like are one sum a step here, thousands
//! instead of millions, and the groupings are made of these: so every piece is visited
//! once (two recordings of 2.4 million spans: 2.4 s of processor time before, 0.8 s now).

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{NO_ROW, Nanos, QuickMap, SpanId, StrId, TrackKind};

use crate::compare::changes::sides::keys::{KeyId, Keyer};
use crate::compare::changes::sides::series::{Cell, CompareBy, ComparePlace};
use crate::compare::changes::sides::window::{StepCursor, Window};
use crate::cpu::self_time::{innermost_pieces, takes_part};
use crate::gpu::usage::gpu_work;
use crate::{Facts, TotalNanos};

/// What rows distinguish, in the trace's own numbers; [`NO_ROW`] is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::compare::changes) struct Signature {
    pub(in crate::compare::changes) place: ComparePlace,
    operator: u32,
    line: u32,
    module: u32,
    kernel: u32,
    stack: u32,
    /// The key that was asked for, where the others do not decide it.
    asked: u32,
    has_launch: bool,
}

impl Signature {
    pub(in crate::compare::changes) fn line(&self) -> Option<StrId> {
        (self.line != NO_ROW).then_some(StrId(self.line))
    }

    pub(in crate::compare::changes) fn kernel(&self) -> Option<StrId> {
        (self.kernel != NO_ROW).then_some(StrId(self.kernel))
    }

    /// [`NO_ROW`] where no function is known.
    pub(in crate::compare::changes) fn stack(&self) -> u32 {
        self.stack
    }
}

/// All pieces of one signature.
pub(in crate::compare::changes) struct Kind {
    pub(in crate::compare::changes) signature: Signature,
    /// The first of them.
    pub(in crate::compare::changes) span: SpanId,
    /// Of GPU work, the first, second, fourth, eighth …: some of the beginning and some of
    /// the rest, for what only the source knows.
    pub(in crate::compare::changes) sampled: Vec<SpanId>,
    seen: u64,
}

/// The pieces of one signature in one step.
#[derive(Clone, Copy)]
pub(in crate::compare::changes) struct Sum {
    /// Its kind.
    pub(in crate::compare::changes) of: u32,
    pub(in crate::compare::changes) at: usize,
    pub(in crate::compare::changes) cell: Cell,
}

/// Sums by kind and step.
#[derive(Default)]
pub(in crate::compare::changes) struct Sums {
    numbers: QuickMap<Signature, u32>,
    /// By stack, none first: the kind that came last. Most often it is the one again.
    latest: Vec<u32>,
    /// Keys that were asked for. Looked up only.
    asked: HashMap<KeyId, u32>,
    pub(in crate::compare::changes) kinds: Vec<Kind>,
    /// A kind may have several of one step.
    pub(in crate::compare::changes) sums: Vec<Sum>,
    /// What lies outside of the steps and phases that were asked for.
    pub(in crate::compare::changes) outside: BTreeMap<ComparePlace, TotalNanos>,
    /// The step at hand, the cell of each kind there, and the kinds that have one.
    at: usize,
    cells: Vec<Cell>,
    touched: Vec<u32>,
}

/// GPU work, and the step it counts for.
pub(in crate::compare::changes) struct PlacedWork {
    pub(in crate::compare::changes) work: SpanId,
    pub(in crate::compare::changes) at: Option<usize>,
}

pub(in crate::compare::changes) fn placed_work(facts: &Facts, window: &Window) -> Vec<PlacedWork> {
    let spans = facts.trace().spans();
    let mut cursor = StepCursor::new(window);
    let mut at = |work: SpanId| match spans.launch(work) {
        Some(call) => cursor.place(spans.start(call)),
        None => window.place(None),
    };
    let placed = |work: SpanId| PlacedWork {
        work,
        at: at(work).filter(|_| window.is_in_phase(facts, work)),
    };
    gpu_work(facts.trace()).map(placed).collect()
}

impl Sums {
    /// Adds GPU work.
    pub(in crate::compare::changes) fn add_work(
        &mut self,
        keyer: &mut Keyer<'_>,
        work: &[PlacedWork],
    ) {
        let facts = keyer.facts();
        let spans = facts.trace().spans();
        for &PlacedWork { work, at } in work {
            let cell = Cell { ns: i128::from(spans.dur(work)), count: 1 };
            let Some(at) = at else {
                *self.outside.entry(ComparePlace::Gpu).or_default() += cell.ns;
                continue;
            };
            let signature = self.signature_of_work(keyer, work, at);
            let number = self.number(signature, work);
            let kind = &mut self.kinds[number as usize];
            kind.seen += 1;
            if kind.seen.is_power_of_two() {
                kind.sampled.push(work);
            }
            self.add(at, number, cell);
        }
        self.put_by();
    }

    /// Adds self time of threads, cut where steps begin and end.
    pub(in crate::compare::changes) fn add_time(&mut self, keyer: &mut Keyer<'_>, window: &Window) {
        let facts = keyer.facts();
        let trace = facts.trace();
        let takes_part = takes_part(trace);
        let mut number_of = vec![NO_ROW; trace.spans().len()];
        let mut cursor = StepCursor::new(window);
        let mut add = |span: SpanId, from: Nanos, to: Nanos| {
            let is_asked = window.is_in_phase(facts, span);
            let mut from = from;
            while from < to {
                let at = cursor.place(from).filter(|_| is_asked);
                let end = cursor.until.min(to);
                let mut number = number_of[span.index()];
                let is_first = number == NO_ROW;
                if is_first {
                    let signature = self.signature_of_time(keyer, span, at.unwrap_or(0));
                    number = self.number(signature, span);
                    number_of[span.index()] = number;
                }
                let ns = i128::from(end) - i128::from(from);
                match at {
                    Some(at) => self.add(at, number, Cell { ns, count: u64::from(is_first) }),
                    None => {
                        let place = self.kinds[number as usize].signature.place;
                        *self.outside.entry(place).or_default() += ns;
                    }
                }
                from = end;
            }
        };
        for (thread, track) in trace.tracks().iter() {
            if track.kind == TrackKind::Thread {
                innermost_pieces(trace, thread, &takes_part, &mut add);
            }
        }
        self.put_by();
    }

    fn signature_of_work(&mut self, keyer: &mut Keyer<'_>, work: SpanId, at: usize) -> Signature {
        let facts = keyer.facts();
        let spans = facts.trace().spans();
        let launcher = keyer.launchers.of(work);
        let id = |name: Option<StrId>| name.map_or(NO_ROW, |name| name.0);
        let by = keyer.by;
        Signature {
            place: ComparePlace::Gpu,
            operator: id(launcher.operator),
            line: id(launcher.line),
            module: keyer.module_of_work(work),
            kernel: facts.names().merged(spans.name(work)).0,
            stack: spans.launch(work).map_or(NO_ROW, |call| keyer.stacks.path_of(call)),
            asked: match is_decided(by) {
                true => NO_ROW,
                false => self.asked_number(keyer.gpu(by, work, at)),
            },
            has_launch: spans.launch(work).is_some(),
        }
    }

    fn signature_of_time(&mut self, keyer: &mut Keyer<'_>, span: SpanId, at: usize) -> Signature {
        let facts = keyer.facts();
        let name = |span: Option<SpanId>| {
            span.map_or(NO_ROW, |span| facts.names().merged(facts.trace().spans().name(span)).0)
        };
        let asked = match is_decided(keyer.by) {
            true => None,
            false => keyer.host(keyer.by, span, at),
        };
        Signature {
            place: match facts.waits().kind(span) {
                Some(_) => ComparePlace::Waiting,
                None => ComparePlace::Host,
            },
            operator: name(facts.frames().operator(span)),
            line: name(facts.frames().line(span)),
            module: keyer.module_of_span(span),
            kernel: NO_ROW,
            stack: keyer.stacks.path_of(span),
            asked: asked.map_or(NO_ROW, |key| self.asked_number(key)),
            has_launch: false,
        }
    }

    fn asked_number(&mut self, key: KeyId) -> u32 {
        let next = self.asked.len() as u32;
        *self.asked.entry(key).or_insert(next)
    }

    fn number(&mut self, signature: Signature, span: SpanId) -> u32 {
        let stack = signature.stack.wrapping_add(1) as usize;
        if let Some(&latest) = self.latest.get(stack)
            && self.kinds.get(latest as usize).is_some_and(|kind| kind.signature == signature)
        {
            return latest;
        }
        let (kinds, cells) = (&mut self.kinds, &mut self.cells);
        let number = *self.numbers.entry(signature).or_insert_with(|| {
            kinds.push(Kind { signature, span, sampled: Vec::new(), seen: 0 });
            cells.push(Cell::default());
            kinds.len() as u32 - 1
        });
        if stack >= self.latest.len() {
            self.latest.resize(stack + 1, NO_ROW);
        }
        self.latest[stack] = number;
        number
    }

    #[inline]
    fn add(&mut self, at: usize, number: u32, cell: Cell) {
        if at != self.at {
            self.put_by();
            self.at = at;
        }
        // Pieces have a length or a count: an empty cell was not touched yet.
        let sum = &mut self.cells[number as usize];
        if *sum == Cell::default() {
            self.touched.push(number);
        }
        sum.add(cell);
    }

    /// Ends the step at hand.
    fn put_by(&mut self) {
        for number in self.touched.drain(..) {
            let cell = std::mem::take(&mut self.cells[number as usize]);
            self.sums.push(Sum { of: number, at: self.at, cell });
        }
    }
}

/// Whether the other parts of a signature decide the key.
fn is_decided(by: CompareBy) -> bool {
    match by {
        CompareBy::Operator
        | CompareBy::Kernel
        | CompareBy::Module
        | CompareBy::Stack
        | CompareBy::Step
        | CompareBy::PythonLine
        | CompareBy::Function => true,
        CompareBy::Class | CompareBy::Layer | CompareBy::Phase => false,
    }
}
