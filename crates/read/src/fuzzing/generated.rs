//! Profiles that are mostly valid, made as the bytes of a fuzzer say.
//!
//! Random bytes are hardly ever a profile, so a fuzzer that starts from them tests the first checks
//! of a reader and nothing behind. Here each byte is a choice instead: how many samples, which
//! frames, how deep. A file made without damage must be read, and its values must add up; a
//! damaged one must be read or refused.

use std::fmt::Write;

use spanwise_model::Profile;

use super::read_profile;
use crate::profile::{self, NotAProfile};

/// What the fuzzer wants, a byte a choice; zeros once they are used up.
struct Choices<'a> {
    bytes: &'a [u8],
}

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        byte
    }

    fn below(&mut self, limit: u64) -> u64 {
        u64::from(self.byte()) % limit.max(1)
    }

    /// Seldom true.
    fn odd(&mut self) -> bool {
        self.byte() == 0xff
    }

    /// A name, at times of letters that formats treat in a special way.
    fn name(&mut self) -> String {
        const PIECES: [&str; 16] = [
            "main",
            "f",
            "std::vec<int>",
            " ",
            "\\x3b",
            "é",
            "λ",
            "[gpu]",
            "\"",
            "\\",
            "{",
            "}",
            "0",
            "a.rs:7",
            "\u{202e}",
            "",
        ];
        let count = 1 + self.below(3);
        (0..count).map(|_| PIECES[self.below(16) as usize]).collect()
    }
}

/// A file, and what its values add up to.
struct GeneratedFile {
    bytes: Vec<u8>,
    total: i128,
    /// It holds something that its format does not allow.
    is_damaged: bool,
}

/// Makes a profile of one of three formats and reads it.
pub fn profiles(input: &[u8]) {
    let mut choices = Choices { bytes: input };
    match choices.below(3) {
        0 => check(pprof(&mut choices), &mut choices, profile::pprof::read),
        1 => check(folded(&mut choices), &mut choices, profile::folded::read),
        _ => check(speedscope(&mut choices), &mut choices, profile::speedscope::read),
    }
}

fn check(
    mut made: GeneratedFile,
    choices: &mut Choices<'_>,
    read: fn(&[u8]) -> Result<Profile, NotAProfile>,
) {
    while choices.odd() && !made.bytes.is_empty() {
        let at = usize::from(choices.byte()) * made.bytes.len() / 256;
        made.is_damaged = true;
        match choices.below(3) {
            0 => made.bytes.truncate(at),
            1 => made.bytes[at] ^= choices.byte(),
            _ => made.bytes.insert(at, choices.byte()),
        }
    }
    read_profile(&made.bytes, read);
    if made.is_damaged {
        return;
    }
    let text = String::from_utf8_lossy(&made.bytes);
    let profile = read(&made.bytes).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(profile.totals().first().copied().unwrap_or(0), made.total, "{text}");
}

fn folded(choices: &mut Choices<'_>) -> GeneratedFile {
    let (mut text, mut total, mut is_damaged) = (String::new(), 0, false);
    for _ in 0..choices.below(20) {
        let depth = 1 + choices.below(8);
        let frames: Vec<String> =
            (0..depth).map(|_| choices.name().replace(';', "").replace(['\n', '\r'], "")).collect();
        let value = i64::from(choices.byte());
        let end = if choices.below(16) == 1 { "\r\n" } else { "\n" };
        is_damaged |= choices.odd();
        let value_text = if is_damaged { "x".to_owned() } else { value.to_string() };
        let _ = write!(text, "{} {value_text}{end}", frames.join(";"));
        total += i128::from(value);
    }
    GeneratedFile { bytes: text.into_bytes(), total, is_damaged }
}

fn speedscope(choices: &mut Choices<'_>) -> GeneratedFile {
    let frame_count = 1 + choices.below(12);
    let frames: Vec<serde_json::Value> =
        (0..frame_count).map(|_| serde_json::json!({ "name": choices.name() })).collect();
    let (mut total, mut is_damaged, mut threads) = (0, false, Vec::new());
    for _ in 0..=choices.below(3) {
        let (mut samples, mut weights, mut sum) = (Vec::new(), Vec::new(), 0);
        for _ in 0..choices.below(10) {
            let depth = 1 + choices.below(6);
            let past_the_end = choices.odd();
            is_damaged |= past_the_end;
            let extra = if past_the_end { frame_count } else { 0 };
            let stack: Vec<u64> = (0..depth).map(|_| choices.below(frame_count) + extra).collect();
            let weight = i64::from(choices.byte());
            samples.push(stack);
            weights.push(weight);
            sum += weight;
        }
        total += i128::from(sum);
        threads.push(serde_json::json!({
            "type": "sampled", "name": choices.name(), "unit": "nanoseconds",
            "startValue": 0, "endValue": sum, "samples": samples, "weights": weights,
        }));
    }
    let file = serde_json::json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": { "frames": frames }, "profiles": threads,
    });
    GeneratedFile { bytes: file.to_string().into_bytes(), total, is_damaged }
}

/// Fields of a protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, numbers: &[(u64, u64)]) {
        let mut inner = Message::default();
        numbers.iter().for_each(|&(field, number)| inner.number(field, number));
        self.bytes(field, &inner.0);
    }
}

/// A profile with one type of value; locations may be several inlined functions.
fn pprof(choices: &mut Choices<'_>) -> GeneratedFile {
    let mut file = Message::default();
    let strings: Vec<String> = (0..1 + choices.below(10)).map(|_| choices.name()).collect();
    let string_count = strings.len() as u64 + 1;
    file.bytes(6, b"");
    strings.iter().for_each(|text| file.bytes(6, text.as_bytes()));
    let unit = choices.below(string_count);
    file.message(1, &[(1, choices.below(string_count)), (2, unit)]);
    let function_count = 1 + choices.below(10);
    for id in 1..=function_count {
        let text = choices.below(string_count);
        file.message(5, &[(1, id), (2, text), (4, choices.below(string_count))]);
    }
    let location_count = 1 + choices.below(10);
    for id in 1..=location_count {
        let mut location = Message::default();
        location.number(1, id);
        for _ in 0..choices.below(4) {
            location.message(4, &[(1, 1 + choices.below(function_count)), (2, choices.below(99))]);
        }
        file.bytes(4, &location.0);
    }
    let (mut total, mut is_damaged) = (0, false);
    for _ in 0..choices.below(12) {
        let (mut sample, mut locations) = (Message::default(), Message::default());
        let past_the_end = choices.odd();
        is_damaged |= past_the_end;
        let extra = if past_the_end { location_count } else { 0 };
        let depth = choices.below(8);
        (0..depth).for_each(|_| locations.varint(1 + choices.below(location_count) + extra));
        sample.bytes(1, &locations.0);
        let value = u64::from(choices.byte());
        sample.number(2, value);
        if choices.below(4) == 1 {
            let text = choices.below(string_count);
            sample.message(3, &[(1, choices.below(string_count)), (2, text)]);
        }
        file.bytes(2, &sample.0);
        total += i128::from(value);
    }
    GeneratedFile { bytes: file.0, total, is_damaged }
}
