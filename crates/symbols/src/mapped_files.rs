//! The files that were mapped, where this machine has them.
//!
//! A file counts only if it is the one that was recorded: where the recording says its
//! build id, the file must have the same. Programs are replaced, and a wrong name is worse
//! than none.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::Rc;

use object::Object;
use spanwise_files::FileBytes;

use crate::jit::{JIT_DUMP_BYTES_MAX, is_trusted};

/// What the kernel is called among files.
const KERNEL_NAME: &str = "[kernel.kallsyms]";

/// Files by path, each opened when first asked for.
#[derive(Default)]
pub struct Files {
    build_ids: HashMap<String, Vec<u8>>,
    /// The recording was made with the kernel that runs here.
    is_own_kernel: bool,
    /// Nothing outside the recording is read.
    is_closed: bool,
    opened: HashMap<Rc<str>, Option<FileBytes>>,
    /// Files that are not the ones recorded, or are not there.
    pub missing: Vec<(Rc<str>, &'static str)>,
}

impl Files {
    /// `kernel_release` is that of the kernel that was recorded.
    pub fn new(build_ids: HashMap<String, Vec<u8>>, kernel_release: &str) -> Self {
        let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let is_own_kernel = !kernel_release.is_empty() && own.trim_end() == kernel_release;
        Files { build_ids, is_own_kernel, ..Files::default() }
    }

    /// Without the files of this machine.
    pub fn closed() -> Self {
        Files { is_closed: true, ..Files::default() }
    }

    /// This one file, whatever is in it, and none of this machine.
    pub fn only(path: &str, bytes: Vec<u8>) -> Self {
        let opened = HashMap::from([(path.into(), Some(bytes.into()))]);
        Files { is_closed: true, opened, ..Files::default() }
    }

    /// The recording was made with the kernel that runs here.
    pub fn are_of_here(&self) -> bool {
        self.is_own_kernel
    }

    pub fn are_closed(&self) -> bool {
        self.is_closed
    }

    pub fn kernel_build_id(&self) -> Option<&[u8]> {
        self.build_ids.get(KERNEL_NAME).map(Vec::as_slice)
    }

    /// What counts as the file of this path, whatever this machine has there.
    pub fn add(&mut self, path: &Rc<str>, bytes: FileBytes) {
        self.opened.insert(Rc::clone(path), Some(bytes));
    }

    /// The bytes of a file that was mapped.
    pub fn get(&mut self, path: &Rc<str>) -> Option<FileBytes> {
        if let Some(known) = self.opened.get(path) {
            return known.clone();
        }
        if self.is_closed {
            return None;
        }
        let build_id = self.build_ids.get(&**path).map(Vec::as_slice);
        let opened = match (&**path, build_id) {
            // It has no name of its own: only its kernel says which one it is.
            (VDSO_NAME, None) if self.is_own_kernel => own_vdso().ok_or("it cannot be read"),
            _ => open(path, build_id),
        };
        if let Err(why) = opened {
            self.missing.push((Rc::clone(path), why));
        }
        self.opened.insert(Rc::clone(path), opened.clone().ok());
        opened.ok()
    }
}

/// What the kernel maps into every program.
const VDSO_NAME: &str = "[vdso]";

fn open(path: &str, build_id: Option<&[u8]>) -> Result<FileBytes, &'static str> {
    if path == VDSO_NAME {
        let own = own_vdso().ok_or("it cannot be read")?;
        // It has no name of its own, so that only its build id says which one it is.
        let is_it = build_id.is_some_and(|recorded| has_build_id(&own, recorded));
        return if is_it { Ok(own) } else { Err("it is another build than was recorded") };
    }
    // `[heap]`, `//anon` and the like are no files, and nothing else is opened.
    if !path.starts_with('/') || path.starts_with("//") {
        return Err("it is no file");
    }
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not here");
    }
    let bytes = FileBytes::open_regular(Path::new(path)).map_err(|_| "it cannot be read")?;
    // Code that a runtime made, as it writes it down.
    if is_jitdump(&bytes) {
        if bytes.as_ref().len() as u64 > JIT_DUMP_BYTES_MAX {
            return Err("it is longer than 512 MB");
        }
        let owner = fs::metadata(path).map(|metadata| metadata.uid());
        return match owner.is_ok_and(is_trusted) {
            true => Ok(bytes),
            false => Err("it belongs to another user, who may have made up what it says"),
        };
    }
    object::File::parse(bytes.as_ref()).map_err(|_| "it is no ELF file")?;
    if build_id.is_some_and(|recorded| !has_build_id(&bytes, recorded)) {
        return Err("it is another build than was recorded");
    }
    Ok(bytes)
}

fn is_jitdump(bytes: &FileBytes) -> bool {
    bytes.as_ref().starts_with(b"DTiJ") || bytes.as_ref().starts_with(b"JiTD")
}

fn has_build_id(bytes: &FileBytes, recorded: &[u8]) -> bool {
    let Ok(file) = object::File::parse(bytes.as_ref()) else { return false };
    file.build_id().ok().flatten() == Some(recorded)
}

/// The vDSO of the running kernel, from the memory of this process.
fn own_vdso() -> Option<FileBytes> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO_NAME))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let mut image = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    let memory = fs::File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut image, start).ok()?;
    Some(image.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_another_user_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jit-1.dump");
        fs::write(&path, b"JiTD").expect("the folder is ours");
        let name = path.to_str().expect("text");
        assert!(open(name, None).is_ok(), "our own");
        let refusal = "it is longer than 512 MB";
        let longer = fs::OpenOptions::new().write(true).open(&path).expect("our own");
        longer.set_len(JIT_DUMP_BYTES_MAX + 1).expect("sparse");
        assert_eq!(open(name, None).err(), Some(refusal));
        longer.set_len(4).expect("our own");
        let nobody = rustix::fs::Uid::from_raw(65_534);
        if rustix::fs::chown(&path, Some(nobody), None).is_err() {
            return; // Only root can make a file another user's.
        }
        let refusal = "it belongs to another user, who may have made up what it says";
        assert_eq!(open(name, None).err(), Some(refusal));
    }

    #[test]
    fn only_the_files_that_were_recorded_are_opened() {
        for path in ["[vdso]", "//anon", "relative", "/dev/null", "/"] {
            assert!(open(path, None).is_err(), "{path}");
        }
        let own = std::env::current_exe().expect("this test");
        let own = own.to_string_lossy();
        assert!(open(&own, None).is_ok());
        let other = open(&own, Some(&[1; 20])).err();
        assert_eq!(other, Some("it is another build than was recorded"));
    }

    #[test]
    fn the_vdso_is_taken_from_the_running_kernel_by_its_build_id() {
        let Some(own) = own_vdso() else { return };
        let file = object::File::parse(own.as_ref()).expect("an ELF file");
        let Some(build_id) = file.build_id().expect("its notes") else { return };
        let vdso = open("[vdso]", Some(build_id)).expect("the same");
        assert_eq!(vdso.as_ref(), own.as_ref());
        assert!(open("[vdso]", Some(&[1; 20])).is_err());
    }

    #[test]
    fn a_closed_recording_opens_nothing() {
        let own = std::env::current_exe().expect("this test");
        let own: Rc<str> = own.to_string_lossy().into();
        assert!(Files::closed().get(&own).is_none());
        assert!(Files::default().get(&own).is_some());
    }
}
