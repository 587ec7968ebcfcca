//! Events of the kernel for what makes a snapshot be taken.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use spanwise_symbols::{ExitPlace, FunctionProbes, SiteName, probes_named};

use super::conditions::{CallFrame, FunctionTrigger, Hit, Judge, Meaning, Reason, Triggers, When};
use super::dispositions::Dispositions;
use crate::perf::event::{Attr, Event};
use crate::perf::probe::Probe;
use crate::perf::records::Record;
use crate::perf::rings::{Rings, is_refusal};
use crate::session::program::guard::Guard;
use crate::system::processes;
use crate::system::sys;
use crate::{Ability, CaptureError, FlightOptions, calls};

/// Functions of one name in one file beyond this are too many to watch.
const SITES_MAX: usize = 16;

/// Between two looks at what signals do: one reads a file of each process.
const LOOK_APART: Duration = Duration::from_millis(10);

/// Watches threads for triggers.
pub(crate) struct Watch<'a> {
    triggers: Triggers<'a>,
    judge: Judge,
    watched: Vec<Watched>,
    /// They can be taken away only when all their events are closed, so they come after them.
    probes: Vec<Probe>,
    /// Which of `watched` an id belongs to.
    by_id: BTreeMap<u64, usize>,
    /// Processes and their files that have been looked at.
    known: BTreeSet<(i32, Vec<u8>)>,
    /// Of each thread and place, the event that counts: a process whose parent was watched
    /// has events of its own and inherited ones.
    counting: BTreeMap<(i32, WatchSite), u64>,
    /// Outlives the probes, and takes them away where we cannot.
    _guard: Option<Guard>,
    /// The kernel itself pauses the hardware's trace at what is a reason each time: no other
    /// snapshot will be wanted.
    pauses_trace: bool,
    /// What the records' clock is ahead of the one that programs can read.
    clock_ahead_ns: i64,
    /// Of the signal that is watched, and when they were looked at.
    dispositions: Option<Dispositions>,
    looked: Instant,
    warn_of_signal: &'a dyn Fn(i32),
    /// Why something is not watched.
    pub(crate) troubles: BTreeSet<String>,
    /// The function was found where it must not be watched.
    pub(crate) has_refused: bool,
}

/// An address in a file, and what is noted there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WatchSite {
    file: Vec<u8>,
    offset: u64,
    meaning: Meaning,
}

struct Watched {
    place: WatchSite,
    /// Of a place where calls and returns have to be distinguished.
    frames: Option<FrameSource>,
    event: Event,
    /// Closing them ends the watch.
    _open: Vec<OwnedFd>,
}

/// How the call is known that a hit belongs to.
#[derive(Debug, Clone)]
struct FrameSource {
    is_go: bool,
    /// Where the function is left, or may be.
    exit: Option<ExitPlace>,
}

impl FrameSource {
    /// What the probe has to fetch.
    fn fetches(&self) -> io::Result<Vec<String>> {
        let whose = if self.is_go { "%r14" } else { "%sp" };
        let decides = self.exit.as_ref().map(calls::fetched).transpose();
        let decides = decides.map_err(io::Error::other)?.flatten();
        Ok(std::iter::once(whose.to_owned()).chain(decides).collect())
    }

    /// Whose call it is; `None` where the function goes on.
    fn frame(&self, record: Record<'_>) -> Option<CallFrame> {
        let found = record.fetched()?;
        let [whose, decides] = found.words;
        let is_left = |exit: &ExitPlace| calls::is_left(exit, found.ip, decides);
        if !self.exit.as_ref().is_none_or(is_left) {
            return None;
        }
        Some(if self.is_go { CallFrame::Goroutine(whose?) } else { CallFrame::Slot(whose?) })
    }
}

impl<'a> Watch<'a> {
    /// Begins to watch for a signal; functions are watched where files are reported.
    pub(crate) fn begin(
        FlightOptions { triggers, takes_many, warn_of_signal, .. }: FlightOptions<'a>,
        rings: &Rings,
        pids: &[i32],
        is_from_exec: bool,
    ) -> Result<Watch<'a>, CaptureError> {
        let mut watch = Watch {
            judge: Judge::new(&triggers),
            triggers,
            watched: Vec::new(),
            probes: Vec::new(),
            by_id: BTreeMap::new(),
            known: BTreeSet::new(),
            counting: BTreeMap::new(),
            // Without it the next recorder does the same.
            _guard: triggers.function.and_then(|_| Guard::start().ok()),
            pauses_trace: rings.has_trace() && !takes_many,
            clock_ahead_ns: clock_ahead_ns(rings),
            dispositions: None,
            looked: Instant::now(),
            warn_of_signal,
            troubles: BTreeSet::new(),
            has_refused: false,
        };
        if let Some(signal) = triggers.signal {
            match watch.watch_signal(signal.number, rings, pids) {
                Err(error) if !signal.is_optional => {
                    let error = CaptureError::io("signals cannot be watched", error);
                    return Err(error.lacks(Ability::Signals));
                }
                Err(_) => {}
                Ok(()) => {
                    watch.dispositions = Some(Dispositions::new(signal, pids, is_from_exec));
                }
            }
        }
        Ok(watch)
    }

    fn watch_signal(&mut self, signal: i32, rings: &Rings, pids: &[i32]) -> io::Result<()> {
        let number = processes::signal_tracepoint();
        let number = number.ok_or_else(|| io::Error::other("no tracepoint of signals"))?;
        let filter = CString::new(format!("sig=={signal}"))?;
        let attr = woken_at_once(Attr::tracepoint(number), rings);
        let pauses = self.pauses_trace;
        let open = |tid, cpu| {
            let event = open_trigger(&attr, tid, cpu, rings, pauses)?;
            sys::set_filter(&event, &filter).map(|()| event)
        };
        let place = WatchSite { file: Vec::new(), offset: 0, meaning: Meaning::Signal };
        self.open(&place, None, "signal:signal_generate", attr, pids, |tids| {
            rings.open_beside(tids, open)
        })
    }

    /// Opens events for all threads of processes, also for those that are made meanwhile. One
    /// of these may have inherited an event from who made it: which of the two counts,
    /// [`Watch::note`] decides, and each opening is an entry of its own for that.
    fn open(
        &mut self,
        place: &WatchSite,
        frames: Option<&FrameSource>,
        name: &str,
        attr: Attr,
        pids: &[i32],
        open: impl Fn(&[i32]) -> io::Result<(Vec<OwnedFd>, Vec<u64>)>,
    ) -> io::Result<()> {
        let add = |tids: &[i32]| {
            let (open, ids) = open(tids)?;
            let event = Event { name: name.to_owned(), attr, ids };
            let (place, frames) = (place.clone(), frames.cloned());
            self.add(Watched { place, frames, event, _open: open });
            Ok(())
        };
        processes::for_all_threads(pids, add).map(drop)
    }

    fn add(&mut self, watched: Watched) {
        let at = self.watched.len();
        self.by_id.extend(watched.event.ids.iter().map(|&id| (id, at)));
        self.watched.push(watched);
    }

    /// A process has this file in its memory, or will have: watches the function in it.
    pub(crate) fn file_mapped(
        &mut self,
        pid: i32,
        path: &[u8],
        rings: &Rings,
    ) -> Result<(), CaptureError> {
        if let Some(dispositions) = &mut self.dispositions {
            dispositions.add(pid);
        }
        let Some(function) = self.triggers.function else { return Ok(()) };
        if !self.known.insert((pid, path.to_vec())) {
            return Ok(());
        }
        let is_timed = matches!(function.when, When::Lasted(_)) && !function.is_companion;
        let watched = match is_timed {
            true => self.watch_lengths(function, pid, path, rings),
            false => self.watch_calls(function, pid, path, rings),
        };
        let Err(error) = watched else { return Ok(()) };
        let is_refusal = is_refusal(&error);
        let error = CaptureError::io(format!("{}: cannot be watched", function.name), error);
        if function.is_optional {
            self.troubles.insert(error.to_string());
            return Ok(());
        }
        Err(if is_refusal { error.lacks(Ability::Probes) } else { error })
    }

    fn watch_calls(
        &mut self,
        function: FunctionTrigger<'_>,
        pid: i32,
        path: &[u8],
        rings: &Rings,
    ) -> io::Result<()> {
        let (name, file) = (function.name, processes::path_of(path));
        let mut offsets = Vec::new();
        for site in SiteName::parse(name).sites_in(file) {
            match site {
                Ok(offset) => offsets.push(offset),
                Err(why) => {
                    let file = file.display();
                    self.has_refused = true;
                    self.troubles
                        .insert(format!("--trigger {name} is not watched: {why} ({file})"));
                }
            }
        }
        offsets.into_iter().take(SITES_MAX).try_for_each(|offset| {
            let site = WatchSite { file: path.to_vec(), offset, meaning: Meaning::Call };
            self.watch_place(site, None, rings, pid)
        })
    }

    /// Where it begins, and each place where it is left: those first, so that of a call that is
    /// seen, the return is seen as well.
    fn watch_lengths(
        &mut self,
        function: FunctionTrigger<'_>,
        pid: i32,
        path: &[u8],
        rings: &Rings,
    ) -> io::Result<()> {
        let functions = probes_named(processes::path_of(path), function.name);
        // All of that name are looked at before the first is watched.
        let mut timed = Vec::new();
        for FunctionProbes { is_go, places, .. } in functions.into_iter().take(SITES_MAX) {
            let places = places.map_err(io::Error::other)?;
            if places.exit_at_entry().is_some() {
                let why = "its first instruction leaves it, so that calls have no duration";
                return Err(io::Error::other(why));
            }
            timed.push((is_go, places));
        }
        for (is_go, places) in timed {
            let place = |offset, meaning| WatchSite { file: path.to_vec(), offset, meaning };
            for exit in places.exits {
                let place = place(exit.offset, Meaning::Return);
                let frames = FrameSource { is_go, exit: Some(exit) };
                self.watch_place(place, Some(frames), rings, pid)?;
            }
            let place = place(places.entry, Meaning::Call);
            self.watch_place(place, Some(FrameSource { is_go, exit: None }), rings, pid)?;
        }
        Ok(())
    }

    fn watch_place(
        &mut self,
        place: WatchSite,
        frames: Option<FrameSource>,
        rings: &Rings,
        pid: i32,
    ) -> io::Result<()> {
        let name = self.triggers.function.map_or("", |function| function.name);
        let path = str::from_utf8(&place.file).map_err(io::Error::other)?;
        let fetches = frames.as_ref().map(FrameSource::fetches).transpose()?.unwrap_or_default();
        let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
        let probe = Probe::define(path, place.offset, &fetches)?;
        let is_companion = self.triggers.function.is_some_and(|function| function.is_companion);
        let attr = Attr::tracepoint(probe.number);
        let attr = match (is_companion, &frames) {
            (true, _) => attr.with_arguments(),
            (false, Some(_)) => attr.with_fetched(),
            (false, None) => attr,
        };
        let attr = woken_at_once(attr, rings);
        let is_any = self.triggers.function.is_some_and(|function| function.when == When::Called);
        let pauses = self.pauses_trace && is_any;
        self.probes.push(probe);
        // With parentheses, or a short name could be taken for letters that modify an event.
        let returns = if place.meaning == Meaning::Return { " returns" } else { "" };
        let name = format!("trigger:{name}(){returns}");
        self.open(&place, frames.as_ref(), &name, attr, &[pid], |tids| {
            rings.open_beside(tids, |tid, cpu| open_trigger(&attr, tid, cpu, rings, pauses))
        })
    }

    /// Whether samples of this event are of something that is watched.
    pub(crate) fn is_own(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    /// True where the function was found in some file, or none is asked for.
    pub(crate) fn has_found_function(&self) -> bool {
        let mut places = self.watched.iter().map(|watched| watched.place.meaning);
        let is_needed = |function: FunctionTrigger<'_>| !function.is_optional;
        !self.triggers.function.is_some_and(is_needed)
            || places.any(|meaning| meaning == Meaning::Call)
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.watched.iter().map(|watched| &watched.event)
    }

    pub(crate) fn note(&mut self, record: Record<'_>) {
        if self.judge.wants_switches()
            && let (Some((thread, meaning)), Some(time)) = (record.switched(), record.time())
        {
            self.judge.note(Hit { time, thread, meaning, arguments: None, frame: None });
        }
        let Some(id) = record.event_id() else { return };
        let Some(&at) = self.by_id.get(&id) else { return };
        let (Some(time), Some(thread)) = (record.time(), record.thread()) else { return };
        let place = &self.watched[at].place;
        let counting = *self.counting.entry((thread, place.clone())).or_insert(id);
        // Events of one opening have an id for each processor.
        if self.by_id.get(&counting) == Some(&at) {
            let has_arguments = self.watched[at].event.attr.has_arguments();
            let arguments = if has_arguments { record.arguments() } else { None };
            let ahead = self.clock_ahead_ns;
            let in_records = |[started, argument]: [u64; 2]| match started {
                0 => [0, argument],
                started => [started.wrapping_add_signed(ahead), argument],
            };
            let arguments = arguments.map(in_records);
            let frame = self.watched[at].frames.as_ref().map(|frames| frames.frame(record));
            // The function may go on where it could be left.
            if frame != Some(None) {
                let frame = frame.flatten();
                self.judge.note(Hit { time, thread, meaning: place.meaning, arguments, frame });
            }
        }
    }

    /// A reason for a snapshot, among all that happened up to a time.
    pub(crate) fn reason(&mut self, until: u64) -> Option<Reason> {
        if let Some(dispositions) = &mut self.dispositions
            && self.looked.elapsed() >= LOOK_APART
        {
            self.looked = Instant::now();
            dispositions.look().into_iter().for_each(self.warn_of_signal);
        }
        self.judge.reason(until)
    }
}

/// What hardware traces is overwritten within a hundredth of a second: there, nobody may wait
/// until the rings are looked at.
fn woken_at_once(attr: Attr, rings: &Rings) -> Attr {
    let attr = attr.on_clock_of(&rings.event.attr);
    if rings.has_trace() { attr.waking_at_once() } else { attr }
}

/// Where it can be, one that pauses the hardware's trace of its thread before anything else
/// happens; kernels before 6.13 refuse that, and then spanwise stops it.
fn open_trigger(
    attr: &Attr,
    tid: i32,
    cpu: i32,
    rings: &Rings,
    pauses: bool,
) -> io::Result<OwnedFd> {
    let leader = rings.trace_of(tid, cpu).filter(|_| pauses);
    let pausing = leader
        .and_then(|leader| sys::open_grouped(&attr.pausing_trace(), tid, cpu, Some(leader)).ok());
    pausing.map_or_else(|| sys::open_event(attr, tid, cpu), Ok)
}

fn clock_ahead_ns(rings: &Rings) -> i64 {
    match rings.event.attr.has_monotonic() {
        true => 0,
        false => rings.now().wrapping_sub(sys::clock_ns(libc::CLOCK_MONOTONIC)) as i64,
    }
}
