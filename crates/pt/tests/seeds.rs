//! The streams that fuzzing starts with are in its corpus, and can be decoded.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod stepping;

use spanwise_pt::{Image, Program, decode};
use stepping::RecorderOptions;
use stepping::decoded::AllEvents;
use stepping::record::options;
use stepping::small::{CODE, CODE_AT, check_seed, streams};

#[test]
fn seeds_are_followed_through_their_code() {
    for (name, bytes) in streams(CODE_AT) {
        check_seed(
            "pt",
            name,
            &[&[0b0110_1100, (CODE.len() / 4) as u8][..], &CODE, &bytes].concat(),
        );
        let mut image = Image::default();
        image.map(CODE_AT, &CODE);
        let options = options(&RecorderOptions::default());
        let (all, counts) = decode(&Program::single(image), options, &bytes, AllEvents::default());
        assert_eq!(counts.skipped_bytes, 0, "{name}");
        let overflows = usize::from(name == "events");
        assert_eq!(all.losses().len(), overflows, "{name}: {:?}", all.losses());
        assert!(all.runs.len() > 1, "{name}");
    }
}
