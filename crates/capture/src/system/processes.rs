//! What `/proc` and `/sys` say about processes, processors and the kernel.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sys;
use crate::perf::records::{self, Mapping};

/// The threads of a process, by number; none where there is no such process.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut threads: Vec<i32> = entries.flatten().filter_map(number).collect();
    threads.sort_unstable();
    threads
}

/// Hands over all threads of some processes: those that are there, and then those that were made
/// meanwhile by others that had not been handed over yet. It is over when two lists in a row have
/// nothing new, since a list that is read while threads end may lack some. Gives them all.
pub(crate) fn for_all_threads<E>(
    pids: &[i32],
    mut take: impl FnMut(&[i32]) -> Result<(), E>,
) -> Result<Vec<i32>, E> {
    let mut known = BTreeSet::new();
    let mut lists_without_new = 0;
    while lists_without_new < 2 {
        let all = pids.iter().flat_map(|&pid| threads(pid));
        let new: Vec<i32> = all.filter(|&tid| known.insert(tid)).collect();
        match new.is_empty() {
            true => lists_without_new += 1,
            false => lists_without_new = 0,
        }
        if !new.is_empty() {
            take(&new)?;
        }
    }
    Ok(known.into_iter().collect())
}

/// Where code of this very process is: its file, and the offset in it.
pub(crate) fn own_place(address: u64) -> Option<(Vec<u8>, u64)> {
    let own = mappings(std::process::id() as i32);
    let own = own.into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    Some((own.path, address - own.start + own.file_offset))
}

/// Whether a file is in the memory of a process that is none of these: whoever stops all who map
/// it would stop that one, too.
pub(crate) fn is_mapped_by_others(path: &[u8], pids: &[i32]) -> bool {
    let file = fs::metadata(path_of(path)).ok();
    // As the kernel writes it: the numbers of the device, and that of the file on it.
    let file = file.map(|file| {
        let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
        format!(" {major:02x}:{minor:02x} {} ", file.ino())
    });
    let Ok(entries) = fs::read_dir("/proc") else { return true };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let others = entries.flatten().filter_map(number).filter(|pid| !pids.contains(pid));
    let is_of_file = |line: &[u8]| {
        let has = |text: &String| line.windows(text.len()).any(|part| part == text.as_bytes());
        file.as_ref().is_some_and(has) || line.ends_with(path)
    };
    others.into_iter().any(|pid| match fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps.split(|&byte| byte == b'\n').any(is_of_file),
        // Who may not read it has to assume it; from root, only the first process of some systems
        // is hidden.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied && !sys::is_root(),
    })
}

/// True where a process has a thread that has not ended. One that nobody has asked how it ended
/// is still there, and does nothing any more.
pub(crate) fn is_running(pid: i32) -> bool {
    let state = |tid: i32| fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok();
    threads(pid).into_iter().filter_map(state).any(|stat| !has_ended(&stat))
}

/// `1234 (name) S …`; names may hold anything.
fn has_ended(stat: &[u8]) -> bool {
    let behind = stat.iter().rposition(|&byte| byte == b')').map_or(0, |at| at + 1);
    matches!(stat[behind..].trim_ascii_start().first(), Some(b'Z' | b'X'))
}

/// The process of a thread; `None` where it is gone.
pub(crate) fn process_of(tid: i32) -> Option<i32> {
    status(tid, "Tgid:")?.parse().ok()
}

/// True where a thread is there, and has not ended.
pub(crate) fn is_thread(tid: i32) -> bool {
    status(tid, "State:").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// True where a signal waits for a thread that has not reached it yet.
pub(crate) fn has_pending(tid: i32, signal: i32) -> bool {
    let mask = status(tid, "SigPnd:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Who a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The number that it knows itself by, which is another one in a container.
    pub(crate) own_pid: i32,
    /// The user in whose name it acts.
    pub(crate) user: u32,
}

/// `None` where it is gone.
pub(crate) fn identity(pid: i32) -> Option<Identity> {
    let own_pid = status(pid, "NSpid:")?.split_whitespace().last()?.parse().ok()?;
    // The real one, the one that counts, and two more.
    let user = status(pid, "Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    Some(Identity { own_pid, user })
}

/// True where a process neither handles nor ignores a signal.
pub(crate) fn has_default_action(pid: i32, signal: i32) -> bool {
    let is_in = |name| {
        let mask = status(pid, name).and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        mask.map(|mask| mask >> (signal - 1) & 1 == 1)
    };
    is_in("SigCgt:") == Some(false) && is_in("SigIgn:") == Some(false)
}

/// A line of what the kernel says about a thread.
fn status(tid: i32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// What a thread is called.
pub(crate) fn name(pid: i32, tid: i32) -> Option<Vec<u8>> {
    let mut name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    name.truncate(name.trim_ascii_end().len());
    Some(name)
}

/// The words of a process's command.
pub(crate) fn command(pid: i32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// A process that another one has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildProcess {
    pub pid: i32,
    pub name: String,
}

/// The processes that these have started and that run, with those that they have started
/// themselves, by number.
pub fn child_processes(pids: &[i32]) -> Vec<ChildProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let with_parent = |pid| Some((pid, status(pid, "PPid:")?.parse::<i32>().ok()?));
    let all: Vec<(i32, i32)> = entries.filter_map(number).filter_map(with_parent).collect();
    let mut found: BTreeSet<i32> = pids.iter().copied().collect();
    loop {
        let before = found.len();
        let new = all.iter().filter(|(_, parent)| found.contains(parent)).map(|(pid, _)| *pid);
        let new: Vec<i32> = new.collect();
        found.extend(new);
        if found.len() == before {
            break;
        }
    }
    let children = found.into_iter().filter(|pid| !pids.contains(pid) && is_running(*pid));
    let named = |pid| {
        let name = String::from_utf8_lossy(&name(pid, pid)?).into_owned();
        Some(ChildProcess { pid, name })
    };
    children.filter_map(named).collect()
}

/// Processes that run a program, except this one: number and command, the latest first.
pub fn running_processes() -> Vec<(i32, String)> {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let pids = entries.filter_map(number).filter(|&pid: &i32| pid != own);
    // Threads of the kernel have no command.
    let mut found: Vec<(i32, String)> = pids
        .map(|pid| (pid, command(pid).join(" ")))
        .filter(|(_, command)| !command.is_empty())
        .collect();
    found.sort_unstable_by_key(|&(pid, _)| std::cmp::Reverse(pid));
    found
}

/// Files that a process has code of in its memory, each once.
pub fn mapped_files(pid: i32) -> Vec<PathBuf> {
    let is_file =
        |mapping: &Mapping| mapping.path.starts_with(b"/") && !mapping.path.starts_with(b"//");
    let files = mappings(pid).into_iter().filter(is_file);
    let mut files: Vec<PathBuf> = files.map(|mapping| path_of(&mapping.path).to_owned()).collect();
    files.sort();
    files.dedup();
    files
}

/// The file that a program is run from, as the system finds it.
pub fn program_path(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return fs::canonicalize(program).ok();
    }
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| file.is_file()).and_then(|file| fs::canonicalize(file).ok())
}

/// Whose rights a program gets when somebody else runs it, if it does. Not while it is traced by
/// somebody who has not got them: then the kernel runs it without.
pub(crate) fn rights_gained_by(program: &Path) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP_AND_RUN: u32 = 0o2010;
    let file = fs::metadata(program).ok()?;
    let (user, group) = sys::user_and_group();
    let mode = file.mode();
    if user == 0 {
        None
    } else if mode & SET_USER != 0 && file.uid() != user {
        Some("the rights of its owner (setuid)")
    } else if mode & SET_GROUP_AND_RUN == SET_GROUP_AND_RUN && file.gid() != group {
        Some("the rights of its group (setgid)")
    } else if sys::has_capabilities(program) {
        Some("capabilities")
    } else {
        None
    }
}

/// The parts of a process's memory that hold code.
pub(crate) fn mappings(pid: i32) -> Vec<Mapping> {
    let mut all = all_mappings(pid);
    all.retain(Mapping::may_be_run);
    all
}

/// The same, and what is mapped of files to be read alone.
pub(crate) fn all_mappings(pid: i32) -> Vec<Mapping> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let all = text.split(|&byte| byte == b'\n').filter_map(mapping);
    all.filter(|mapping| mapping.may_be_run() || records::is_file(&mapping.path)).collect()
}

/// `7f00-7f10 r-xp 00001000 08:01 1234   /lib/libc.so.6`
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        word
    };
    let (range, rights, offset) = (word(), word(), word());
    let (_, _) = (word(), word());
    let number = |text: &[u8]| u64::from_str_radix(str::from_utf8(text).ok()?, 16).ok();
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let path = match rest.trim_ascii() {
        b"" => b"//anon",
        path => path.strip_suffix(b" (deleted)").unwrap_or(path),
    };
    let right = |letter, bit| if rights.contains(&letter) { bit } else { 0 };
    let rights =
        right(b'r', libc::PROT_READ) | right(b'w', libc::PROT_WRITE) | right(b'x', libc::PROT_EXEC);
    Some(Mapping {
        rights,
        start: number(&range[..dash])?,
        end: number(&range[dash + 1..])?,
        file_offset: number(offset)?,
        path: path.to_vec(),
    })
}

/// Processors that are there, such as `0-3,8`.
pub(crate) fn processors() -> Vec<i32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = number_list(text.trim());
    if found.is_empty() { vec![0] } else { found }
}

fn number_list(text: &str) -> Vec<i32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<i32>> {
        match part.split_once('-') {
            Some((first, last)) => Some(first.parse().ok()?..=last.parse().ok()?),
            None => part.parse().ok().map(|only| only..=only),
        }
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Where the kernel's code begins, where one may know it.
pub(crate) fn kernel_text() -> Option<u64> {
    let symbols = BufReader::new(fs::File::open("/proc/kallsyms").ok()?);
    let text = |line: String| {
        let mut words = line.split(' ');
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        (name == "_text" || name == "_stext").then(|| u64::from_str_radix(address, 16).ok())?
    };
    symbols.lines().map_while(Result::ok).find_map(text).filter(|&address| address != 0)
}

/// The build id of the running kernel, out of its notes.
pub(crate) fn kernel_build_id() -> Option<Vec<u8>> {
    build_id_of_notes(&fs::read("/sys/kernel/notes").ok()?)
}

fn build_id_of_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    loop {
        let number = |at: usize| notes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (name_len, len, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let content = 12 + name_len.checked_next_multiple_of(4)?;
        let end = content.checked_add(len)?;
        if kind == BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return notes.get(content..end).map(<[u8]>::to_vec);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// Where the kernel's tracing is set up.
pub(crate) fn tracing_folder() -> Option<&'static str> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    places.into_iter().find(|place| Path::new(place).join("events").is_dir())
}

/// The number of the tracepoint of signals.
pub(crate) fn signal_tracepoint() -> Option<u64> {
    let number = setting(&format!("{}/events/signal/signal_generate/id", tracing_folder()?));
    number.and_then(|number| u64::try_from(number).ok())
}

/// True where numbers of processes are those that the kernel itself uses.
pub(crate) fn has_the_kernels_numbers() -> bool {
    /// The kernel's own name for the first namespace of processes.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// A number that the kernel says of itself.
pub(crate) fn setting(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::system::sys;

    #[test]
    fn lines_of_maps_are_read() {
        let check = |line: &str, expected: Option<(u64, u64, u64, &str)>| {
            let found = mapping(line.as_bytes());
            let found = found.as_ref().map(|mapping| {
                let path = str::from_utf8(&mapping.path).expect("text");
                (mapping.start, mapping.end, mapping.file_offset, path)
            });
            assert_eq!(found, expected, "{line}");
        };
        check("1000-3000 r-xp 00002000 08:01 12   /a b.so", Some((4096, 12288, 8192, "/a b.so")));
        check("1000-3000 r-xp 0 08:01 12 /a (deleted)", Some((4096, 12288, 0, "/a")));
        check("1000-3000 rwxp 0 00:00 0", Some((4096, 12288, 0, "//anon")));
        check("1000-3000 rw-p 0 08:01 12 /a", Some((4096, 12288, 0, "/a")));
        check("1000 r-xp", None);
        check("", None);
        let may_be_run = |line: &[u8]| mapping(line).map(|mapping| mapping.may_be_run());
        assert_eq!(may_be_run(b"1000-3000 rw-p 0 08:01 12 /a"), Some(false));
        assert_eq!(may_be_run(b"1000-3000 r-xp 0 08:01 12 /a"), Some(true));
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(number_list("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(number_list(""), [0; 0]);
    }

    #[test]
    fn a_build_id_is_found_among_notes() {
        let note = |kind: u32, name: &[u8; 4], content: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend(4_u32.to_ne_bytes());
            bytes.extend((content.len() as u32).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(name);
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let notes = [note(1, b"Xen\0", b"abc"), note(3, b"GNU\0", &[9; 20])].concat();
        assert_eq!(build_id_of_notes(&notes), Some(vec![9; 20]));
        assert_eq!(build_id_of_notes(&notes[..20]), None);
    }

    #[test]
    fn a_process_has_ended_before_it_is_gone() {
        let check =
            |stat: &str, expected| assert_eq!(has_ended(stat.as_bytes()), expected, "{stat}");
        check("12 (sleep) S 1 12", false);
        check("12 (sleep) Z 1 12", true);
        check("12 (a) Z) R 1 12", false);
        check("", false);
        assert!(is_running(std::process::id() as i32));
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        while is_running(child.id() as i32) {
            std::thread::yield_now();
        }
        assert!(child.wait().is_ok_and(|status| status.success()));
    }

    #[test]
    fn threads_that_are_made_meanwhile_are_handed_over_too() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ends = std::sync::Arc::new(std::sync::Mutex::new(ends));
        let (mut handed, mut made) = (Vec::new(), Vec::new());
        let all = for_all_threads(&[std::process::id() as i32], |new| {
            handed.extend(new.iter().copied());
            // Three rounds in which somebody begins a thread.
            if made.len() < 3 {
                let ends = std::sync::Arc::clone(&ends);
                let (say, said) = std::sync::mpsc::channel();
                made.push(std::thread::spawn(move || {
                    let _ = say.send(sys::thread_id());
                    let ends = ends.lock().map(|ends| ends.recv());
                    drop(ends);
                }));
                handed.push(-said.recv().expect("its number"));
            }
            io::Result::Ok(())
        });
        let all = all.expect("nothing fails");
        drop(end);
        made.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let made: Vec<i32> = handed.iter().filter(|&&tid| tid < 0).map(|tid| -tid).collect();
        assert_eq!(made.len(), 3);
        for tid in made {
            assert_eq!(handed.iter().filter(|&&handed| handed == tid).count(), 1, "{tid}");
            assert!(all.contains(&tid));
        }
    }

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id() as i32;
        assert!(threads(pid).contains(&pid));
        let own = std::env::current_exe().expect("a path");
        assert!(mappings(pid).iter().any(|mapping| path_of(&mapping.path) == own));
        assert!(!command(pid).is_empty());
    }
}
