//! What an index says about itself and its source.

use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use spanwise_files::Folder;
use spanwise_model::Summary;

pub(super) const FILE_NAME: &str = "manifest.json";

/// Raised whenever tables, columns or their meaning change.
pub(super) const VERSION: u32 = 2;

/// Larger than any manifest that we write.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Bytes at the head and at the tail of a source that its identity samples.
const ENDS_BYTES: u64 = 64 << 10;
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 4 << 10;

/// Enough of a source to distinguish it from another, without reading it all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) bytes: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, i64),
    /// Checksum of head, tail and samples between.
    pub(super) sample: u32,
}

impl Identity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let file = spanwise_files::open_regular(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let mut sampler = crc32fast::Hasher::new();
        let mut buffer = vec![0; ENDS_BYTES as usize];
        let mut sample = |from: u64, len: u64| -> io::Result<()> {
            let part = &mut buffer[..len.min(bytes - from.min(bytes)) as usize];
            file.read_exact_at(part, from)?;
            sampler.update(part);
            Ok(())
        };
        sample(0, ENDS_BYTES)?;
        for index in 1..SAMPLES {
            sample(bytes / SAMPLES * index, SAMPLE_BYTES)?;
        }
        sample(bytes.saturating_sub(ENDS_BYTES), ENDS_BYTES)?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Identity { bytes, modified, sample: sampler.finalize() })
    }
}

/// One column of a table: where its values lie in the table's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ColumnPlace {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// One table: a file and what to expect in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TablePlace {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    pub(super) rows: u64,
    pub(super) columns: Vec<ColumnPlace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: u32,
    pub(super) source: Identity,
    pub(super) summary: Summary,
    pub(super) tables: Vec<TablePlace>,
}

/// The manifest as stored: its last member is a checksum of all text before it.
const CHECKSUM_KEY: &str = ",\"checksum\":\"";
const CHECKSUM_CHARS: usize = 8;

impl Manifest {
    pub(super) fn load(folder: &Folder) -> Result<Self, String> {
        let read = || -> io::Result<Vec<u8>> {
            let file = folder.open_trusted_file(FILE_NAME)?;
            let mut text = Vec::new();
            file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
            Ok(text)
        };
        Self::parse(&read().map_err(|error| format!("its manifest: {error}"))?)
    }

    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let damaged = || "its manifest is damaged".to_owned();
        let tail_len = CHECKSUM_KEY.len() + CHECKSUM_CHARS + "\"}".len();
        let body_len = text.len().checked_sub(tail_len).ok_or_else(damaged)?;
        let (body, tail) = text.split_at(body_len);
        if tail != checksum_tail(body).as_bytes() {
            return Err(damaged());
        }
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let version: Version = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if version.version != VERSION {
            return Err(format!("it is of version {}, not {VERSION}", version.version));
        }
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    pub(super) fn store(&self, folder: &Folder) -> io::Result<()> {
        let mut text = self.body()?;
        seal(&mut text);
        folder.create_file(FILE_NAME)?.write_all(&text)
    }

    /// The text without its end, which [`seal`] adds.
    pub(super) fn body(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.pop();
        Ok(text)
    }
}

/// Whether a folder has a manifest of some version of ours, be it damaged.
pub(super) fn begins_like_ours(folder: &Folder) -> bool {
    const BEGINNING: &[u8] = b"{\"version\":";
    let mut head = Vec::new();
    let read = folder
        .open_file(FILE_NAME)
        .and_then(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut head));
    read.is_ok() && head == BEGINNING
}

/// Adds the checksum to a manifest's text.
pub(super) fn seal(body: &mut Vec<u8>) {
    let tail = checksum_tail(body);
    body.extend_from_slice(tail.as_bytes());
}

fn checksum_tail(body: &[u8]) -> String {
    format!("{CHECKSUM_KEY}{:08x}\"}}", crc32fast::hash(body))
}
