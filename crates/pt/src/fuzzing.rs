//! Properties of any bytes, for fuzzing and for replaying its corpus.

use crate::{
    DecodeOptions, Event, EventTime, Image, ImageSwitch, InstructionRun, Packet, Packets, Program,
    Sink, Writer, decode, decode_parallel,
};

/// Address of the code, short enough for addresses of two bytes.
const CODE_AT: u64 = 0x100;

/// Takes `input` as options, code and packets. Decoding at once and in parts gives the same
/// events, only code was executed, and packets that are written and read again are the same.
pub fn streams(input: &[u8]) {
    let [options, code_len, rest @ ..] = input else { return };
    let (code, bytes) = rest.split_at(rest.len().min(usize::from(*code_len) * 4));
    round_trip(bytes);
    let mut image = Image::default();
    image.map(CODE_AT, code);
    let mut other = Image::default();
    other.map(CODE_AT, &code[..code.len() / 2]);
    let switches = [(0, 0), (1 << 12, 1), (1 << 20, 0)];
    let switches = switches.map(|(since, image)| ImageSwitch { since, image });
    let program = Program::new(vec![image, other], switches.to_vec());
    let options = DecodeOptions {
        has_all_returns: options & 1 == 1,
        rates: crate::ClockRates {
            ticks_per_crystal: (u32::from(options >> 1 & 3) * 50, 1),
            crystal_shift: options >> 3 & 7,
            counter_ratio: options >> 6,
        },
        ticks_near: 0,
    };
    let (whole, counts) = decode(&program, options, bytes, AllEvents::default());
    assert!(counts.skipped_bytes <= bytes.len() as u64);
    for threads in [2, 3] {
        let (parts, part_counts) = decode_parallel::<AllEvents>(&program, options, bytes, threads);
        let mut joined = AllEvents::default();
        for part in parts {
            joined.events.extend(part.events);
            joined.runs.extend(part.runs);
        }
        assert_eq!(joined, whole);
        assert_eq!(part_counts, counts);
    }
    let end = CODE_AT + code.len() as u64;
    for run in &whole.runs {
        assert!((CODE_AT..end).contains(&run.first) && run.instructions > 0);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct AllEvents {
    events: Vec<(EventTime, Event)>,
    runs: Vec<InstructionRun>,
}

impl Sink for AllEvents {
    const HAS_RUNS: bool = true;

    fn event(&mut self, at: EventTime, event: Event) {
        self.events.push((at, event));
    }

    fn instructions(&mut self, run: InstructionRun) {
        self.runs.push(run);
    }
}

fn round_trip(bytes: &[u8]) {
    let mut packets = Packets::new(bytes, 0);
    let (mut read, mut writer) = (Vec::new(), Writer::default());
    while let Ok(Some(packet)) = packets.next_packet() {
        read.push(packet);
        writer.packet(packet);
    }
    let written = writer.into_bytes();
    let mut again = Packets::new(&written, 0);
    for packet in read {
        let found: Result<Option<Packet>, _> = again.next_packet();
        assert_eq!(found, Ok(Some(packet)));
    }
}

#[test]
fn the_corpus_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pt");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the corpus exists").collect();
    assert!(!files.is_empty());
    for file in files {
        let path = file.expect("can be listed").path();
        let input = std::fs::read(&path).expect("can be read");
        let replayed = std::panic::catch_unwind(|| streams(&input));
        assert!(replayed.is_ok(), "{}", path.display());
    }
}
