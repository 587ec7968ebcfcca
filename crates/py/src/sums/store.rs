//! What was recorded, for those who ask while the program runs.
//!
//! A subscriber (a profiler of the Python side) gets every operation that is addressed to it:
//! sums by name and component are kept for all, the operations themselves for the latest ones.
//! Ticks become nanoseconds when someone asks, since their rate is known better by then.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use spanwise_probe::raw::{self, Record};

use crate::spans::values::{Quantity, Values};
use crate::sums::numbers::NumberMap;
use crate::sums::union::Union;

/// What a site stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An operation on one thread.
    Operation,
    /// Times in which a generator works; its operation comes at its end.
    GeneratorPart,
    /// Times in which a coroutine works: within its operation, so counted with that.
    CoroutinePart,
    /// A whole generator: its operation is as long as its parts.
    Generator,
    /// A whole coroutine: its operation is as long as it took, with what it waited.
    Coroutine,
    /// The type of an exception.
    Exception,
    Value(Quantity),
}

/// Who gets what a site records; zero stands for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Audience {
    pub(crate) manager: u32,
    pub(crate) subscriber: u32,
    pub(crate) names: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub(crate) struct SiteFacts {
    pub(crate) meaning: Meaning,
    /// Numbers that the Python side gave to names and components.
    pub(crate) name: u32,
    pub(crate) component: u32,
    pub(crate) audience: Audience,
}

/// One operation, in ticks.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Less than from start to end for a generator, which rests in between.
    pub(crate) ticks: u64,
    /// In which it was worked on, where that is known.
    pub(crate) active_ticks: Option<u64>,
    /// The site, with flags.
    pub(crate) site: u64,
    pub(crate) thread_id: u64,
    pub(crate) exception: u32,
    pub(crate) values: Option<Box<Values>>,
}

/// Sums over operations, in ticks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) failed: u64,
    pub(crate) by_hand: u64,
    /// Of each operation, nested ones too.
    pub(crate) ticks: u64,
    /// Nested time once.
    pub(crate) covered: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Operations of which only sums are kept.
    pub(crate) without_row: u64,
    /// Operations among them whose time is estimated from that of others.
    pub(crate) estimated: u64,
    /// Of operations without rows: what they cover of their name, and of their component.
    pub(crate) covered_name: u64,
    pub(crate) covered_component: u64,
}

impl Sums {
    /// Adds operations that have no rows, which cover so much.
    fn add_all(&mut self, more: &Sums, covered: u64) {
        if more.estimated < more.without_row {
            let is_first = self.count == self.estimated;
            self.min = if is_first { more.min } else { self.min.min(more.min) };
            self.max = self.max.max(more.max);
        }
        self.count += more.count;
        self.failed += more.failed;
        self.ticks += more.ticks;
        self.covered += covered;
        self.without_row += more.without_row;
        self.estimated += more.estimated;
    }

    fn add(&mut self, operation: &Operation) {
        let ticks = operation.ticks;
        self.min = if self.count == 0 { ticks } else { self.min.min(ticks) };
        self.max = self.max.max(ticks);
        self.count += 1;
        self.failed += u64::from(operation.site & raw::HAS_FAILED != 0);
        self.by_hand += u64::from(operation.site & raw::IS_BY_HAND != 0);
        self.ticks += ticks;
    }
}

#[derive(Debug, Default)]
struct Unions {
    /// How often nothing was open on the thread any more.
    era: u64,
    all: Union,
    by_name: NumberMap<u32, Union>,
    by_component: NumberMap<u32, Union>,
}

#[derive(Debug, Default)]
pub(crate) struct Subscriber {
    pub(crate) manager: u32,
    pub(crate) name: String,
    pub(crate) is_active: bool,
    /// Sums up what any profiler of the manager gets, once.
    pub(crate) is_whole: bool,
    pub(crate) operations_max: usize,
    pub(crate) operations: VecDeque<Operation>,
    pub(crate) all: Sums,
    pub(crate) by_name: BTreeMap<(u32, u32), Sums>,
    pub(crate) by_component: BTreeMap<u32, Sums>,
    pub(crate) memory_delta: f64,
    pub(crate) gpu_memory_delta: f64,
    threads: NumberMap<u64, Unions>,
}

impl Subscriber {
    fn wants(&self, number: u32, facts: &SiteFacts, current_manager: u32) -> bool {
        let Audience { manager, subscriber, names } = &facts.audience;
        if !self.is_active || self.is_whole || (*subscriber != 0 && *subscriber != number) {
            return false;
        }
        let manager = if *manager == 0 { current_manager } else { *manager };
        (*subscriber != 0 || self.manager == manager)
            && names.as_ref().is_none_or(|names| names.contains(&self.name))
    }

    /// Counts time in which something was done, once.
    fn cover(&mut self, thread_id: u64, facts: &SiteFacts, start: u64, end: u64, forget: bool) {
        let unions = self.threads.entry(thread_id).or_default();
        let era = unions.era;
        self.all.covered += unions.all.add(start, end, era);
        let by_name = unions.by_name.entry(facts.name).or_default();
        let of_name = self.by_name.entry((facts.name, facts.component)).or_default();
        of_name.covered += by_name.add(start, end, era);
        let by_component = unions.by_component.entry(facts.component).or_default();
        let of_component = self.by_component.entry(facts.component).or_default();
        of_component.covered += by_component.add(start, end, era);
        unions.era += u64::from(forget);
    }

    /// Adds operations of which only sums are kept.
    fn take_sums(&mut self, facts: &SiteFacts, sums: &Sums) {
        self.all.add_all(sums, sums.covered);
        let of_name = self.by_name.entry((facts.name, facts.component)).or_default();
        of_name.add_all(sums, sums.covered_name);
        let of_component = self.by_component.entry(facts.component).or_default();
        of_component.add_all(sums, sums.covered_component);
    }

    fn take(&mut self, facts: &SiteFacts, operation: Operation) {
        // What a generator did was counted part by part.
        if facts.meaning != Meaning::Generator {
            let forget = operation.site & raw::IS_OUTERMOST != 0;
            self.cover(operation.thread_id, facts, operation.start, operation.end, forget);
        }
        self.all.add(&operation);
        self.by_name.entry((facts.name, facts.component)).or_default().add(&operation);
        self.by_component.entry(facts.component).or_default().add(&operation);
        if operation.site & raw::IS_OUTERMOST != 0
            && let Some(values) = &operation.values
        {
            self.memory_delta += values.delta(Quantity::Memory).unwrap_or(0.0);
            self.gpu_memory_delta += values.delta(Quantity::GpuMemory).unwrap_or(0.0);
        }
        while self.operations.len() >= self.operations_max.max(1) {
            self.operations.pop_front();
        }
        self.operations.push_back(operation);
    }

    pub(crate) fn clear(&mut self) {
        *self = Subscriber {
            manager: self.manager,
            name: std::mem::take(&mut self.name),
            is_active: self.is_active,
            is_whole: self.is_whole,
            operations_max: self.operations_max,
            ..Subscriber::default()
        };
    }
}

/// What a thread has reported of a span that has not ended yet.
#[derive(Debug, Default)]
struct Pending {
    is_any: bool,
    values: Vec<(u64, Quantity, f64)>,
    /// When, and the site of its type; zeros where there is none. Not an option: what is compared
    /// is always written.
    exception: (u64, u32),
}

impl Pending {
    /// What was measured at the two ends of a span.
    fn values(&self, start: u64, end: u64) -> Option<Box<Values>> {
        let mut values = Values::default();
        let measured = self.values.iter().filter(|value| value.0 == start || value.0 == end);
        measured.for_each(|&(tick, quantity, value)| values.set(quantity, tick != start, value));
        (!values.is_empty()).then(|| Box::new(values))
    }

    fn forget(&mut self) {
        self.is_any = false;
        self.values.clear();
        self.exception = (0, 0);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) sites: Vec<Option<SiteFacts>>,
    pub(crate) subscribers: BTreeMap<u32, Subscriber>,
    pub(crate) current_manager: u32,
    pending: NumberMap<u64, Pending>,
    /// By thread and start of a task: for how long it was worked on.
    active: NumberMap<(u64, u64), u64>,
    /// Memory over time, from the hub's thread: when, and how much.
    pub(crate) samples: VecDeque<(u64, f64)>,
}

/// Samples of memory that are kept: ten minutes at 10 ms.
const SAMPLES_MAX: usize = 60_000;

/// Tasks whose record was dropped for want of room leave their entry behind.
const ACTIVE_MAX: usize = 1 << 16;

/// Both ends of a span have fewer values than this.
const PENDING_MAX: usize = 64;

static STORE: Mutex<Option<Store>> = Mutex::new(None);

pub(crate) struct StoreGuard(MutexGuard<'static, Option<Store>>);

/// The one store. Never held while Python code runs, nor while a hub is asked for something.
pub(crate) fn store() -> StoreGuard {
    let mut guard = STORE.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_with(Store::default);
    StoreGuard(guard)
}

impl std::ops::Deref for StoreGuard {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.0.as_ref().expect("made when it was taken")
    }
}

impl std::ops::DerefMut for StoreGuard {
    fn deref_mut(&mut self) -> &mut Store {
        self.0.as_mut().expect("made when it was taken")
    }
}

impl Store {
    pub(crate) fn define(&mut self, number: u32, facts: SiteFacts) {
        let at = number as usize;
        if self.sites.len() <= at {
            self.sites.resize(at + 1, None);
        }
        self.sites[at] = Some(facts);
    }

    /// Notes for how long a task was worked on, before its record.
    pub(crate) fn note_active(&mut self, thread_id: u64, start: u64, ticks: u64) {
        if self.active.len() >= ACTIVE_MAX {
            self.active.clear();
        }
        self.active.insert((thread_id, start), ticks);
    }

    /// In a forked child: what the parent has counted is not counted again.
    pub(crate) fn forget_parent(&mut self) {
        self.subscribers.values_mut().for_each(Subscriber::clear);
        self.pending.clear();
        self.active.clear();
        self.samples.clear();
    }

    pub(crate) fn sample(&mut self, tick: u64, mebibytes: f64) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((tick, mebibytes));
    }

    /// Takes in one record of a thread.
    pub(crate) fn see(&mut self, thread_id: u64, record: Record) {
        let [start, end, site] = record;
        let Some(Some(facts)) = self.sites.get(site as u32 as usize) else { return };
        match facts.meaning {
            Meaning::Value(quantity) => {
                let pending = self.pending.entry(thread_id).or_default();
                pending.is_any = true;
                // Samples of the hub's thread belong to no span of it.
                if pending.values.len() < PENDING_MAX {
                    pending.values.push((start, quantity, f64::from_bits(end)));
                }
            }
            Meaning::Exception => {
                let pending = self.pending.entry(thread_id).or_default();
                pending.is_any = true;
                pending.exception = (end, site as u32);
            }
            Meaning::GeneratorPart => self.cover(thread_id, record),
            Meaning::CoroutinePart => {}
            Meaning::Operation | Meaning::Generator | Meaning::Coroutine => {
                self.operation_of(thread_id, record);
            }
        }
    }

    fn cover(&mut self, thread_id: u64, [start, end, site]: Record) {
        let Some(Some(facts)) = self.sites.get(site as u32 as usize) else { return };
        let forget = site & raw::IS_OUTERMOST != 0;
        let mut managers = Vec::new();
        for (&number, subscriber) in &mut self.subscribers {
            if subscriber.wants(number, facts, self.current_manager) {
                managers.push(subscriber.manager);
                subscriber.cover(thread_id, facts, start, end, forget);
            }
        }
        for subscriber in self.subscribers.values_mut().filter(|one| one.is_whole) {
            if managers.contains(&subscriber.manager) {
                subscriber.cover(thread_id, facts, start, end, forget);
            }
        }
    }

    fn operation_of(&mut self, thread_id: u64, [start, end, site]: Record) {
        let mut operation = Operation {
            start,
            end,
            ticks: end.saturating_sub(start),
            active_ticks: None,
            site,
            thread_id,
            exception: 0,
            values: None,
        };
        if !self.active.is_empty() {
            operation.active_ticks = self.active.remove(&(thread_id, start));
        }
        if let Some(pending) = self.pending.get_mut(&thread_id).filter(|pending| pending.is_any) {
            operation.values = pending.values(start, end);
            let (raised_at, exception) = pending.exception;
            operation.exception = if raised_at == end { exception } else { 0 };
            pending.forget();
        }
        self.add(operation);
    }

    /// The number of a site's component.
    pub(crate) fn component_of(&self, number: u32) -> u32 {
        let facts = self.sites.get(number as usize).and_then(Option::as_ref);
        facts.map_or(0, |facts| facts.component)
    }

    /// Hands operations of a site that have no rows to all that want them.
    pub(crate) fn add_sums(&mut self, number: u32, sums: &Sums) {
        let Some(Some(facts)) = self.sites.get(number as usize) else { return };
        let mut managers = Vec::new();
        for (&number, subscriber) in &mut self.subscribers {
            if subscriber.wants(number, facts, self.current_manager) {
                managers.push(subscriber.manager);
                subscriber.take_sums(facts, sums);
            }
        }
        for subscriber in self.subscribers.values_mut().filter(|one| one.is_whole) {
            if managers.contains(&subscriber.manager) {
                subscriber.take_sums(facts, sums);
            }
        }
    }

    /// Hands an operation to all that want it.
    pub(crate) fn add(&mut self, mut operation: Operation) {
        let measured = operation.values.is_some();
        let peak = if measured { self.peak(operation.start, operation.end) } else { None };
        let Some(Some(facts)) = self.sites.get(operation.site as u32 as usize) else { return };
        if facts.meaning == Meaning::Generator {
            operation.ticks = operation.active_ticks.unwrap_or(operation.ticks);
        }
        if let (Some(peak), Some(values)) = (peak, &mut operation.values) {
            values.set_peak(peak);
        }
        let mut managers = Vec::new();
        for (&number, subscriber) in &mut self.subscribers {
            if subscriber.wants(number, facts, self.current_manager) {
                managers.push(subscriber.manager);
                subscriber.take(facts, operation.clone());
            }
        }
        for subscriber in self.subscribers.values_mut().filter(|one| one.is_whole) {
            if managers.contains(&subscriber.manager) {
                subscriber.take(facts, operation.clone());
            }
        }
    }

    /// The most memory that was seen between two ticks.
    pub(crate) fn peak(&self, start: u64, end: u64) -> Option<f64> {
        let from = self.samples.partition_point(|sample| sample.0 < start);
        let within = self.samples.iter().skip(from).take_while(|sample| sample.0 <= end);
        within.map(|sample| sample.1).reduce(f64::max)
    }
}
