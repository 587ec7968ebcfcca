//! Perfetto's protobuf.

use spanwise_model::{NoticeKind, Trace};
use spanwise_write::write_perfetto;

use crate::kept::{assert_same, kept, recordings, through};
use crate::traces::{self, kinds, read_bytes};

#[test]
fn recordings_come_back_whole() {
    for path in recordings() {
        let what = path.display().to_string();
        let trace = traces::read(&path).expect("a recording");
        let (_, back) = through(&trace, write_perfetto, &what);
        assert_same(&kept(&back), &kept(&trace), &what);
        assert_eq!(back.info().base_time_ns, trace.info().base_time_ns, "{what}");
        assert_eq!(back.info().format, "Perfetto");
    }
}

/// Bytes of a message: fields of numbers, of bytes, of fixed width.
#[derive(Default, Clone)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn number(self, field: u64, value: u64) -> Self {
        self.varint(field << 3).varint(value)
    }

    fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        let mut all = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        all.0.extend_from_slice(bytes);
        all
    }

    fn message(self, field: u64, message: &Bytes) -> Self {
        self.bytes(field, &message.0)
    }
}

fn new() -> Bytes {
    Bytes::default()
}

fn said(trace: &Trace) -> Vec<String> {
    let said = |said: &traces::SpanText| {
        format!(
            "{}/{} {} {} {}+{}",
            said.process, said.thread, said.category, said.name, said.start, said.dur
        )
    };
    traces::all_said(trace).iter().map(said).collect()
}

#[track_caller]
fn check(packets: &[Bytes], expected: &[&str], notices: &[NoticeKind]) -> Trace {
    let file = packets.iter().fold(new(), |file, packet| file.message(1, packet));
    let trace = read_bytes("foreign.pftrace", &file.0).expect("a trace");
    assert_eq!(said(&trace), expected);
    assert_eq!(kinds(&trace), notices);
    trace
}

/// A thread's descriptor in a packet.
fn thread(uuid: u64, pid: u64, tid: u64, name: &str) -> Bytes {
    let thread = new().number(1, pid).number(2, tid).bytes(5, name.as_bytes());
    new().message(60, &new().number(1, uuid).message(4, &thread))
}

fn event(time: u64, event: &Bytes) -> Bytes {
    new().number(8, time).number(10, 7).message(11, event)
}

/// Type, track and a plain name.
fn plain(kind: u64, uuid: u64, name: &str) -> Bytes {
    new().number(9, kind).number(11, uuid).bytes(23, name.as_bytes())
}

#[test]
fn descriptors_may_follow_and_lanes_have_parents() {
    let child = new().number(1, 6).number(5, 5).bytes(2, b"lane");
    let process = new().number(1, 9).bytes(6, b"program");
    let packets = [
        event(10, &plain(1, 5, "outer").bytes(22, b"app")),
        event(15, &plain(1, 6, "aside")),
        event(20, &plain(2, 6, "")),
        event(30, &plain(2, 5, "")),
        event(31, &plain(1, 77, "nowhere")),
        event(33, &plain(2, 77, "")),
        thread(5, 9, 12, "main"),
        new().message(60, &new().number(1, 4).message(3, &process)),
        new().message(60, &child),
    ];
    let expected = ["/  nowhere 31+2", "9/lane  aside 15+5", "9/12 app outer 10+20"];
    let trace = check(&packets, &sorted(&expected), &[]);
    let names = trace.tracks().rows().iter().map(|track| trace.strings().get(track.process_name));
    assert_eq!(names.filter(|name| *name == "program").count(), 2);
}

fn sorted<'a>(rows: &[&'a str]) -> Vec<&'a str> {
    let name = |row: &&str| row.split(' ').rev().nth(1).map(str::to_owned);
    let mut rows = rows.to_vec();
    rows.sort_by_key(name);
    rows
}

/// As the C++ library writes: interned names, a default track, times as differences.
#[test]
fn times_as_differences_and_interned_names() {
    let clock = |id: u64, time: u64| new().number(1, id).number(2, time);
    let own = clock(64, 1000).number(3, 1).number(4, 1);
    let snapshot = new().message(1, &own).message(1, &clock(6, 501_000));
    let defaults = new().number(58, 64).message(11, &new().number(11, 5));
    let start = new().number(10, 7).number(13, 1).message(6, &snapshot).message(59, &defaults);
    let name = new().number(1, 3).bytes(2, b"work");
    let begin = event(10, &new().number(9, 1).number(10, 3)).message(12, &new().message(2, &name));
    let end = event(5, &new().number(9, 2));
    check(&[start, thread(5, 1, 2, ""), begin, end], &["1/2  work 501010+5"], &[]);
}

#[test]
fn older_events_and_packed_packets() {
    let legacy = |phase: u8| new().number(2, u64::from(phase));
    let old = |uuid: u64, name: &[u8], legacy: &Bytes| {
        new().number(11, uuid).bytes(23, name).message(6, legacy)
    };
    let inside = [
        event(1000, &old(5, b"whole", &legacy(b'X').number(3, 2))),
        event(4000, &old(5, b"half", &legacy(b'B'))),
        event(5000, &old(5, b"", &legacy(b'E'))),
    ];
    let inside = inside.iter().fold(new(), |all, packet| all.message(1, packet));
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &inside.0).expect("to memory");
    let packed = new().bytes(50, &encoder.finish().expect("to memory"));
    let expected = ["1/2  half 4000+1000", "1/2  whole 1000+2000"];
    check(&[thread(5, 1, 2, ""), packed], &expected, &[]);
}

#[test]
fn what_is_not_read_is_counted() {
    let packets = [
        thread(5, 1, 2, ""),
        new().number(8, 1).number(10, 7).bytes(1, b"\x08\x01"),
        event(3, &plain(2, 5, "")),
        event(4, &plain(1, 5, "left open")),
        event(9, &plain(3, 5, "instant")),
        event(9, &plain(99, 5, "what")),
        new().number(10, 7).message(11, &plain(1, 5, "no time")),
        event(9, &new().bytes(11, b"\x0b")),
    ];
    use NoticeKind::{NoTime, UnfinishedSpan, UnknownPhase, UnknownRecord, UnmatchedEnd};
    let notices = [UnknownPhase, UnknownRecord, NoTime, UnmatchedEnd, UnfinishedSpan];
    let file = packets[..7].to_vec();
    check(&file, &["1/2  left open 4+0"], &notices);
}

/// Every cut and every changed byte gives a trace or an error, and cuts are reported.
#[test]
fn damage_is_reported() {
    let path = traces::at_root("testdata/chrome/kinds_of_events.json");
    let trace = traces::read(&path).expect("a recording");
    let mut bytes = Vec::new();
    write_perfetto(&trace, &mut bytes).expect("to memory");
    bytes.truncate(4000);
    for cut in (0..bytes.len()).step_by(7) {
        let _ = read_bytes("cut", &bytes[..cut]);
    }
    for at in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let _ = read_bytes("damaged", &damaged);
    }
    let cut = read_bytes("cut", &bytes[..3001]).expect("a trace");
    assert!(kinds(&cut).contains(&NoticeKind::FileCut), "{:?}", kinds(&cut));
}
