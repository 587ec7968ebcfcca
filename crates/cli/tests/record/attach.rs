//! `spanwise attach`.

use std::process::Command;

use spanwise_model::TrackKind;

use crate::bench::{Bench, Running, count_by_thread, text, wait_until, working_stacks};

/// The program of the tests, working until it is killed, with all its threads there.
pub(crate) fn endless(bench: &Bench) -> Option<Running> {
    let deep = bench.deep()?;
    let running = Running::start(Command::new(deep).arg("0"));
    let tasks = format!("/proc/{}/task", running.pid());
    wait_until("all threads are there", || {
        std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() == 3)
    });
    Some(running)
}

#[test]
fn workers_of_a_server_are_told_of_and_recorded_where_that_is_wanted() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let script = format!("{0} 0 & {0} 0 & wait", deep.display());
    let mut server = Command::new("sh");
    let server = Running::start(server.args(["-c", &script]).current_dir(bench.path(".")));
    wait_until("the workers run", || {
        let children = spanwise_capture::child_processes(&[server.0.id() as i32]);
        children.iter().filter(|child| child.name == "deep").count() == 2
    });
    let attach = |recording: &str, more: &[&str]| {
        let attach = ["attach", "--no-decode", "--duration", "1s", "--recording", recording];
        let output = bench.spanwise(&attach).args(more).arg("-p").arg(server.pid()).output();
        let output = output.expect("built for this test");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let without = attach("without", &[]);
    assert!(without.contains("2 child processes (deep "), "{without}");
    let with = attach("with", &["--children"]);
    assert!(!with.contains("child processes"), "{with}");
    let work = count_by_thread(&bench.open("with"), &["leaf_work"]);
    let workers = work.iter().filter(|((name, _), count)| name == "worker" && **count > 0);
    let pids = spanwise_capture::child_processes(&[server.0.id() as i32]);
    for child in pids {
        let _ = Command::new("kill").arg(child.pid.to_string()).status();
    }
    assert_eq!(workers.count(), 4, "two of each: {work:?}");
}

#[test]
fn children_that_begin_while_events_are_opened_have_their_names() {
    let Some(bench) = Bench::set_up() else { return };
    if !bench.copies_frames() {
        return;
    }
    let Some(program) = bench.compile("begets.c", "begets", &[]) else { return };
    let parent = Running::start(Command::new(program).arg("5000"));
    wait_until("it has children", || {
        !spanwise_capture::child_processes(&[parent.0.id() as i32]).is_empty()
    });
    let pid = parent.pid();
    let attach = ["attach", "--children", "--quiet", "--no-decode", "--recording", "r"];
    let output = bench.spanwise(&attach).args(["--duration", "1s", "-p", &pid]).output();
    let output = output.expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("r");
    let text = |id| trace.strings().get(id);
    let threads = trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread);
    let threads: Vec<(&str, &str)> =
        threads.map(|(_, row)| (text(row.thread), text(row.thread_name))).collect();
    let nameless: Vec<_> = threads.iter().filter(|(_, name)| *name != "begets").collect();
    eprintln!("{} of {} threads without a name", nameless.len(), threads.len());
    assert!(threads.len() > 50 && nameless.is_empty(), "{nameless:?}");
}

/// Children that begin and end all the time, so that some end while they are looked for.
const CHURNS: &str = "while :; do for i in 1 2 3 4 5 6; do sleep 0.01 & done; wait; done";

#[test]
fn children_that_end_meanwhile_do_no_harm() {
    let Some(bench) = Bench::set_up() else { return };
    let parent = Running::start(Command::new("sh").args(["-c", CHURNS]));
    let pid = parent.pid();
    for round in 0..20 {
        let folder = format!("r{round}");
        let attach = ["attach", "--children", "--quiet", "--no-decode", "--recording", &folder];
        let output = bench.spanwise(&attach).args(["--duration", "50ms", "-p", &pid]).output();
        let output = output.expect("built for this test");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn threads_that_run_already_are_sampled_with_their_names() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let output = bench.run(&["attach", "-p", &pid, "--duration", "700ms", "--recording", "r"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("leaf_work"), "{}", text(&output.stdout));
    assert!(deep.is_alive());
    let trace = bench.open("r");
    let work = count_by_thread(&trace, &["leaf_work"]);
    let workers = work.iter().filter(|((name, _), count)| name == "worker" && **count > 0);
    assert_eq!(workers.count(), 2, "{work:?}");
    if cfg!(target_arch = "x86_64") {
        let stacks = working_stacks(&trace);
        let whole = stacks.iter().filter(|stack| stack.len() >= 24).count();
        assert!(whole * 10 >= stacks.len() * 9, "{whole} of {}", stacks.len());
    }
}

#[test]
fn a_killed_recorder_harms_nobody_and_leaves_what_it_had() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    for round in 0..3 {
        let folder = format!("r{round}");
        let mut attach =
            Running::start(&mut bench.spanwise(&["attach", "-p", &pid, "--recording", &folder]));
        let data = bench.path(&folder).join("perf.data");
        wait_until("something is recorded", || {
            std::fs::metadata(&data).is_ok_and(|data| data.len() > 1 << 20)
        });
        attach.signal("KILL");
        attach.wait();
        assert!(deep.is_alive());
        // Without a description of itself, and named by its file.
        let trace = bench.open(&format!("{folder}/perf.data"));
        let stacks = working_stacks(&trace);
        let is_whole = |stack: &Vec<&str>| stack.len() >= 24 || !cfg!(target_arch = "x86_64");
        assert!(stacks.iter().any(is_whole), "{} stacks", stacks.len());
    }
    assert!(deep.is_alive());
}

#[test]
fn the_end_of_the_process_ends_the_recording() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let mut attach = Running::start(&mut bench.spanwise(&[
        "attach",
        "-p",
        &pid,
        "--quiet",
        "--no-decode",
        "--recording",
        "r",
    ]));
    let data = bench.path("r/perf.data");
    wait_until("something is recorded", || {
        std::fs::metadata(&data).is_ok_and(|data| data.len() > 1 << 20)
    });
    deep.signal("KILL");
    deep.wait();
    assert_eq!(attach.wait().code(), Some(0));
    assert!(!working_stacks(&bench.open("r")).is_empty());
}

#[test]
fn ctrl_c_ends_the_recording_and_not_the_process() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let mut attach = Running::start(&mut bench.spanwise(&[
        "attach",
        "-p",
        &pid,
        "--no-decode",
        "--recording",
        "r",
    ]));
    let data = bench.path("r/perf.data");
    wait_until("something is recorded", || {
        std::fs::metadata(&data).is_ok_and(|data| data.len() > 1 << 20)
    });
    attach.signal("INT");
    assert_eq!(attach.wait().code(), Some(0));
    assert!(deep.is_alive());
    assert!(!working_stacks(&bench.open("r")).is_empty());
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.run(&["attach", "-p", "2147483647"]);
    let expected = "spanwise: error: no such process: 2147483647\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
}

#[test]
fn top_shows_what_threads_do_and_keeps_nothing() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let (pid, temporary) = (deep.pid(), bench.path("temporary"));
    std::fs::create_dir(&temporary).expect("writable");
    let folders = || std::fs::read_dir(&temporary).expect("a folder").count();
    // One that is killed cannot take its folder away: the next does.
    let mut killed = bench.spanwise(&["top", "-p", &pid, "--interval", "60s"]);
    let mut killed = Running::start(killed.env("TMPDIR", &temporary));
    wait_until("it has a folder", || folders() == 1);
    killed.signal("KILL");
    killed.wait();
    assert_eq!(folders(), 1);
    let mut top = bench.spanwise(&["top", "-p", &pid, "--interval", "500ms"]);
    let output = top.env("TMPDIR", &temporary).output().expect("built for this test");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for words in [&format!("process {pid}: "), "leaf_work", "worker", "running"] {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    assert_eq!(folders(), 0);
    assert!(deep.is_alive());
}
