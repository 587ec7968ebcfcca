//! Written, then read: pprof gives the same profile, the others the same stacks with
//! the chosen values.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanwise_model::{Label, LabelValue, Profile, StrId};
use spanwise_write::{PprofOptions, ProfileView, write_folded, write_pprof, write_speedscope};

use crate::random::profile;
use crate::{open, testdata};

fn pprof(profile: &Profile, is_compressed: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = PprofOptions { program: "train.py", is_compressed };
    write_pprof(profile, &options, &mut bytes).expect("a vector takes everything");
    bytes
}

/// A value by the names of its stack, whatever the labels; without zeros.
fn by_stack(profile: &Profile, value: usize) -> BTreeMap<Vec<String>, i128> {
    let mut sums = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let names = profile.frames_of(sample.stack).map(|frame| profile.text(frame.name));
        let names = names.map(str::to_owned).collect();
        *sums.entry(names).or_default() += i128::from(profile.values_of(row)[value]);
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

proptest! {
    #[test]
    fn pprof_gives_the_same_profile(
        profile in profile(prop_oneof![Just(0), -9i64..9, any::<i64>()]),
        is_compressed: bool,
    ) {
        let read = open(&pprof(&profile, is_compressed)).expect("a profile");
        prop_assert_eq!(read, profile);
    }

    #[test]
    fn pprof_bytes_are_the_same_each_time(profile in profile(-9i64..9)) {
        prop_assert_eq!(pprof(&profile, true), pprof(&profile.clone(), true));
    }

    #[test]
    fn collapsed_stacks_give_the_same_stacks(
        profile in profile(-1_000_000_000_000i64..1_000_000_000_000),
        value in 0usize..3,
    ) {
        let expected = by_stack(&profile, value);
        prop_assume!(!expected.is_empty());
        let mut bytes = Vec::new();
        write_folded(&profile, value, &mut bytes).expect("a vector takes everything");
        let read = open(&bytes).expect("a profile");
        prop_assert_eq!(by_stack(&read, 0), expected);
    }

    #[test]
    fn speedscope_gives_the_same_stacks(
        profile in profile(0i64..10_000_000_000_000_000),
        value in 0usize..3,
    ) {
        let mut bytes = Vec::new();
        let view = ProfileView { name: "train.py", value };
        write_speedscope(&profile, &view, &mut bytes).expect("no value is below 0");
        let read = open(&bytes).expect("a profile");
        prop_assert_eq!(read.value_types.len(), 1);
        prop_assert_eq!(&read.value_types[0].unit, &profile.value_types[value].unit);
        prop_assert_eq!(by_stack(&read, 0), by_stack(&profile, value));
    }
}

#[test]
fn formats_agree_on_the_same_profile() {
    let whole = open(&testdata("nasty.pb")).expect("a profile");
    let expected = by_stack(&whole, 1);
    assert_eq!(expected.len(), 7);
    for file in ["nasty.folded", "nasty.speedscope.json"] {
        let read = open(&testdata(file)).expect("a profile");
        assert_eq!(by_stack(&read, 0), expected, "{file}");
    }
}

/// What pprof's client writes of our profile is the same profile.
#[test]
fn the_client_passes_it_on_unchanged() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (from, to) = (folder.path().join("from.pb.gz"), folder.path().join("to.pb.gz"));
    let profile = open(&testdata("nasty.pb")).expect("a profile");
    std::fs::write(&from, pprof(&profile, true)).expect("it is writable");
    let client = std::process::Command::new("go")
        .args(["tool", "pprof", "-proto", "-output"])
        .args([&to, &from])
        .env("PPROF_TMPDIR", folder.path())
        .env("PPROF_BINARY_PATH", folder.path())
        .output();
    let Ok(client) = client else {
        #[expect(clippy::print_stderr, reason = "a test that did nothing must say so")]
        {
            eprintln!("skipped: no go");
        }
        return;
    };
    assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    let read = open(&std::fs::read(&to).expect("the client wrote it")).expect("a profile");
    assert_eq!(rows(&read), rows(&profile));
    let rest = |profile: &Profile| {
        let (types, default) = (profile.value_types.clone(), profile.default_value);
        (types, default, profile.frames.len(), profile.time_ns, profile.duration_ns)
    };
    assert_eq!(rest(&read), rest(&profile));
    assert_eq!(read.comments, profile.comments);
}

/// Samples in words. A number without a unit is in its key, as the client has it.
fn rows(profile: &Profile) -> Vec<String> {
    let frame = |frame: &spanwise_model::ProfileFrame| {
        let [name, group, file] = [frame.name, frame.group, frame.file].map(|id| profile.text(id));
        format!("{name}|{group}|{file}:{}", frame.line)
    };
    let label = |label: &Label| {
        let key = profile.text(label.key);
        match label.value {
            LabelValue::Text(text) => format!("{key}={}", profile.text(text)),
            LabelValue::Number { value, unit: StrId::EMPTY } => format!("{key}={value} {key}"),
            LabelValue::Number { value, unit } => format!("{key}={value} {}", profile.text(unit)),
        }
    };
    let row = |(row, sample): (usize, &spanwise_model::Sample)| {
        let frames: Vec<String> = profile.frames_of(sample.stack).map(frame).collect();
        let labels = &profile.label_sets[sample.labels as usize];
        let labels: Vec<String> = labels.iter().map(label).collect();
        format!("{frames:?} {labels:?} {:?}", profile.values_of(row))
    };
    profile.samples.iter().enumerate().map(row).collect()
}
