//! `spanwise run`.

use std::process::Command;

use crate::bench::{
    Bench, Running, count_by_thread, stacks_of, text, time_of, wait_until, working_stacks,
};

/// From the innermost function to the outermost that is ours.
#[track_caller]
fn check_stacks(flags: &[&str], stacks: &str) {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.compile("deep.c", "deep", flags) else { return };
    let deep = deep.to_str().expect("a plain path");
    let output =
        bench.run(&["run", "--no-decode", "--recording", "r", "--stacks", stacks, "--", deep]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("r");
    let found = working_stacks(&trace);
    assert!(found.len() > 20, "{} samples", found.len());
    let mut expected = vec!["leaf_work"];
    expected.extend(["recurse"; 21]);
    expected.push("busy");
    let whole = |stack: &&Vec<&str>| {
        let outer = stack.get(expected.len()).copied();
        stack.starts_with(&expected) && matches!(outer, Some("main" | "worker"))
    };
    let count = found.iter().filter(whole).count();
    // A sample may hit the first instruction of a function, where its frame is not there yet.
    assert!(count * 10 >= found.len() * 9, "{count} of {}: {:?}", found.len(), found[0]);
}

#[test]
fn stacks_by_frame_pointers_are_whole() {
    check_stacks(&["-fno-omit-frame-pointer"], "fp");
}

#[test]
fn stacks_by_tables_need_no_frame_pointers() {
    if cfg!(target_arch = "x86_64") {
        check_stacks(&["-fomit-frame-pointer"], "dwarf");
        check_stacks(&["-fno-omit-frame-pointer"], "dwarf");
    }
}

#[test]
fn all_threads_are_sampled_and_their_waits_recorded() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let deep = deep.to_str().expect("a plain path");
    let output = bench.run(&["run", "--", deep, "4", "7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "what the program prints is its own");
    let report = text(&output.stderr);
    for words in ["samples in deep.spanwise-recording", "leaf_work", "worker"] {
        assert!(report.contains(words), "{words} in {report}");
    }
    check_threads_of_deep(&bench, "deep.spanwise-recording");
}

/// Three threads have worked, and the two that are to have slept four times each.
#[track_caller]
fn check_threads_of_deep(bench: &Bench, recording: &str) {
    let trace = bench.open(recording);
    let work = count_by_thread(&trace, &["leaf_work"]);
    // What for is known where one may look into the kernel.
    let waits = ["[blocked]", "[sleeping]", "[blocked: futex]", "[blocked: join]"];
    let blocked = count_by_thread(&trace, &waits);
    let names: Vec<&str> = work.keys().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["deep", "worker", "worker"]);
    assert!(work.values().all(|&count| count > 0), "{work:?}");
    for ((name, _), count) in blocked {
        let expected = if name == "worker" { 4 } else { 1 };
        assert!(count >= expected, "{recording}: {name} waited {count} times");
    }
}

#[test]
fn recorders_do_not_disturb_each_other() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let start = |recording: &str| {
        let run = ["run", "--quiet", "--no-decode", "--recording", recording, "--"];
        Running::start(bench.spanwise(&run).arg(&deep).args(["4", "0"]))
    };
    let mut all = ["one", "two", "three"].map(start);
    let codes = all.each_mut().map(|recorder| recorder.wait().code());
    assert_eq!(codes, [Some(0); 3]);
    ["one", "two", "three"].iter().for_each(|recording| check_threads_of_deep(&bench, recording));
}

#[test]
fn a_recording_is_looked_at_and_the_status_is_still_that_of_the_program() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let deep = deep.to_str().expect("a plain path");
    let said = bench.path("said");
    let mut command = bench.spanwise(&["run", "--quiet", "--view", "--", deep, "2", "7"]);
    let out = std::fs::File::create(&said).expect("room");
    let child = command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").stdout(out).spawn();
    let mut running = Running(child.expect("built for this test"));
    wait_until("the page has an address", || {
        std::fs::read_to_string(&said).is_ok_and(|said| said.contains("http://127.0.0.1:"))
    });
    assert!(running.is_alive(), "it shows the recording");
    running.signal("INT");
    assert_eq!(running.wait().code(), Some(7));
    // What was recorded can be looked at again.
    let mut view = bench.spanwise(&["view", "--quiet", "--no-browser", "deep.spanwise-recording"]);
    let out = std::fs::File::create(&said).expect("room");
    let mut running = Running(view.stdout(out).spawn().expect("built for this test"));
    wait_until("the page has an address", || {
        std::fs::read_to_string(&said).is_ok_and(|said| said.contains("http://127.0.0.1:"))
    });
    assert!(running.is_alive());
}

#[test]
fn what_threads_wait_for_is_told_where_the_kernel_may_be_seen() {
    let Some(bench) = Bench::with("what the kernel does for them") else { return };
    let Some(deep) = bench.compile("deep.c", "deep", &["-fno-omit-frame-pointer"]) else { return };
    let deep = deep.to_str().expect("a plain path");
    let run = ["run", "--quiet", "--no-decode", "--recording", "r"];
    let count = |wait_stacks: &str| {
        let _ = std::fs::remove_dir_all(bench.path("r"));
        let mut run = bench.spanwise(&run);
        let output = run.args(["--wait-stacks", wait_stacks, "--", deep, "4"]).output();
        assert_eq!(output.expect("built for this test").status.code(), Some(0));
        let trace = bench.open("r");
        let sleeps = stacks_of(&trace, "[sleeping]");
        // Samples in the middle of the C library may lack its callers, these do not.
        let in_worker = |stack: &&Vec<&str>| stack.contains(&"worker");
        (sleeps.len(), sleeps.iter().filter(in_worker).count())
    };
    let (sleeps, in_worker) = count("always");
    assert!(sleeps >= 8, "four of each worker: {sleeps}");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(sleeps, in_worker);
    }
    assert_eq!(count("never"), (0, 0));
}

#[test]
fn switches_are_left_out_where_there_are_too_many_and_samples_are_not() {
    let Some(bench) = Bench::with("when threads wait") else { return };
    let Some(hands) = bench.compile("hands.c", "hands", &[]) else { return };
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 16) {
        return eprintln!("skipped: two threads cannot spend what so many processors may");
    }
    let hands = hands.to_str().expect("a plain path");
    let check = |switches: &str, is_left_out: bool| {
        let _ = std::fs::remove_dir_all(bench.path("r"));
        let run = ["run", "--quiet", "--no-decode", "--python", "off", "--recording", "r"];
        let mut run = bench.spanwise(&run);
        // Stacks have a budget of their own, and would be lost before that.
        let run = run.args(["--wait-stacks", "never", "--switches", switches]);
        let output = run.args(["--", hands, "200000"]).output().expect("built for this test");
        assert_eq!(output.status.code(), Some(0));
        let told = text(&output.stderr);
        assert_eq!(told.contains("--switches always"), is_left_out, "{switches}: {told}");
        let trace = bench.open("r");
        // Machines may hide what some of their own processes do: then a switch from one of them
        // to ours is missing, and a moment is not known.
        let (unknown, all) = time_of(&trace, "[off-CPU or running: not recorded]");
        let is_as_expected = if is_left_out { unknown > 0 } else { unknown * 20 < all };
        assert!(is_as_expected, "{switches}: {unknown} of {all}");
        // Both threads compute in the end.
        let threads = count_by_thread(&trace, &["compute"]);
        assert_eq!(threads.values().filter(|&&count| count > 0).count(), 2, "{threads:?}");
    };
    check("auto", true);
    check("always", false);
}

#[test]
fn programs_that_it_starts_are_followed() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let script = format!("{0} 1; {0} 2", deep.display());
    let run = ["run", "--quiet", "--no-decode", "--recording", "r", "--", "sh", "-c", &script];
    let output = bench.run(&run);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let trace = bench.open("r");
    let work = count_by_thread(&trace, &["leaf_work"]);
    let deep = work.iter().filter(|((name, _), count)| name == "deep" && **count > 0);
    assert_eq!(deep.count(), 2, "{work:?}");
    let text = |id| trace.strings().get(id);
    let mut names: Vec<&str> =
        trace.tracks().iter().map(|(_, track)| text(track.process_name)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["deep", "sh"]);
}

/// Where the kernel tells of all processes that there are, too.
#[test]
fn nothing_is_kept_of_other_programs() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let stranger = bench.path("stranger_to_it");
    std::fs::copy("/bin/true", &stranger).expect("a program of every system");
    let run = ["run", "--quiet", "--no-decode", "--recording", "r", "--"];
    let mut recorder = Running::start(bench.spanwise(&run).arg(&deep).args(["2", "0"]));
    while recorder.is_alive() {
        let status = Command::new(&stranger).status();
        assert!(status.expect("as before").success());
    }
    assert_eq!(recorder.wait().code(), Some(0));
    let bytes = std::fs::read(bench.path("r").join("perf.data")).expect("a recording");
    let has = |name: &[u8]| bytes.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(b"/deep"));
    assert!(!has(b"stranger_to_it"));
}

#[test]
fn each_thread_may_have_a_clock_of_its_own() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let run = ["run", "--quiet", "--no-decode", "--clock", "threads", "--recording", "r", "--"];
    let output = bench.spanwise(&run).arg(&deep).args(["4", "0"]).output();
    let output = output.expect("built for this test");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    check_threads_of_deep(&bench, "r");
}

/// There, processes have other numbers than the kernel's programs see.
#[test]
fn threads_are_sampled_in_a_namespace_of_their_own() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]);
    let can = unshare.arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no namespace of processes can be made");
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]).current_dir(bench.path("."));
    let run = ["run", "--quiet", "--no-decode", "--recording", "r", "--"];
    unshare.arg(env!("CARGO_BIN_EXE_spanwise")).args(run).arg(&deep).args(["4", "0"]);
    let output = unshare.output().expect("as before");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    check_threads_of_deep(&bench, "r");
}

#[test]
fn how_the_program_ended_is_passed_on() {
    let Some(bench) = Bench::set_up() else { return };
    let run = |script: &str| {
        let output = bench.run(&["run", "--quiet", "--no-decode", "--", "sh", "-c", script]);
        output.status.code()
    };
    assert_eq!(run("exit 0"), Some(0));
    assert_eq!(run("exit 42"), Some(42));
    assert_eq!(run("kill -s KILL $$"), Some(128 + 9));
}

#[test]
fn a_program_that_cannot_be_run_leaves_nothing_behind() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.run(&["run", "--", "./no-such-program"]);
    let expected = "spanwise: error: ./no-such-program: cannot be run: No such file or directory \
                    (os error 2)\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
    let left = std::fs::read_dir(bench.path("")).expect("readable");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_request_to_end_is_handed_on() {
    let Some(bench) = Bench::set_up() else { return };
    let script = "trap 'exit 5' TERM; echo > ready; while :; do sleep 0.02; done";
    let mut run = Running::start(&mut bench.spanwise(&[
        "run",
        "--quiet",
        "--no-decode",
        "--recording",
        "r",
        "--",
        "sh",
        "-c",
        script,
    ]));
    wait_until("the program runs", || bench.path("ready").exists());
    run.signal("TERM");
    assert_eq!(run.wait().code(), Some(5));
    assert!(bench.open("r").window().is_some());
}

#[test]
fn the_time_of_a_recording_may_be_over_before_the_program_is() {
    let Some(bench) = Bench::set_up() else { return };
    for (recording, duration) in [("r", "50ms"), ("q", "0.05")] {
        let script =
            format!("while ! test -e {recording}/recording.json; do sleep 0.02; done; exit 9");
        let run = ["run", "--quiet", "--no-decode", "--recording", recording];
        let until = ["--duration", duration, "--", "sh", "-c", &script];
        let output = bench.run(&[&run[..], &until].concat());
        assert_eq!(output.status.code(), Some(9));
        assert!(bench.path(&format!("{recording}/recording.json")).exists());
    }
}

#[test]
fn perf_reads_the_same_samples() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let deep = deep.to_str().expect("a plain path");
    let output = bench.run(&["run", "--no-decode", "--recording", "r", "--", deep, "2"]);
    assert_eq!(output.status.code(), Some(0));
    let mut perf = Command::new("perf");
    perf.args(["script", "-F", "tid,time,event,ip,sym", "-i"]).arg(bench.path("r/perf.data"));
    let Ok(perf) = perf.output() else {
        eprintln!("skipped: there is no perf to read it as well");
        return;
    };
    let script = text(&perf.stdout);
    assert!(perf.status.success(), "{}", text(&perf.stderr));
    let is_sample = |line: &&str| line.contains("cpu-clock:") || line.contains("context-switches:");
    let samples = script.lines().filter(is_sample).count();
    let said = text(&output.stderr);
    let said = said.replace(',', "");
    let words = format!("note: {samples} samples in r\n");
    assert!(samples > 0 && said.contains(&words), "{samples}: {said}");
    assert!(script.contains("leaf_work"), "names are found by perf as well");
}

#[test]
fn python_is_recorded_like_any_program() {
    let Some(bench) = Bench::set_up() else { return };
    let script = "sum(i * i for i in range(3_000_000))";
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r", "--", "python3"]);
    let output = run.args(["-c", script]).output().expect("built for this test");
    if output.status.code() == Some(2) && text(&output.stderr).contains("cannot be run") {
        eprintln!("skipped: there is no Python");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("r");
    let text = |id| trace.strings().get(id);
    let spans = |found: &str| {
        let tracks = trace.tracks().iter();
        let found = tracks.filter(|(_, track)| text(track.process_name).starts_with(found));
        found.map(|(_, track)| track.span_ids().count()).sum::<usize>()
    };
    assert!(spans("python") > 0);
}
