//! Inflated text, handed over wave by wave.
//!
//! While one wave is read, the next one is inflated, so that the whole takes little longer than
//! inflating alone, and no more than two waves are in memory. Every format is read so: a reader
//! says how much of a wave it is done with, and the rest comes again in front of the next one.

use std::io;

use super::{Stream, Wave, WaveEnd};
use crate::ReadErrorKind;

/// A record that is still open after this much text is no record, and cannot be read in pieces.
const CARRY_BYTES_MAX: usize = 256 << 20;

/// A part of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextPart<'t> {
    pub(crate) bytes: &'t [u8],
    /// Where it begins in the text.
    pub(crate) base: u64,
    pub(crate) is_last: bool,
}

/// How the text of a file ended.
#[derive(Debug)]
pub(crate) struct TextEnd {
    /// How much text there was.
    pub(crate) bytes: u64,
    /// Where it could not be inflated any more.
    pub(crate) damage: Option<io::Error>,
    /// Where the reader was done with nothing of too much text, which ended the reading.
    pub(crate) stuck_at: Option<u64>,
}

/// Hands over all of the text. `read` says how much of a part it is done with; `progress` takes
/// how much of the file was inflated so far.
pub(crate) fn read_waves(
    mut stream: Stream,
    progress: impl Fn(u64),
    mut read: impl FnMut(TextPart<'_>) -> Result<usize, ReadErrorKind>,
) -> Result<TextEnd, ReadErrorKind> {
    let mut wave = stream.next_wave(Wave::default());
    let mut spare = Wave::default();
    let mut base = 0;
    loop {
        if let WaveEnd::TooLarge(error) = wave.end {
            return Err(error);
        }
        let is_last = !matches!(wave.end, WaveEnd::More);
        let part = TextPart { bytes: wave.text(), base, is_last };
        let (consumed, next) = std::thread::scope(|scope| {
            let buffer = std::mem::take(&mut spare);
            let inflating = (!is_last).then(|| scope.spawn(|| stream.next_wave(buffer)));
            let consumed = read(part);
            (consumed, inflating.map(|thread| thread.join().expect("inflating does not panic")))
        });
        let consumed = consumed?;
        progress(stream.bytes_read());
        let bytes = base + wave.text().len() as u64;
        base += consumed as u64;
        let Some(mut next) = next else {
            let damage = match wave.end {
                WaveEnd::Damaged(error) => Some(error),
                WaveEnd::More | WaveEnd::Finished | WaveEnd::TooLarge(_) => None,
            };
            return Ok(TextEnd { bytes, damage, stuck_at: None });
        };
        let rest = &wave.text()[consumed..];
        if rest.len() > CARRY_BYTES_MAX {
            return Ok(TextEnd { bytes, damage: None, stuck_at: Some(base) });
        }
        next.put_before(rest);
        spare = std::mem::replace(&mut wave, next);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Reads in parts of `wave_bytes`; each time done with all but the last `keeps` bytes.
    #[track_caller]
    fn check(text: &[u8], wave_bytes: usize, keeps: usize) {
        let stream = Stream::of_reader(Box::new(std::io::Cursor::new(text.to_vec())), wave_bytes);
        let mut seen: Vec<u8> = Vec::new();
        let end = read_waves(
            stream,
            |_| {},
            |part| {
                assert_eq!(part.base, seen.len() as u64);
                let done = if part.is_last { 0 } else { keeps.min(part.bytes.len()) };
                let done = part.bytes.len() - done;
                seen.extend(&part.bytes[..done]);
                Ok(done)
            },
        );
        let end = end.expect("readable");
        assert_eq!((seen.as_slice(), end.bytes), (text, text.len() as u64));
        assert!(end.damage.is_none() && end.stuck_at.is_none());
    }

    #[test]
    fn what_is_left_over_comes_again() {
        let text: Vec<u8> = (0..200).collect();
        for wave_bytes in [1, 7, 64, 200, 300] {
            for keeps in [0, 1, 5, 150] {
                check(&text, wave_bytes, keeps);
            }
        }
        check(b"", 7, 3);
    }

    /// Sends when bytes after the first ten are asked for.
    struct Announcing(usize, mpsc::Sender<()>);

    impl Read for Announcing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 >= 10 {
                self.1.send(()).ok();
            }
            let len = buffer.len().min(20 - self.0);
            self.0 += len;
            Ok(len)
        }
    }

    #[test]
    fn the_next_wave_is_inflated_while_one_is_read() {
        let (sender, began) = mpsc::channel();
        let stream = Stream::of_reader(Box::new(Announcing(0, sender)), 10);
        let mut is_first = true;
        let end = read_waves(
            stream,
            |_| {},
            |part| {
                if std::mem::take(&mut is_first) {
                    // Reading waits here for the next wave: one after the other, it never began.
                    let begins = began.recv_timeout(Duration::from_secs(60));
                    assert!(begins.is_ok(), "nothing is inflated meanwhile");
                }
                Ok(part.bytes.len())
            },
        );
        assert_eq!(end.expect("readable").bytes, 20);
    }

    #[test]
    fn errors_of_the_reader_end_the_reading() {
        let stream = Stream::of_reader(Box::new(std::io::Cursor::new(vec![0; 50])), 10);
        let mut parts = 0;
        let end = read_waves(
            stream,
            |_| {},
            |_| {
                parts += 1;
                Err(io::Error::other("no").into())
            },
        );
        assert!(end.is_err());
        assert_eq!(parts, 1);
    }
}
