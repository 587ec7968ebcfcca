//! Bytes of a file: mapped as they are, or inflated wave by wave.

pub(crate) mod memory;
pub(crate) mod waves;

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use spanwise_files::{FileBytes, FileState};
use spanwise_model::{ArgValue, ArgsSource};

use crate::{ReadErrorKind, json};
use memory::MemoryShare;

/// How a file is packed, detected by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
}

impl Compression {
    pub(crate) fn detect(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            _ => Compression::None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
        }
    }
}

/// What somebody named, a pipe included.
pub(crate) fn open_named(path: &Path) -> io::Result<FileBytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    if metadata.is_file() {
        return FileBytes::of_open(file);
    }
    let mut bytes = Vec::new();
    // A pipe may go on for ever.
    let limit = memory::memory_left() / 2;
    if file.take(limit).read_to_end(&mut bytes)? as u64 == limit {
        return Err(io::Error::other(memory::too_large(limit)));
    }
    Ok(bytes.into())
}

/// How much text is inflated at a time.
pub(crate) const WAVE_BYTES: usize = 16 << 20;

/// Room in front of a wave, for what the wave before left over.
const ROOM_BYTES: usize = 1 << 20;

/// The bytes of a file as a reader that others can watch.
struct ProgressReader {
    bytes: FileBytes,
    position: Arc<AtomicUsize>,
}

impl Read for ProgressReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for ProgressReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(&self.bytes.as_ref()[self.position.load(Ordering::Relaxed)..])
    }

    fn consume(&mut self, amount: usize) {
        let position = self.position.load(Ordering::Relaxed) + amount;
        self.position.store(position.min(self.bytes.as_ref().len()), Ordering::Relaxed);
    }
}

/// Inflates a compressed file.
pub(crate) struct Stream {
    reader: Box<dyn Read + Send>,
    /// How much of the file has been taken in.
    position: Arc<AtomicUsize>,
    wave_bytes: usize,
    decompressed_bytes: u64,
    share: MemoryShare,
}

/// Whether more text follows a wave.
#[derive(Debug, Default)]
pub(crate) enum WaveEnd {
    #[default]
    More,
    Finished,
    Damaged(io::Error),
    /// What was read so far takes as much memory as may be used.
    TooLarge(ReadErrorKind),
}

/// A block of inflated text.
#[derive(Default)]
pub(crate) struct Wave {
    bytes: Vec<u8>,
    /// Where the text begins; before it is room.
    from: usize,
    pub(crate) end: WaveEnd,
}

impl Wave {
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Puts text in front of what is there.
    pub(crate) fn put_before(&mut self, text: &[u8]) {
        match self.from.checked_sub(text.len()) {
            Some(from) => {
                self.bytes[from..self.from].copy_from_slice(text);
                self.from = from;
            }
            None => {
                self.bytes.splice(..self.from, text.iter().copied());
                self.from = 0;
            }
        }
    }
}

/// A decoder of several streams in a row. The head of a file says how much of the text it has to
/// remember, up to gigabytes: not more than there is room for.
fn xz() -> io::Result<liblzma::stream::Stream> {
    let flags = liblzma::stream::CONCATENATED;
    Ok(liblzma::stream::Stream::new_stream_decoder(memory::memory_left() / 2, flags)?)
}

impl Stream {
    pub(crate) fn new(
        bytes: FileBytes,
        compression: Compression,
        wave_bytes: usize,
    ) -> io::Result<Self> {
        let position = Arc::new(AtomicUsize::new(0));
        let bytes = ProgressReader { bytes, position: Arc::clone(&position) };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(bytes),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(bytes)?),
            Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_stream(bytes, xz()?)),
        };
        let share = MemoryShare::start();
        Ok(Stream { reader, position, wave_bytes, decompressed_bytes: 0, share })
    }

    /// Text that is inflated already, in waves.
    #[cfg(test)]
    pub(crate) fn of_reader(reader: Box<dyn Read + Send>, wave_bytes: usize) -> Self {
        let (position, share) = (Arc::default(), MemoryShare::start());
        Stream { reader, position, wave_bytes, decompressed_bytes: 0, share }
    }

    /// How many bytes of the file have been decompressed.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.position.load(Ordering::Relaxed) as u64
    }

    /// Inflates on, into the memory of a wave that is done with.
    pub(crate) fn next_wave(&mut self, old: Wave) -> Wave {
        let mut bytes = old.bytes;
        bytes.resize(ROOM_BYTES + self.wave_bytes, 0);
        let mut filled = ROOM_BYTES;
        let end = loop {
            if filled == bytes.len() {
                break WaveEnd::More;
            }
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => break WaveEnd::Finished,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break WaveEnd::Damaged(error),
            }
        };
        bytes.truncate(filled);
        self.decompressed_bytes += (filled - ROOM_BYTES) as u64;
        let end =
            self.share.check(self.decompressed_bytes).map_or_else(WaveEnd::TooLarge, |()| end);
        Wave { bytes, from: ROOM_BYTES, end }
    }

    /// All of the text at once. Where the file is damaged, what comes before.
    fn read_all(mut self) -> Result<Vec<u8>, ReadErrorKind> {
        let (mut text, mut wave) = (Vec::new(), Wave::default());
        loop {
            wave = self.next_wave(wave);
            text.extend_from_slice(wave.text());
            match std::mem::take(&mut wave.end) {
                WaveEnd::More => {}
                WaveEnd::Finished | WaveEnd::Damaged(_) => return Ok(text),
                WaveEnd::TooLarge(error) => return Err(error),
            }
        }
    }
}

/// The text of a source, fetched when someone asks for arguments.
pub(crate) struct LazyText {
    path: PathBuf,
    /// What the file was when the trace was read.
    expected: Option<FileState>,
    text: OnceLock<Result<FileBytes, String>>,
}

impl LazyText {
    pub(crate) fn new(path: &Path) -> Self {
        LazyText { path: path.to_owned(), expected: None, text: OnceLock::new() }
    }

    /// For a file that must not have changed since.
    pub(crate) fn expecting(path: &Path, state: Option<FileState>) -> Self {
        LazyText { expected: state, ..LazyText::new(path) }
    }

    /// For text that is at hand already.
    pub(crate) fn ready(path: &Path, text: FileBytes) -> Self {
        LazyText { path: path.to_owned(), expected: None, text: OnceLock::from(Ok(text)) }
    }

    fn text(&self) -> Result<&FileBytes, String> {
        let text = self.text.get_or_init(|| {
            let fetch = || -> Result<FileBytes, ReadErrorKind> {
                let bytes = open_named(&self.path)?;
                if self.expected.is_some_and(|expected| bytes.state() != Some(expected)) {
                    return Err(changed().into());
                }
                let compression = Compression::detect(bytes.as_ref());
                if compression == Compression::None {
                    return Ok(bytes);
                }
                let text = Stream::new(bytes.clone(), compression, WAVE_BYTES)?.read_all()?;
                bytes.check_whole()?;
                Ok(text.into())
            };
            fetch().map_err(|error| format!("{}: {error}", self.path.display()))
        });
        text.as_ref().map_err(Clone::clone)
    }
}

/// Where an event stood, something else may stand now.
fn changed() -> io::Error {
    io::Error::other("the file has changed since it was read; open it again")
}

impl ArgsSource for LazyText {
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        let text = self.text()?;
        let args = json::args_at(text.as_ref(), offset);
        match text.has_changed() {
            true => Err(format!("{}: {}", self.path.display(), changed())),
            false => Ok(args),
        }
    }

    /// Called for many events in a row: whether the file has changed is not asked each time, but
    /// what is gone is noticed.
    fn pick(&self, offset: u64, keys: &[&str]) -> Result<Vec<Option<ArgValue>>, String> {
        let text = self.text()?;
        let values = json::pick_at(text.as_ref(), offset, keys);
        match text.is_cut() {
            true => Err(format!("{}: {}", self.path.display(), changed())),
            false => Ok(values),
        }
    }
}
