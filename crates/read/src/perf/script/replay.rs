//! The text of `perf script` with what it does not say itself, and its replay by the
//! rules of magic-trace.

use std::io;
use std::path::{Path, PathBuf};

use spanwise_callstack::compat::{Line, Machine, STREAM_ENDED, Scope};
use spanwise_callstack::{NameTranslation, Names, Traps};
use spanwise_files::FileBytes;
use spanwise_model::{NoticeKind, SourceInfo, Trace};
use spanwise_symbols::JitMap;

use super::form::Form;
use super::lanes::{Block, Join, Lanes, whole_records};
use super::parser::ParseOptions;
use super::{BLOCK_BYTES, Reader, seems_perf_script};
use crate::binary;
use crate::binary::{Feed, Records};
use crate::input::{Compression, Stream, Wave, open_named};
use crate::json::Effort;
use crate::perf::data;
use crate::perf::data::seems_perf_data;
use crate::perf::record::{Record, RecordContent};
use crate::perf::timeline::renumbered;
use crate::{OpenOptions, ReadError, ReadErrorKind, error_at};

/// What the text does not say itself.
#[derive(Debug, Clone, Default)]
pub struct PerfOptions {
    /// Where OCaml's exception handlers are.
    pub traps: Traps,
    /// Maps of code that a runtime made, such as `/tmp/perf-1234.map`.
    pub maps: Vec<PathBuf>,
    /// Debug information is not asked which functions the compiler put into others.
    pub is_without_inlines: bool,
}

impl PerfOptions {
    /// True where something is asked for that a plain opening would not give.
    pub fn says_something(&self) -> bool {
        !self.traps.is_empty() || !self.maps.is_empty() || self.is_without_inlines
    }
}

/// How much of a file is read to detect its format.
const HEAD_BYTES: usize = 64 << 10;

/// Opens the text of `perf script` or recordings of perf, never by their index: that knows
/// nothing of the options. Each file is a snapshot of its own, and all are of one sort.
///
/// ```
/// use spanwise_read::{OpenOptions, PerfOptions, open_perf};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("calls.txt");
/// std::fs::write(&path, "a 7 [000] 1.0: 5 cycles: \n\t40 work+0x0 (/bin/a)\n\n")?;
/// let trace = open_perf(&[path], &OpenOptions::default(), &PerfOptions::default())?;
/// assert_eq!(trace.samples().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_perf(
    paths: &[PathBuf],
    options: &OpenOptions<'_>,
    perf: &PerfOptions,
) -> Result<Trace, ReadError> {
    let map = read_maps(&perf.maps)?;
    let first = paths.first().map_or(Path::new(""), |path| path);
    // Handlers of exceptions are passed by branches, which only the text holds.
    let is_data = perf.traps.is_empty() && open_as(first, seems_perf_data, "").is_ok();
    match is_data {
        true => {
            let reader = data::Reader::new(map, perf.is_without_inlines);
            read_all(reader, paths, options, |path| {
                open_as(path, seems_perf_data, "no recording of perf, as the first file is")
            })
        }
        false => {
            let reader = Reader::new(options.thread_count(), map, perf.traps.clone());
            read_all(reader, paths, options, open_script)
        }
    }
}

/// A reader that takes several files.
trait Snapshots: Records + 'static {
    /// What follows lies in this file, and was recorded apart from what was before.
    fn new_snapshot(&mut self, path: &Path);
}

impl Snapshots for Reader {
    fn new_snapshot(&mut self, _: &Path) {
        Reader::new_snapshot(self);
    }
}

impl Snapshots for data::Reader {
    fn new_snapshot(&mut self, path: &Path) {
        data::Reader::new_snapshot(self);
        self.lies_at(path, false);
    }
}

type FileContent = Result<(FileBytes, Compression), ReadErrorKind>;

fn read_all(
    mut reader: impl Snapshots,
    paths: &[PathBuf],
    options: &OpenOptions<'_>,
    open: impl Fn(&Path) -> FileContent,
) -> Result<Trace, ReadError> {
    let mut info = SourceInfo::default();
    for path in paths {
        let mut feed = || -> Result<(), ReadErrorKind> {
            let (bytes, compression) = open(path)?;
            let effort = effort(options, bytes.as_ref().len() as u64);
            info.compression = compression.name().to_owned();
            reader.new_snapshot(path);
            info.text_bytes += binary::feed_all(&mut reader, bytes, compression, effort)?;
            Ok(())
        };
        feed().map_err(|kind| error_at(path, kind))?;
    }
    let finished = Box::new(reader).finish(info, options.thread_count());
    finished.map_err(|kind| error_at(paths.first().map_or(Path::new(""), |path| path), kind))
}

/// Follows the events by the rules of magic-trace and gives line after line. Each file is
/// a snapshot of its own.
pub fn replay_perf(
    paths: &[PathBuf],
    options: &OpenOptions<'_>,
    perf: &PerfOptions,
    machine: &mut Machine,
    write: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), ReadError> {
    let map = read_maps(&perf.maps)?;
    for path in paths {
        let mut feed = || -> Result<(), ReadErrorKind> {
            let (bytes, compression) = open_script(path)?;
            let effort = effort(options, bytes.as_ref().len() as u64);
            machine.new_snapshot();
            let threads = effort.threads;
            let lines = Lines { machine, write, failed: Ok(()) };
            let mut replay = Replay { map: &map, lanes: Lanes::new(threads, BLOCK_BYTES), lines };
            binary::feed_all(&mut replay, bytes, compression, effort)?;
            Ok(replay.lines.failed?)
        };
        feed().map_err(|kind| error_at(path, kind))?;
    }
    let mut end = || -> io::Result<()> {
        write(STREAM_ENDED)?;
        machine.finish();
        machine.take_lines().iter().try_for_each(|line| write(&line.to_string()))
    };
    end().map_err(|error| error_at(paths.last().map_or(Path::new(""), |p| p), error.into()))
}

/// Follows any text by the rules of magic-trace, for tests: it must get to the end.
pub(crate) fn replay_text(text: &[u8]) {
    let mut machine = Machine::new(Scope::Both, Traps::default());
    let map = JitMap::default();
    let write = &mut |_: &str| Ok(());
    let lines = Lines { machine: &mut machine, write, failed: Ok(()) };
    let mut replay = Replay { map: &map, lanes: Lanes::new(1, BLOCK_BYTES), lines };
    replay.feed(text, 0, true);
    machine.finish();
}

fn effort<'a>(options: &OpenOptions<'a>, total: u64) -> Effort<'a> {
    let threads = options.thread_count();
    Effort { threads, progress: options.progress, total, block_bytes: BLOCK_BYTES }
}

/// The largest maps are those of browsers, some 50 MB.
const MAP_BYTES_MAX: u64 = 1 << 30;

fn read_maps(paths: &[PathBuf]) -> Result<JitMap, ReadError> {
    let mut map = JitMap::default();
    for path in paths {
        let text = spanwise_files::read_at_most(path, MAP_BYTES_MAX)
            .map_err(|error| error_at(path, error.into()))?;
        map.extend(JitMap::read(&text));
    }
    Ok(map)
}

/// The bytes of a file that is the text of `perf script`.
fn open_script(path: &Path) -> FileContent {
    if open_as(path, seems_perf_data, "").is_ok() {
        let what = "a recording of perf, where its text is needed; `perf script` prints it";
        return Err(ReadErrorKind::NotATrace { offset: 0, what, found: "perf.data".to_owned() });
    }
    open_as(path, seems_perf_script, "no text of perf script")
}

/// The bytes of a file whose content is what it should be.
fn open_as(path: &Path, is_it: fn(&[u8]) -> bool, what: &'static str) -> FileContent {
    let bytes = open_named(path)?;
    let compression = Compression::detect(bytes.as_ref());
    let mut wave = Wave::default();
    let head = match compression {
        Compression::None => &bytes.as_ref()[..bytes.as_ref().len().min(HEAD_BYTES)],
        _ => {
            wave = Stream::new(bytes.clone(), compression, HEAD_BYTES)?.next_wave(wave);
            wave.text()
        }
    };
    if is_it(head) {
        return Ok((bytes.clone(), compression));
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let found = format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(60)]));
    Err(ReadErrorKind::NotATrace { offset: 0, what, found })
}

/// A replay on its way.
struct Replay<'a> {
    map: &'a JitMap,
    lanes: Lanes,
    lines: Lines<'a>,
}

/// Where its lines go.
struct Lines<'a> {
    machine: &'a mut Machine,
    write: &'a mut dyn FnMut(&str) -> io::Result<()>,
    failed: io::Result<()>,
}

impl Feed for Replay<'_> {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        // magic-trace has perf print its lines in one form only.
        let form = &Form::default();
        let whole = if is_last { bytes.len() } else { whole_records(bytes, form) };
        // Every address counts, for handlers of exceptions.
        let options = ParseOptions { map: self.map, form, keeps_all: true };
        self.lanes.read(&bytes[..whole], base, options, &mut self.lines);
        whole
    }

    /// Nothing to keep it in: the lines are all there is.
    fn notice(&mut self, _: NoticeKind, _: u64, _: &[u8]) {}
}

impl Join for Lines<'_> {
    fn names(&mut self) -> &mut Names {
        &mut self.machine.names
    }

    fn block(&mut self, block: Block, numbers: &NameTranslation) {
        if self.failed.is_err() {
            return;
        }
        for record in block.records {
            self.record(record, numbers);
        }
        let lines = self.machine.take_lines();
        let mut write = |line: &Line| (self.write)(&line.to_string());
        self.failed = lines.iter().try_for_each(&mut write);
    }
}

impl Lines<'_> {
    fn record(&mut self, record: Record, numbers: &NameTranslation) {
        let Record { thread, time, what, .. } = renumbered(record, numbers);
        match what {
            RecordContent::Branch(branch) => self.machine.branch(thread, time, &branch),
            RecordContent::Error { message, ip } => {
                let message = self.machine.names.text(message).to_owned();
                self.machine.error(thread, time, &message, ip);
            }
            RecordContent::Sample(sample) => match self.machine.names.text(sample.event) {
                "branch-misses" | "cache-misses" => self.machine.other(thread, time),
                _ => self.machine.sample(thread, time, &sample.frames),
            },
            RecordContent::Frequency(_) => self.machine.other(thread, time),
            _ => {}
        }
    }
}
