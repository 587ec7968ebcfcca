//! Everything that decoding reports.

use std::collections::HashMap;

use spanwise_pt::{Event, EventTime, InstructionRun, Loss, Program, Sink, decode, decode_parallel};

use super::record::{RecorderOptions, image, instruction_at, options};
use super::step::Code;

/// Everything that is reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AllEvents {
    pub events: Vec<(EventTime, Event)>,
    pub runs: Vec<InstructionRun>,
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

impl AllEvents {
    pub fn instructions(&self, code: &[Code]) -> Vec<u64> {
        let (mut found, mut lengths) = (Vec::new(), HashMap::new());
        for run in &self.runs {
            let mut ip = run.first;
            for _ in 0..run.instructions {
                found.push(ip);
                ip += *lengths.entry(ip).or_insert_with(|| u64::from(instruction_at(code, ip).len));
            }
        }
        found
    }

    pub fn losses(&self) -> Vec<Loss> {
        let lost = |&(_, event): &(EventTime, Event)| match event {
            Event::Loss(lost) => Some(lost),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }
}

/// Decodes at once and in parts, which must be the same.
pub fn decoded(bytes: &[u8], code: &[Code], recorder: &RecorderOptions) -> AllEvents {
    let program = Program::single(image(code));
    let (serial, counts) = decode(&program, options(recorder), bytes, AllEvents::default());
    let (parts, parallel_counts) =
        decode_parallel::<AllEvents>(&program, options(recorder), bytes, 5);
    let mut joined = AllEvents::default();
    for part in parts {
        joined.events.extend(part.events);
        joined.runs.extend(part.runs);
    }
    assert!(joined == serial, "decoding in parts differs");
    assert_eq!(parallel_counts, counts);
    serial
}
