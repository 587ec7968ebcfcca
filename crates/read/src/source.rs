//! Bytes of a file: mapped as they are, or inflated wave by wave.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use memmap2::{Advice, Mmap, MmapOptions};
use spanwise_model::{ArgValue, ArgsSource};

use crate::json;

/// How a file is packed, told by its first bytes.
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

/// The bytes of a file.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<MappedFile>),
    /// Of a pipe or another file that cannot be mapped.
    Owned(Arc<Vec<u8>>),
}

impl Bytes {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        if !metadata.is_file() || metadata.len() == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Bytes::Owned(Arc::new(bytes)));
        }
        // SAFETY: the map is only read. Should another process cut the file short
        // meanwhile, the kernel ends this process with a bus error: no memory of
        // ours can be harmed. Copying a gigabyte to avoid that costs half a second.
        let map = unsafe { MmapOptions::new().map(&file)? };
        // Advice only; reading works without.
        let _ = map.advise(Advice::Sequential);
        Ok(Bytes::mapped(map))
    }

    pub(crate) fn mapped(map: Mmap) -> Self {
        Bytes::Mapped(Arc::new(MappedFile(Some(map))))
    }
}

/// A file in memory, given back behind the back of whoever is done with it: to unmap a
/// gigabyte page by page takes as long as a tenth of reading it.
pub(crate) struct MappedFile(Option<Mmap>);

/// Less is soon unmapped.
const UNMAPPED_BEHIND_MIN: usize = 16 << 20;

impl Drop for MappedFile {
    fn drop(&mut self) {
        let Some(map) = self.0.take().filter(|map| map.len() >= UNMAPPED_BEHIND_MIN) else {
            return;
        };
        // Where no thread is to be had, the map is dropped with the closure, here.
        drop(std::thread::Builder::new().spawn(move || drop(map)));
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map.as_ref().as_ref(),
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// How much text is inflated at a time.
pub(crate) const WAVE_BYTES: usize = 16 << 20;

/// Room in front of a wave, for what the wave before left over.
const ROOM_BYTES: usize = 1 << 20;

/// The bytes of a file as a reader that others can watch.
struct Watched {
    bytes: Bytes,
    position: Arc<AtomicUsize>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Watched {
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
}

/// Whether more text follows a wave.
#[derive(Debug, Default)]
pub(crate) enum WaveEnd {
    #[default]
    More,
    Finished,
    Damaged(io::Error),
}

/// A stretch of inflated text.
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

impl Stream {
    pub(crate) fn new(
        bytes: Bytes,
        compression: Compression,
        wave_bytes: usize,
    ) -> io::Result<Self> {
        let position = Arc::new(AtomicUsize::new(0));
        let bytes = Watched { bytes, position: Arc::clone(&position) };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(bytes),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(bytes)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(bytes)?),
            Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(bytes)),
        };
        Ok(Stream { reader, position, wave_bytes })
    }

    /// How many bytes of the file have been inflated.
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
        Wave { bytes, from: ROOM_BYTES, end }
    }
}

/// The text of a source, fetched when someone asks for arguments.
pub(crate) struct LazyText {
    path: PathBuf,
    text: OnceLock<Result<Bytes, String>>,
}

impl LazyText {
    pub(crate) fn new(path: &Path) -> Self {
        LazyText { path: path.to_owned(), text: OnceLock::new() }
    }

    /// For text that is at hand already.
    pub(crate) fn ready(path: &Path, text: Bytes) -> Self {
        LazyText { path: path.to_owned(), text: OnceLock::from(Ok(text)) }
    }

    fn text(&self) -> Result<&Bytes, String> {
        let text = self.text.get_or_init(|| {
            let fetch = || -> io::Result<Bytes> {
                let bytes = Bytes::open(&self.path)?;
                let compression = Compression::detect(bytes.as_ref());
                if compression == Compression::None {
                    return Ok(bytes);
                }
                let mut text = Vec::new();
                let read =
                    Stream::new(bytes, compression, WAVE_BYTES)?.reader.read_to_end(&mut text);
                // Damaged: as when it was first read, what came before is good.
                read.or(Ok(0)).map(|_: usize| Bytes::Owned(Arc::new(text)))
            };
            fetch().map_err(|error| format!("{}: {error}", self.path.display()))
        });
        text.as_ref().map_err(Clone::clone)
    }
}

impl ArgsSource for LazyText {
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        Ok(json::args_at(self.text()?.as_ref(), offset))
    }

    fn pick(&self, offset: u64, keys: &[&str]) -> Result<Vec<Option<ArgValue>>, String> {
        Ok(json::pick_at(self.text()?.as_ref(), offset, keys))
    }
}
