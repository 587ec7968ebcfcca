//! perf reads the same instructions from the packets that we write: it is another decoder, by
//! others, of the same hardware.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod stepping;

use std::process::Command;

use stepping::perf_data::{TracedThread, write};
use stepping::record::{Recorder, without_repetitions};
use stepping::{RecorderOptions, build, step};

#[test]
fn perf_reads_the_same_instructions() {
    if Command::new("perf").arg("--version").output().is_err() {
        return stepping::build::skip("perf is not asked: it is not there");
    }
    let Some(built) = build("sorts.c", &["-O1", "-static", "-no-pie"]) else { return };
    let program = built.path.to_str().expect("a path of ours");
    let main = built.address("main").expect("every program has one");
    let stepped = step(&[program], &[(program, main)], 20_000);
    let steps = without_repetitions(&stepped.threads[&stepped.pid], &stepped.code);
    let path = built.path.with_extension("data");
    for shortens_returns in [true, false] {
        let options = RecorderOptions { shortens_returns, ..RecorderOptions::default() };
        let traced = [TracedThread { tid: stepped.pid, steps: &steps }];
        let file = write(stepped.pid, &traced, &stepped.code, options);
        std::fs::write(&path, file).expect("written");
        let perf = Command::new("perf")
            .args(["script", "--itrace=i1i", "-F", "ip", "-i"])
            .arg(&path)
            .output();
        let perf = perf.expect("perf runs");
        let text = String::from_utf8_lossy(&perf.stdout).into_owned();
        let found: Vec<u64> =
            text.lines().filter_map(|line| u64::from_str_radix(line.trim(), 16).ok()).collect();
        let expected = Recorder::record(&steps, &stepped.code, options).instructions;
        let same = found.iter().zip(&expected).take_while(|(one, other)| one == other).count();
        assert!(
            expected.len() > 5000 && same == expected.len() && same == found.len(),
            "after {same}"
        );
    }
    for path in [&path, &built.path] {
        drop(std::fs::remove_file(path));
    }
}
