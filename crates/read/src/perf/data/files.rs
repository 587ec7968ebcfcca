//! The files that were mapped, where this machine has them.
//!
//! A file counts only if it is the one that was recorded: where the recording says its
//! build id, the file must have the same. Programs are replaced, and a wrong name is worse
//! than none.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use object::Object;

use crate::source::Bytes;

/// What the kernel is called among files.
const KERNEL_NAME: &str = "[kernel.kallsyms]";

/// Files by path, each opened when first asked for.
#[derive(Default)]
pub(super) struct Files {
    build_ids: HashMap<String, Vec<u8>>,
    /// Nothing outside the recording is looked at.
    is_closed: bool,
    opened: HashMap<Rc<str>, Option<Bytes>>,
    /// Files that are not the ones recorded, or are not there.
    pub(super) missing: Vec<(Rc<str>, &'static str)>,
}

impl Files {
    pub(super) fn new(build_ids: HashMap<String, Vec<u8>>) -> Self {
        Files { build_ids, ..Files::default() }
    }

    /// Without the files of this machine.
    pub(super) fn closed() -> Self {
        Files { is_closed: true, ..Files::default() }
    }

    pub(super) fn are_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn kernel_build_id(&self) -> Option<&[u8]> {
        self.build_ids.get(KERNEL_NAME).map(Vec::as_slice)
    }

    /// The bytes of a file that was mapped.
    pub(super) fn get(&mut self, path: &Rc<str>) -> Option<Bytes> {
        if self.is_closed {
            return None;
        }
        if let Some(known) = self.opened.get(path) {
            return known.clone();
        }
        let opened = open(path, self.build_ids.get(&**path).map(Vec::as_slice));
        if let Err(why) = opened {
            self.missing.push((Rc::clone(path), why));
        }
        self.opened.insert(Rc::clone(path), opened.clone().ok());
        opened.ok()
    }
}

fn open(path: &str, build_id: Option<&[u8]>) -> Result<Bytes, &'static str> {
    // `[vdso]`, `//anon` and the like are no files, and nothing else is opened.
    if !path.starts_with('/') || path.starts_with("//") {
        return Err("it is no file");
    }
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not here");
    }
    let bytes = Bytes::open(Path::new(path)).map_err(|_| "it cannot be read")?;
    let file = object::File::parse(bytes.as_ref()).map_err(|_| "it is no ELF file")?;
    let own_id = file.build_id().ok().flatten();
    if build_id.is_some_and(|recorded| own_id != Some(recorded)) {
        return Err("it is another build than was recorded");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_closed_recording_opens_nothing() {
        let own = std::env::current_exe().expect("this test");
        let own: Rc<str> = own.to_string_lossy().into();
        assert!(Files::closed().get(&own).is_none());
        assert!(Files::default().get(&own).is_some());
    }
}
