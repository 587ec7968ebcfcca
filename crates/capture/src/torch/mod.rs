//! PyTorch's own profiler, inside of a program that we start: for kernels of GPUs and operations
//! beside the samples.
//!
//! A folder of ours stands first in the program's PYTHONPATH, with a start-up file for Python that
//! starts the profiler once torch is imported. Traces come as files: into the folder of the
//! recording where it is there already, and otherwise into ours, to be brought there.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::CaptureError;

const START_UP: &str = include_str!("sitecustomize.py");

/// How long a program has to write what it has, while it runs on.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of the start-up file; taken away when this is dropped.
#[derive(Debug)]
pub(crate) struct Torch {
    folder: PathBuf,
    notes_told: usize,
    pub(crate) counts: TorchRecorded,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TorchRecorded {
    /// Files that PyTorch's profiler wrote, and how large they are together.
    pub traces: u64,
    pub bytes: u64,
}

impl Torch {
    pub(crate) fn prepare() -> Result<Torch, CaptureError> {
        let folder =
            new_folder().map_err(|error| CaptureError::io("no folder for Python", error))?;
        let torch = Torch { folder, notes_told: 0, counts: TorchRecorded::default() };
        fs::write(torch.folder.join("sitecustomize.py"), START_UP)
            .map_err(|error| CaptureError::io("no start-up file for Python", error))?;
        Ok(torch)
    }

    /// What the program finds in its environment; `asks` where it may be asked for what it has
    /// before its end.
    pub(crate) fn environment(&self, asks: bool) -> Vec<(&'static str, OsString)> {
        let mut path = self.folder.clone().into_os_string();
        if let Some(own) = std::env::var_os("PYTHONPATH").filter(|own| !own.is_empty()) {
            path.push(":");
            path.push(own);
        }
        let folder = self.folder.clone().into_os_string();
        let mut all = vec![("PYTHONPATH", path), ("SPANWISE_TORCH", folder)];
        all.extend(asks.then(|| ("SPANWISE_TORCH_ASKS", "1".into())));
        all
    }

    /// Where traces are to be written from now on.
    pub(crate) fn write_to(&self, recording: &Path) -> io::Result<()> {
        symlink(fs::canonicalize(recording)?, self.folder.join("out"))
    }

    /// Brings what was recorded into the folder of a recording. A program that still runs is
    /// asked for it first, and waited for.
    pub(crate) fn bring(&mut self, recording: &Path, is_running: bool) -> io::Result<()> {
        if is_running {
            self.ask(recording);
        }
        for trace in traces_in(&self.folder) {
            move_to(&trace, recording)?;
        }
        let traces = traces_in(recording);
        let bytes = traces.iter().filter_map(|trace| fs::metadata(trace).ok());
        self.counts = TorchRecorded {
            traces: traces.len() as u64,
            bytes: bytes.map(|metadata| metadata.len()).sum(),
        };
        Ok(())
    }

    /// Nothing is written into a recording any more, however long the program runs.
    pub(crate) fn close(&self) {
        let _ = fs::remove_file(self.folder.join("out"));
    }

    /// What the start-up file had to say since the last time.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("notes")).unwrap_or_default();
        let new: Vec<String> =
            text.lines().skip(self.notes_told).map(|line| format!("--torch: {line}")).collect();
        self.notes_told += new.len();
        new
    }

    /// Starts the Python of this machine, and says whether it has torch.
    pub(crate) fn try_on_python() -> io::Result<&'static str> {
        let torch = Torch::prepare().map_err(io::Error::other)?;
        let ask = "import sys, importlib.util as u\n\
                   is_watched = any(type(f).__name__ == '_WhenImported' for f in sys.meta_path)\n\
                   print(is_watched, u.find_spec('torch') is not None)";
        let output = Command::new("python3")
            .args(["-c", ask])
            .envs(torch.environment(false))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| io::Error::other(format!("python3: {error}")))?;
        match output.stdout.trim_ascii() {
            b"True True" => Ok("python3 starts with it, and has torch"),
            b"True False" => Ok("python3 starts with it, and has no torch"),
            _ => Err(io::Error::other("python3 does not run our start-up file")),
        }
    }

    /// Each process that has imported torch waits at a pipe of its own.
    fn ask(&self, recording: &Path) {
        let count = || traces_in(&self.folder).len() + traces_in(recording).len();
        let before = count();
        let asked = files_in(&self.folder, "ask-", "");
        let asked = asked.iter().filter(|pipe| {
            // Nobody at the other end is no reason to wait.
            let pipe = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(pipe);
            pipe.and_then(|mut pipe| pipe.write_all(b"\n")).is_ok()
        });
        let (wanted, until) = (before + asked.count(), Instant::now() + PATIENCE);
        while count() < wanted && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A new one for its owner alone: what it holds is run.
fn new_folder() -> io::Result<PathBuf> {
    for number in 0.. {
        let name = format!("spanwise-torch-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn traces_in(folder: &Path) -> Vec<PathBuf> {
    files_in(folder, "torch-", ".json")
}

fn files_in(folder: &Path, beginning: &str, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let wanted = names.filter(|name| name.starts_with(beginning) && name.ends_with(ending));
    let mut files: Vec<PathBuf> = wanted.map(|name| folder.join(name)).collect();
    files.sort();
    files
}

/// The two may be on different disks.
fn move_to(file: &Path, folder: &Path) -> io::Result<()> {
    let Some(name) = file.file_name() else { return Ok(()) };
    let there = folder.join(name);
    if fs::rename(file, &there).is_err() {
        fs::copy(file, &there)?;
        fs::remove_file(file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_brought_and_the_folder_is_taken_away() {
        let recording = tempfile::tempdir().expect("a folder");
        let mut torch = Torch::prepare().expect("writable");
        let folder = torch.folder.clone();
        for name in ["torch-7-1.json", ".torch-7-2.json.part.json", "notes"] {
            fs::write(folder.join(name), "first\nsecond\n").expect("writable");
        }
        torch.bring(recording.path(), true).expect("writable");
        assert_eq!(torch.counts, TorchRecorded { traces: 1, bytes: 13 });
        assert_eq!(traces_in(recording.path()), [recording.path().join("torch-7-1.json")]);
        assert_eq!(torch.notes(), ["--torch: first", "--torch: second"]);
        assert_eq!(torch.notes(), Vec::<String>::new());
        drop(torch);
        assert!(!folder.exists());
    }
}
