//! Every profile format, byte for byte, against `testdata/profile/`.
//!
//! pprof is compared before compression: those bytes are ours, the compressed ones are
//! the library's.

use std::io;
use std::path::PathBuf;

use spanwise_model::Profile;
use spanwise_write::{
    PprofOptions, ProfileView, write_firefox, write_folded, write_pprof, write_profile_csv,
    write_speedscope,
};

#[path = "profiles/mod.rs"]
#[allow(dead_code, reason = "shared with tests that use the rest")]
mod profiles;

const VIEW: ProfileView<'_> = ProfileView { name: "train.py", value: profiles::WALL };

fn written(write: impl Fn(&Profile, &mut dyn io::Write) -> io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&profiles::nasty(1), &mut bytes).expect("a vector takes everything");
    bytes
}

#[track_caller]
fn check(file: &str, write: impl Fn(&Profile, &mut dyn io::Write) -> io::Result<()>) {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../testdata/profile", file].iter().collect();
    let bytes = written(write);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("testdata is writable");
        std::fs::write(&path, &bytes).expect("testdata is writable");
    }
    let expected = std::fs::read(&path).expect("there is such a file; UPDATE=1 makes it");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(shown(&bytes), shown(&expected), "{file}: UPDATE=1 rewrites it");
    assert_eq!(bytes, expected, "{file}");
}

#[test]
fn pprof_bytes() {
    let options = PprofOptions { program: "train.py", is_compressed: false };
    check("nasty.pb", |profile, out| write_pprof(profile, &options, out));
}

#[test]
fn compressed_bytes_hold_no_time() {
    let options = PprofOptions { program: "train.py", ..PprofOptions::default() };
    let bytes = written(|profile, out| write_pprof(profile, &options, out));
    // Magic, deflate, no flags, no time, fastest, no system.
    assert_eq!(bytes[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
    assert_eq!(bytes, written(|profile, out| write_pprof(profile, &options, out)));
}

#[test]
fn collapsed_stacks() {
    check("nasty.folded", |profile, out| write_folded(profile, profiles::WALL, out));
}

#[test]
fn speedscope_json() {
    check("nasty.speedscope.json", |profile, out| write_speedscope(profile, &VIEW, out));
}

#[test]
fn firefox_json() {
    check("nasty.firefox.json", |profile, out| write_firefox(profile, &VIEW, out));
}

#[test]
fn csv_rows() {
    check("nasty.csv", write_profile_csv);
}

#[test]
fn what_a_format_cannot_hold_is_an_error() {
    let write = |view: &ProfileView<'_>| {
        let mut out = Vec::new();
        let error = write_speedscope(&profiles::nasty(-1), view, &mut out);
        error.expect_err("cannot be written").to_string()
    };
    assert_eq!(write(&VIEW), "sample 0 is -9000000; speedscope has no values below 0");
    let view = ProfileView { value: 9, ..VIEW };
    assert_eq!(write(&view), "no value type 9: the profile has 4");
}
