//! One recording, from the first record to the last.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::event::{Attr, Stacks};
use crate::launch::Child;
use crate::perf_file::{Features, PerfFile};
use crate::recording::{self, About, RECORDS_FILE};
use crate::records::{self, Tally};
use crate::rings::{self, Rings};
use crate::signals::{Message, Signals};
use crate::{CaptureError, processes, sys};

/// How to record.
#[derive(Clone, Copy)]
pub struct RecordOptions<'a> {
    /// Samples a second of each running thread; no more than [`crate::RATE_MAX_HZ`].
    pub rate_hz: u32,
    pub stacks: Stacks,
    /// The recording ends after this time, if not before.
    pub duration: Option<Duration>,
    /// The folder of the recording; a new one here, named after the program, if not given.
    pub folder: Option<&'a Path>,
    /// Says which build a file is of.
    pub build_id_of: &'a dyn Fn(&Path) -> Option<Vec<u8>>,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The program, or all processes, came to their end.
    Exited,
    /// The time was over.
    Duration,
    /// Somebody asked for it.
    Stopped,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    pub folder: PathBuf,
    pub ended: Ended,
    pub samples: u64,
    /// Records that there was no room for.
    pub lost: u64,
    pub has_kernel: bool,
    /// The program that was started.
    pub program: Option<Program>,
}

/// A program that was started for a recording, and may run longer than that.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// How it ended; `None` where it still runs.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.0.has_ended()
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        self.0.wait()
    }
}

/// Runs a program and records it and what it starts.
pub fn record_program(
    command: &[OsString],
    options: &RecordOptions<'_>,
) -> Result<Recorded, CaptureError> {
    let signals = take_signals()?;
    sys::raise_file_limit();
    let mut child = Child::prepare(command)?;
    let words: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().map_or("", String::as_str);
    let attr = Attr::clock(options.rate_hz, options.stacks).beginning_at_exec();
    let rings = Rings::open("cpu-clock", attr, &[child.pid])
        .map_err(|error| rings::refusal(program, error))?;
    let mut session = Session::begin(rings, words, &[child.pid], options)?;
    if let Err(error) = child.go() {
        session.discard();
        return Err(error);
    }
    session.child = Some(child);
    session.record(signals, options)
}

/// Records processes that run already, with all their threads and what these start.
pub fn record_processes(
    pids: &[i32],
    options: &RecordOptions<'_>,
) -> Result<Recorded, CaptureError> {
    let signals = take_signals()?;
    sys::raise_file_limit();
    for &pid in pids {
        if !sys::exists(pid) {
            return Err(CaptureError::new(format!("process {pid}: there is none of this number")));
        }
    }
    let threads = |pids: &[i32]| -> Vec<i32> {
        pids.iter().flat_map(|&pid| processes::threads(pid)).collect()
    };
    let mut known = threads(pids);
    let attr = Attr::clock(options.rate_hz, options.stacks);
    let fail = |error| rings::refusal(&format!("process {}", list(pids)), error);
    let mut rings = Rings::open("cpu-clock", attr, &known).map_err(fail)?;
    // Threads that were made meanwhile by others that were not watched yet.
    loop {
        let new: Vec<i32> = threads(pids).into_iter().filter(|tid| !known.contains(tid)).collect();
        if new.is_empty() {
            break;
        }
        rings.add_threads(&new).map_err(fail)?;
        known.extend(new);
    }
    rings.enable().map_err(fail)?;
    let command = processes::command(pids.first().copied().unwrap_or(0));
    let mut session = Session::begin(rings, command, pids, options)?;
    session.tell_what_was_there()?;
    session.record(signals, options)
}

fn take_signals() -> Result<Signals, CaptureError> {
    Signals::take().map_err(|error| CaptureError::io("signals cannot be waited for", error))
}

fn list(pids: &[i32]) -> String {
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    pids.join(",")
}

/// How long at most until the rings are looked at again.
const ROUND: Duration = Duration::from_millis(100);

struct Session {
    rings: Rings,
    file: PerfFile,
    folder: PathBuf,
    tally: Tally,
    command: Vec<String>,
    pids: Vec<i32>,
    child: Option<Child>,
    /// Nanoseconds since 1970, and on the clock of the records, at the beginning.
    clocks: (u64, u64),
}

impl Session {
    fn begin(
        rings: Rings,
        command: Vec<String>,
        pids: &[i32],
        options: &RecordOptions<'_>,
    ) -> Result<Session, CaptureError> {
        let folder = match options.folder {
            Some(folder) => {
                recording::private_folder(folder).map_err(|error| cannot(folder, error))?;
                folder.to_owned()
            }
            None => recording::create_folder(Path::new(""), &name_of(&command))?,
        };
        let path = folder.join(RECORDS_FILE);
        let file = PerfFile::create(&path, vec![rings.event.clone()]);
        let mut session = Session {
            file: file.map_err(|error| cannot(&path, error))?,
            rings,
            folder,
            tally: Tally::default(),
            command,
            pids: pids.to_vec(),
            child: None,
            clocks: clocks(),
        };
        if session.rings.event.attr.has_kernel()
            && let Some(text) = processes::kernel_text()
        {
            let id = session.rings.first_id();
            session.keep(&records::kernel_mapped(text, id))?;
        }
        Ok(session)
    }

    /// Names and mappings of processes that have run before.
    fn tell_what_was_there(&mut self) -> Result<(), CaptureError> {
        let id = self.rings.first_id();
        for pid in self.pids.clone() {
            for tid in processes::threads(pid) {
                if let Some(name) = processes::name(pid, tid) {
                    self.keep(&records::named(pid, tid, &name, id))?;
                }
            }
            for mapping in processes::mappings(pid) {
                self.keep(&records::mapped(pid, &mapping, id))?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        records::records(bytes).for_each(|record| self.tally.add(record));
        self.file.write_records(bytes).map_err(|error| cannot(&self.folder, error))
    }

    /// Records until something ends it.
    fn record(
        mut self,
        mut signals: Signals,
        options: &RecordOptions<'_>,
    ) -> Result<Recorded, CaptureError> {
        let until = options.duration.and_then(|duration| Instant::now().checked_add(duration));
        let mut stops = 0;
        let ended = loop {
            let left = until.map_or(ROUND, |until| until.saturating_duration_since(Instant::now()));
            self.wait(&signals, left.min(ROUND))?;
            // Who has ended before the rings are emptied, has nothing more to say.
            let has_exited = self.has_exited();
            self.round()?;
            if has_exited {
                break Ended::Exited;
            }
            for message in signals.messages() {
                stops += self.answer(message);
            }
            // The program has its own Ctrl-C from the terminal, and decides what it means.
            let patience = if self.child.is_some() { 2 } else { 1 };
            if stops >= patience {
                break Ended::Stopped;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                break Ended::Duration;
            }
        };
        self.finish(ended, options)
    }

    fn wait(&self, signals: &Signals, most: Duration) -> Result<(), CaptureError> {
        let mut descriptors = vec![signals.as_fd()];
        descriptors.extend(self.rings.descriptors());
        sys::wait_for(&descriptors, most).map_err(|error| CaptureError::io("no waiting", error))
    }

    /// Gives how many requests to stop it was.
    fn answer(&mut self, message: Message) -> u32 {
        match (message, &self.child) {
            (Message::Stop(signal), Some(child)) => {
                // A terminal tells the program of Ctrl-C itself; of other requests we do.
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
            None => !self.pids.iter().any(|&pid| sys::exists(pid)),
        }
    }

    /// Empties all rings once.
    fn round(&mut self) -> Result<(), CaptureError> {
        let Session { rings, file, tally, folder, .. } = self;
        let mut has_some = false;
        let write = |bytes: &[u8]| -> io::Result<()> {
            has_some |= !bytes.is_empty();
            records::records(bytes).for_each(|record| tally.add(record));
            file.write_records(bytes)
        };
        let written = rings.drain(write).and_then(|()| match has_some {
            true => {
                file.write_records(&records::finished_round())?;
                file.note_size()
            }
            false => Ok(()),
        });
        written.map_err(|error| cannot(folder, error))
    }

    fn finish(
        mut self,
        ended: Ended,
        options: &RecordOptions<'_>,
    ) -> Result<Recorded, CaptureError> {
        self.rings.disable();
        self.round()?;
        let [host, kernel, machine] = sys::system_names();
        let features = Features {
            host,
            kernel,
            machine,
            command: self.command.clone(),
            processors: processes::processors().len() as u32,
            times: self.tally.times,
            clocks: self.clocks,
            build_ids: self.build_ids(options.build_id_of),
        };
        let status = self.child.as_mut().and_then(Child::has_ended);
        self.about(&features, ended, status, options)
            .write(&self.folder)
            .map_err(|error| cannot(&self.folder, error))?;
        self.file.finish(&features).map_err(|error| cannot(&self.folder, error))?;
        Ok(Recorded {
            folder: self.folder,
            ended,
            samples: self.tally.samples,
            lost: self.tally.lost,
            has_kernel: self.rings.event.attr.has_kernel(),
            program: self.child.map(Program),
        })
    }

    fn build_ids(
        &self,
        build_id_of: &dyn Fn(&Path) -> Option<Vec<u8>>,
    ) -> Vec<(Vec<u8>, Vec<u8>, bool)> {
        let of_file = |path: &Vec<u8>| {
            let id = build_id_of(processes::path_of(path))?;
            Some((path.clone(), id, false))
        };
        let kernel = processes::kernel_build_id().filter(|_| self.rings.event.attr.has_kernel());
        let kernel = kernel.map(|id| (b"[kernel.kallsyms]".to_vec(), id, true));
        kernel.into_iter().chain(self.tally.paths.iter().filter_map(of_file)).collect()
    }

    fn about(
        &self,
        features: &Features,
        ended: Ended,
        status: Option<ExitStatus>,
        options: &RecordOptions<'_>,
    ) -> About {
        let mut about = About::default();
        about.number("spanwise_recording", 1);
        about.text("recorded_by", concat!("spanwise ", env!("CARGO_PKG_VERSION")));
        about.texts("command", &features.command);
        about.list("pids", self.pids.iter().map(i32::to_string));
        about.text("host", &features.host);
        about.text("kernel", &features.kernel);
        about.text("machine", &features.machine);
        about.number("processors", features.processors);
        about.number("rate_hz", options.rate_hz);
        match options.stacks {
            Stacks::FramePointers => about.text("stacks", "frame pointers"),
            Stacks::Dwarf { bytes } => {
                about.text("stacks", "dwarf");
                about.number("stack_bytes", bytes);
            }
        }
        about.flag("kernel_frames", self.rings.event.attr.has_kernel());
        about.number("ring_bytes", self.rings.ring_bytes as u64);
        about.text("clock", "CLOCK_MONOTONIC");
        let ((start_real, start), (end_real, end)) = (self.clocks, clocks());
        about.number("start_ns", start);
        about.number("start_since_1970_ns", start_real);
        about.number("end_ns", end);
        about.number("end_since_1970_ns", end_real);
        about.number("samples", self.tally.samples);
        about.number("lost", self.tally.lost);
        let why = match ended {
            Ended::Exited => "the program ended",
            Ended::Duration => "the time was over",
            Ended::Stopped => "it was stopped",
        };
        about.text("ended", why);
        if let Some(status) = status {
            about.text("program", &status.to_string());
        }
        about
    }

    /// Nothing was recorded that anybody would want.
    fn discard(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn clocks() -> (u64, u64) {
    (sys::clock_ns(libc::CLOCK_REALTIME), sys::clock_ns(libc::CLOCK_MONOTONIC))
}

fn cannot(path: &Path, error: io::Error) -> CaptureError {
    CaptureError::io(format!("{}: cannot be written", path.display()), error)
}

/// The name of the program, without its folder.
fn name_of(command: &[String]) -> String {
    let program = command.first().map_or("", String::as_str);
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "program".to_owned())
}
