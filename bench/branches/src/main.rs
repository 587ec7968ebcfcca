//! Makes long streams of Intel PT, and decodes them.
//!
//! `make FOLDER INSTRUCTIONS STEPS [@FILE:ADDRESS…] PROGRAM…` runs a program up to the last of
//! some places, then one instruction at a time, for so many steps, and writes what a processor
//! would have written, over and over with times that go
//! on, until so many instructions are recorded: `stream.pt` for decoders alone, `perf.data` for
//! whole programs, and the code beside them. `decode FOLDER THREADS ROUNDS` decodes the stream.

mod stepping;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use spanwise_pt::{Event, EventTime, Image, InstructionRun, Program, Sink, decode, decode_parallel};
use stepping::perf_data::{AuxSource, File, PiecePlace};
use stepping::record::{CRYSTAL, Recorder, RecorderOptions, options, without_repetitions};
use stepping::step::{SteppedProgram, step};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["make", folder, instructions, steps, ref program @ ..] if !program.is_empty() => {
            make(Path::new(folder), number(instructions), number(steps), program);
        }
        ["decode", folder, threads, rounds] => {
            decode_stream(Path::new(folder), number(threads), number(rounds));
        }
        _ => panic!("make FOLDER INSTRUCTIONS STEPS PROGRAM…, or decode FOLDER THREADS ROUNDS"),
    }
}

fn number(text: &str) -> usize {
    text.replace('_', "").parse().expect("a number")
}

/// Times of copies are so far apart that no clock but the counter notices: the crystal's
/// counter, of 16 bits, is back where it was.
const APART: u64 = CRYSTAL << 16;

fn make(folder: &Path, instructions: usize, steps: usize, words: &[&str]) {
    let count = words.iter().take_while(|word| word.starts_with('@')).count();
    let (places, program) = words.split_at(count);
    let places = places.iter().filter_map(|place| place[1..].rsplit_once(':'));
    let address = |text| u64::from_str_radix(text, 16).expect("an address");
    let places: Vec<(&str, u64)> = places.map(|(file, at)| (file, address(at))).collect();
    let stepped = step(program, &places, steps);
    let steps = without_repetitions(&stepped.threads[&stepped.pid], &stepped.code);
    let recorder = RecorderOptions { ticks_per_instruction: 1, ..RecorderOptions::default() };
    let (first, end) = Recorder::turn(&steps, &stepped.code, recorder, FIRST);
    let apart = (end - FIRST).next_multiple_of(APART);
    let copies = instructions.div_ceil(first.instructions.len());
    fs::create_dir_all(folder).expect("the folder can be made");
    let mut stream = Vec::with_capacity(first.bytes.len() * copies);
    for copy in 0..copies as u64 {
        stream.extend(later(&first.bytes, copy * apart));
    }
    fs::write(folder.join("stream.pt"), &stream).expect("written");
    write_code(folder, &stepped);
    write_recording(folder, &stepped, recorder, &stream);
    println!("{} {}", first.instructions.len() * copies, stream.len());
}

const FIRST: u64 = stepping::record::FIRST_TICK;

/// The same packets at a later time: behind each place to begin stands the counter.
fn later(bytes: &[u8], by: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut from = 0;
    while let Some(at) = spanwise_pt::find_psb(&bytes, from) {
        let counter = &mut bytes[at + 16..at + 24];
        assert_eq!(counter[0], 0x19, "the counter");
        let mut word = [0; 8];
        word[..7].copy_from_slice(&counter[1..]);
        counter[1..].copy_from_slice(&(u64::from_le_bytes(word) + by).to_le_bytes()[..7]);
        from = at + 16;
    }
    bytes
}

/// Files with code, and a list of where they belong.
fn write_code(folder: &Path, stepped: &SteppedProgram) {
    let mut list = fs::File::create(folder.join("code.txt")).expect("written");
    for (at, code) in stepped.code.iter().enumerate() {
        let path = folder.join(format!("code-{at}.bin"));
        fs::write(&path, &code.bytes).expect("written");
        writeln!(list, "{:x} {} {}", code.start, code.bytes.len(), path.display())
            .expect("written");
    }
}

fn write_recording(
    folder: &Path,
    stepped: &SteppedProgram,
    recorder: RecorderOptions,
    stream: &[u8],
) {
    let mut file = File::default();
    file.info(AuxSource::OfThreads);
    file.named(stepped.pid, stepped.pid, "stepped");
    for code in stepped.code.iter().filter(|code| code.file.starts_with('/')) {
        file.mapped(stepped.pid, code);
    }
    file.started(stepped.pid, stepped.pid);
    let place = PiecePlace { queue: 0, tid: stepped.pid, cpu: -1, offset: 0 };
    file.piece(stepped.pid, place, stream, 0);
    fs::write(folder.join("perf.data"), file.finish(&recorder)).expect("written");
}

#[derive(Default)]
struct Counts {
    instructions: u64,
    events: u64,
    lost: u64,
}

impl Sink for Counts {
    const HAS_RUNS: bool = true;

    fn event(&mut self, _at: EventTime, event: Event) {
        self.events += 1;
        self.lost += u64::from(matches!(event, Event::Loss(_)));
    }

    fn instructions(&mut self, run: InstructionRun) {
        self.instructions += u64::from(run.instructions);
    }
}

fn decode_stream(folder: &Path, threads: usize, rounds: usize) {
    let stream = fs::read(folder.join("stream.pt")).expect("made before");
    let list = fs::read_to_string(folder.join("code.txt")).expect("made before");
    let code: Vec<(u64, Vec<u8>)> = list
        .lines()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let start = u64::from_str_radix(words.next().unwrap_or(""), 16).expect("an address");
            (start, fs::read(words.nth(1).expect("a path")).expect("made before"))
        })
        .collect();
    let mut image = Image::default();
    code.iter().for_each(|(start, bytes)| image.map(*start, bytes));
    let program = Program::single(image);
    let options = options(&RecorderOptions::default());
    for _ in 0..rounds {
        let start = Instant::now();
        let parts = match threads {
            1 => vec![decode(&program, options, &stream, Counts::default()).0],
            _ => decode_parallel::<Counts>(&program, options, &stream, threads).0,
        };
        let took = start.elapsed().as_secs_f64();
        let instructions: u64 = parts.iter().map(|part| part.instructions).sum();
        let events: u64 = parts.iter().map(|part| part.events).sum();
        let lost: u64 = parts.iter().map(|part| part.lost).sum();
        println!("{instructions} {took:.6} {lost} {events}");
    }
}
