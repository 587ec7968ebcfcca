//! Files that cost much memory for each of their bytes, one for each format.

use std::io::Write;

pub(crate) type Make = fn() -> Vec<u8>;

pub(crate) struct Input {
    /// As `docs/reference/security.md` calls it.
    pub(crate) format: &'static str,
    pub(crate) file_name: &'static str,
    pub(crate) is_profile: bool,
    /// Made when it is needed, so that only one is held.
    pub(crate) bytes: Make,
    /// A file beside it.
    pub(crate) beside: Option<(&'static str, Make)>,
}

/// About as large as a file has to be for the program's own memory not to matter.
const BYTES: usize = 4 << 20;

pub(crate) fn all() -> Vec<Input> {
    let input = |format, file_name, is_profile, bytes: Make| Input {
        format,
        file_name,
        is_profile,
        bytes,
        beside: None,
    };
    let trace = |format, file_name, bytes: Make| input(format, file_name, false, bytes);
    let profile = |format, file_name, bytes: Make| input(format, file_name, true, bytes);
    let beside = |format, name, bytes: Make| Input {
        beside: Some((name, bytes)),
        ..trace(format, "perf.data", sampled_in_made_code)
    };
    vec![
        trace("JSON", "a.json", json),
        trace("Perfetto", "a.pftrace", perfetto),
        trace("Fuchsia", "a.fxt", fuchsia),
        trace("session", "a.session", session),
        trace("perf.data", "perf.data", smallest_samples),
        beside("calls (`calls.hits`)", "calls.hits", calls),
        beside("Python (`python.samples`)", "python.samples", python),
        beside("single steps (`steps.branches`)", "steps.branches", single_steps),
        beside("jitdump (`jit-PID.dump`)", "jit-1.dump", jitdump),
        trace("perf script", "perf.script", perf_script),
        profile("collapsed stacks", "a.folded", folded),
        profile("pprof", "a.pb", pprof),
        profile("speedscope", "a.speedscope.json", speedscope),
    ]
}

/// Each event on a thread of its own.
fn json() -> Vec<u8> {
    let mut text = String::from("[");
    for row in 0.. {
        if text.len() > BYTES {
            break;
        }
        text += &format!("{{\"ph\":\"X\",\"tid\":{row},\"ts\":1,\"name\":\"{row}\"}},");
    }
    text.pop();
    (text + "]").into_bytes()
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number(field: u64, value: u64, bytes: &mut Vec<u8>) {
    varint(field << 3, bytes);
    varint(value, bytes);
}

fn message(field: u64, body: &[u8], bytes: &mut Vec<u8>) {
    varint(field << 3 | 2, bytes);
    varint(body.len() as u64, bytes);
    bytes.extend(body);
}

/// A chain of tracks, each with one event.
fn perfetto() -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in 1.. {
        if bytes.len() > BYTES {
            break;
        }
        let mut track = Vec::new();
        number(1, row, &mut track);
        number(5, row - 1, &mut track);
        let mut packet = Vec::new();
        message(60, &track, &mut packet);
        message(1, &packet, &mut bytes);
        packet.clear();
        instant(row, &mut packet);
        message(1, &packet, &mut bytes);
    }
    bytes
}

/// An instant on a track.
fn instant(track: u64, packet: &mut Vec<u8>) {
    let mut event = Vec::new();
    number(9, 3, &mut event);
    number(11, track, &mut event);
    number(8, 1, packet);
    number(10, 1, packet);
    message(11, &event, packet);
}

/// Compressed packets, each of ten million equal instants.
pub(crate) fn packed_perfetto(count: usize) -> Vec<u8> {
    let (mut packet, mut packets) = (Vec::new(), Vec::new());
    instant(1, &mut packet);
    message(1, &packet, &mut packets);
    let packets = packets.repeat(1_000_000);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&packets).expect("memory");
    let packed = encoder.finish().expect("memory");
    let (mut outer, mut bytes) = (Vec::new(), Vec::new());
    message(50, &packed, &mut outer);
    // A plain packet first, by which the format is recognized.
    message(1, &packet, &mut bytes);
    for _ in 0..count {
        message(1, &outer, &mut bytes);
    }
    bytes
}

/// Each event on a thread of its own.
fn fuchsia() -> Vec<u8> {
    let mut words = vec![0x0016_5478_4604_0010_u64, 1 | 2 << 4, 1_000_000_000];
    for row in 0..(BYTES / 48) as u64 {
        // An instant with its thread and its name written out.
        let text = format!("{row:08}");
        let len = 0x8000 | text.len() as u64;
        words.push(4 | 6 << 4 | len << 32 | len << 48);
        words.extend([1, row, row]);
        let bytes: [u8; 8] = text.into_bytes().try_into().expect("eight digits");
        words.extend([u64::from_le_bytes(bytes); 2]);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn session_chunk(kind: u32, body: &[u8], bytes: &mut Vec<u8>) {
    let mut check = 0xcbf2_9ce4_8422_2325_u64;
    for word in body.chunks(8) {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        check = (check ^ u64::from_le_bytes(whole)).wrapping_mul(0x100_0000_01b3);
    }
    bytes.extend(kind.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(check.to_le_bytes());
    bytes.extend(body);
}

/// Each record on a thread of its own.
fn session() -> Vec<u8> {
    let mut bytes = b"SPANSES1".to_vec();
    session_chunk(1, &[[1, 0, 0, 0], [0; 4], [0; 4]].concat(), &mut bytes);
    for tick in [0_u64, 1 << 20] {
        session_chunk(2, &[tick; 3].map(u64::to_le_bytes).concat(), &mut bytes);
    }
    session_chunk(3, &[[0; 4], [0; 4], [0; 4], [0; 4], [0; 4]].concat(), &mut bytes);
    for row in 1..(BYTES / 90) as u32 {
        let thread = [&row.to_le_bytes()[..], &u64::from(row).to_le_bytes(), &[0; 4]].concat();
        session_chunk(4, &thread, &mut bytes);
        let mut records = [&row.to_le_bytes()[..], &[0; 8]].concat();
        records.extend([1, 2, 0_u64].map(u64::to_le_bytes).concat());
        session_chunk(5, &records, &mut bytes);
    }
    bytes
}

/// The smallest samples that there are: a time each.
pub(crate) fn perf_records(bytes: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for row in 0..(bytes / 24) as u64 {
        records.extend(9_u32.to_le_bytes());
        records.extend([0, 0]);
        records.extend(24_u16.to_le_bytes());
        // Process and thread, then the time.
        records.extend([1_u32, row as u32 % 30_000 + 1].map(u32::to_le_bytes).concat());
        records.extend(row.to_le_bytes());
    }
    records
}

fn smallest_samples() -> Vec<u8> {
    perf_data(&perf_records(BYTES))
}

/// A recording with one event, whose samples have a thread and a time.
fn perf_data(records: &[u8]) -> Vec<u8> {
    perf_data_of(6, records)
}

/// With samples of this form.
fn perf_data_of(sample_type: u64, records: &[u8]) -> Vec<u8> {
    let (head, attr) = (104_u64, 128_u64);
    let mut bytes = b"PERFILE2".to_vec();
    let data = head + attr + 16;
    for word in [head, attr + 16, head, attr + 16, data, records.len() as u64, 0, 0, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    let mut event = vec![0; attr as usize];
    // Software, the clock of the processor; its size; thread and time.
    event[..4].copy_from_slice(&1_u32.to_le_bytes());
    event[4..8].copy_from_slice(&(attr as u32).to_le_bytes());
    event[24..32].copy_from_slice(&sample_type.to_le_bytes());
    bytes.extend(event);
    bytes.extend([0; 16]);
    bytes.extend(records);
    bytes
}

/// A process that runs code of no file, which a dump beside the recording describes.
fn sampled_in_made_code() -> Vec<u8> {
    let path = b"/tmp/jit-1.dump\0";
    let mut records = Vec::new();
    records.extend(1_u32.to_le_bytes());
    records.extend(2_u16.to_le_bytes());
    records.extend((40 + path.len() as u16).to_le_bytes());
    records.extend([1_u32, 1].map(u32::to_le_bytes).concat());
    records.extend([0x10_0000, 0x1000, 0_u64].map(u64::to_le_bytes).concat());
    records.extend(path);
    for time in 1..9_u64 {
        records.extend(9_u32.to_le_bytes());
        records.extend(2_u16.to_le_bytes());
        records.extend(32_u16.to_le_bytes());
        records.extend((0x20_0000_u64 + time).to_le_bytes());
        records.extend([1_u32, 1].map(u32::to_le_bytes).concat());
        records.extend((u64::MAX / 4 + time).to_le_bytes());
    }
    perf_data_of(7, &records)
}

/// A record of a file beside the kernel's: its kind, its length, its content.
fn side_record(kind: u32, body: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(kind.to_le_bytes());
    bytes.extend((body.len() as u32 + 8).to_le_bytes());
    bytes.extend(body);
}

/// Each call in a thread of its own.
fn calls() -> Vec<u8> {
    let mut bytes = b"spanwise-calls2\n".to_vec();
    side_record(1, &[&[0; 8], &1_u32.to_le_bytes()[..], b"fx"].concat(), &mut bytes);
    let hit = |row: u64| [row, 1 << 32 | row, 0, 8].map(u64::to_le_bytes).concat();
    let hits: Vec<u8> = (1..BYTES as u64 / 32).flat_map(hit).collect();
    side_record(2, &hits, &mut bytes);
    bytes
}

/// Each stack in a thread and of a function of its own.
fn python() -> Vec<u8> {
    let mut bytes = b"spanwise-python\n".to_vec();
    side_record(3, &[1, 12, 0x1000, 0_u32].map(u32::to_le_bytes).concat(), &mut bytes);
    for row in 1.. {
        if bytes.len() > BYTES {
            break;
        }
        let name = format!("{row:x}");
        let head = [row, 1, name.len() as u32].map(u32::to_le_bytes).concat();
        side_record(1, &[&head, name.as_bytes(), b"x"].concat(), &mut bytes);
        // When, in which process and thread, how it was read, and a frame.
        let stack = [row, 0, 1, row, 0, row, 1].map(u32::to_le_bytes).concat();
        side_record(2, &stack, &mut bytes);
    }
    bytes
}

/// Each region in a thread of its own, with one call.
fn single_steps() -> Vec<u8> {
    let mut bytes = b"spanwise--steps\n".to_vec();
    side_record(1, b"f", &mut bytes);
    for row in 1..(BYTES / 96) as u32 {
        let time = u64::from(row).to_le_bytes();
        let numbers = [row, 1, row, 0].map(u32::to_le_bytes).concat();
        side_record(2, &[&time, &numbers[..], &0x1000_u64.to_le_bytes()].concat(), &mut bytes);
        let region = u64::from(row).to_le_bytes();
        let to = 0x10_0000 + u64::from(row) * 0x1000;
        let branch = [row.into(), 0x1000, to, 1].map(u64::to_le_bytes).concat();
        side_record(3, &[&time[..], &region, &branch].concat(), &mut bytes);
    }
    bytes
}

/// Functions of a byte of code and a name of their own.
fn jitdump() -> Vec<u8> {
    // The form's version, the size of this, the processor, and the process.
    let mut bytes = [0x4a69_5444_u32, 1, 40, 62, 0, 1].map(u32::to_le_bytes).concat();
    bytes.extend([0; 16]);
    for row in 0.. {
        if bytes.len() > 8 * BYTES {
            break;
        }
        let name = format!("{row:x}\0");
        let size = (16 + 40 + name.len() + 1) as u32;
        bytes.extend([0, size].map(u32::to_le_bytes).concat());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend([1_u32, 1].map(u32::to_le_bytes).concat());
        let address = 0x20_0000 + row;
        bytes.extend([address, address, 1, row].map(u64::to_le_bytes).concat());
        bytes.extend(name.as_bytes());
        bytes.push(0xc3);
    }
    bytes
}

pub(crate) fn zstd(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("a level");
    pieces.for_each(|piece| encoder.write_all(&piece).expect("memory takes it"));
    encoder.finish().expect("memory takes it")
}

/// The same 16 MB of records again and again, packed as `perf record -z` does.
pub(crate) fn packed_perf_data(times: usize) -> Vec<u8> {
    let packed = zstd(std::iter::repeat_n(perf_records(1 << 20), 16 * times));
    let mut data = Vec::new();
    for piece in packed.chunks(60_000) {
        data.extend(81_u32.to_le_bytes());
        data.extend([0, 0]);
        data.extend((piece.len() as u16 + 8).to_le_bytes());
        data.extend(piece);
    }
    perf_data(&data)
}

/// Each sample in a thread and a function of its own.
fn perf_script() -> Vec<u8> {
    let mut text = String::new();
    for row in 1.. {
        if text.len() > BYTES {
            break;
        }
        text +=
            &format!("a {row} 1.{:06}: 1 cpu-clock:\n\t{row:x} f{row} (a)\n\n", row % 1_000_000);
    }
    text.into_bytes()
}

/// Stacks of short frames that all differ.
fn folded() -> Vec<u8> {
    let mut text = String::new();
    for row in 0.. {
        if text.len() > BYTES {
            break;
        }
        text += &format!("{:x};{:x} 1\n", row * 2, row * 2 + 1);
    }
    text.into_bytes()
}

/// One sample with as many locations as fit.
fn pprof() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut kind = Vec::new();
    number(1, 1, &mut kind);
    message(1, &kind, &mut bytes);
    message(6, b"", &mut bytes);
    message(6, b"samples", &mut bytes);
    let mut location = Vec::new();
    number(1, 1, &mut location);
    message(4, &location, &mut bytes);
    let mut sample = Vec::new();
    message(1, &vec![1; BYTES], &mut sample);
    message(2, &[1], &mut sample);
    message(2, &sample, &mut bytes);
    bytes
}

/// One sample as deep as fits.
fn speedscope() -> Vec<u8> {
    let frames = "0,".repeat(BYTES / 2);
    format!(
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\
         \"shared\":{{\"frames\":[{{\"name\":\"a\"}}]}},\
         \"profiles\":[{{\"type\":\"sampled\",\"name\":\"a\",\"unit\":\"none\",\"startValue\":0,\
         \"endValue\":1,\"samples\":[[{}]],\"weights\":[1]}}]}}",
        frames.trim_end_matches(',')
    )
    .into_bytes()
}
