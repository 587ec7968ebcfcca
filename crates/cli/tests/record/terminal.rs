//! What somebody sees and types at a terminal, on a terminal of the test's own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::attach::endless;
use crate::bench::{Bench, Running, text, wait_until, working_stacks};
use crate::flight::said;

/// A program that runs on a terminal.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    program: Running,
}

impl Terminal {
    fn start(command: &mut Command) -> Terminal {
        let (ours, theirs) = open_terminal();
        let other = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        command.stdin(other()).stdout(other()).stderr(other());
        // SAFETY: both calls may be made between fork and exec, and take numbers alone. The
        // terminal becomes the program's own, so that Ctrl-C reaches it and nobody else.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let program = Running(command.spawn().expect("it can be run"));
        drop(theirs);
        // The command keeps descriptors of the terminal, which would never seem closed.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (shown, mut from) = (Arc::clone(&screen), ours.try_clone().expect("a descriptor"));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error is how a terminal says that nobody is there any more.
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                shown.lock().expect("no panic").extend(&bytes[..count]);
            }
        });
        Terminal { keyboard: ours, screen, program }
    }

    fn shown(&self) -> String {
        text(&self.screen.lock().expect("no panic"))
    }

    #[track_caller]
    fn wait_for(&self, words: &str, times: usize) {
        wait_until(&format!("{words:?} is shown"), || self.shown().matches(words).count() >= times);
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal");
    }

    #[track_caller]
    fn ends_well(&mut self) {
        let status = self.program.wait();
        assert_eq!(status.code(), Some(0), "{}", self.shown());
    }
}

/// Both ends of a new terminal: ours, and the program's.
fn open_terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: two numbers are written, which are descriptors that nobody else has; of the rest
    // nothing is asked.
    unsafe {
        let result =
            libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null(), std::ptr::null());
        assert_eq!(result, 0, "a terminal can be had");
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn a_process_is_chosen_at_a_terminal() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = endless(&bench) else { return };
    let attach = ["attach", "--duration", "500ms", "--no-decode", "--recording", "r"];
    let mut terminal = Terminal::start(&mut bench.spanwise(&attach));
    terminal.wait_for("number of the process, or a part of its command: ", 1);
    // The folder of this test is in no other command, and a word beside it in none at all.
    // (Plain words will not do: somebody's long command may well have all of them.)
    let nobody = format!("{}/nobody", bench.path("deep").display());
    terminal.type_in(&format!("{nobody}\n"));
    terminal.wait_for(&format!("nothing fits: {nobody}"), 1);
    terminal.type_in(&format!("{}\n", bench.path("deep").display()));
    terminal.ends_well();
    assert!(terminal.shown().contains(&format!("{}  ", deep.pid())), "{}", terminal.shown());
    assert!(!working_stacks(&bench.open("r")).is_empty());
}

#[test]
fn a_function_is_chosen_at_a_terminal() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let attach = ["attach", "-p", &pid, "--trigger", "eaf_wor", "--no-decode", "--recording", "r"];
    let mut terminal = Terminal::start(&mut bench.spanwise(&attach));
    terminal.wait_for("number of the function, or a part of its name: ", 1);
    assert!(terminal.shown().contains("leaf_work"), "{}", terminal.shown());
    terminal.type_in("leaf_work\n");
    terminal.ends_well();
    assert_eq!(said(&bench, "r", "saved_at"), "call of leaf_work");
}

#[test]
fn top_is_drawn_anew_until_ctrl_c() {
    const ANEW: &str = "\u{1b}[H\u{1b}[J";
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let mut terminal =
        Terminal::start(&mut bench.spanwise(&["top", "-p", &pid, "--interval", "300ms"]));
    terminal.wait_for(ANEW, 3);
    let shown = terminal.shown();
    let screens: Vec<&str> = shown.split(ANEW).collect();
    for screen in &screens[1..3] {
        assert!(screen.contains("leaf_work") && screen.contains("worker"), "{screen}");
    }
    terminal.type_in("\u{3}");
    terminal.ends_well();
    assert!(deep.is_alive());
}
