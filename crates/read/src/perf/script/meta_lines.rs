//! Lines about the recording itself: errors, threads, switches, losses.

use spanwise_callstack::{Names, ThreadKey};
use spanwise_model::Nanos;

use crate::perf::record::RecordContent;
use crate::perf::words::{decimal, hexadecimal, seconds, signed, split_word};

/// ` instruction trace error type 1 time 4.5 cpu -1 pid 2 tid 3 ip 0x4 code 7: MESSAGE`
pub(crate) fn error(
    line: &[u8],
    names: &mut Names,
) -> Option<(ThreadKey, Option<Nanos>, RecordContent)> {
    let start = memchr::memmem::find(line, b"instruction trace error")?;
    let mut rest = &line[start + b"instruction trace error".len()..];
    let mut thread = ThreadKey::default();
    let (mut time, mut ip) = (None, 0);
    loop {
        let (key, after) = split_word(rest);
        let (value, after) = split_word(after);
        match key {
            b"" => break,
            b"time" => time = seconds(value),
            b"pid" => thread.pid = signed(value)?,
            b"tid" => thread.tid = signed(value)?,
            b"ip" => ip = hexadecimal(value)?,
            b"code" => {
                rest = after;
                break;
            }
            _ => {}
        }
        rest = after;
    }
    let message = names.string(&String::from_utf8_lossy(rest.trim_ascii()));
    Some((thread, time, RecordContent::Error { message, ip }))
}

/// `PERF_RECORD_…`, as [`super::parser::Parser::body`] gives it.
pub(crate) fn read(word: &[u8], rest: &[u8], names: &mut Names) -> Option<Option<RecordContent>> {
    let name = &word[b"PERF_RECORD_".len()..];
    let end = name.iter().take_while(|&&byte| byte.is_ascii_uppercase() || byte == b'_').count();
    let end = end + name[end..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    match &name[..end] {
        b"COMM" => {
            let text = rest.strip_prefix(b"exec:").unwrap_or(rest).trim_ascii();
            let colon = memchr::memrchr(b':', text)?;
            let slash = memchr::memrchr(b'/', text).filter(|&slash| slash > colon)?;
            let pid = signed(&text[colon + 1..slash])?;
            let tid = signed(&text[slash + 1..])?;
            let name = names.string(&String::from_utf8_lossy(&text[..colon]));
            Some(Some(RecordContent::Named(ThreadKey { pid, tid }, name)))
        }
        b"FORK" => {
            let inside = name[end..].strip_prefix(b"(")?;
            let inside = &inside[..memchr::memchr(b')', inside)?];
            let colon = memchr::memchr(b':', inside)?;
            let (pid, tid) = (signed(&inside[..colon])?, signed(&inside[colon + 1..])?);
            Some(Some(RecordContent::Forked(ThreadKey { pid, tid })))
        }
        b"SWITCH" | b"SWITCH_CPU_WIDE" => {
            let (direction, rest) = split_word(rest);
            let is_preempted = split_word(rest).0 == b"preempt";
            match direction {
                b"OUT" => Some(Some(RecordContent::Switch { is_out: true, is_preempted })),
                b"IN" => Some(Some(RecordContent::Switch { is_out: false, is_preempted: false })),
                _ => None,
            }
        }
        b"LOST" | b"LOST_SAMPLES" => {
            let mut words = rest.split(|&byte| byte == b' ').rev();
            Some(Some(RecordContent::Lost(words.find_map(decimal).unwrap_or(1))))
        }
        // Mappings, the ends of threads and the like: perf has resolved all names already.
        b"" => None,
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Option<RecordContent>>) {
        let mut names = Names::default();
        let (word, rest) = split_word(line.as_bytes());
        assert_eq!(read(word, rest.trim_ascii(), &mut names), expected, "{line}");
    }

    #[test]
    fn records_of_the_recording_are_read() {
        let thread = ThreadKey { pid: 23635, tid: 23637 };
        let name = Names::default().string("tokio: rt");
        check(
            "PERF_RECORD_COMM: tokio: rt:23635/23637",
            Some(Some(RecordContent::Named(thread, name))),
        );
        check(
            "PERF_RECORD_COMM exec: tokio: rt:23635/23637",
            Some(Some(RecordContent::Named(thread, name))),
        );
        check("PERF_RECORD_FORK(23635:23637):(1:1)", Some(Some(RecordContent::Forked(thread))));
        let switch =
            |is_out, is_preempted| Some(Some(RecordContent::Switch { is_out, is_preempted }));
        check("PERF_RECORD_SWITCH OUT preempt", switch(true, true));
        check("PERF_RECORD_SWITCH IN         ", switch(false, false));
        check("PERF_RECORD_SWITCH_CPU_WIDE OUT  next pid/tid: 0/0", switch(true, false));
        check("PERF_RECORD_LOST lost 12", Some(Some(RecordContent::Lost(12))));
        check("PERF_RECORD_MMAP2 1/1: [0x1(0x2) @ 0 00:00 0 0]: r-xp x", Some(None));
        check("PERF_RECORD_TEXT_POKE addr", Some(None));
        check("PERF_RECORD_SWITCH sideways", None);
        check("PERF_RECORD_COMM: x", None);
    }

    #[test]
    fn errors_say_where_and_what() {
        let check = |line: &str, key: (i64, i64), time, ip, text: &str| {
            let mut names = Names::default();
            let (thread, found, what) = error(line.as_bytes(), &mut names).expect("an error");
            assert_eq!((thread.pid, thread.tid, found), (key.0, key.1, time), "{line}");
            let message = names.string(text);
            assert_eq!(what, RecordContent::Error { message, ip }, "{line}");
        };
        let line = " instruction trace error type 1 time 47170.086912826 cpu -1 pid 29 tid 30 \
                    ip 0x7ffff7327730 code 7: Overflow packet";
        check(line, (29, 30), Some(47_170_086_912_826), 0x7fff_f732_7730, "Overflow packet");
        let line =
            " instruction trace error type 1 cpu -1 pid 29 tid 30 ip 0 code 8: Lost trace data";
        check(line, (29, 30), None, 0, "Lost trace data");
    }
}
