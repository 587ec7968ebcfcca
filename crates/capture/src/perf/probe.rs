//! Probes of functions: definitions in the kernel's tracing folder, by which events are opened.
//!
//! perf events can define a probe by themselves, but must not here: when a watched program
//! makes a thread, the kernel copies such an event and reads the path of the file out of the
//! memory of that program, where it is not. The thread is then not made: a recorder would
//! break the program that it watches. Events of a probe that has a name are copied by number.
//!
//! A definition without events does nothing. One that a killed recorder has left behind is
//! taken away by the next.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::system::processes;
use crate::system::sys;

const GROUP: &str = "spanwise";

/// A place in a file that reports when it is passed, as long as this lives.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Of the tracepoint that it is.
    pub(crate) number: u64,
    name: String,
    folder: &'static str,
}

impl Probe {
    /// At a place in a file. Never where a function returns: such a probe replaces the return
    /// address on the stack, which breaks programs that walk their stacks. What is fetched there is
    /// in the kernel's words, 64 bits each.
    pub(crate) fn define(path: &str, offset: u64, fetched: &[&str]) -> io::Result<Probe> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = processes::tracing_folder()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no tracing folder"))?;
        if path.contains(char::is_whitespace) {
            return Err(io::Error::other("the kernel does not take a path with spaces"));
        }
        take_away_leftovers(folder);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("at_{}_{count}", std::process::id());
        let fetched: Vec<String> =
            fetched.iter().enumerate().map(|(at, what)| format!(" a{at}={what}:x64")).collect();
        let fetched = fetched.concat();
        write_definition(folder, &format!("p:{GROUP}/{name} {path}:{offset:#x}{fetched}\n"))?;
        let id = format!("{folder}/events/{GROUP}/{name}/id");
        let mut probe = Probe { number: 0, name, folder };
        let number = processes::setting(&id).and_then(|number| u64::try_from(number).ok());
        probe.number = number.ok_or_else(|| io::Error::other("a probe without a number"))?;
        Ok(probe)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // Should it fail, the next recorder tries again.
        let _ = write_definition(self.folder, &format!("-:{GROUP}/{}\n", self.name));
    }
}

fn write_definition(folder: &str, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(format!("{folder}/uprobe_events"))?;
    file.write_all(line.as_bytes())
}

/// Definitions of a recorder that is about to be gone; true where none is left.
pub(crate) fn take_away_those_of(recorder: i32) -> bool {
    let Some(folder) = processes::tracing_folder() else { return true };
    let text = fs::read_to_string(format!("{folder}/uprobe_events")).unwrap_or_default();
    let own = text.lines().filter_map(own_definition).filter(|&(_, pid)| pid == recorder);
    // All are tried, whatever becomes of the first.
    own.fold(true, |all, (name, _)| {
        all & write_definition(folder, &format!("-:{GROUP}/{name}\n")).is_ok()
    })
}

/// Definitions of recorders that are gone.
fn take_away_leftovers(folder: &str) {
    let text = fs::read_to_string(format!("{folder}/uprobe_events")).unwrap_or_default();
    for (name, pid) in text.lines().filter_map(own_definition) {
        if !sys::exists(pid) {
            let _ = write_definition(folder, &format!("-:{GROUP}/{name}\n"));
        }
    }
}

/// `p:spanwise/at_1234_0 /bin/program:0x0000000000001139`: its name and whose it is.
fn own_definition(line: &str) -> Option<(&str, i32)> {
    let name = line.split_whitespace().next()?.split_once(':')?.1.strip_prefix(GROUP)?;
    let name = name.strip_prefix('/')?;
    let pid = name.strip_prefix("at_")?.split('_').next()?;
    Some((name, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_of_our_own_are_known() {
        let check = |line, expected| assert_eq!(own_definition(line), expected, "{line}");
        check("p:spanwise/at_1234_0 /bin/x:0x1139", Some(("at_1234_0", 1234)));
        check("p:spanwise/at_7_12 /bin/x:0x1139 a0=%sp:x64", Some(("at_7_12", 7)));
        check("p:probe_libc/malloc /lib/libc.so.6:0x1", None);
        check("p:spanwise/other /bin/x:0x1", None);
        check("", None);
    }
}
