//! An index in memory that can be edited and opened again, with its checksums made
//! right: for tests that want to get past them. Reading and checking are the same
//! as for an index on disk.

use spanwise_files::FileBytes;
use spanwise_model::{ArgsSource, Trace};

use super::manifest::{self, Identity, Manifest, TablePlace};
use super::{Refusal, tables};

/// The tables of an index, and what its manifest says.
#[derive(Clone)]
pub(crate) struct Forgery {
    manifest: Manifest,
    tables: Vec<Vec<u8>>,
    /// Edits of the manifest's text: where, and what to write there.
    text_edits: Vec<(usize, Vec<u8>)>,
}

impl Forgery {
    /// A whole and true index of `trace`.
    pub(crate) fn of(trace: &Trace) -> std::io::Result<Self> {
        let (places, tables) = tables::to_memory(trace)?.into_iter().unzip();
        let source = Identity { bytes: 0, modified: (0, 0), sample: 0 };
        let summary = trace.summary();
        let manifest = Manifest { version: manifest::VERSION, source, summary, tables: places };
        Ok(Forgery { manifest, tables, text_edits: Vec::new() })
    }

    /// Makes the edits that `input` describes: a byte says which one, others where.
    pub(crate) fn edit(&mut self, mut input: &[u8]) {
        let mut next = |len: usize| {
            let (now, rest) = input.split_at_checked(len)?;
            input = rest;
            Some(now.to_vec())
        };
        while let Some(head) = next(4) {
            let at = usize::from(u16::from_le_bytes([head[2], head[3]]));
            let table = usize::from(head[1]) % self.tables.len();
            let bytes = &mut self.tables[table];
            match head[0] % 5 {
                0 => {
                    let Some(new) = next(1 + at % 8) else { return };
                    overwrite(bytes, at, &new);
                }
                1 => bytes.truncate(at),
                2 => bytes.resize(bytes.len() + at % 256, 0),
                3 => {
                    let Some(value) = next(8) else { return };
                    let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
                    set_place(&mut self.manifest.tables[table], at, value);
                }
                _ => {
                    let Some(new) = next(1 + usize::from(head[1]) % 8) else { return };
                    self.text_edits.push((at, new));
                }
            }
        }
    }

    /// Opens it as an index is opened, with checksums and lengths made right.
    pub(crate) fn open(mut self, args: Box<dyn ArgsSource>) -> Result<Trace, Refusal> {
        for (place, bytes) in self.manifest.tables.iter_mut().zip(&self.tables) {
            place.bytes = bytes.len() as u64;
            place.checksum = tables::checksum(bytes, 1);
        }
        let mut text = self.manifest.body().map_err(|error| error.to_string())?;
        for (at, new) in &self.text_edits {
            overwrite(&mut text, *at, new);
        }
        manifest::seal(&mut text);
        let files: Vec<(String, FileBytes)> = self
            .manifest
            .tables
            .into_iter()
            .zip(self.tables)
            .map(|(place, bytes)| (place.file, FileBytes::from(bytes)))
            .collect();
        let bytes_of = |file_name: &str| {
            let found = files.iter().find(|(name, _)| name == file_name);
            found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| "missing".to_owned())
        };
        tables::read(bytes_of, Manifest::parse(&text)?, args, 1)
    }
}

fn overwrite(bytes: &mut [u8], at: usize, new: &[u8]) {
    for (slot, &byte) in bytes.iter_mut().skip(at).zip(new) {
        *slot = byte;
    }
}

/// Changes one number of what the manifest says about a table.
fn set_place(place: &mut TablePlace, which: usize, value: u64) {
    let columns = place.columns.len();
    match (which % (2 * columns + 1)).checked_sub(1) {
        None => place.rows = value,
        Some(which) if which % 2 == 0 => place.columns[which / 2].offset = value,
        Some(which) => place.columns[which / 2].bytes = value,
    }
}
