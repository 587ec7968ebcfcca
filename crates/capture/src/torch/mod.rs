//! PyTorch's own profiler, inside of a program that we start: for kernels of GPUs and operations
//! beside the samples.
//!
//! A folder of ours stands first in the program's PYTHONPATH, with a start-up file for Python that
//! starts the profiler once torch is imported. Traces come as files: into the folder of the
//! recording where it is there already, and otherwise into ours, to be brought there.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use spanwise_files::{Folder, TemporaryFolder};
use spanwise_recording::is_torch_trace;

use crate::CaptureError;

/// How the folder of the start-up file is called.
const FOLDER_BEGINNING: &str = "spanwise-torch-";

/// More than anybody has to say.
const NOTES_BYTES_MAX: u64 = 1 << 20;

const START_UP: &str = include_str!("sitecustomize.py");

/// How long a program has to write what it has, while it runs on.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of the start-up file; taken away when this is dropped.
#[derive(Debug)]
pub(crate) struct Torch {
    folder: TemporaryFolder,
    notes_reported: usize,
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
        // What it holds is run.
        let folder = TemporaryFolder::create(FOLDER_BEGINNING)
            .map_err(|error| CaptureError::io("no folder for Python", error))?;
        let file = folder.folder().create_file("sitecustomize.py");
        file.and_then(|mut file| file.write_all(START_UP.as_bytes()))
            .map_err(|error| CaptureError::io("no start-up file for Python", error))?;
        Ok(Torch { folder, notes_reported: 0, counts: TorchRecorded::default() })
    }

    /// What the program finds in its environment; `asks` where it may be asked for what it has
    /// before its end.
    pub(crate) fn environment(&self, asks: bool) -> Vec<(&'static str, OsString)> {
        let mut path = self.folder.path().as_os_str().to_owned();
        if let Some(own) = std::env::var_os("PYTHONPATH").filter(|own| !own.is_empty()) {
            path.push(":");
            path.push(own);
        }
        let folder = self.folder.path().as_os_str().to_owned();
        let mut all = vec![("PYTHONPATH", path), ("SPANWISE_TORCH", folder)];
        all.extend(asks.then(|| ("SPANWISE_TORCH_ASKS", "1".into())));
        all
    }

    /// Where traces are to be written from now on. Not by its name: somebody who owns the folder
    /// around it could put another one there.
    pub(crate) fn write_to(&self, recording: &Folder) -> io::Result<()> {
        symlink(recording.lasting_path(), self.folder.path().join("out"))
    }

    /// Brings what was recorded into the folder of a recording. A program that still runs is
    /// asked for it first, and waited for.
    pub(crate) fn bring(&mut self, recording: &Folder, is_running: bool) -> io::Result<()> {
        if is_running {
            self.ask(recording);
        }
        for trace in traces_in(self.folder.folder()) {
            recording.take_file(self.folder.folder(), &trace)?;
        }
        let traces = traces_in(recording);
        let opened = traces.iter().filter_map(|trace| recording.open_file(trace).ok());
        let bytes = opened.filter_map(|file| file.metadata().ok());
        self.counts = TorchRecorded {
            traces: traces.len() as u64,
            bytes: bytes.map(|metadata| metadata.len()).sum(),
        };
        Ok(())
    }

    /// Nothing is written into a recording any more, however long the program runs.
    pub(crate) fn close(&self) {
        let _ = self.folder.folder().remove(OsStr::new("out"));
    }

    /// What the start-up file had to say since the last time.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        let text = self.folder.folder().read_file("notes", NOTES_BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let new: Vec<String> =
            text.lines().skip(self.notes_reported).map(|line| format!("--torch: {line}")).collect();
        self.notes_reported += new.len();
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
    fn ask(&self, recording: &Folder) {
        let own = self.folder.folder();
        let count = || traces_in(own).len() + traces_in(recording).len();
        let before = count();
        let asked = files_in(own, |name| name.starts_with("ask-"));
        let asked = asked.iter().map(|name| own.path().join(name)).filter(|pipe| {
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

fn traces_in(folder: &Folder) -> Vec<String> {
    files_in(folder, is_torch_trace)
}

/// By name, in order.
fn files_in(folder: &Folder, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let names = folder.names().unwrap_or_default();
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    names.filter(|name| is_wanted(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_brought_and_the_folder_is_taken_away() {
        let root = tempfile::tempdir().expect("a folder");
        let recording = Folder::create_new(&root.path().join("recording")).expect("writable");
        let mut torch = Torch::prepare().expect("writable");
        let folder = torch.folder.path().to_owned();
        for name in ["torch-7-1.json", ".torch-7-2.json.part.json", "notes"] {
            std::fs::write(folder.join(name), "first\nsecond\n").expect("writable");
        }
        torch.bring(&recording, true).expect("writable");
        assert_eq!(torch.counts, TorchRecorded { traces: 1, bytes: 13 });
        assert_eq!(traces_in(&recording), ["torch-7-1.json"]);
        assert_eq!(torch.notes(), ["--torch: first", "--torch: second"]);
        assert_eq!(torch.notes(), Vec::<String>::new());
        drop(torch);
        assert!(!folder.exists());
    }
}
