//! Sums over a session's records as they come, without keeping them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use spanwise_model::{LiveCounter, LiveMark, LiveSession, LiveSpans, LiveThread, Nanos};

use super::chunks::{Chunk, Clock, ClockReading, Site, SiteKind, record_of, site_of};

/// Marks that are remembered.
const MARKS_MAX: usize = 64;

/// Ended spans of a thread that may yet turn out to lie inside of one. A thread that has more
/// loses the difference between the oldest two, so self times of a span that was open
/// meanwhile are too long by one of them at most.
const ENDED_MAX: usize = 1 << 16;

/// Pairs of a tick and the clocks that are kept. The processor's counter runs evenly, so fewer
/// of them for what was long ago cost nanoseconds.
const CLOCK_READINGS_MAX: usize = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Sums {
    process_id: u32,
    program: String,
    first_reading: Option<ClockReading>,
    last_reading: Option<ClockReading>,
    clock: Clock,
    sites: BTreeMap<u32, Site>,
    /// By site.
    spans: BTreeMap<u32, Spans>,
    counters: BTreeMap<u32, LiveCounter>,
    threads: BTreeMap<u32, Thread>,
    marks: VecDeque<(u32, Nanos, u64)>,
    records: u64,
    damaged: u64,
    end_dropped: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Spans {
    count: u64,
    total_ns: i128,
    self_ns: i128,
    max_ns: Nanos,
    last: Nanos,
    /// What the previous poll returned: count, total, self.
    reported: (u64, i128, i128),
}

#[derive(Debug, Default)]
struct Thread {
    id: u64,
    name: String,
    dropped: u64,
    spans: u64,
    busy_ns: i128,
    reported_busy_ns: i128,
    last: Nanos,
    ended: VecDeque<ClosedSpan>,
}

/// A span that has ended, with all that lies inside of it.
#[derive(Debug, Clone, Copy)]
struct ClosedSpan {
    start: Nanos,
    end: Nanos,
    /// Of its time, what no span before it has.
    covered_ns: i128,
}

impl Thread {
    /// Takes in a span of the thread; gives its self time. Spans come in the order of their
    /// ends, so those inside of it are the latest ones that began no earlier. Where spans
    /// overlap without nesting, the time of both is the first one's: self times add up to the
    /// time in which any span was open.
    fn span(&mut self, start: Nanos, end: Nanos) -> i128 {
        let mut inside_ns = 0;
        while let Some(last) = self.ended.back().filter(|last| last.start >= start) {
            inside_ns += last.covered_ns;
            self.ended.pop_back();
        }
        let before_ns = self.ended.back().map_or(0, |last| i128::from(last.end - start).max(0));
        let own_ns = (i128::from(end - start) - inside_ns - before_ns).max(0);
        if self.ended.len() >= ENDED_MAX {
            self.join_oldest();
        }
        self.ended.push_back(ClosedSpan { start, end, covered_ns: own_ns + inside_ns });
        self.busy_ns += own_ns;
        self.spans += 1;
        own_ns
    }

    fn join_oldest(&mut self) {
        if let (Some(first), Some(second)) = (self.ended.pop_front(), self.ended.front_mut()) {
            second.start = first.start;
            second.covered_ns += first.covered_ns;
        }
    }
}

impl Sums {
    /// Takes in a chunk; `None` where something about it makes no sense.
    pub(super) fn take(&mut self, chunk: Chunk<'_>) -> Option<()> {
        match chunk {
            Chunk::Process { id, program, .. } => {
                self.process_id = id;
                self.program = program.to_owned();
            }
            Chunk::Clock(reading) => self.clock_reading(reading),
            Chunk::Site(number, site) => {
                self.sites.insert(number, site);
            }
            Chunk::Thread { number, id, name } => {
                let thread = self.threads.entry(number).or_default();
                thread.id = id;
                thread.name = name.to_owned();
            }
            Chunk::Records { thread, dropped, records, is_whole } => {
                self.threads.entry(thread).or_default().dropped = dropped;
                for record in records {
                    if self.record(thread, record_of(record)).is_none() {
                        self.damage();
                    }
                }
                return is_whole.then_some(());
            }
            Chunk::End { dropped } => self.end_dropped = Some(dropped),
            Chunk::Unknown => return None,
        }
        Some(())
    }

    pub(super) fn damage(&mut self) {
        self.damaged += 1;
    }

    fn clock_reading(&mut self, reading: ClockReading) {
        self.first_reading.get_or_insert(reading);
        self.last_reading = Some(reading);
        self.clock.push(reading);
        self.clock.thin(CLOCK_READINGS_MAX);
    }

    /// `None` where the record has no known site.
    fn record(&mut self, thread_number: u32, words: [u64; 3]) -> Option<()> {
        let [start_tick, second, site_and_flags] = words;
        let number = site_of(site_and_flags);
        let site = self.sites.get(&number)?;
        let start = self.clock.time(start_tick);
        let thread = self.threads.entry(thread_number).or_default();
        self.records += 1;
        let mut made = start;
        match site.kind {
            SiteKind::Span | SiteKind::Task => {
                let end = self.clock.time(second).max(start);
                made = end;
                let sums = self.spans.entry(number).or_default();
                if site.kind == SiteKind::Span {
                    sums.self_ns += thread.span(start, end);
                }
                sums.count += 1;
                sums.total_ns += i128::from(end - start);
                sums.max_ns = sums.max_ns.max(end - start);
                sums.last = sums.last.max(end);
            }
            SiteKind::Mark => {
                if self.marks.len() == MARKS_MAX {
                    self.marks.pop_front();
                }
                self.marks.push_back((number, start, thread.id));
            }
            SiteKind::Counter => {
                count_value(&mut self.counters, number, f64::from_bits(second), start)
            }
        }
        thread.last = thread.last.max(made);
        Some(())
    }

    /// What there is to show; what is new is counted from the next one on.
    pub(super) fn report(&mut self) -> LiveSession {
        let began = self.first_reading.map_or(0, |reading| reading.monotonic_ns);
        let until = self.last_reading.map_or(0, |reading| reading.monotonic_ns);
        let (spans, tasks) = self.rows();
        let threads = self.thread_rows();
        let of_threads: u64 = threads.iter().map(|row| row.dropped).sum();
        LiveSession {
            process_id: self.process_id,
            program: self.program.clone(),
            has_ended: self.end_dropped.is_some(),
            began,
            until,
            began_calendar_ns: self.first_reading.map_or(0, |reading| reading.calendar_ns),
            bytes: 0,
            unread_bytes: 0,
            records: self.records,
            dropped: self.end_dropped.unwrap_or(0).max(of_threads),
            damaged: self.damaged,
            spans,
            tasks,
            threads,
            marks: self.mark_rows(),
            counters: self.counter_rows(),
        }
    }

    /// Spans and tasks by name; with the place where several share one.
    fn rows(&mut self) -> (Vec<LiveSpans>, Vec<LiveSpans>) {
        let mut places: HashMap<(&str, SiteKind), HashSet<&str>> = HashMap::new();
        for site in self.spans.keys().filter_map(|number| self.sites.get(number)) {
            places.entry((&site.name, site.kind)).or_default().insert(&site.place);
        }
        let mut by_name: BTreeMap<(SiteKind, String), LiveSpans> = BTreeMap::new();
        for (number, sums) in &mut self.spans {
            let Some(site) = self.sites.get(number) else { continue };
            let is_shared = places.get(&(&*site.name, site.kind)).is_some_and(|all| all.len() > 1);
            let name = match is_shared && site.kind == SiteKind::Span {
                true => format!("{} ({})", site.name, site.place),
                false => site.name.clone(),
            };
            let row = by_name.entry((site.kind, name)).or_default();
            add(row, sums);
            sums.reported = (sums.count, sums.total_ns, sums.self_ns);
        }
        let (mut spans, mut tasks) = (Vec::new(), Vec::new());
        for ((kind, name), row) in by_name {
            let rows = if kind == SiteKind::Span { &mut spans } else { &mut tasks };
            rows.push(LiveSpans { name, ..row });
        }
        spans.sort_by_key(|row| (-row.self_ns, -row.total_ns));
        tasks.sort_by_key(|row| -row.total_ns);
        (spans, tasks)
    }

    fn thread_rows(&mut self) -> Vec<LiveThread> {
        let row = |thread: &mut Thread| {
            let reported_ns = std::mem::replace(&mut thread.reported_busy_ns, thread.busy_ns);
            LiveThread {
                id: thread.id,
                name: thread.name.clone(),
                spans: thread.spans,
                busy_ns: thread.busy_ns,
                new_busy_ns: thread.busy_ns - reported_ns,
                dropped: thread.dropped,
                last: thread.last,
            }
        };
        let mut rows: Vec<LiveThread> = self.threads.values_mut().map(row).collect();
        rows.sort_by_key(|row| (-row.busy_ns, row.id));
        rows
    }

    fn mark_rows(&self) -> Vec<LiveMark> {
        let row = |&(number, time, thread_id): &(u32, Nanos, u64)| {
            let name = self.sites.get(&number)?.name.clone();
            Some(LiveMark { name, time, thread_id })
        };
        let mut rows: Vec<LiveMark> = self.marks.iter().filter_map(row).collect();
        rows.sort_by_key(|row| -row.time);
        rows
    }

    fn counter_rows(&self) -> Vec<LiveCounter> {
        let row = |(number, counter): (&u32, &LiveCounter)| {
            Some(LiveCounter { name: self.sites.get(number)?.name.clone(), ..counter.clone() })
        };
        let mut rows: Vec<LiveCounter> = self.counters.iter().filter_map(row).collect();
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        rows
    }
}

fn add(row: &mut LiveSpans, sums: &Spans) {
    row.count += sums.count;
    row.total_ns += sums.total_ns;
    row.self_ns += sums.self_ns;
    row.max_ns = row.max_ns.max(sums.max_ns);
    row.last = row.last.max(sums.last);
    row.new_count += sums.count - sums.reported.0;
    row.new_total_ns += sums.total_ns - sums.reported.1;
    row.new_self_ns += sums.self_ns - sums.reported.2;
}

fn count_value(counters: &mut BTreeMap<u32, LiveCounter>, site: u32, value: f64, time: Nanos) {
    let first = LiveCounter {
        name: String::new(),
        last_value: value,
        min: value,
        max: value,
        count: 0,
        last: time,
    };
    let counter = counters.entry(site).or_insert(first);
    counter.count += 1;
    counter.min = counter.min.min(value);
    counter.max = counter.max.max(value);
    // Several threads may record it: the latest one counts.
    if time >= counter.last {
        (counter.last, counter.last_value) = (time, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans in any order; those of a thread come by their ends, of equal ends inner ones first.
    fn self_times(spans: &mut [(Nanos, Nanos)]) -> Vec<i128> {
        spans.sort_by_key(|&(start, end)| (end, -start));
        let mut thread = Thread::default();
        let own = spans.iter().map(|&(start, end)| thread.span(start, end)).collect();
        assert_eq!(thread.spans, spans.len() as u64);
        own
    }

    fn covered_ns(spans: &[(Nanos, Nanos)]) -> i128 {
        let last = spans.iter().map(|span| span.1).max().unwrap_or(0);
        let is_covered = |at: Nanos| spans.iter().any(|&(from, to)| from <= at && at < to);
        (0..last).filter(|&at| is_covered(at)).count() as i128
    }

    #[track_caller]
    fn check(spans: &[(Nanos, Nanos)], expected: &[i128]) {
        assert_eq!(self_times(&mut spans.to_vec()), expected);
    }

    #[test]
    fn self_time_leaves_out_what_lies_inside() {
        check(&[(0, 10)], &[10]);
        check(&[(2, 4), (0, 10)], &[2, 8]);
        check(&[(2, 4), (5, 6), (0, 10), (10, 12)], &[2, 1, 7, 2]);
        check(&[(3, 4), (2, 5), (0, 10)], &[1, 2, 7]);
        check(&[(0, 10), (0, 10)], &[10, 0]);
        check(&[(4, 4)], &[0]);
    }

    #[test]
    fn time_that_two_spans_share_counts_once() {
        check(&[(0, 10), (5, 15)], &[10, 5]);
        check(&[(0, 10), (5, 15), (3, 20)], &[10, 5, 5]);
    }

    /// A small generator, so that a failure can be repeated.
    fn next(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn self_times_add_up_to_the_time_in_which_any_span_was_open() {
        let mut seed = 1;
        for round in 0..500 {
            let count = 1 + next(&mut seed) % 12;
            let mut spans: Vec<(Nanos, Nanos)> = (0..count)
                .map(|_| {
                    let start = (next(&mut seed) % 60) as Nanos;
                    (start, start + (next(&mut seed) % 30) as Nanos)
                })
                .collect();
            let sum: i128 = self_times(&mut spans).iter().sum();
            assert_eq!(sum, covered_ns(&spans), "round {round}: {spans:?}");
        }
    }

    #[test]
    fn many_spans_beside_each_other_take_little_memory() {
        let mut thread = Thread::default();
        let count = ENDED_MAX as Nanos + 1000;
        for at in 0..count {
            thread.span(at * 10, at * 10 + 5);
        }
        assert_eq!(thread.ended.len(), ENDED_MAX);
        // A span around them all still has the rest.
        assert_eq!(thread.span(0, count * 10), i128::from(count) * 5);
    }
}
