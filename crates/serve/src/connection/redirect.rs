//! A private file that leads a browser to an address with a secret in it.
//!
//! Every user of a machine can read the arguments of every process, so an address that is given to
//! a browser as an argument reveals its token to all of them. The path of a file that only its
//! owner can read reveals nothing.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "open.html";

/// A page that sends its reader elsewhere, until it is dropped.
#[derive(Debug)]
pub struct RedirectFile {
    folder: PathBuf,
    path: PathBuf,
}

impl RedirectFile {
    /// Makes a file of mode 0600 in a folder of mode 0700, whose name nobody can guess.
    pub fn new(url: &str) -> io::Result<Self> {
        RedirectFile::new_in(&runtime_folder(), url)
    }

    fn new_in(parent: &Path, url: &str) -> io::Result<Self> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = parent.join(format!("spanwise-{name}"));
        // Fails where something is there already, a link among them.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join(FILE_NAME);
        let file = RedirectFile { folder, path };
        let mut options = File::options();
        let mut out = options.write(true).create_new(true).mode(0o600).open(&file.path)?;
        out.write_all(page(url).as_bytes())?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes it, as a browser that has read it needs it no longer.
    pub fn remove(&self) {
        // Nothing is lost where it is gone already.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The user's own folder for what lives as long as a session, where there is one that nobody else
/// can enter; else the one for temporary files.
fn runtime_folder() -> PathBuf {
    let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    own.filter(|path| is_private(path)).unwrap_or_else(env::temp_dir)
}

fn is_private(folder: &Path) -> bool {
    let (Ok(found), Ok(own)) = (fs::symlink_metadata(folder), fs::metadata("/proc/self")) else {
        return false;
    };
    found.is_dir() && found.uid() == own.uid() && found.mode() & 0o077 == 0
}

/// Runs nothing and loads nothing. Addresses of ours hold no character that means anything to HTML
/// but `&`; the others are escaped all the same.
fn page(url: &str) -> String {
    let escape = |character| match character {
        '&' => "&amp;".to_owned(),
        '"' => "&quot;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        other => other.to_string(),
    };
    let url: String = url.chars().map(escape).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri \
         'none'; form-action 'none'\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<title>spanwise</title>\n\
         </head><body><p><a href=\"{url}\" rel=\"noreferrer\">Open the viewer</a></p>\n\
         </body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://127.0.0.1:4000/5ec2e7/";

    #[test]
    fn only_its_owner_can_read_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let file = RedirectFile::new_in(parent.path(), URL).expect("room");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(file.path()), mode(&file.folder)), (0o600, 0o700));
        let other = RedirectFile::new_in(parent.path(), URL).expect("room");
        assert_ne!(file.path(), other.path());
        assert!(!file.path().to_string_lossy().contains("5ec2e7"));
    }

    #[test]
    fn it_leads_to_the_address_without_a_script() {
        let text = page("http://h/?a=1&b=\"<x>");
        assert!(text.contains("content=\"0; url=http://h/?a=1&amp;b=&quot;&lt;x&gt;\""), "{text}");
        assert!(text.contains("default-src 'none'") && !text.contains("unsafe-inline"), "{text}");
        assert!(!text.contains("<script") && !text.contains("style"), "{text}");
    }

    #[test]
    fn nothing_is_left_of_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let file = RedirectFile::new_in(parent.path(), URL).expect("room");
        file.remove();
        assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
        drop(file);
        drop(RedirectFile::new_in(parent.path(), URL).expect("room"));
        assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
    }
}
