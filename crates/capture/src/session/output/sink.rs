//! Where records go: into the file of a recording at once, or into memory until they are saved.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use spanwise_recording::calls::CALLS_FILE;
use spanwise_recording::perf::event_name;
use spanwise_recording::python::PYTHON_FILE;
use spanwise_recording::single_steps::SINGLE_STEPS_FILE;
use spanwise_recording::{About, AboutClock, ClockReading, RECORDS_FILE, SideFile};

use spanwise_files::Folder;

use super::folders;
use super::folders::Folders;
use super::side_log::{SideLog, SideRecords};
use crate::CaptureError;
use crate::calls::CallCounts;
use crate::perf::event::{Event, Stacks};
use crate::perf::perf_file::{Features, PerfFile};
use crate::perf::records;
use crate::perf::records::{Tally, records};
use crate::pt::{TracePiece, TraceRecorded};
use crate::python::Counts;
use crate::session::options::RecordOptions;
use crate::session::outcome::Snapshot;
use crate::system::processes;
use crate::system::sys;
use crate::triggers::conditions::Reason;
use crate::triggers::flight::Flight;
use crate::waits::stacks::WaitCounts;

/// What is known from the beginning.
pub(crate) struct Facts<'a> {
    pub(crate) command: Vec<String>,
    pub(crate) pids: Vec<i32>,
    /// Nanoseconds since 1970, and on the clock of the records, at the beginning.
    clocks: (u64, u64),
    pub(crate) options: &'a RecordOptions<'a>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(
        command: Vec<String>,
        pids: &[i32],
        options: &'a RecordOptions<'a>,
    ) -> Facts<'a> {
        let command = if options.keeps_arguments { command } else { program_of(command) };
        Facts { command, pids: pids.to_vec(), clocks: clocks(), options }
    }
}

/// The program of a command, without its arguments. Some programs write all of them into one
/// word, to be seen in lists of processes.
fn program_of(mut command: Vec<String>) -> Vec<String> {
    command.truncate(1);
    if let Some(program) = command.first_mut()
        && !Path::new(program).exists()
        && let Some(end) = program.find(char::is_whitespace)
    {
        program.truncate(end);
    }
    command
}

/// The system's id of this boot, whose monotonic clock times are of.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Both at one instant: the closest of a few tries, since others may run in between.
fn clocks() -> (u64, u64) {
    let one = |_| {
        let before = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let real = sys::clock_ns(libc::CLOCK_REALTIME);
        let took = sys::clock_ns(libc::CLOCK_MONOTONIC) - before;
        (took, (real, before + took / 2))
    };
    (0..5).map(one).min().map_or((0, 0), |(_, clocks)| clocks)
}

/// How much was recorded beside the kernel's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SideCounts {
    pub(crate) python: Counts,
    pub(crate) calls: CallCounts,
    pub(crate) trace: Option<TraceRecorded>,
    pub(crate) waits: Option<WaitCounts>,
}

impl SideCounts {
    fn add_to(&self, about: &mut About) {
        if let Some(waits) = self.waits {
            about.number("wait_threshold_ns", waits.threshold_ns);
            about.number("wait_threshold_max_ns", waits.threshold_max_ns);
            about.number("wait_stacks_of_long", waits.long);
            about.number("wait_stacks_for_short", waits.shares);
            about.number("wait_stacks_of_wakers", waits.wakers);
            about.number("wait_skipped_ns", waits.skipped_ns);
        }
        if let Some(trace) = self.trace {
            about.number("trace_bytes", trace.bytes);
            about.number("trace_ring_bytes", trace.ring_bytes);
            about.number("trace_cuts", trace.cuts);
            about.number("trace_gaps", trace.gaps);
            about.number("trace_rings_overwritten", trace.overwritten);
        }
    }
}

pub(crate) struct RecordingSink {
    folders: Folders,
    place: Destination,
    python: SideLog,
    calls: SideLog,
    steps: SideLog,
    /// How to read the pieces of the hardware's own trace, where there are any.
    about_trace: Vec<u8>,
    pub(crate) counts: SideCounts,
    /// Functions whose calls are not recorded, or not all the time, and why.
    pub(crate) refused: Vec<String>,
    pub(crate) braked: Vec<String>,
    /// Processes whose first calls may be missing.
    pub(crate) late_processes: u64,
    /// Why the first calls of the program may be missing, if so.
    pub(crate) first_calls: Option<String>,
}

/// A snapshot, and the folder that it is in.
pub(crate) struct Saved {
    pub(crate) snapshot: Snapshot,
    pub(crate) folder: Arc<Folder>,
}

enum Destination {
    /// All of it, in a folder.
    File(Arc<Folder>, Option<PerfFile>),
    Memory(Flight),
}

/// Why something is saved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaveReason<'a> {
    pub(crate) text: &'a str,
    /// The hit of a trigger.
    pub(crate) hit: Option<&'a Reason>,
    /// How the program ended, if it did.
    pub(crate) status: Option<ExitStatus>,
}

/// Files beside the kernel's records, in the order of the logs.
const SIDE_FILES: [SideFile; 3] = [PYTHON_FILE, CALLS_FILE, SINGLE_STEPS_FILE];

impl RecordingSink {
    pub(crate) fn begin(
        facts: &Facts<'_>,
        events: Vec<Event>,
    ) -> Result<RecordingSink, CaptureError> {
        let mut folders = match facts.options.folder {
            Some(folder) => Folders::named(folder)?,
            None => Folders::of_program(&facts.command),
        };
        let (place, [python, calls, steps]) = match facts.options.flight {
            Some(flight) => {
                let log = |file| SideLog::to_memory(file, flight.bytes);
                let place = Destination::Memory(Flight::new(flight.bytes));
                (place, SIDE_FILES.map(log))
            }
            None => {
                let folder = Arc::new(folders.create()?);
                let file = create_file(&folder, events)?;
                // So that the folder is a recording, should its end never be written.
                let mut about = About::default();
                about.number("spanwise_recording", 1);
                about.flag("is_finished", false);
                about.write(&folder).map_err(|error| cannot(&folder, error))?;
                let log = |file| SideLog::to_file(file, &folder);
                let logs = SIDE_FILES.map(log);
                (Destination::File(folder, Some(file)), logs)
            }
        };
        let (about_trace, counts) = (Vec::new(), SideCounts::default());
        let ([refused, braked], late_processes) = Default::default();
        Ok(RecordingSink {
            folders,
            place,
            python,
            calls,
            steps,
            about_trace,
            counts,
            refused,
            braked,
            late_processes,
            first_calls: None,
        })
    }

    pub(crate) fn keep_python(&mut self, records: SideRecords) -> Result<(), CaptureError> {
        self.python
            .add(records)
            .map_err(|error| CaptureError::io("what was read of Python cannot be written", error))
    }

    pub(crate) fn keep_calls(&mut self, records: SideRecords) -> Result<(), CaptureError> {
        self.calls.add(records).map_err(|error| CaptureError::io("calls cannot be written", error))
    }

    pub(crate) fn keep_steps(&mut self, records: SideRecords) -> Result<(), CaptureError> {
        self.steps.add(records).map_err(|error| CaptureError::io("steps cannot be written", error))
    }

    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        match &mut self.place {
            Destination::File(folder, Some(file)) => {
                file.write_records(bytes).map_err(|error| cannot(folder, error))
            }
            Destination::File(_, None) => Ok(()),
            Destination::Memory(flight) => {
                flight.push(bytes);
                Ok(())
            }
        }
    }

    /// How to read what comes of the hardware's own trace.
    pub(crate) fn keep_about_trace(&mut self, record: Vec<u8>) -> Result<(), CaptureError> {
        if let Destination::File(folder, Some(file)) = &mut self.place {
            file.write_records(&record).map_err(|error| cannot(folder, error))?;
        }
        self.about_trace = record;
        Ok(())
    }

    /// A piece of the hardware's own trace, at once.
    pub(crate) fn keep_piece(&mut self, piece: &TracePiece) -> Result<(), CaptureError> {
        match &mut self.place {
            Destination::File(folder, Some(file)) => {
                file.write_piece(&piece.record, &piece.bytes).map_err(|error| cannot(folder, error))
            }
            // The newest part of the trace is in its rings until it is saved.
            Destination::File(_, None) | Destination::Memory(_) => Ok(()),
        }
    }

    /// All rings have been emptied once more.
    pub(crate) fn finish_round(&mut self) -> Result<(), CaptureError> {
        match &mut self.place {
            Destination::File(folder, Some(file)) => file
                .write_records(&records::finished_round())
                .and_then(|()| file.note_size())
                .map_err(|error| cannot(folder, error)),
            Destination::File(_, None) => Ok(()),
            Destination::Memory(flight) => {
                flight.push(&records::finished_round());
                Ok(())
            }
        }
    }

    /// Finishes the file, or writes one of what is in memory and of the newest part of the
    /// hardware's own trace.
    pub(crate) fn save(
        &mut self,
        facts: &Facts<'_>,
        events: &[Event],
        all: &Tally,
        reason: SaveReason<'_>,
        last_pieces: &[TracePiece],
    ) -> Result<Saved, CaptureError> {
        let (folder, file, tally) = match &mut self.place {
            Destination::File(folder, file) => {
                let file = file.take();
                let file = file.ok_or_else(|| CaptureError::new("the recording is finished"))?;
                (Arc::clone(folder), file, all.clone())
            }
            Destination::Memory(flight) => {
                let folder = Arc::new(self.folders.create()?);
                let mut file = create_file(&folder, events.to_vec())?;
                // Files may have been mapped long before.
                let mut tally = Tally { paths: all.paths.clone(), ..Tally::default() };
                let of_clock: BTreeSet<u64> =
                    events.first().into_iter().flat_map(|event| event.ids.clone()).collect();
                file.write_records(&self.about_trace).map_err(|error| cannot(&folder, error))?;
                flight
                    .take(|bytes| {
                        records(bytes).for_each(|record| {
                            let id = record.event_id();
                            tally.add(record, id.is_some_and(|id| of_clock.contains(&id)));
                        });
                        file.write_records(bytes)
                    })
                    .map_err(|error| cannot(&folder, error))?;
                let mut pieces = last_pieces.iter();
                pieces
                    .try_for_each(|piece| file.write_piece(&piece.record, &piece.bytes))
                    .map_err(|error| cannot(&folder, error))?;
                let from = tally.times.map_or(0, |(first, _)| first);
                self.python
                    .save(&folder, from)
                    .and_then(|()| self.calls.save(&folder, from))
                    .and_then(|()| self.steps.save(&folder, from))
                    .map_err(|error| cannot(&folder, error))?;
                (folder, file, tally)
            }
        };
        let features = features(facts, &tally, events);
        let mut about = about(facts, &features, &tally, events, reason);
        if let Some(python) = facts.options.python {
            about.number("python_rate_hz", python.rate_hz);
            about.number("python_stacks", self.counts.python.stacks);
            about.number("python_stacks_torn", self.counts.python.torn);
            about.number("python_stacks_copied", self.counts.python.copied);
        }
        if facts.options.calls.is_some() {
            about.number("call_records", self.counts.calls.hits);
            about.number("call_records_lost", self.counts.calls.lost);
            about.texts("functions_refused", &self.refused);
            about.texts("functions_braked", &self.braked);
            about.number("late_processes", self.late_processes);
            if let Some(why) = &self.first_calls {
                about.text("first_calls_missing", why);
            }
        }
        self.counts.add_to(&mut about);
        about
            .write(&folder)
            .and_then(|()| file.finish(&features))
            .map_err(|error| cannot(&folder, error))?;
        let (path, why) = (folder.path().to_owned(), reason.text.to_owned());
        Ok(Saved { snapshot: Snapshot { folder: path, why, samples: tally.samples }, folder })
    }

    /// Where records are written while they come.
    pub(crate) fn folder(&self) -> Option<&Folder> {
        match &self.place {
            Destination::File(folder, _) => Some(folder),
            Destination::Memory(_) => None,
        }
    }

    /// Nothing was recorded that anybody would want.
    pub(crate) fn discard(self) {
        if let Destination::File(folder, _) = &self.place {
            // What cannot be removed stays, as it is.
            let _ = folder.remove_all();
        }
    }
}

/// The first event is the clock's.
fn has_kernel(events: &[Event]) -> bool {
    events.first().is_some_and(|event| event.attr.has_kernel())
}

fn create_file(folder: &Folder, events: Vec<Event>) -> Result<PerfFile, CaptureError> {
    let file = folder.create_file(RECORDS_FILE);
    let begun = file.and_then(|file| PerfFile::begin(file, events));
    begun.map_err(|error| folders::cannot(&folder.path().join(RECORDS_FILE), error))
}

fn cannot(folder: &Folder, error: io::Error) -> CaptureError {
    folders::cannot(folder.path(), error)
}

/// Records have a clock that others can read as well.
fn has_monotonic(events: &[Event]) -> bool {
    events.first().is_some_and(|event| event.attr.has_monotonic())
}

fn features(facts: &Facts<'_>, tally: &Tally, events: &[Event]) -> Features {
    let [host, kernel, machine] = sys::system_names();
    let of_file = |path: &Vec<u8>| {
        let id = spanwise_symbols::build_id(processes::path_of(path))?;
        Some((path.clone(), id, false))
    };
    let own = processes::kernel_build_id().filter(|_| has_kernel(events));
    let own = own.map(|id| (b"[kernel.kallsyms]".to_vec(), id, true));
    Features {
        host,
        kernel,
        machine,
        command: facts.command.clone(),
        processors: processes::processors().len() as u32,
        times: tally.times,
        clocks: has_monotonic(events).then_some(facts.clocks),
        build_ids: own.into_iter().chain(tally.paths.iter().filter_map(of_file)).collect(),
    }
}

fn about(
    facts: &Facts<'_>,
    features: &Features,
    tally: &Tally,
    events: &[Event],
    reason: SaveReason<'_>,
) -> About {
    let options = facts.options;
    let mut about = About::default();
    about.number("spanwise_recording", 1);
    about.text("recorded_by", concat!("spanwise ", env!("CARGO_PKG_VERSION")));
    about.texts("command", &features.command);
    about.numbers("pids", &facts.pids);
    about.text("host", &features.host);
    about.text("kernel", &features.kernel);
    about.text("machine", &features.machine);
    about.number("processors", features.processors);
    about_stacks(&mut about, options);
    about.flag("kernel_frames", has_kernel(events));
    let has = |names: &[&str]| events.iter().any(|event| names.contains(&event.name.as_str()));
    about.flag("wait_stacks", has(&[event_name::CONTEXT_SWITCHES, event_name::WAIT]));
    about.flag("wakeups", has(&["sched:sched_waking"]));
    let reading = |(real, monotonic): (u64, u64)| ClockReading {
        monotonic_ns: monotonic.cast_signed(),
        since_1970_ns: real.cast_signed(),
    };
    let (start, end) = (Some(reading(facts.clocks)), Some(reading(clocks())));
    about.clock(&AboutClock { is_monotonic: has_monotonic(events), boot: boot(), start, end });
    about.number("samples", tally.samples);
    about.number("lost", tally.lost);
    about.text("saved_at", reason.text);
    if let Some(hit) = reason.hit {
        about.number("trigger_thread", hit.thread);
        about.number("trigger_ns", hit.time);
        if let Some(argument) = hit.argument {
            about.number("trigger_argument", argument);
        }
    }
    if let Some(status) = reason.status {
        about.text("program", &status.to_string());
    }
    about
}

fn about_stacks(about: &mut About, options: &RecordOptions<'_>) {
    if options.pt.is_some() {
        about.text("stacks", "Intel PT");
        return;
    }
    about.number("rate_hz", options.rate_hz);
    match options.stacks {
        Stacks::FramePointers => about.text("stacks", "frame pointers"),
        Stacks::Dwarf { bytes } => {
            about.text("stacks", "dwarf");
            about.number("stack_bytes", bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_without_its_arguments() {
        let check = |words: &[&str], expected: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(program_of(words), expected);
        };
        check(&["/bin/sh", "-c", "secret"], &["/bin/sh"]);
        check(&["/opt/browser --token=secret"], &["/opt/browser"]);
        check(&["postgres: somebody secret idle"], &["postgres:"]);
        check(&[], &[]);
    }
}
