//! The Fuchsia trace format.

use spanwise_model::NoticeKind;
use spanwise_write::write_fxt;

use crate::kept::{assert_same, kept, recordings, through};
use crate::traces::{self, kinds, read_bytes};

#[test]
fn recordings_come_back_whole() {
    for path in recordings() {
        let what = path.display().to_string();
        let trace = traces::read(&path).expect("a recording");
        let (_, back) = through(&trace, write_fxt, &what);
        assert_same(&kept(&back), &kept(&trace), &what);
        assert_eq!(back.info().base_time_ns, trace.info().base_time_ns, "{what}");
        assert_eq!(back.info().format, "Fuchsia");
    }
}

const MAGIC: u64 = 0x0016_5478_4604_0010;

fn file(words: &[u64]) -> Vec<u8> {
    [MAGIC].iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

/// A string record of up to eight bytes.
fn string(code: u64, text: &str) -> [u64; 2] {
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    [2 | 2 << 4 | code << 16 | (text.len() as u64) << 32, u64::from_le_bytes(bytes)]
}

/// As other programs write: ticks of another length, threads by number, begin and end,
/// a name in the record itself, and a record of a kind that is not read.
#[test]
fn files_of_others_are_read() {
    let event = |kind: u64, words: u64, name: u64| {
        4 | words << 4 | kind << 16 | 1 << 24 | 1 << 32 | name << 48
    };
    let inline = u64::from_le_bytes(*b"inner\0\0\0");
    let records: [&[u64]; 9] = [
        &[1 | 2 << 4, 1_000_000],
        &string(1, "app"),
        &string(2, "outer"),
        &[3 | 3 << 4 | 1 << 16, 70, 71],
        &[event(2, 2, 2), 10],
        &[event(4, 4, 0x8000 | 5), 12, inline, 15],
        &[9 | 2 << 4, 0],
        &[event(3, 2, 2), 20],
        &[event(3, 2, 2), 30],
    ];
    let trace = read_bytes("foreign.fxt", &file(&records.concat())).expect("a trace");
    let said = traces::all_said(&trace);
    let rows: Vec<_> = said.iter().map(|row| (&*row.name, row.start, row.dur)).collect();
    assert_eq!(rows, [("inner", 12_000, 3000), ("outer", 10_000, 10_000)]);
    assert!(said.iter().all(|row| (&*row.process, &*row.thread) == ("70", "71")));
    assert!(said.iter().all(|row| row.category == "app"));
    assert_eq!(kinds(&trace), [NoticeKind::UnknownRecord, NoticeKind::UnmatchedEnd]);
}

#[test]
fn damage_is_reported() {
    let path = traces::at_root("testdata/chrome/kinds_of_events.json");
    let trace = traces::read(&path).expect("a recording");
    let mut bytes = Vec::new();
    write_fxt(&trace, &mut bytes).expect("to memory");
    bytes.truncate(4000);
    for cut in (0..bytes.len()).step_by(7) {
        let _ = read_bytes("cut", &bytes[..cut]);
    }
    for at in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let _ = read_bytes("damaged", &damaged);
    }
    let check = |bytes: &[u8], expected| {
        let trace = read_bytes("damaged", bytes).expect("a trace");
        assert!(kinds(&trace).contains(&expected), "{:?}", kinds(&trace));
    };
    check(&bytes[..3003], NoticeKind::FileCut);
    check(&file(&[4]), NoticeKind::TooDamaged);
    check(&file(&[4 | 2 << 4, 1]), NoticeKind::EventSkipped);
}
