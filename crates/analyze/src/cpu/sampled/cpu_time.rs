//! CPU time, divided among the samples that were taken during it (I12).
//!
//! How long a thread ran is known exactly where switches were recorded. Samples say what it
//! ran, so its time is divided among them in proportion to their weights, within the time
//! that they can speak for: a sample says nothing about what ran long before or after it.
//! Long time is divided piece by piece, so that a part of a program which was sampled less takes
//! nothing from another, and the start of slices is left out, which samples cannot see
//! ([`super::switching`]).
//! Threads that ran too short for samples of their own are taken together with others like
//! them ([`super::pools`]), or bursts between two samples would be nobody's.
//!
//! Where switches were not recorded, a sample stands for one interval of its event. Counters such
//! as `cycles` raise samples at a steady rate by changing how many cycles a sample stands for:
//! those of the first milliseconds stand for a few cycles each. There the usual weight is one
//! interval, and others are in proportion, so that shares are those of the weights (I11).
//!
//! Profiles have sums instead of samples: the weight of a column `cpu` in nanoseconds is CPU time.

use spanwise_model::{Nanos, SampleEvent, ThreadState, Trace, TrackId, TrackKind};

use super::pools::{RunningThread, pools};
use super::switching::SwitchDistances;
use crate::TotalNanos;

/// Samples speak for so many of their intervals before and after them. By chance alone, one
/// distance in 3,000 between two samples is longer than twice that.
const REACH_INTERVALS: Nanos = 4;

/// So many samples are enough for a piece of a thread's time that is divided by itself.
const PIECE_SAMPLES: usize = 20;

/// CPU time of a trace, by sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTime {
    /// Row of the event whose samples the time is divided among.
    pub event: Option<u16>,
    /// The CPU time between two samples of that event.
    pub interval_ns: Nanos,
    /// The weight that stands for one interval; unknown where each sample does.
    usual_weight: Option<i64>,
    /// Weights are CPU time already, as in profiles: no interval is known, and none needed.
    is_weight: bool,
    /// Nanoseconds by row of the trace's samples; 0 for those of other events.
    pub sample_ns: Vec<Nanos>,
    /// Samples of that event; 0 where a source has sums of them, and does not say of how many.
    pub samples: u64,
    /// By track: how long it ran, by its states or else by its samples.
    pub track_ns: Vec<Nanos>,
    /// Time of threads that no sample speaks for; only threads that have some.
    pub no_sample: Vec<(TrackId, Nanos)>,
    /// Time at the start of slices, in which the kernel switches threads and takes no samples.
    pub switching: Vec<(TrackId, Nanos)>,
    /// Switches were recorded: how long threads ran is exact.
    pub is_exact: bool,
}

impl CpuTime {
    pub fn total_ns(&self) -> TotalNanos {
        self.track_ns.iter().map(|&ns| i128::from(ns)).sum()
    }

    pub fn no_sample_ns(&self) -> TotalNanos {
        self.no_sample.iter().map(|&(_, ns)| i128::from(ns)).sum()
    }

    pub fn switching_ns(&self) -> TotalNanos {
        self.switching.iter().map(|&(_, ns)| i128::from(ns)).sum()
    }

    /// True where there is something to say.
    pub fn is_recorded(&self) -> bool {
        self.is_exact || self.samples > 0 || self.is_weight
    }

    /// Works it out; [`crate::Facts::cpu_time`] does so once for all that ask.
    pub fn new(trace: &Trace) -> CpuTime {
        let clock = clock_event(trace);
        let event = clock.or_else(|| Some((cpu_column(trace)?, 0)));
        let mut time = CpuTime {
            event: event.map(|event| event.0),
            interval_ns: event.map_or(0, |event| event.1),
            usual_weight: event.and_then(|event| usual_weight(trace, event.0)),
            is_weight: clock.is_none() && event.is_some(),
            sample_ns: vec![0; trace.samples().len()],
            track_ns: vec![0; trace.tracks().len()],
            is_exact: !trace.thread_states().is_empty(),
            ..CpuTime::default()
        };
        let threads = trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread);
        let threads: Vec<TrackId> = threads.map(|(track, _)| track).collect();
        let unseen_ns = time.unseen_ns(trace, &threads);
        let ran: Vec<RunningThread> =
            threads.into_iter().map(|track| time.begin(trace, track, unseen_ns)).collect();
        for pool in pools(trace, &ran, time.interval_ns) {
            match pool[..] {
                [only] => time.divide_alone(trace, &ran[only]),
                _ => time.divide_together(trace, &pool, &ran),
            }
        }
        time.no_sample.sort_unstable();
        time
    }

    /// How much of the start of each slice samples cannot see.
    fn unseen_ns(&self, trace: &Trace, threads: &[TrackId]) -> Nanos {
        if !self.is_exact || self.event.is_none() {
            return 0;
        }
        let mut distances = SwitchDistances::default();
        for &track in threads {
            let running = Running::of(trace, track, 0);
            running.slices.iter().for_each(|slice| distances.slice(slice.end - slice.start));
            for row in self.rows(trace, track) {
                let time = trace.samples().time[row];
                if let Some(slice) = running.slice_at(time) {
                    distances.sample(time - slice.start);
                }
            }
        }
        distances.unseen_ns(self.interval_ns)
    }

    /// The samples of a thread that stand for its CPU time.
    fn rows<'t>(&self, trace: &'t Trace, track: TrackId) -> impl Iterator<Item = usize> + use<'t> {
        let (samples, event) = (trace.samples(), self.event);
        samples.of_track(track).filter(move |&row| Some(samples.event[row]) == event)
    }

    /// Counts what a thread is known to have run, and samples beside that.
    fn begin(&mut self, trace: &Trace, track: TrackId, unseen_ns: Nanos) -> RunningThread {
        let samples = trace.samples();
        let running = Running::of(trace, track, unseen_ns);
        let mut ran = RunningThread { track, ns: running.seen_ns, samples: Vec::new() };
        let mut apart: Nanos = 0;
        let switching = running.total_ns - running.seen_ns;
        if switching > 0 {
            self.switching.push((track, switching));
        }
        for row in self.rows(trace, track) {
            self.samples += self.count();
            match running.at(samples.time[row]) {
                Some(at) => ran.samples.push((row, at)),
                // Nothing says how long the thread ran around it.
                None => {
                    self.sample_ns[row] = self.apart(samples.weight[row]);
                    apart = apart.saturating_add(self.sample_ns[row]);
                }
            }
        }
        self.track_ns[track.index()] = running.total_ns.saturating_add(apart);
        ran
    }

    /// How many samples a row of the event is; 0 where nobody knows.
    pub(crate) fn count(&self) -> u64 {
        u64::from(!self.is_weight)
    }

    /// What a sample stands for by itself.
    fn apart(&self, weight: i64) -> Nanos {
        if self.is_weight {
            return weight.max(0);
        }
        let Some(usual) = self.usual_weight else { return self.interval_ns };
        let ns = i128::from(self.interval_ns) * i128::from(weight.max(0)) / i128::from(usual);
        Nanos::try_from(ns).unwrap_or(Nanos::MAX)
    }

    /// Divides the time of a thread that ran long enough for samples of its own.
    fn divide_alone(&mut self, trace: &Trace, ran: &RunningThread) {
        let reach = self.interval_ns.saturating_mul(REACH_INTERVALS);
        let mut silent = ran.ns;
        let mut from = 0;
        while from < ran.samples.len() {
            let start = ran.samples[from].1.saturating_sub(reach).max(0);
            let mut end = start;
            let mut to = from;
            while let Some(&(_, at)) = ran.samples.get(to)
                && (to == from || at.saturating_sub(reach) <= end)
            {
                end = at.saturating_add(reach).min(ran.ns);
                to += 1;
            }
            self.divide_pieces(trace, &ran.samples[from..to], (start, end));
            silent -= end - start;
            from = to;
        }
        self.silent(ran.track, silent);
    }

    /// Divides a time among the samples in it, piece by piece: pieces end in the middle between
    /// two samples.
    fn divide_pieces(&mut self, trace: &Trace, samples: &[(usize, Nanos)], within: (Nanos, Nanos)) {
        let (start, end) = within;
        let pieces = (samples.len() / PIECE_SAMPLES).max(1);
        let mut from = 0;
        let mut since = start;
        for piece in 1..=pieces {
            let to = samples.len() * piece / pieces;
            let until = match (samples.get(to - 1), samples.get(to)) {
                (Some(&(_, last)), Some(&(_, next))) => last + (next - last) / 2,
                _ => end,
            };
            let rows = samples[from..to].iter().map(|&(row, _)| row);
            self.share(trace, i128::from(until - since), rows);
            (from, since) = (to, until);
        }
    }

    /// Divides the time of threads among all their samples.
    fn divide_together(&mut self, trace: &Trace, pool: &[usize], ran: &[RunningThread]) {
        let threads = || pool.iter().map(|&at| &ran[at]);
        if threads().all(|thread| thread.samples.is_empty()) {
            threads().for_each(|thread| self.silent(thread.track, thread.ns));
            return;
        }
        let total = threads().map(|thread| i128::from(thread.ns)).sum();
        self.share(trace, total, threads().flat_map(|ran| ran.samples.iter().map(|row| row.0)));
    }

    /// Gives samples their parts of a time, which add up to it.
    fn share(&mut self, trace: &Trace, ns: TotalNanos, rows: impl Iterator<Item = usize> + Clone) {
        let weight = |row: usize| i128::from(trace.samples().weight[row].max(1));
        let weights: i128 = rows.clone().map(weight).sum();
        let (mut seen, mut given) = (0, 0);
        for row in rows {
            seen += weight(row);
            // What no real recording comes near needs not be exact before its end.
            let until = match ns.checked_mul(seen) {
                Some(product) => product / weights,
                None if seen == weights => ns,
                None => ((ns as f64 * (seen as f64 / weights as f64)) as i128).clamp(given, ns),
            };
            let part = Nanos::try_from(until - given).unwrap_or(Nanos::MAX);
            self.sample_ns[row] = self.sample_ns[row].saturating_add(part);
            given = until;
        }
    }

    fn silent(&mut self, track: TrackId, ns: Nanos) {
        if ns > 0 {
            self.no_sample.push((track, ns));
        }
    }
}

/// Events that clocks take, the plainest first.
const CLOCKS: [&str; 6] =
    ["cpu-clock", "task-clock", "cycles", "cpu-cycles", "ref-cycles", "instructions"];

/// The event that says best what threads ran, and how far apart its samples are.
fn clock_event(trace: &Trace) -> Option<(u16, Nanos)> {
    let rows = trace.sample_events().rows().iter().enumerate();
    let steady = rows.filter_map(|(number, event)| {
        let name = trace.strings().get(event.name);
        let plain = name.split([':', '/']).next().unwrap_or(name);
        let rank = CLOCKS.iter().position(|&clock| clock == plain).unwrap_or(CLOCKS.len());
        let interval = event.interval_ns.filter(|&ns| ns > 0)?;
        Some((rank, u16::try_from(number).ok()?, interval))
    });
    steady.min().map(|(_, number, interval)| (number, interval))
}

/// The column of a profile that is CPU time.
fn cpu_column(trace: &Trace) -> Option<u16> {
    let text = |id| trace.strings().get(id);
    let is_cpu = |event: &SampleEvent| text(event.name) == "cpu" && text(event.unit) == "ns";
    let at = trace.sample_events().rows().iter().position(is_cpu)?;
    u16::try_from(at).ok()
}

/// The weighted median of an event's weights, where they differ and are no times: half of what
/// was counted was counted by samples of at least this weight.
fn usual_weight(trace: &Trace, event: u16) -> Option<i64> {
    let unit = trace.sample_events().rows()[usize::from(event)].unit;
    if trace.strings().get(unit) == "ns" {
        return None;
    }
    let samples = trace.samples();
    let rows = (0..samples.len()).filter(|&row| samples.event[row] == event);
    let mut weights: Vec<i64> = rows.map(|row| samples.weight[row].max(0)).collect();
    let (first, last) = (weights.iter().min()?, weights.iter().max()?);
    if first == last {
        return None;
    }
    weights.sort_unstable();
    let half = weights.iter().map(|&weight| i128::from(weight)).sum::<i128>() / 2;
    let mut counted = 0;
    let usual = weights.into_iter().find(|&weight| {
        counted += i128::from(weight);
        counted > half
    });
    usual.filter(|&usual| usual > 0)
}

/// When a thread ran, with the CPU time that it had had by then.
struct Running {
    slices: Vec<RunningSlice>,
    /// How much of the start of each slice samples cannot see.
    unseen_ns: Nanos,
    total_ns: Nanos,
    /// Of it, what samples can see.
    seen_ns: Nanos,
}

struct RunningSlice {
    start: Nanos,
    end: Nanos,
    /// CPU time before it that samples can see.
    before: Nanos,
}

impl Running {
    fn of(trace: &Trace, track: TrackId, unseen_ns: Nanos) -> Running {
        let states = trace.thread_states();
        let mut running = Running { slices: Vec::new(), unseen_ns, total_ns: 0, seen_ns: 0 };
        let rows = states.of_track(track);
        for row in rows.filter(|&row| states.state(row) == ThreadState::Running) {
            let (start, dur) = (states.start[row], states.dur[row]);
            let (end, before) = (start.saturating_add(dur), running.seen_ns);
            running.slices.push(RunningSlice { start, end, before });
            running.total_ns = running.total_ns.saturating_add(dur);
            running.seen_ns = running.seen_ns.saturating_add((dur - unseen_ns).max(0));
        }
        running
    }

    fn slice_at(&self, time: Nanos) -> Option<&RunningSlice> {
        let after = self.slices.partition_point(|slice| slice.start <= time);
        self.slices[..after].last().filter(|slice| time <= slice.end)
    }

    /// The CPU time of the thread up to a time at which it ran, as far as samples can see it.
    fn at(&self, time: Nanos) -> Option<Nanos> {
        let slice = self.slice_at(time)?;
        Some(slice.before + (time - slice.start - self.unseen_ns).max(0))
    }
}
