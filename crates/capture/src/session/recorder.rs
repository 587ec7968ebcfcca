//! One recording, from the first record to the last.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use spanwise_symbols::start_sites;

use super::open_events::{OpenEvents, ThreadSource, events};
use super::options::RecordOptions;
use super::outcome::{CallsRecorded, Ended, Program, Recorded, Snapshot};
use super::output::folders;
use super::output::sink::{Facts, RecordingSink, SaveReason, Saved};
use super::program::launch::Child;
use super::urgency::Urgency;
use crate::CaptureError;
use crate::calls::{self, BrakedFunction, Calls, Hold, RefusedFunction};
use crate::perf::private_stack;
use crate::perf::records::{self, Tally};
use crate::perf::rings::{self, Rings};
use crate::pt::{TracePiece, TraceRings, Tracer};
use crate::python::Python;
use crate::single_step::{self, Steps};
use crate::system::processes;
use crate::system::runtime_maps::RuntimeMaps;
use crate::system::sys;
use crate::torch::Torch;
use crate::triggers::conditions::{Reason, SignalTrigger};
use crate::triggers::signals::{Message, Signals};
use crate::triggers::timer::Timer;
use crate::triggers::watch::Watch;
use crate::waits::switches::Waits;

/// Runs a program and records it and what it starts.
pub fn record_program(
    command: &[OsString],
    options: &RecordOptions<'_>,
) -> Result<Recorded, CaptureError> {
    let signals = take_signals()?;
    sys::raise_file_limit();
    let path = command.first().and_then(|program| processes::program_path(program));
    if let (Some(_), Some(path)) = (options.step, &path) {
        single_step::refuse_if_rights_are_lost(path)?;
    }
    let torch = if options.torch { Some(Torch::prepare()?) } else { None };
    let asks = options.flight.is_some() || options.duration.is_some();
    let environment = torch.as_ref().map(|torch| torch.environment(asks)).unwrap_or_default();
    let signal = options.flight.and_then(|flight| flight.triggers.signal);
    let ignored = signal.and_then(SignalTrigger::harmless_if_ignored);
    let mut child = Child::prepare(command, &environment, ignored)?;
    let words: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().map_or("", String::as_str);
    let what = ThreadSource::of(options)?;
    let pids = &[child.pid];
    let threads = what.open(pids, true).map_err(|error| what.refusal(program, error))?;
    let opened = OpenEvents::new(what, threads, options, true)?;
    let mut session = Session::begin(opened, words, true, pids, options)?;
    session.write_torch_traces(torch)?;
    let hold = options.calls.map(|_| begin_hold(child.pid, path.as_deref()));
    if let Some(path) = path {
        let path = path.into_os_string().into_encoded_bytes();
        session.file_mapped(child.pid, &path)?;
    }
    if let Err(error) = child.go() {
        session.sink.discard();
        return Err(error);
    }
    let pid = child.pid;
    let missing = hold.and_then(|hold| match hold {
        Ok(hold) => hold.until_begun(&mut child, || session.watch_what_is_mapped(pid)),
        Err(why) => Some(calls::not_held(why)),
    });
    session.troubles.extend(missing.clone());
    session.sink.first_calls = missing;
    session.child = Some(child);
    session.record(signals)
}

/// So that the first calls are recorded; an error says why some may be missed.
fn begin_hold(pid: i32, path: Option<&Path>) -> Result<Hold, String> {
    let path = path.ok_or("no file of the program was found")?;
    let sites = start_sites(path).ok_or("its file has no entry point that can be probed")?;
    Hold::begin(pid, &sites).map_err(|error| error.to_string())
}

/// Records processes that run already, with all their threads and what these start; also their
/// children that run already, where the options say so.
pub fn record_processes(
    pids: &[i32],
    options: &RecordOptions<'_>,
) -> Result<Recorded, CaptureError> {
    let signals = take_signals()?;
    sys::raise_file_limit();
    for &pid in pids {
        if !processes::is_running(pid) {
            return Err(CaptureError::new(format!("no such process: {pid}")));
        }
    }
    // Children may end at any time, which is no reason to record nothing.
    let mut all = pids.to_vec();
    if options.children {
        all.extend(processes::child_processes(pids).into_iter().map(|child| child.pid));
    }
    let pids = &all[..];
    let what = ThreadSource::of(options)?;
    let pid_list: Vec<String> = pids.iter().map(i32::to_string).collect();
    let fail = |error| what.refusal(&format!("process {}", pid_list.join(",")), error);
    let threads = what.open(pids, false).map_err(fail)?;
    let command = processes::command(pids.first().copied().unwrap_or(0));
    let opened = OpenEvents::new(what, threads, options, false)?;
    let mut session = Session::begin(opened, command, false, pids, options)?;
    session.tell_what_was_there()?;
    if let Some(watch) = session.watch.as_ref().filter(|watch| !watch.has_found_function()) {
        session.sink.discard();
        let nowhere = "the function to watch is in none of the process's files".to_owned();
        let why: Vec<String> = watch.troubles.iter().cloned().chain([nowhere]).collect();
        return Err(CaptureError::new(why.join("; ")));
    }
    session.record(signals)
}

fn refused_text(function: &RefusedFunction) -> String {
    format!("{}: {}", function.name, function.why)
}

fn take_signals() -> Result<Signals, CaptureError> {
    Signals::take().map_err(|error| CaptureError::io("signals cannot be waited for", error))
}

/// How long at most until the rings are polled again.
const ROUND: Duration = Duration::from_millis(100);

/// So long after the beginning of a recording programs are still being loaded.
const YOUNG: Duration = Duration::from_secs(1);

struct Session<'a> {
    rings: Rings,
    waits: Waits,
    tracer: Option<Tracer>,
    sink: RecordingSink,
    watch: Option<Watch<'a>>,
    python: Option<Python>,
    calls: Option<Calls<'a>>,
    steps: Option<Steps<'a>>,
    torch: Option<Torch>,
    runtime_maps: RuntimeMaps,
    tally: Tally,
    /// Files that were mapped since they were last checked, with the process.
    new_files: Vec<(i32, Vec<u8>)>,
    facts: Facts<'a>,
    child: Option<Child>,
    started: Instant,
    snapshots: Vec<Snapshot>,
    troubles: Vec<String>,
}

impl<'a> Session<'a> {
    fn begin(
        OpenEvents { rings, waits, tracer, frames }: OpenEvents,
        command: Vec<String>,
        is_from_exec: bool,
        pids: &[i32],
        options: &'a RecordOptions<'a>,
    ) -> Result<Session<'a>, CaptureError> {
        let facts = Facts::new(command, pids, options);
        let steps = options.step.map(|step| Steps::begin(step, pids)).transpose()?;
        let calls =
            options.calls.map(|calls| Calls::begin(calls, pids, is_from_exec)).transpose()?;
        let mut watch = None;
        if let Some(flight) = options.flight {
            watch = Some(Watch::begin(flight, &rings, pids, is_from_exec)?);
        }
        let python = options.python.map(|python| Python::begin(python, frames)).transpose();
        let python = python.map_err(|error| CaptureError::io("no thread to read Python", error))?;
        let mut session = Session {
            sink: RecordingSink::begin(
                &facts,
                events(&rings, tracer.as_ref(), &waits, watch.as_ref()),
            )?,
            rings,
            waits,
            tracer,
            watch,
            python,
            calls,
            steps,
            torch: None,
            runtime_maps: RuntimeMaps::default(),
            tally: Tally::default(),
            new_files: Vec::new(),
            facts,
            child: None,
            started: Instant::now(),
            snapshots: Vec::new(),
            troubles: Vec::new(),
        };
        if let Some(tracer) = &session.tracer {
            session.sink.keep_about_trace(tracer.about(&session.rings))?;
        }
        if session.rings.event.attr.has_kernel()
            && let Some(text) = processes::kernel_text()
        {
            let id = session.rings.first_id();
            session.keep(&records::kernel_mapped(text, id))?;
        }
        Ok(session)
    }

    /// Into the folder of the recording, where there is one from the beginning.
    fn write_torch_traces(&mut self, torch: Option<Torch>) -> Result<(), CaptureError> {
        if let (Some(torch), Some(folder)) = (&torch, self.sink.folder()) {
            torch.write_to(folder).map_err(|error| folders::cannot(folder.path(), error))?;
        }
        self.torch = torch;
        Ok(())
    }

    /// Names and mappings of processes that have run before.
    fn tell_what_was_there(&mut self) -> Result<(), CaptureError> {
        let id = self.rings.first_id();
        let mut pids = self.facts.pids.clone();
        pids.extend(self.adopt_children());
        for pid in pids {
            for tid in processes::threads(pid) {
                if let Some(name) = processes::name(pid, tid) {
                    self.keep(&records::named(pid, tid, &name, id))?;
                }
            }
            let has_data = self.rings.event.attr.has_data_mappings();
            for mapping in processes::all_mappings(pid) {
                if mapping.may_be_run() && records::is_anonymous(&mapping.path) {
                    self.runtime_maps.add(pid);
                }
                if mapping.may_be_run() || has_data {
                    self.keep(&records::mapped(pid, &mapping, id))?;
                }
                if mapping.may_be_run() {
                    self.runtime_maps.add_dump(pid, &mapping.path);
                    self.file_mapped(pid, &mapping.path)?;
                }
            }
        }
        Ok(())
    }

    /// Processes that ours began while events were being opened: the kernel follows some of them
    /// already, and no record says where they come from.
    fn adopt_children(&mut self) -> Vec<i32> {
        let Some(followed) = self.waits.followed() else { return Vec::new() };
        let mut children = processes::child_processes(&self.facts.pids);
        children.retain(|child| {
            let may_add = self.facts.options.children;
            followed.has(child.pid) || may_add && followed.add(child.pid).is_ok()
        });
        let pids: Vec<i32> = children.into_iter().map(|child| child.pid).collect();
        pids.iter().for_each(|&pid| self.rings.adopt(pid));
        pids
    }

    /// Files that the loader has mapped by now. What cannot be watched ends no program.
    fn watch_what_is_mapped(&mut self, pid: i32) {
        for mapping in processes::mappings(pid) {
            if let Err(error) = self.file_mapped(pid, &mapping.path) {
                self.troubles.push(error.to_string());
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        records::records(bytes).for_each(|record| self.tally.add(record, false));
        self.sink.keep(bytes)
    }

    fn file_mapped(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        if let Some(python) = &mut self.python {
            python.file_mapped(pid, path);
        }
        if let Some(calls) = &mut self.calls {
            calls.file_mapped(pid, path)?;
        }
        if let Some(steps) = &mut self.steps {
            steps.file_mapped(pid, path);
        }
        match &mut self.watch {
            Some(watch) => watch.file_mapped(pid, path, &self.rings),
            None => Ok(()),
        }
    }

    /// Records until something ends it.
    fn record(mut self, mut signals: Signals) -> Result<Recorded, CaptureError> {
        let _urgency = Urgency::begin();
        let until =
            self.facts.options.duration.and_then(|duration| Instant::now().checked_add(duration));
        let mut stops = 0;
        let mut timer = Timer::new(self.facts.options.flight.map(|flight| flight.triggers));
        let ended = loop {
            let ends = [until, timer.next].into_iter().flatten();
            let left = ends.map(|end| end.saturating_duration_since(Instant::now())).min();
            let round = self.round_length();
            self.wait(&signals, left.map_or(round, |left| left.min(round)))?;
            // Who has ended before the rings are emptied, has nothing more to say.
            let has_exited = self.has_exited();
            let messages = signals.messages();
            let is_asked = messages.contains(&Message::Snapshot);
            let saved = self.round().and_then(|reason| {
                let reason = reason.or_else(|| timer.reason(Instant::now()));
                self.save_if(reason, is_asked)
            });
            match saved {
                Ok(true) => break Ended::Triggered,
                Ok(false) => {}
                Err(error) => {
                    self.troubles.push(error.to_string());
                    break Ended::Failed;
                }
            }
            if has_exited {
                break Ended::Exited;
            }
            stops += messages.into_iter().map(|message| self.answer(message)).sum::<u32>();
            // The program has its own Ctrl-C from the terminal, and decides what it means.
            let patience = if self.child.is_some() { 2 } else { 1 };
            if stops >= patience {
                break Ended::Stopped;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                break Ended::Duration;
            }
        };
        self.finish(ended)
    }

    /// An interpreter that has just begun is found sooner, so that less of it is missed; and so
    /// is what comes too often to be recorded.
    fn round_length(&self) -> Duration {
        let triggers = self.facts.options.flight.map(|flight| flight.triggers);
        if self.tracer.is_some() && triggers.is_some_and(|triggers| triggers.off_cpu.is_some()) {
            // Nothing wakes us, and the hardware's rings hold a short time only.
            return ROUND / 100;
        }
        match (self.started.elapsed() < YOUNG, &self.calls) {
            (true, _) => ROUND / 10,
            // Its ring fills fast.
            (false, Some(_)) => ROUND / 5,
            (false, None) => ROUND,
        }
    }

    fn wait(&self, signals: &Signals, most: Duration) -> Result<(), CaptureError> {
        let mut descriptors = vec![signals.as_fd()];
        descriptors.extend(self.rings.descriptors());
        descriptors.extend(self.steps.as_ref().and_then(Steps::listened));
        sys::wait_for(&descriptors, most).map_err(|error| CaptureError::io("no waiting", error))
    }

    /// Gives how many requests to stop it was.
    fn answer(&mut self, message: Message) -> u32 {
        match (message, &self.child) {
            (Message::Stop(signal), Some(child)) => {
                // A terminal notifies the program of Ctrl-C itself; of other requests we do.
                if signal != libc::SIGINT {
                    sys::send(child.pid, signal);
                }
                1
            }
            (Message::Stop(_), None) => 1,
            (Message::Child | Message::Snapshot, _) => 0,
        }
    }

    fn has_exited(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.has_ended().is_some(),
            None => !self.facts.pids.iter().any(|&pid| processes::is_running(pid)),
        }
    }

    /// Empties all rings once; gives a reason for a snapshot, if there was one.
    fn round(&mut self) -> Result<Option<Reason>, CaptureError> {
        // What happened before now is in the rings.
        let complete_until = self.rings.now();
        self.empty_rings()?;
        Ok(self.watch.as_mut().and_then(|watch| watch.reason(complete_until)))
    }

    fn empty_rings(&mut self) -> Result<(), CaptureError> {
        let Session { rings, tracer, sink, tally, watch, .. } = self;
        let (waits, python, calls) = (&mut self.waits, &mut self.python, &mut self.calls);
        let new_files = &mut self.new_files;
        let has_steps = self.steps.is_some();
        let mut trouble = None;
        let mut executed = Vec::new();
        let mut has_some = false;
        let mut take = |waits: &mut Waits, bytes: &mut [u8]| {
            has_some |= !bytes.is_empty();
            let is_watched = |id| watch.as_ref().is_some_and(|watch| watch.is_own(id));
            let bytes = waits.make_samples(bytes, is_watched);
            private_stack::clear_arguments(bytes);
            for record in records::records(bytes) {
                tally.add(record, waits.is_of_clock(record));
                self.runtime_maps.note(record);
                waits.note(record);
                executed.extend(record.executed());
                if let Some(tracer) = tracer {
                    tracer.note(record);
                }
                if let Some(watch) = watch {
                    watch.note(record);
                }
                if let Some(python) = python {
                    python.note(record);
                }
                if let Some(calls) = calls {
                    trouble = calls.note(record).err().or(trouble.take());
                }
                if watch.is_some() || python.is_some() || calls.is_some() || has_steps {
                    new_files.extend(record.mapped());
                }
            }
            sink.keep(bytes)
        };
        waits.begin_round();
        rings.drain(|bytes| take(waits, bytes))?;
        let mut made = waits.made();
        take(waits, &mut made)?;
        let (throttled, news) = waits.spend();
        sink.keep(&throttled.unwrap_or_default())?;
        if let Some(tracer) = tracer {
            tracer.drain(rings, |piece| {
                has_some = true;
                sink.keep_piece(&piece)
            })?;
        }
        if has_some {
            sink.finish_round()?;
        }
        // Steps are switches, which is nothing that the program does.
        self.troubles.extend(news.filter(|_| !has_steps).map(str::to_owned));
        self.troubles.extend(executed.into_iter().filter_map(rings::lost_at_exec));
        for (pid, path) in std::mem::take(&mut self.new_files) {
            // One function more that cannot be watched does not end what is recorded already.
            if let Err(error) = self.file_mapped(pid, &path) {
                self.troubles.push(error.to_string());
            }
        }
        self.troubles.extend(trouble.map(|trouble: CaptureError| trouble.to_string()));
        self.keep_beside()
    }

    /// What was recorded beside the rings.
    fn keep_beside(&mut self) -> Result<(), CaptureError> {
        let counts = &mut self.sink.counts;
        counts.waits = self.waits.counts();
        if let Some(python) = &mut self.python {
            let mut readings = python.take();
            self.troubles.append(&mut readings.troubles);
            counts.python.stacks += readings.counts.stacks;
            counts.python.torn += readings.counts.torn;
            counts.python.copied += readings.counts.copied;
            self.sink.keep_python(readings.records)?;
        }
        if let Some(calls) = &mut self.calls {
            let (records, new) = calls.take();
            let counts = &mut self.sink.counts.calls;
            counts.hits += new.hits;
            counts.lost += new.lost;
            self.sink.refused = calls.refused().iter().map(refused_text).collect();
            self.sink.braked = calls.braked().iter().map(BrakedFunction::to_string).collect();
            self.sink.late_processes = calls.late_processes();
            self.sink.keep_calls(records)?;
        }
        if let Some(steps) = &mut self.steps {
            let (records, mut troubles) = steps.take();
            self.troubles.append(&mut troubles);
            self.sink.keep_steps(records)?;
        }
        Ok(())
    }

    /// Saves a snapshot, where there is a reason; true where that was all.
    fn save_if(&mut self, reason: Option<Reason>, is_asked: bool) -> Result<bool, CaptureError> {
        let Some(flight) = self.facts.options.flight else { return Ok(false) };
        if reason.is_none() && !is_asked {
            return Ok(false);
        }
        match reason {
            Some(reason) => {
                // What the clock asks for is of no thread.
                let of_thread = Some(&reason).filter(|reason| reason.thread != 0);
                self.save(&reason.what, of_thread)?;
            }
            None => self.save("a signal to spanwise", None)?,
        }
        if flight.takes_many && self.tracer.is_some() {
            (0..self.rings.processors().len()).for_each(|ring| self.rings.start(ring));
        }
        Ok(!flight.takes_many)
    }

    fn save(&mut self, why: &str, reason: Option<&Reason>) -> Result<(), CaptureError> {
        let status = self.child.as_mut().and_then(Child::has_ended);
        let last_pieces = self.last_pieces()?;
        let events = events(&self.rings, self.tracer.as_ref(), &self.waits, self.watch.as_ref());
        let reason = SaveReason { text: why, hit: reason, status };
        let Saved { snapshot, folder } =
            self.sink.save(&self.facts, &events, &self.tally, reason, &last_pieces)?;
        self.troubles.append(&mut self.runtime_maps.copy_to(&folder));
        if let Some(torch) = &mut self.torch {
            if let Err(error) = torch.bring(&folder, status.is_none()) {
                self.troubles.push(format!("PyTorch's trace is not in the recording: {error}"));
            }
            self.troubles.append(&mut torch.notes());
        }
        self.snapshots.push(snapshot);
        Ok(())
    }

    /// Stops the hardware's own trace and copies what it holds, with all that was recorded
    /// beside it until then.
    fn last_pieces(&mut self) -> Result<Vec<TracePiece>, CaptureError> {
        if self.tracer.is_none() {
            return Ok(Vec::new());
        }
        self.rings.stop();
        self.empty_rings()?;
        let pieces = self.tracer.as_mut().map(|tracer| tracer.last_pieces(&self.rings));
        self.sink.counts.trace = self.tracer.as_ref().map(|tracer| tracer.counts);
        Ok(pieces.unwrap_or_default())
    }

    fn save_at_end(&mut self, ended: Ended) -> Result<(), CaptureError> {
        match ended {
            Ended::Exited => self.save("the end of the program", None),
            Ended::Duration => self.save("the time was over", None),
            Ended::Stopped => self.save("it was stopped", None),
            Ended::Triggered | Ended::Failed => Ok(()),
        }
    }

    fn finish(mut self, ended: Ended) -> Result<Recorded, CaptureError> {
        self.rings.disable();
        if let Some(python) = &mut self.python {
            python.stop();
        }
        if let Some(calls) = &mut self.calls {
            calls.stop();
        }
        if let Some(steps) = &mut self.steps {
            steps.stop();
        }
        let ended = match ended {
            Ended::Failed => ended,
            _ => match self.round().and_then(|_| self.save_at_end(ended)) {
                Ok(()) => ended,
                Err(error) => {
                    self.troubles.push(error.to_string());
                    Ended::Failed
                }
            },
        };
        if ended == Ended::Failed {
            // What was written so far can be read.
            let folder = self.sink.folder().map(|folder| folder.path().to_owned());
            let samples = self.tally.samples;
            let why = "it could not be written any more".to_owned();
            self.snapshots.extend(folder.map(|folder| Snapshot { folder, why, samples }));
        }
        if let Some(torch) = &self.torch {
            torch.close();
        }
        let has_found = |watch: &Watch<'_>| watch.has_found_function() || watch.has_refused;
        self.troubles
            .extend(self.watch.iter_mut().flat_map(|watch| std::mem::take(&mut watch.troubles)));
        Ok(Recorded {
            snapshots: self.snapshots,
            ended,
            lost: self.tally.lost,
            troubles: self.troubles,
            has_found_function: self.watch.as_ref().is_none_or(has_found),
            has_found_step: self.steps.as_ref().is_none_or(Steps::has_found_function),
            steps: self.steps.as_ref().map(|steps| steps.counts),
            calls: self
                .calls
                .as_ref()
                .map(|calls| CallsRecorded::new(calls.functions(), self.sink.counts.calls)),
            has_found_python: self.python.as_ref().is_none_or(Python::is_content),
            trace: self.tracer.as_ref().map(|tracer| tracer.counts),
            torch: self.torch.as_ref().map(|torch| torch.counts),
            program: self.child.map(|child| Program { child, _torch: self.torch }),
        })
    }
}
