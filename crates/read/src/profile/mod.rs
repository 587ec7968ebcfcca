//! Profile files become profiles.
//!
//! [`open_profile`] recognizes pprof, speedscope and collapsed stacks by content, plain
//! or compressed. Any bytes give a profile or an error with a place: never a panic, and
//! memory in proportion to the (inflated) input.

mod as_trace;
pub(crate) mod folded;
pub(crate) mod pprof;
pub(crate) mod speedscope;

use std::borrow::Cow;
use std::io;
use std::path::Path;

use spanwise_model::{Profile, ProfileBuilder, ProfileFrame, SourceInfo, StackId, StrId, Trace};

use crate::input::{Compression, Stream, Wave, WaveEnd, open_named};
use crate::{ReadError, ReadErrorKind, error_at};
use spanwise_files::FileBytes;

/// What writers put where a sample has no frame, since viewers do not show such samples.
const NO_STACK: &str = "[no stack]";

/// How much is inflated at a time.
const STEP_BYTES: usize = 1 << 20;

/// The most that a compressed profile may inflate to: more text than a profile's
/// strings can hold.
const INFLATED_BYTES_MAX: usize = 2 << 30;

/// Bytes that are no profile: where, what, the value found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: not a profile: {what} ({found})")]
pub struct NotAProfile {
    /// Where in the decompressed text, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
    /// What was found instead.
    pub found: String,
}

/// Opens a profile of any format that is read here.
///
/// What is wrong with its bytes is an [`io::ErrorKind::InvalidData`] that holds a
/// [`NotAProfile`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stacks.folded");
/// std::fs::write(&path, "main;parse 30\nmain;write 12\n")?;
/// let profile = spanwise_read::open_profile(&path)?;
/// assert_eq!(profile.samples.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_profile(path: &Path) -> Result<Profile, ReadError> {
    open_profile_file(path).map(|file| file.profile)
}

/// A profile, and what its file is.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProfileFile {
    /// Its content.
    pub profile: Profile,
    /// The format, the compression and the length of the text.
    pub info: SourceInfo,
}

impl ProfileFile {
    /// The profile as a trace that has samples without times and nothing else.
    pub fn into_trace(self) -> Trace {
        as_trace::trace(&self.profile, self.info)
    }
}

/// Opens a profile like [`open_profile`], and says what its file is.
pub fn open_profile_file(path: &Path) -> Result<ProfileFile, ReadError> {
    read_file(path).map_err(|kind| error_at(path, kind))
}

fn read_file(path: &Path) -> Result<ProfileFile, ReadErrorKind> {
    let bytes = open_named(path)?;
    let compression = Compression::detect(bytes.as_ref());
    let inflated = match compression {
        Compression::None => None,
        _ => Some(inflate(bytes.clone(), compression)?),
    };
    let text = inflated.as_deref().unwrap_or(bytes.as_ref());
    let (text_bytes, read) = (text.len() as u64, read_bytes(text));
    bytes.check_whole()?;
    let (profile, format) =
        read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let (format, compression) = (format.to_owned(), compression.name().to_owned());
    let info = SourceInfo { format, compression, text_bytes, ..SourceInfo::default() };
    Ok(ProfileFile { profile, info })
}

fn inflate(bytes: FileBytes, compression: Compression) -> Result<Vec<u8>, ReadErrorKind> {
    let mut stream = Stream::new(bytes, compression, STEP_BYTES)?;
    let mut inflated = Vec::new();
    let mut wave = Wave::default();
    loop {
        wave = stream.next_wave(wave);
        inflated.extend_from_slice(wave.text());
        match std::mem::take(&mut wave.end) {
            WaveEnd::Finished => return Ok(inflated),
            WaveEnd::More if inflated.len() <= INFLATED_BYTES_MAX => {}
            WaveEnd::More => return Err(bad_data("inflates to too much", &inflated).into()),
            WaveEnd::TooLarge(error) => return Err(error),
            WaveEnd::Damaged(error) => {
                let what = format!("after {} bytes: {error}", inflated.len());
                return Err(io::Error::new(error.kind(), what).into());
            }
        }
    }
}

fn bad_data(what: &'static str, inflated: &[u8]) -> io::Error {
    let offset = inflated.len() as u64;
    let found = format!("over {INFLATED_BYTES_MAX} bytes");
    io::Error::new(io::ErrorKind::InvalidData, NotAProfile { offset, what, found })
}

/// Text of two bytes a character, as one of bytes.
fn of_utf16(bytes: &[u8]) -> Option<String> {
    let (rest, pair): (_, fn([u8; 2]) -> u16) = match bytes {
        [0xff, 0xfe, rest @ ..] => (rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => (rest, u16::from_be_bytes),
        _ => return None,
    };
    let units = rest.as_chunks().0.iter().map(|&two| pair(two));
    Some(
        char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    )
}

/// Reads inflated bytes of whatever format they seem to be, and says which that is.
fn read_bytes(bytes: &[u8]) -> Result<(Profile, &'static str), NotAProfile> {
    let bytes = match of_utf16(bytes) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(bytes),
    };
    let bytes = &*bytes;
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Protobuf has no magic number, and its first byte is often a line break; a name in
    // a collapsed stack may begin with anything. But lines that are a whole document of
    // another format do not happen.
    let other = if json.trim_ascii_start().starts_with(b"{") {
        speedscope::read(json).map(|profile| (profile, "speedscope"))
    } else if pprof::seems_pprof(bytes) {
        pprof::read(bytes).map(|profile| (profile, "pprof"))
    } else {
        let what = "neither pprof nor speedscope nor collapsed stacks";
        Err(NotAProfile { offset: 0, what, found: excerpt(bytes) })
    };
    match other {
        Err(error) if folded::seems_folded(bytes) => match folded::read(bytes) {
            Err(_) if json.starts_with(b"{") => Err(error),
            folded => folded.map(|profile| (profile, "collapsed stacks")),
        },
        other => other,
    }
}

/// The first bytes, for a person.
fn excerpt(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let head = &bytes[..bytes.len().min(16)];
    format!("{:?}", String::from_utf8_lossy(head))
}

/// The stack of names alone, from the root on.
fn stack_of_names<'a>(
    names: impl Iterator<Item = &'a str>,
    builder: &mut ProfileBuilder,
) -> StackId {
    let mut stack = StackId::EMPTY;
    for name in names {
        let name = builder.string(name);
        let frame = ProfileFrame { name, group: StrId::EMPTY, file: StrId::EMPTY, line: 0 };
        let frame = builder.frame(frame);
        stack = builder.push(stack, frame);
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let error = read_bytes(bytes).expect_err("not a profile");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn text_of_two_bytes_a_character_is_read() {
        let text = "a;b 1\r\né;ß 2\r\n";
        let pairs = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        let plain = read_bytes(text.as_bytes()).expect("collapsed stacks");
        assert_eq!(read_bytes(&pairs(u16::to_le_bytes)), Ok(plain.clone()));
        assert_eq!(read_bytes(&pairs(u16::to_be_bytes)), Ok(plain));
    }

    #[test]
    fn what_is_no_profile_is_said_with_its_place() {
        let what = "byte 0: not a profile: neither pprof nor speedscope nor collapsed stacks";
        check(b"", &format!("{what} (nothing)"));
        check(b"<html>", &format!("{what} (\"<html>\")"));
        check(b"{\"traceEvents\":[]}", "byte 18: not a profile: no speedscope profile (\"}\")");
    }
}
